// Bodies, queries and answers of the HTTP API, written by `python -m tools.api_types --page` from OpenAPI.

import type { AttributeInfo, ExperimentArm, ExperimentState, ModelInfo, NewItemState, PolicyInfo, PolicyUsed, Problem, RewardInfo, StoredReaction } from "../clients/js/src/api.js";

export interface Beliefs {
  user: string;
  model: string;
  revision: number;
  top: Array<ScoredItem>;
  popular: Array<ScoredItem>;
  taste: Taste;
}
export interface CatalogueChange {
  item: string;
  title: string | null;
  state: "new" | "changed" | "retired";
  time: number;
  reactions: number;
  hits: number;
  new?: NewItemState | null;
}
export interface Choice {
  item: string;
  title: string | null;
  categories: Array<string>;
  popularity_rank: number;
  mean: number;
  std: number;
  chance: number;
  low: number;
  high: number;
  rank: number;
  mean_rank: number;
  reason: "please" | "learn";
}
export interface Choices {
  user: string;
  model: string;
  revision: number;
  policy: PolicyUsed;
  item: string | null;
  outcomes: Array<Outcome>;
}
export interface Generation {
  generation: number;
  model: string;
  time: number;
}
export interface GroupTaste {
  name: string;
  items: number;
  lift: number;
  hits: number;
  misses: number;
  unknown: number;
  standing: "liked" | "less" | "unsure";
}
export interface NamedItem {
  item: string;
  title: string | null;
  categories: Array<string>;
  popularity_rank: number;
}
export interface Outcome {
  value: number | null;
  items: Array<Choice>;
}
export interface Region {
  name: string;
  items: Array<string>;
}
export interface Regions {
  model: string;
  regions: Array<Region>;
}
export interface ScoredItem {
  item: string;
  title: string | null;
  categories: Array<string>;
  popularity_rank: number;
  mean: number;
  std: number;
  chance: number;
  low: number;
  high: number;
}
export interface StartingItems {
  model: string;
  items: Array<NamedItem>;
}
export interface Stats {
  model: ModelInfo;
  generations: Array<Generation>;
  experiment: ExperimentState | null;
  catalogue_changes: Array<CatalogueChange>;
  store: StoreHealth;
}
export interface StoreHealth {
  kind: "sqlite" | "postgresql";
  schema: number;
  users: number;
  reactions: number;
  retracted: number;
  recommendations: number;
  bytes: number;
}
export interface Taste {
  sentence: string;
  confidence: "none" | "first impression" | "fairly sure" | "sure";
  kind: "categories" | "items";
  unknown: number;
  groups: Array<GroupTaste>;
}
export interface GetChoicesQuery {
  k?: number;
  policy?: "ucb" | "info-ucb" | "thompson" | "greedy" | null;
  nu?: number | null;
  item?: string | null;
  value?: Array<number | string>;
}
export interface GetStartQuery {
  k?: number;
}
export interface GetBeliefsQuery {
  top?: number;
  popular?: number;
}
