import type * as Api from "./api.js";

export type { Api };

/** The part of the browser's `Storage` that the queue needs. */
export interface Storage {
  readonly length: number;
  key(place: number): string | null;
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

export interface ClientOptions {
  /** In a page: the token that your backend signed for this visitor (see `pageToken`), or a function that returns it. */
  token?: string | (() => string | null);
  /** In a backend: a server or admin key. Never put one into a page. */
  apiKey?: string;
  /** Waits before the next tries when the service is away, in milliseconds. */
  pausesMs?: number[];
  /** A request that takes longer counts as no answer. */
  timeoutMs?: number;
  fetch?: typeof fetch;
  /** Where waiting reactions are kept; by default `localStorage`, or memory if the browser has no storage. */
  storage?: Storage;
  /** Name of the queue in the storage. */
  queueKey?: string;
}

export interface ReactionOptions {
  /** The same event id twice counts once. */
  eventId?: string;
  /** Instead of a value: a kind that the model knows. */
  kind?: string;
  /** When it happened, in seconds since 1970; by default now. */
  time?: number;
  /** The answer in which the item was shown. */
  recommendationId?: string;
  /** The context in which the item was recommended. */
  context?: Api.Feedback["context"];
  /** For `queue`: anything that is kept with the waiting reaction and not sent. */
  note?: unknown;
}

/** A queued reaction, or the request to take one back (`undo`), which has no item. */
export interface WaitingReaction {
  /** Under which it is stored. */
  key: string;
  user: string;
  event_id: string;
  undo?: boolean;
  /** Whether it may have reached the service. */
  tried?: boolean;
  note?: any;
  item?: string;
  value?: number | null;
  kind?: string;
  time?: number;
  recommendation_id?: string;
}

/** The service cannot be reached or has no time: try again later. */
export class AwayError extends Error {}

/** The service understood and said no. */
export class RefusedError extends Error {
  readonly status: number;
  readonly kind: string;
}

/** Events: `change` when the queue changes, `refused` (detail: the error) when the service rejects a queued reaction,
 * `elsewhere` (detail: entry, isNew, isGone) when another tab of this browser changes the queue. */
export class Client extends EventTarget {
  constructor(url: string | URL, options?: ClientOptions);
  recommend(user: string, options?: Partial<Api.RecommendationRequest>): Promise<Api.RecommendationResponse>;
  feedback(user: string, item: string, value?: number | null, options?: ReactionOptions): Promise<Api.FeedbackReceipt>;
  /** Report a reaction without waiting; returns its event id. */
  queue(user: string, item: string, value?: number | null, options?: ReactionOptions): string;
  skip(user: string, item: string, options?: ReactionOptions): Promise<Api.FeedbackReceipt>;
  /** Report many reactions at once; each without an event id gets one. */
  feedbackBatch(reactions: Api.UserFeedback[]): Promise<Api.BatchReceipt>;
  /** Report what a user did elsewhere, out of a log. */
  history(user: string, reactions: Api.LoggedReaction[]): Promise<Api.HistoryReceipt>;
  merge(user: string, visitor: string): Promise<Api.MergeReceipt>;
  recommendMany(users: string[], options?: Partial<Omit<Api.BatchRequest, "users">>): Promise<Api.BatchResponse>;
  /** Take a reaction back, also one that waits here. */
  undo(user: string, eventId: string): Promise<Api.UndoResponse>;
  /** Take a reaction back without waiting. */
  queueUndo(user: string, eventId: string): void;
  setAttributes(user: string, attributes: Api.AttributesRequest["attributes"]): Promise<Api.AttributesReceipt>;
  explain(user: string, item: string, options?: { limit?: number }): Promise<Api.ExplanationResponse>;
  user(user: string, options?: { limit?: number; cov?: boolean }): Promise<Api.UserState>;
  forget(user: string): Promise<Api.DeletionResponse>;
  items(page?: Api.GetItemsQuery): Promise<Api.CataloguePage>;
  item(item: string): Promise<Api.CatalogueItem>;
  /** The items that the same people like. */
  similar(item: string, options?: Api.GetSimilarQuery): Promise<Api.SimilarItems>;
  users(page?: Api.GetUsersQuery): Promise<Api.UserPage>;
  itemFeedback(item: string, page?: Api.GetItemFeedbackQuery): Promise<Api.ItemFeedbackPage>;
  addItems(items: Api.ItemBatch["items"], options?: { eventId?: string }): Promise<Api.ItemsStored>;
  changeItem(item: string, fields: Api.PatchItemBody): Promise<Api.ItemChanged>;
  retireItem(item: string): Promise<Api.ItemRetired>;
  loadModel(folder: string, options?: { force?: boolean }): Promise<Api.ModelLoaded>;
  rollBack(): Promise<Api.ModelLoaded>;
  experiments(): Promise<Api.ExperimentList>;
  experiment(name: string, options?: Api.GetExperimentReportQuery): Promise<Api.ExperimentReport>;
  changeExperiment(change: Api.ExperimentRequest): Promise<Api.ExperimentList>;
  model(): Promise<Api.ModelInfo>;
  /** Reactions that are not yet stored by the service, oldest first. */
  waiting(user?: string): WaitingReaction[];
  /** Send what waits; rejects when the service is away or asks for another key. */
  flush(): Promise<void>;
  /** Call a route that has no method of its own. */
  call(method: string, path: string, body?: unknown): Promise<any>;
}

export function defaultStorage(): Storage;
export function memoryStorage(): Storage;
export function newEventId(): string;
