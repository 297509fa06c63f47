// Types that the page's scripts share, beside those of the API (api.d.ts).

/** What may be put into an element; what is empty is left out. */
type Child = string | number | Node | null | undefined | false | Child[];
type Attributes = Record<string, unknown> | null;
type Point = [number, number];
/** Left, right, bottom and top of a part of the map. */
type Box = [number, number, number, number];
interface MapEllipse {
  mean: Point;
  cov: [Point, Point];
}
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
  title?: Card["title"];
  categories?: string[];
  card?: Card;
}
/** A reaction, or the wish to take one back, on its way to the server. */
interface Letter {
  kind: "react" | "undo";
  user: string;
  event_id: string;
  item?: string;
  value?: number | null;
  recommendation_id?: string;
  tried?: boolean;
}
type KeptLetter = Letter & { name: string };
interface VisitSettings {
  slate: number;
  policy?: Api.PolicyUsed["name"];
  nu?: number;
}

/** Elements with an id that are more than an HTMLElement. */
interface PageElements {
  dislike: HTMLButtonElement;
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
