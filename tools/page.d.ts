// Types that the page's scripts share, beside those of the API (api.d.ts).

/** What may be put into an element; what is empty is left out. */
type Child = string | number | Node | null | undefined | false | Child[];
type Attributes = Record<string, unknown> | null;
type Point = [number, number];
type Mark = "liked" | "disliked" | "skipped";

/** A card on the stage or in reserve; one that came back from the history knows little of itself. */
interface Card extends Partial<Omit<Api.RecommendedItem, "item">> {
  item: string;
  recommendation_id?: string;
  model?: string;
}
/** A reaction of this visit or of the history. */
interface Round {
  event_id: string;
  item: string;
  value: number | null;
  evidence: Api.PastReaction["evidence"];
  title?: Card["title"];
  categories?: string[];
  card?: Card;
}
/** The probability that somebody is satisfied, and the ends of its interval. */
interface Chance {
  chance: number;
  low: number;
  high: number;
}
/** The card that comes after the one on the stage: after a hit, and after a miss. */
interface Ahead {
  item: string;
  hit: Card | null;
  miss: Card | null;
}
interface ChoicesAsk {
  k: number;
  policy?: Api.PolicyUsed["name"];
  nu?: number;
  item?: string;
  value?: (number | "none")[];
}
/** A category, or items that the same people like, as a circle on the map. */
interface Region {
  name: string;
  x: number;
  y: number;
  r: number;
  items: Api.CatalogueItem[];
}
/** A reaction that a visitor may choose. */
interface Choice {
  label: string;
  mark: string;
  value: number | null;
  unit?: string;
}
interface Offer {
  form: "like" | "stars" | "amount";
  choices: Choice[];
}
type Waiting = import("../clients/js/src/index.js").WaitingReaction;
interface VisitSettings {
  slate: number;
  policy?: Api.PolicyUsed["name"];
  nu?: number;
}

/** Elements with an id that are more than an HTMLElement. */
interface PageElements {
  dislike: HTMLButtonElement;
  finale: HTMLDialogElement;
  "round-dialog": HTMLDialogElement;
  "start-go": HTMLButtonElement;
  "start-cards": HTMLButtonElement;
  "start-again": HTMLButtonElement;
  "round-remove": HTMLButtonElement;
  "round-why": HTMLButtonElement;
  "card-download": HTMLButtonElement;
  "card-copy": HTMLButtonElement;
  "taste-card": HTMLCanvasElement;
  versus: HTMLSelectElement;
  like: HTMLButtonElement;
  skip: HTMLButtonElement;
  undo: HTMLButtonElement;
  "notice-action": HTMLButtonElement;
  "forget-dialog": HTMLDialogElement;
  "help-dialog": HTMLDialogElement;
  "key-dialog": HTMLDialogElement;
  "load-dialog": HTMLDialogElement;
  key: HTMLInputElement;
  "load-name": HTMLInputElement;
  nu: HTMLInputElement;
  "use-keys": HTMLInputElement;
  "nu-value": HTMLOutputElement;
  policy: HTMLSelectElement;
  slate: HTMLSelectElement;
}
