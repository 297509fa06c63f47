// The types of the HTTP API under the name that the page's scripts use in comments: `Api.RecommendationResponse`.
export * from "../clients/js/src/api.js";
export * from "./page_api.js";
export as namespace Api;
