// The client against a real server (IGCF_URL) and against one that is away.
import assert from "node:assert/strict";
import { test } from "node:test";

import { AwayError, Client, RefusedError, memoryStorage, newEventId } from "../src/index.js";

const URL_OF_SERVER = process.env.IGCF_URL;
const NOWHERE = "http://127.0.0.1:9";
const person = (name) => `${name}-${newEventId().slice(0, 8)}`;
const until = async (holds) => {
  for (let tries = 0; !holds(); tries++) {
    assert.ok(tries < 500, "it never holds");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
};
/** A client of a service that is busy at the first request, and the methods of those that it then answered. */
const busyOnce = () => {
  const done = [];
  const fetching = async (_, { method }) => {
    const isBusy = done.push(done.length ? method : "busy") === 1;
    return isBusy ? new Response('{"message": "busy"}', { status: 503 }) : new Response('{"revision": 2}');
  };
  return { client: new Client(NOWHERE, { fetch: fetching, storage: memoryStorage(), pausesMs: [20] }), done };
};
const real = { skip: URL_OF_SERVER ? false : "IGCF_URL names no server" };

test("a new user gets items, reacts, and gets others", real, async () => {
  const client = new Client(URL_OF_SERVER);
  const user = person("ann");
  const answer = await client.recommend(user, { k: 3 });
  assert.equal(answer.items.length, 3);
  const [first] = answer.items;
  const receipt = await client.feedback(user, first.item, 5, { recommendationId: answer.recommendation_id });
  assert.equal(receipt.revision, 1);
  const next = await client.recommend(user, { k: 3 });
  assert.ok(next.items.every((each) => each.item !== first.item));
  assert.equal((await client.explain(user, first.item)).item, first.item);
  assert.equal((await client.explain(user, first.item, { limit: 0 })).contributions.length, 0);
  assert.equal((await client.user(user, { limit: 0 })).history.length, 0);
});

test("the same event id twice counts once", real, async () => {
  const client = new Client(URL_OF_SERVER);
  const user = person("bob");
  const { items } = await client.recommend(user, { k: 1 });
  const eventId = newEventId();
  await client.feedback(user, items[0].item, 4, { eventId });
  const again = await client.feedback(user, items[0].item, 4, { eventId });
  assert.equal(again.duplicate, true);
  assert.equal((await client.user(user)).revision, 1);
});

test("an answer that is lost on the way is asked for again, and the reaction counts once", real, async () => {
  let lost = 0;
  const flaky = async (...args) => {
    const response = await fetch(...args);
    if (lost++ === 0) throw new TypeError("connection reset"); // the server has stored it, the client does not know
    return response;
  };
  const user = person("cat");
  const { items } = await new Client(URL_OF_SERVER).recommend(user, { k: 1 });
  const client = new Client(URL_OF_SERVER, { fetch: flaky, pausesMs: [1] });
  const receipt = await client.feedback(user, items[0].item, 5);
  assert.equal(receipt.duplicate, true);
  assert.equal((await client.user(user)).revision, 1);
});

test("reactions wait while the service is away, in order, and are sent when it is back", real, async () => {
  let isAway = true;
  const fetching = (...args) => (isAway ? Promise.reject(new TypeError("offline")) : fetch(...args));
  const storage = memoryStorage();
  const client = new Client(URL_OF_SERVER, { fetch: fetching, storage, pausesMs: [] });
  const user = person("dan");
  const { items } = await new Client(URL_OF_SERVER).recommend(user, { k: 2 });
  for (const each of items) client.queue(user, each.item, 5);
  await assert.rejects(client.flush(), AwayError);
  assert.deepEqual(client.waiting().map((each) => each.item), items.map((each) => each.item));
  isAway = false;
  const later = new Client(URL_OF_SERVER, { fetch: fetching, storage, pausesMs: [] }); // a reload sends what waits
  await until(() => later.waiting().length === 0);
  const state = await later.user(user);
  assert.deepEqual(state.history.map((each) => each.item), items.map((each) => each.item));
});

test("a refused reaction does not hold up those behind it", real, async () => {
  const client = new Client(URL_OF_SERVER, { storage: memoryStorage(), pausesMs: [] });
  const user = person("eve");
  const { items } = await client.recommend(user, { k: 1 });
  client.queue(user, "no such item", 5);
  client.queue(user, items[0].item, 5);
  await client.flush();
  assert.equal((await client.user(user)).revision, 1);
});

test("an error carries its status and kind", real, async () => {
  const client = new Client(URL_OF_SERVER);
  await assert.rejects(client.feedback(person("fay"), "no such item", 5), (error) => {
    assert.ok(error instanceof RefusedError);
    assert.deepEqual([error.status, error.kind], [404, "UnknownItemError"]);
    return true;
  });
});

test("history, undo, catalogue, model and deletion", real, async () => {
  const client = new Client(URL_OF_SERVER);
  const user = person("gil");
  const catalogue = await client.items({ limit: 2 });
  assert.equal(catalogue.items.length, 2);
  await client.history(user, [{ item: catalogue.items[0].item, value: 5 }]);
  const skipped = await client.skip(user, catalogue.items[1].item);
  await client.undo(user, skipped.event_id);
  assert.ok((await client.model()).items > 0);
  await client.forget(user);
  assert.equal((await client.user(user)).revision, 0);
});

test("a visitor becomes a user, and many users are asked about at once", real, async () => {
  const client = new Client(URL_OF_SERVER);
  const [visitor, user] = [person("visitor"), person("hal")];
  const { items } = await client.recommend(visitor, { k: 2 });
  await client.feedbackBatch(items.map(({ item }) => ({ user: visitor, item, value: 4 })));
  const merged = await client.merge(user, visitor);
  assert.equal(merged.moved, 2);
  const { results } = await client.recommendMany([user, visitor], { k: 1 });
  assert.deepEqual(results.map((each) => [each.user, each.answer.revision > 0]), [[user, true], [visitor, false]]);
  assert.ok(items.every(({ item }) => item !== results[0].answer.items[0].item));
});

test("a batch that is sent again after a lost answer counts once", real, async () => {
  let lost = 0;
  const flaky = async (...args) => {
    const response = await fetch(...args);
    if (lost++ === 0) throw new TypeError("connection reset");
    return response;
  };
  const user = person("ida");
  const { items } = await new Client(URL_OF_SERVER).recommend(user, { k: 1 });
  const client = new Client(URL_OF_SERVER, { fetch: flaky, pausesMs: [1] });
  const receipt = await client.feedbackBatch([{ user, item: items[0].item, value: 5 }]);
  assert.deepEqual([receipt.stored, receipt.duplicates], [0, 1]);
});

test("rules hold, and a wrong one is refused", real, async () => {
  const client = new Client(URL_OF_SERVER);
  const user = person("joy");
  const [{ categories }] = (await client.recommend(user, { k: 1 })).items;
  const { items } = await client.recommend(user, { k: 5, rules: { filter: { none: categories } } });
  assert.ok(items.every((each) => !each.categories.includes(categories[0])));
  await assert.rejects(client.recommend(user, { rules: { filters: {} } }), { name: "RefusedError", status: 422 });
});

test("the catalogue: trending, one item, its neighbours", real, async () => {
  const client = new Client(URL_OF_SERVER);
  const user = person("lee");
  const { items } = await client.recommend(user, { k: 1 });
  await client.feedback(user, items[0].item, 5);
  const trending = await client.items({ sort: "trending", limit: 3, category: null });
  assert.ok(trending.items.length > 0);
  assert.equal((await client.item(items[0].item)).title, items[0].title);
  const similar = await client.similar(items[0].item, { limit: 2 });
  assert.equal(similar.items.length, 2);
});

test("attributes that the model does not list are refused", real, async () => {
  const client = new Client(URL_OF_SERVER);
  await assert.rejects(client.setAttributes(person("mia"), { shoe: 44 }), { name: "RefusedError", status: 422 });
  assert.deepEqual((await client.setAttributes(person("mia"), {})).attributes, {});
});

test("an item comes, changes and goes", real, async () => {
  const client = new Client(URL_OF_SERVER);
  const id = `new/${newEventId()}`; // ids of items may hold a slash
  const { categories } = (await client.items({ limit: 1 })).items[0];
  assert.equal((await client.addItems([{ id, title: "New", categories }])).added, 1);
  await client.changeItem(id, { title: "Newer" });
  assert.equal((await client.item(id)).title, "Newer");
  await client.retireItem(id);
  assert.equal((await client.item(id)).status, "retired");
});

test("an unreachable service raises after all retries", async () => {
  let tries = 0;
  const refuse = () => (tries++, Promise.reject(new TypeError("refused")));
  const client = new Client(NOWHERE, { fetch: refuse, pausesMs: [1, 1] });
  await assert.rejects(client.recommend("ann"), AwayError);
  assert.equal(tries, 3);
});

test("an overloaded service is asked again, another refusal is not", async () => {
  const replies = [new Response('{"message": "busy"}', { status: 503 }), new Response('{"items": []}')];
  const client = new Client(NOWHERE, { fetch: async () => replies.shift(), pausesMs: [1] });
  assert.deepEqual(await client.recommend("ann"), { items: [] });
  let tries = 0;
  const no = async () => (tries++, new Response('{"error": "RequestError", "message": "no"}', { status: 422 }));
  await assert.rejects(new Client(NOWHERE, { fetch: no, pausesMs: [1] }).recommend("ann"), RefusedError);
  assert.equal(tries, 1);
});

test("a queue that was damaged in the storage is empty", async () => {
  for (const damaged of ["{", "{}", "null", "5", "[null, 1, {}]"]) {
    const storage = memoryStorage();
    storage.setItem("q.1", damaged);
    const client = new Client(NOWHERE, { storage, queueKey: "q", pausesMs: [], fetch: async () => new Response("{}") });
    assert.deepEqual(client.waiting(), []);
    client.queue("ann", "tea", 5);
    await client.flush();
    assert.deepEqual(client.waiting(), []);
  }
});

test("a reaction that is queued just when the last one was sent is sent too", async () => {
  const plain = memoryStorage();
  const sent = [];
  const client = new Client(NOWHERE, {
    fetch: async (_, { body }) => (sent.push(JSON.parse(body).item), new Response("{}")),
    storage: Object.assign(Object.create(plain), {
      removeItem(key) {
        plain.removeItem(key);
        if (sent.length === 1) queueMicrotask(() => client.queue("ann", "coffee", 5));
      },
    }),
  });
  client.queue("ann", "tea", 5);
  await until(() => sent.length === 2);
  assert.deepEqual(sent, ["tea", "coffee"]);
});

test("a reaction that is on its way is not stored after its user was forgotten", async () => {
  const { client, done } = busyOnce();
  client.queue("ann", "tea", 5);
  await until(() => done.length === 1);
  await client.forget("ann");
  await client.flush();
  assert.equal(done.at(-1), "DELETE");
});

test("every reaction of a batch has an event id, also where it is given as null", async () => {
  let sent;
  const client = new Client(NOWHERE, { fetch: async (_, { body }) => ((sent = JSON.parse(body)), new Response("{}")) });
  await client.feedbackBatch([{ user: "ann", item: "tea", event_id: null }, { user: "ann", item: "tea", event_id: "e" }]);
  assert.match(sent.feedback[0].event_id, /^[0-9a-f]{32}$/);
  assert.equal(sent.feedback[1].event_id, "e");
});

test("an id that would lead to another path is refused before anything is sent, and holds up nobody", async () => {
  const asked = [];
  const fetching = async (url) => (asked.push(url), new Response("{}"));
  const client = new Client(NOWHERE, { fetch: fetching, storage: memoryStorage(), pausesMs: [] });
  for (const id of [".", "..", "\ud800"]) {
    await assert.rejects(async () => client.undo("ann", id), { name: "RefusedError", kind: "RequestError" });
    client.queue(id, "tea", 5);
  }
  client.queue("ann", "tea", 5);
  await client.flush();
  assert.deepEqual(asked, [`${NOWHERE}/v1/users/ann/feedback`]);
});

test("a queued reaction is dropped only where the service itself refuses it for good", async () => {
  const answers = [
    [401, '{"error": "AuthenticationError", "message": "no such key"}', 1],
    [500, '{"error": "InternalError", "message": "a defect"}', 1],
    [404, "<html>no such site</html>", 1],
    [503, "null", 1],
    [404, '{"error": "UnknownItemError", "message": "no such item"}', 0],
    [422, '{"error": "FeedbackError", "message": "no such value"}', 0],
  ];
  for (const [status, body, left] of answers) {
    const fetching = async () => new Response(body, { status });
    const client = new Client(NOWHERE, { fetch: fetching, storage: memoryStorage(), pausesMs: [] });
    client.queue("ann", "tea", 5);
    const stopped = await client.flush().then(() => 0, () => 1);
    assert.deepEqual([stopped, client.waiting().length], [left, left], `${status} ${body}`);
  }
});

test("undo takes back a reaction that never left", real, async () => {
  const user = person("dan");
  const { items } = await new Client(URL_OF_SERVER).recommend(user, { k: 1 });
  let isAway = true;
  const client = new Client(URL_OF_SERVER, {
    fetch: (...args) => (isAway ? Promise.reject(new TypeError("offline")) : fetch(...args)),
    storage: memoryStorage(),
    pausesMs: [],
  });
  const eventId = client.queue(user, items[0].item, 5);
  await assert.rejects(client.flush(), AwayError);
  isAway = false;
  assert.deepEqual(await client.undo(user, eventId), { revision: 0 });
  assert.equal(client.waiting().length, 0);
  assert.equal((await client.user(user)).revision, 0);
});

test("undo of a reaction that is on its way comes after it", async () => {
  const { client, done } = busyOnce();
  const eventId = client.queue("ann", "tea", 5);
  await until(() => done.length === 1);
  await client.undo("ann", eventId);
  assert.deepEqual(done, ["busy", "POST", "DELETE"]);
  assert.equal(client.waiting().length, 0);
});

test("a queued undo drops what was never sent, and follows what may have been stored", real, async () => {
  let isAway = true;
  const options = {
    fetch: (...args) => (isAway ? Promise.reject(new TypeError("offline")) : fetch(...args)),
    storage: memoryStorage(),
    pausesMs: [],
  };
  const client = new Client(URL_OF_SERVER, options);
  const user = person("kim");
  const [tried, unsent] = (await new Client(URL_OF_SERVER).recommend(user, { k: 2 })).items;
  const first = client.queue(user, tried.item, 5);
  await assert.rejects(client.flush(), AwayError);
  const second = client.queue(user, unsent.item, 5); // not sent: the first one is tried before it
  client.queueUndo(user, second);
  client.queueUndo(user, first);
  assert.deepEqual(client.waiting(user).map((each) => [each.event_id, each.undo === true]), [[first, false], [first, true]]);
  isAway = false;
  await client.flush();
  const { history, revision } = await client.user(user);
  assert.deepEqual([history, revision], [[], 2]);
});

test("clients that share a storage, as two tabs do, overwrite nothing of each other", async () => {
  const options = { fetch: () => Promise.reject(new TypeError("offline")), storage: memoryStorage(), pausesMs: [] };
  const [one, other] = [new Client(NOWHERE, options), new Client(NOWHERE, options)];
  for (const item of ["tea", "milk"]) {
    one.queue("ann", item, 5);
    other.queue("bob", item, 5, { note: { title: item } });
  }
  assert.equal(one.waiting().length, 4);
  assert.deepEqual(one.waiting("bob").map((each) => each.note), [{ title: "tea" }, { title: "milk" }]);
});

test("a refusal of a queued reaction is an event; a listener that takes it silences the warning", async () => {
  const fetching = async () => new Response('{"error": "UnknownItemError", "message": "no such item"}', { status: 404 });
  const client = new Client(NOWHERE, { fetch: fetching, storage: memoryStorage(), pausesMs: [] });
  const heard = [];
  client.addEventListener("refused", (event) => { heard.push(event.detail.kind); event.preventDefault(); });
  const warn = console.warn;
  console.warn = () => heard.push("warning");
  try {
    client.queue("ann", "tea", 5);
    await client.flush();
  } finally {
    console.warn = warn;
  }
  assert.deepEqual(heard, ["UnknownItemError"]);
});

test("a token may be a function, which is asked at every request", async () => {
  const seen = [];
  const fetching = async (_, { headers }) => (seen.push(headers.Authorization), new Response("{}"));
  const tokens = ["old", "new"];
  const client = new Client(NOWHERE, { fetch: fetching, storage: memoryStorage(), token: () => tokens.shift() ?? null });
  for (let i = 0; i < 3; i++) await client.model();
  assert.deepEqual(seen, ["Bearer old", "Bearer new", undefined]);
});

test("a list in the query repeats its name", async () => {
  const asked = [];
  const fetching = async (address) => asked.push(String(address)) && new Response("{}");
  await new Client(NOWHERE, { fetch: fetching }).experiment("november", { value: ["margin", "price"] });
  assert.deepEqual(asked, [`${NOWHERE}/v1/experiments/november?value=margin&value=price`]);
});
