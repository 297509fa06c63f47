// Bodies, queries and answers of the HTTP API, written by `python -m tools.api_types` from OpenAPI.

export interface ArmDefinition {
  share: number;
  model?: string | null;
  policy?: "ucb" | "info-ucb" | "thompson" | "greedy" | null;
  nu?: number | null;
  explore?: number | null;
  rules?: Record<string, any> | null;
}
export interface AttributeInfo {
  name: string;
  kind: "category" | "number" | "time";
  values: Array<string>;
  gain: number;
}
export interface AttributePart {
  name: string;
  value: any;
  amount: number;
}
export interface AttributesReceipt {
  user: string;
  revision: number;
  attributes: Record<string, any>;
  ignored: Array<string>;
}
export interface AttributesRequest {
  attributes: Record<string, string | number | boolean | null | Array<string | number | boolean | null>>;
}
export interface BatchEntry {
  revision?: number | null;
  duplicate?: boolean | null;
  event_id?: string | null;
  error?: string | null;
  message?: string | null;
}
export interface BatchReceipt {
  stored: number;
  duplicates: number;
  failed: number;
  results: Array<BatchEntry>;
}
export interface BatchRequest {
  k?: number;
  fewer?: boolean;
  exclude?: Array<string>;
  candidates?: Array<string> | null;
  reserve?: number;
  policy?: "ucb" | "info-ucb" | "thompson" | "greedy" | null;
  nu?: number | null;
  rules?: { filter?: { any?: Array<string>; all?: Array<string>; none?: Array<string>; min?: Record<string, number>; max?: Record<string, number> }; boost?: Record<string, number>; caps?: Record<string, number>; pinned?: Array<string>; diversity?: number; weight?: string; strength?: number } | null;
  attributes?: Record<string, string | number | boolean | null | Array<string | number | boolean | null>> | null;
  context?: Record<string, string | number | boolean | null | Array<string | number | boolean | null>> | null;
  users: Array<string>;
}
export interface BatchResponse {
  results: Array<BatchResult>;
}
export interface BatchResult {
  user: string;
  answer?: RecommendationResponse | null;
  error?: string | null;
  message?: string | null;
}
export interface BeliefSummary {
  mean: Array<number>;
  std: Array<number>;
  trace: number;
  prior_trace: number;
  cov?: Array<Array<number>> | null;
}
export interface CatalogueItem {
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
export interface CataloguePage {
  model: string;
  total: number;
  next: string | null;
  items: Array<CatalogueItem>;
}
export interface ContributionPart {
  item: string;
  value: number | null;
  evidence: "shown" | "logged";
  amount: number;
  title: string | null;
}
export interface DeletionResponse {
  user: string;
  deleted: number;
}
export interface ExperimentArm {
  arm: string;
  share: number;
  model: string;
  folder: string;
}
export interface ExperimentDefinition {
  name: string;
  arms: Record<string, ArmDefinition>;
  start?: string | number | null;
  end?: string | number | null;
  users?: number;
}
export interface ExperimentList {
  experiments: Array<ExperimentState>;
}
export interface ExperimentReport {
  name: string;
  state: "planned" | "running" | "ended";
  control: string;
  arms: Array<ReportedArm>;
  metrics: Array<ReportedMetric>;
  assignment: number;
  is_assignment_sound: boolean;
  left_out: number;
}
export interface ExperimentRequest {
  action: "start" | "shares" | "stop" | "promote";
  experiment?: ExperimentDefinition | null;
  shares?: Record<string, number> | null;
  arm?: string | null;
}
export interface ExperimentState {
  name: string;
  state: "planned" | "running" | "ended";
  started: number;
  ended: number | null;
  arms: Array<ExperimentArm>;
}
export interface ExplanationResponse {
  user: string;
  model: string;
  revision: number;
  mean: number;
  std: number;
  chance: number;
  low: number;
  high: number;
  item: string;
  title: string | null;
  prior: number;
  attributes: Array<AttributePart>;
  contributions: Array<ContributionPart>;
  rest: number;
  absence: number;
}
export interface Feedback {
  item: string;
  value?: number | null;
  kind?: string | null;
  time?: number | null;
  event_id?: string | null;
  recommendation_id?: string | null;
  context?: Record<string, string | number | boolean | null | Array<string | number | boolean | null>> | null;
}
export interface FeedbackBatch {
  feedback: Array<UserFeedback>;
}
export interface FeedbackReceipt {
  revision: number;
  duplicate: boolean;
  event_id: string;
}
export interface History {
  reactions: Array<LoggedReaction>;
}
export interface HistoryReceipt {
  user: string;
  revision: number;
  stored: number;
  duplicates: number;
  conflicts: Array<string>;
  unknown_items: number;
}
export interface ItemBatch {
  items: Array<{ id: string; title?: string | null; categories?: Array<string>; tags?: Array<string>; numbers?: Record<string, number>; text?: string | null; image?: string | null; available_from?: number | null; available_until?: number | null; hidden?: boolean }>;
  event_id?: string | null;
}
export interface ItemChanged {
  revision: number;
  item: CatalogueItem;
}
export interface ItemFeedbackPage {
  item: string;
  reactions: Array<ItemReaction>;
  next: string | null;
}
export interface ItemReaction {
  user: string;
  event_id: string;
  value: number | null;
  evidence: "shown" | "logged" | "skip" | "attributes";
  kind: string | null;
  time: number | null;
}
export interface ItemRetired {
  item: string;
  revision: number;
  duplicate: boolean;
}
export interface ItemsStored {
  revision: number;
  duplicate: boolean;
  added: number;
  changed: number;
  returned: number;
  unchanged: number;
}
export interface ListedUser {
  user: string;
  revision: number;
  updated: number;
}
export interface LoggedReaction {
  item: string;
  value?: number | null;
  kind?: string | null;
  time?: number | null;
  event_id?: string | null;
}
export interface MergeReceipt {
  user: string;
  revision: number;
  moved: number;
  known: number;
  duplicate: boolean;
}
export interface MergeRequest {
  from: string;
}
export interface ModelInfo {
  model: string;
  items: number;
  dim: number;
  reward: RewardInfo;
  satisfied: string;
  kinds: Record<string, number>;
  objective: "hit" | "liking";
  policy: PolicyUsed;
  policies: Array<PolicyInfo>;
  forgetting: number;
  limits: Record<string, number>;
  attributes: Array<AttributeInfo>;
  context: Array<AttributeInfo>;
  metadata: Record<string, any>;
  generation: number;
}
export interface ModelLoaded {
  model: string;
  items: number;
  generation: number;
}
export interface ModelRequest {
  folder: string;
  force?: boolean;
}
export interface NewItemState {
  reactions: number;
  trials: number;
  settled: boolean;
  expected: number;
  std: number;
}
export interface PastReaction {
  event_id: string;
  item: string;
  value: number | null;
  evidence: "shown" | "logged" | "skip" | "attributes";
  kind: string | null;
  time: number | null;
  title: string | null;
}
export interface PolicyInfo {
  name: string;
  label: string;
  description: string;
  parameters: Record<string, number>;
}
export interface PolicyUsed {
  name: "ucb" | "info-ucb" | "thompson" | "greedy";
  nu?: number | null;
  explore?: number | null;
}
export interface Problem {
  error: string;
  message: string;
  stored?: StoredReaction | null;
}
export interface Ready {
  status: "ready" | "not ready";
  model: string;
  problems: Array<string>;
}
export interface RecommendationRequest {
  k?: number;
  fewer?: boolean;
  exclude?: Array<string>;
  candidates?: Array<string> | null;
  reserve?: number;
  policy?: "ucb" | "info-ucb" | "thompson" | "greedy" | null;
  nu?: number | null;
  rules?: { filter?: { any?: Array<string>; all?: Array<string>; none?: Array<string>; min?: Record<string, number>; max?: Record<string, number> }; boost?: Record<string, number>; caps?: Record<string, number>; pinned?: Array<string>; diversity?: number; weight?: string; strength?: number } | null;
  attributes?: Record<string, string | number | boolean | null | Array<string | number | boolean | null>> | null;
  context?: Record<string, string | number | boolean | null | Array<string | number | boolean | null>> | null;
}
export interface RecommendationResponse {
  user: string;
  model: string;
  revision: number;
  recommendation_id: string;
  policy: PolicyUsed;
  propensity: "exact" | "estimated" | "unknown";
  items: Array<RecommendedItem>;
  reserve: Array<RecommendedItem>;
  ignored?: Array<string>;
  experiment?: string | null;
  arm?: string | null;
}
export interface RecommendedItem {
  item: string;
  title: string | null;
  categories: Array<string>;
  popularity_rank: number;
  mean: number;
  std: number;
  chance: number;
  low: number;
  high: number;
  score: number;
  rank: number;
  mean_rank: number;
  reason: "please" | "learn" | "rule";
  propensity: number | null;
  slot_propensity: number | null;
  propensity_error?: number;
  new?: boolean;
}
export interface ReportedArm {
  arm: string;
  users: number;
  answers: number;
  share: number;
}
export interface ReportedMetric {
  metric: string;
  arm: string;
  mean: number;
  control: number;
  difference: number;
  low: number | null;
  high: number | null;
  verdict: "better" | "worse" | "undecided";
}
export interface RewardInfo {
  kind: string;
  threshold: number;
  low: number;
  high: number;
  implicit: boolean;
  typical: Array<number>;
  unit: string | null;
}
export interface SimilarItems {
  model: string;
  item: string;
  items: Array<CatalogueItem>;
}
export interface StoredReaction {
  item: string;
  value: number | null;
  evidence: "shown" | "logged" | "skip" | "attributes";
  kind: string | null;
}
export interface UndoResponse {
  revision: number;
}
export interface UserFeedback {
  item: string;
  value?: number | null;
  kind?: string | null;
  time?: number | null;
  event_id?: string | null;
  recommendation_id?: string | null;
  context?: Record<string, string | number | boolean | null | Array<string | number | boolean | null>> | null;
  user: string;
}
export interface UserPage {
  users: Array<ListedUser>;
  next: string | null;
}
export interface UserState {
  user: string;
  model: string;
  revision: number;
  known: boolean;
  reactions: number;
  history: Array<PastReaction>;
  attributes: Record<string, any>;
  belief: BeliefSummary;
}
export interface GetUserQuery {
  cov?: boolean;
  limit?: number;
}
export interface GetExplanationQuery {
  limit?: number;
}
export interface GetUsersQuery {
  after?: string | null;
  limit?: number;
}
export interface GetItemsQuery {
  query?: string;
  category?: string | null;
  tag?: string | null;
  status?: "active" | "hidden" | "retired" | "scheduled" | "expired" | "waiting" | null;
  sort?: "popular" | "trending";
  after?: string | null;
  limit?: number;
}
export interface GetSimilarQuery {
  limit?: number;
}
export interface GetItemFeedbackQuery {
  after?: string | null;
  limit?: number;
}
export interface PatchItemBody {
  title?: string | null;
  categories?: Array<string>;
  tags?: Array<string>;
  numbers?: Record<string, number>;
  text?: string | null;
  image?: string | null;
  available_from?: number | null;
  available_until?: number | null;
  hidden?: boolean;
}
export interface GetExperimentReportQuery {
  value?: Array<string>;
}
