// Bodies and answers of the HTTP API, written by `python -m tools.page_types` from the OpenAPI document.

declare namespace Api {
  interface BatchEntry {
    revision?: number | null;
    duplicate?: boolean | null;
    event_id?: string | null;
    error?: string | null;
    message?: string | null;
  }
  interface BatchReceipt {
    stored: number;
    duplicates: number;
    failed: number;
    results: Array<BatchEntry>;
  }
  interface BeliefSummary {
    mean: Array<number>;
    std: Array<number>;
    trace: number;
    prior_trace: number;
    cov?: Array<Array<number>> | null;
  }
  interface Beliefs {
    user: string;
    model: string;
    revision: number;
    drift: number;
    top: Array<BelievedItem>;
    popular: Array<PopularItem>;
    map: Ellipse;
    taste: TasteTold;
    n_possible: number;
    possible: Array<string>;
  }
  interface BelievedItem {
    item: string;
    mean: number;
    std: number;
    chance: number;
    low: number;
    high: number;
    popularity_rank: number;
    title: string | null;
    categories: Array<string>;
    seen: boolean;
  }
  interface CatalogueChange {
    item: string;
    title: string | null;
    state: "new" | "changed" | "retired";
    time: number;
    reactions: number;
    hits: number;
    new?: NewItemState | null;
  }
  interface CatalogueItem {
    item: string;
    title: string | null;
    categories: Array<string>;
    tags: Array<string>;
    numbers: Record<string, number>;
    text: string | null;
    image: string | null;
    available_from: number | null;
    available_until: number | null;
    status: "active" | "hidden" | "retired" | "scheduled" | "expired" | "waiting";
    popularity_rank: number | null;
    x: number | null;
    y: number | null;
    new?: NewItemState | null;
    trend?: number | null;
    similarity?: number | null;
  }
  interface CataloguePage {
    model: string;
    total: number;
    offset: number;
    items: Array<CatalogueItem>;
  }
  interface CategoryTold {
    category: string;
    items: number;
    lift: number;
    hits: number;
    misses: number;
    standing: "liked" | "less" | "unsure";
  }
  interface Choice {
    item: string;
    title: string | null;
    categories: Array<string>;
    mean: number;
    std: number;
    chance: number;
    low: number;
    high: number;
    rank: number;
    mean_rank: number;
    reason: "please" | "learn";
    popularity_rank: number;
  }
  interface Choices {
    user: string;
    model: string;
    revision: number;
    policy: PolicyUsed;
    item: string | null;
    outcomes: Array<Outcome>;
  }
  interface ContributionPart {
    item: string;
    value: number | null;
    evidence: "shown" | "logged";
    amount: number;
    title: string | null;
  }
  interface DriftingUser {
    user: string;
    drift: number;
    reactions: number;
  }
  interface Ellipse {
    mean: Array<number>;
    cov: Array<Array<number>>;
  }
  interface Explained {
    user: string;
    item: string;
    model: string;
    revision: number;
    title: string | null;
    prior: number;
    mean: number;
    std: number;
    chance: number;
    low: number;
    high: number;
    contributions: Array<ContributionPart>;
    rest: number;
    absence: number;
  }
  interface Feedback {
    item: string;
    value?: number | null;
    kind?: string | null;
    event_id?: string | null;
    recommendation_id?: string | null;
  }
  interface FeedbackBatch {
    feedback: Array<UserFeedback>;
  }
  interface FeedbackMix {
    satisfied: number;
    unsatisfied: number;
    none: number;
    skip: number;
    logged: number;
    duplicates: number;
  }
  interface FeedbackReceipt {
    revision: number;
    duplicate: boolean;
    event_id: string;
  }
  interface Forgotten {
    user: string;
    deleted: number;
  }
  interface Generation {
    generation: number;
    model: string;
    time: number;
  }
  interface History {
    reactions: Array<LoggedReaction>;
  }
  interface HistoryReceipt {
    user: string;
    revision: number;
    stored: number;
    duplicates: number;
    conflicts: Array<string>;
    unknown_items: number;
  }
  interface ItemBatch {
    items: Array<Record<string, any>>;
    event_id?: string | null;
  }
  interface ItemChanged {
    revision: number;
    item: CatalogueItem;
  }
  interface ItemRetired {
    item: string;
    revision: number;
    duplicate: boolean;
  }
  interface ItemsStored {
    revision: number;
    duplicate: boolean;
    added: number;
    changed: number;
    returned: number;
    unchanged: number;
  }
  interface LikedItem {
    item: string;
    title: string | null;
    likes: number;
    reactions: number;
  }
  interface LoadModel {
    folder: string;
  }
  interface LoadPoint {
    time: number;
    requests: number;
    errors: number;
    p50_ms: number | null;
    p99_ms: number | null;
  }
  interface LoggedReaction {
    item: string;
    value?: number | null;
    kind?: string | null;
    time?: number | null;
    event_id?: string | null;
  }
  interface ManyAsk {
    k?: number;
    exclude?: Array<string>;
    candidates?: Array<string> | null;
    reserve?: number;
    policy?: "ucb" | "info-ucb" | "thompson" | "greedy" | null;
    nu?: number | null;
    rules?: Record<string, any> | null;
    users: Array<string>;
  }
  interface ManyEntry {
    user: string;
    answer?: Recommended | null;
    error?: string | null;
    message?: string | null;
  }
  interface ManyRecommended {
    results: Array<ManyEntry>;
  }
  interface MergeAsk {
    from: string;
  }
  interface MergeReceipt {
    user: string;
    revision: number;
    moved: number;
    known: number;
    duplicate: boolean;
  }
  interface ModelInfo {
    model: string;
    items: number;
    dim: number;
    reward: RewardInfo;
    satisfied: string;
    kinds: Record<string, number>;
    objective: number;
    policy: PolicyUsed;
    forgetting: number;
    limits: Record<string, number>;
    metadata: Record<string, any>;
    generation: number;
  }
  interface ModelLoaded {
    model: string;
    items: number;
    generation: number;
  }
  interface NewItemState {
    reactions: number;
    trials: number;
    settled: boolean;
    expected: number;
    std: number;
  }
  interface Outcome {
    value: number | null;
    items: Array<Choice>;
  }
  interface PastReaction {
    event_id: string;
    item: string;
    value: number | null;
    evidence: "shown" | "logged" | "skip";
    kind: string | null;
    time: number;
    title: string | null;
  }
  interface PolicyUsed {
    name: "ucb" | "info-ucb" | "thompson" | "greedy";
    nu?: number | null;
  }
  interface PopularItem {
    item: string;
    title: string | null;
    chance: number;
    seen: boolean;
  }
  interface Problem {
    error: string;
    message: string;
    stored?: StoredReaction | null;
  }
  interface Ready {
    status: "ready" | "not ready";
    model: string;
    problems: Array<string>;
  }
  interface RecommendAsk {
    k?: number;
    exclude?: Array<string>;
    candidates?: Array<string> | null;
    reserve?: number;
    policy?: "ucb" | "info-ucb" | "thompson" | "greedy" | null;
    nu?: number | null;
    rules?: Record<string, any> | null;
  }
  interface Recommended {
    user: string;
    model: string;
    revision: number;
    recommendation_id: string;
    policy: PolicyUsed;
    propensity: "exact" | "estimated";
    items: Array<RecommendedItem>;
    reserve: Array<RecommendedItem>;
  }
  interface RecommendedItem {
    item: string;
    score: number;
    mean: number;
    std: number;
    chance: number;
    low: number;
    high: number;
    rank: number;
    mean_rank: number;
    reason: "please" | "learn" | "rule";
    propensity: number | null;
    popularity_rank: number;
    title: string | null;
    categories: Array<string>;
  }
  interface Retracted {
    revision: number;
  }
  interface RewardInfo {
    kind: string;
    threshold: number;
    low: number;
    high: number;
    implicit: boolean;
  }
  interface RouteTraffic {
    route: string;
    method: string;
    requests: number;
    errors: number;
    p50_ms: number | null;
    p90_ms: number | null;
    p99_ms: number | null;
  }
  interface Series {
    span_s: number;
    step_s: number;
    popular_hit_rate: number;
    points: Array<SeriesPoint>;
  }
  interface SeriesPoint {
    time: number;
    reactions?: number;
    hits?: number;
    skips?: number;
    logged?: number;
    answers?: number;
    learning?: number;
  }
  interface SessionCache {
    hits: number;
    misses: number;
  }
  interface ShownItem {
    item: string;
    title: string | null;
    times: number;
    explored: number;
  }
  interface SimilarItems {
    model: string;
    item: string;
    items: Array<CatalogueItem>;
  }
  interface StartingItem {
    item: string;
    title: string | null;
    categories: Array<string>;
  }
  interface StartingItems {
    model: string;
    items: Array<StartingItem>;
  }
  interface Stats {
    model: ModelInfo;
    uptime_s: number;
    workers: number;
    traffic: Array<RouteTraffic>;
    exploration_share: number | null;
    feedback: FeedbackMix;
    sessions: SessionCache;
    most_shown: Array<ShownItem>;
    most_liked: Array<LikedItem>;
    drifting_users: Array<DriftingUser>;
    series: Series;
    load: Array<LoadPoint>;
    generations: Array<Generation>;
    catalogue_changes: Array<CatalogueChange>;
    store: StoreHealth;
  }
  interface StoreHealth {
    kind: "sqlite" | "postgresql";
    ok: boolean;
    schema: number;
    users: number;
    reactions: number;
    retracted: number;
    recommendations: number;
    bytes: number;
    read_ms: number;
    audit_waiting: number;
    hot_users: number;
  }
  interface StoredReaction {
    item: string;
    value: number | null;
    evidence: "shown" | "logged" | "skip";
    kind: string | null;
  }
  interface TasteTold {
    sentence: string;
    confidence: "none" | "first impression" | "fairly sure" | "sure";
    categories: Array<CategoryTold>;
  }
  interface UserFeedback {
    item: string;
    value?: number | null;
    kind?: string | null;
    event_id?: string | null;
    recommendation_id?: string | null;
    user: string;
  }
  interface UserState {
    user: string;
    known: boolean;
    model: string;
    revision: number;
    drift: number;
    reactions: number;
    history: Array<PastReaction>;
    belief: BeliefSummary;
  }
}
