// Calls a running server with the JavaScript SDK of Svix, the way a sender does.
//
// URL, TOKEN, RECEIVER_PORT and ORACLES, the directory whose node_modules hold the libraries, come
// from the environment; the receiver is played in this process. Each step prints its name before it
// begins, so that the last line printed tells where a failure is.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

import { eventually, plain, Receiver } from "./receiver.mjs";

const { URL: url, TOKEN, RECEIVER_PORT, ORACLES } = process.env;
const installed = createRequire(`${ORACLES}/`);
const load = (name) => import(pathToFileURL(installed.resolve(name)));
const { Svix, ApiException, Webhook } = await load("svix");
const standard = await load("standardwebhooks");
const { Webhooks } = await load("@octokit/webhooks");

const [SUCCESS, FAIL] = [0, 2];
const QUICK = { policy: { schedule: { kind: "fixed", waits: ["100ms"] }, max_attempts: 3 } };
const since = new Date(Date.now() - 60_000);
const app = "tour";
const svix = new Svix(TOKEN, { serverUrl: url });
const call = plain(url, TOKEN);
const receiver = new Receiver(Number(RECEIVER_PORT));

async function refused(status, code, call) {
  await assert.rejects(call, (error) => {
    assert.ok(error instanceof ApiException, String(error));
    assert.deepEqual([error.code, error.body.code], [status, code]);
    assert.ok(error.body.detail, "an error says what is wrong");
    return true;
  });
}

/** Turns pages of two to the end, and back again to the beginning. */
async function bothWays(page, key) {
  const everything = (await page({})).data.map(key);
  assert.ok(everything.length >= 3, "one page holds everything: that proves nothing");
  const pages = [await page({ limit: 2 })];
  while (!pages.at(-1).done) {
    assert.ok(pages.length <= everything.length, "pages without end");
    pages.push(await page({ limit: 2, iterator: pages.at(-1).iterator }));
  }
  assert.deepEqual(pages.flatMap(({ data }) => data.map(key)), everything);

  let last = pages.findLast(({ data }) => data.length > 0);
  let back = last.data.map(key);
  while (back.length < everything.length) {
    last = await page({ limit: 2, iterator: last.prevIterator });
    assert.ok(last.data.length > 0, "the way back broke off");
    back = [...last.data.map(key), ...back];
  }
  assert.deepEqual(back, everything);
}

/** Makes an endpoint that listens at the path of its own name and is retried quickly. */
async function endpoint(uid, fields = {}) {
  const made = await svix.endpoint.create(app, { url: `${receiver.url}/${uid}`, uid, ...fields });
  await call("PATCH", `/app/${app}/endpoint/${uid}`, { policy: QUICK });
  return made;
}

const send = (fields = {}) =>
  svix.message.create(app, { eventType: "tour.began", payload: { n: 1 }, ...fields });

/**
 * Sends to the first endpoint until what arrives fits, and returns it. A change is on disk when it is
 * answered, and reaches whoever sends a moment later.
 */
const takesEffect = (what, fits) =>
  eventually(what, async () => {
    const [arrival] = await receiver.waitFor("/first", (await send()).id);
    return fits(arrival) && arrival;
  });

/** Waits until that many attempts of a message are on record, the oldest first. */
const attempts = (endpointId, message, count) =>
  eventually(`${message} has ${count} attempts at ${endpointId}`, async () => {
    const { data } = await svix.messageAttempt.listByMsg(app, message, { endpointId });
    return data.length >= count && data.reverse();
  });

async function finished(task, kind) {
  assert.match(task.id, /^qtask_/);
  assert.equal(task.task, kind);
  await eventually(`${kind} finishes`, async () => {
    return (await svix.backgroundTask.get(task.id)).status === "finished";
  });
}

const steps = {
  async create() {
    const made = await svix.application.create({ name: "Tour", uid: app, metadata: { a: "b" } });
    assert.match(made.id, /^app_/);
    assert.deepEqual([made.uid, made.metadata], [app, { a: "b" }]);
    assert.ok(made.createdAt instanceof Date);
    const again = await svix.application.getOrCreate({ name: "Else", uid: app });
    assert.deepEqual([again.id, again.name], [made.id, "Tour"]);
    await refused(409, "conflict", () => svix.application.create({ name: "Tour", uid: app }));
    await refused(404, "not_found", () => svix.application.get("nobody"));
    const first = await endpoint("first", { description: "the first" });
    const found = await svix.endpoint.get(app, "first");
    assert.deepEqual([found.id, found.description, found.disabled], [first.id, "the first", false]);
  },

  async upsert() {
    const other = { name: "Other", uid: "other" };
    const made = await svix.application.upsert("other", other);
    const changed = await svix.application.upsert("other", { ...other, name: "Changed" });
    assert.deepEqual([changed.id, changed.name], [made.id, "Changed"]);
    const patched = await svix.application.patch("other", { metadata: { x: "y" } });
    assert.deepEqual([patched.name, patched.metadata], ["Changed", { x: "y" }]);
    await svix.application.upsert("third", { name: "Third", uid: "third" });

    const fields = { url: `${receiver.url}/unused`, uid: "upserted", channels: ["nowhere"] };
    const one = await svix.endpoint.upsert(app, "upserted", fields);
    const two = await svix.endpoint.upsert(app, "upserted", { ...fields, description: "again" });
    assert.deepEqual([two.id, two.description], [one.id, "again"]);
    const off = await svix.endpoint.patch(app, "upserted", { disabled: true });
    assert.deepEqual([off.disabled, off.description], [true, "again"]);
  },

  async "event types"() {
    const schemas = { 1: { type: "object", examples: [{ example: true }] } };
    for (const name of ["tour.a", "tour.b", "tour.c"]) {
      const made = await svix.eventType.create({ name, description: name, schemas });
      assert.deepEqual([made.name, made.archived], [name, false]);
    }
    const same = { name: "tour.a", description: "a" };
    await refused(409, "event_type_exists", () => svix.eventType.create(same));
    assert.equal((await svix.eventType.upsert("tour.d", { description: "x" })).description, "x");
    assert.equal((await svix.eventType.patch("tour.d", { description: "y" })).description, "y");
    assert.deepEqual((await svix.eventType.get("tour.a")).schemas, schemas);
    await bothWays((options) => svix.eventType.list(options), ({ name }) => name);
    await svix.eventType.delete("tour.d");
    const names = async (options) => (await svix.eventType.list(options)).data.map((it) => it.name);
    assert.deepEqual(await names({}), ["tour.a", "tour.b", "tour.c"]);
    assert.ok((await names({ includeArchived: true })).includes("tour.d"));
    const sent = await svix.endpoint.sendExample(app, "first", { eventType: "tour.a" });
    const [arrival] = await receiver.waitFor("/first", sent.id);
    assert.deepEqual(JSON.parse(arrival.body), { example: true });
  },

  async send() {
    const payload = { text: "ä€😀", list: [1, 2.5, null] };
    const sent = await send({ payload, eventId: "event", channels: ["one"] });
    assert.match(sent.id, /^msg_/);
    assert.ok(sent.timestamp instanceof Date);
    const [{ body, headers }] = await receiver.waitFor("/first", sent.id);
    const { key } = await svix.endpoint.getSecret(app, "first");
    assert.deepEqual(new standard.Webhook(key).verify(body, headers), payload);
    assert.throws(() => new standard.Webhook(key).verify(`${body} `, headers));
    new Webhook(key).verify(body, headers);
    const found = await svix.message.get(app, "event", { withContent: true });
    assert.deepEqual([found.id, found.payload, found.channels], [sent.id, payload, ["one"]]);
    await refused(409, "conflict", () => send({ eventId: "event" }));
    const once = () =>
      svix.message.create(app, { eventType: "tour.once", payload: {} }, { idempotencyKey: "once" });
    assert.equal((await once()).id, (await once()).id);
  },

  async "list and page both ways"() {
    for (let number = 0; number < 5; number += 1) await send({ payload: { number } });
    for (const name of ["second", "third"]) await endpoint(name, { channels: ["nowhere"] });
    await receiver.wait("/first", 8);
    const { messageAttempt } = svix;
    await eventually("all attempts are on record", async () => {
      return (await messageAttempt.listByEndpoint(app, "first")).data.length >= 8;
    });
    for (const page of [
      (options) => svix.application.list(options),
      (options) => svix.endpoint.list(app, options),
      (options) => svix.message.list(app, options),
      (options) => messageAttempt.listByEndpoint(app, "first", options),
      (options) => messageAttempt.listAttemptedMessages(app, "first", options),
    ]) {
      await bothWays(page, ({ id }) => id);
    }
    const [newest] = (await svix.message.list(app)).data;
    const { data } = await messageAttempt.listAttemptedDestinations(app, newest.id);
    assert.deepEqual(data.map(({ uid, status }) => [uid, status]), [["first", SUCCESS]]);
  },

  async filter() {
    await endpoint("typed", { eventTypes: ["tour.a"] });
    await endpoint("channelled", { channels: ["two"] });
    const other = await send();
    const typed = await send({ eventType: "tour.a" });
    const two = await send({ channels: ["two", "three"] });
    for (const { id } of [other, typed, two]) await receiver.waitFor("/first", id);
    await receiver.waitFor("/typed", typed.id);
    await receiver.waitFor("/channelled", two.id);
    assert.deepEqual([receiver.at("/typed").length, receiver.at("/channelled").length], [1, 1]);
    const listed = async (options) =>
      (await svix.message.list(app, options)).data.map(({ id }) => id);
    const byType = await listed({ eventTypes: ["tour.a", "no.such"] });
    assert.ok(byType.includes(typed.id) && !byType.includes(other.id));
    assert.deepEqual(await listed({ channel: "three" }), [two.id]);
    assert.deepEqual(await listed({ before: since }), []);
    assert.ok((await listed({ after: since })).includes(two.id));
  },

  async retry() {
    receiver.answer("/first", 503);
    const sent = await send({ payload: { retry: "me" } });
    const [failed, worked] = await receiver.waitFor("/first", sent.id, 2);
    assert.deepEqual([failed.status, worked.status], [503, 204]);
    assert.equal(failed.body, worked.body);
    const { key } = await svix.endpoint.getSecret(app, "first");
    for (const { body, headers } of [failed, worked]) {
      new standard.Webhook(key).verify(body, headers);
    }
    const [first, second] = await attempts("first", sent.id, 2);
    assert.deepEqual([first.status, first.responseStatusCode], [FAIL, 503]);
    assert.deepEqual([second.status, second.responseStatusCode], [SUCCESS, 204]);
    assert.equal((await svix.messageAttempt.get(app, sent.id, first.id)).id, first.id);
    const listed = async (options) =>
      (await svix.messageAttempt.listByEndpoint(app, "first", options)).data.map(({ id }) => id);
    assert.deepEqual(await listed({ status: FAIL }), [first.id]);
    assert.deepEqual(await listed({ statusCodeClass: 500 }), [first.id]);
    assert.ok((await listed({ statusCodeClass: 200 })).includes(second.id));
  },

  async resend() {
    const sent = await send({ payload: { again: 1 } });
    await attempts("first", sent.id, 1);
    await svix.messageAttempt.resend(app, sent.id, "first");
    const [before, after] = await receiver.waitFor("/first", sent.id, 2);
    assert.equal(before.body, after.body);
    await attempts("first", sent.id, 2);
  },

  async recover() {
    await endpoint("flaky");
    receiver.answer("/flaky", 500, 500, 500);
    const sent = await send({ payload: { lost: "and found" } });
    await attempts("flaky", sent.id, 3);
    const becomes = (status) =>
      eventually(`the message has status ${status}`, async () => {
        const { data } = await svix.messageAttempt.listAttemptedMessages(app, "flaky");
        return data.length === 1 && data[0].status === status;
      });
    await becomes(FAIL);
    await finished(await svix.endpoint.recover(app, "flaky", { since }), "endpoint.recover");
    const arrivals = await receiver.waitFor("/flaky", sent.id, 4);
    assert.equal(new Set(arrivals.map(({ body }) => body)).size, 1);
    await becomes(SUCCESS);
  },

  async "replay missing"() {
    await endpoint("absent");
    const deliverAt = new Date(Date.now() + 600_000);
    const sent = await send({ payload: { missing: true }, deliverAt });
    const [delivery] = (await call("GET", `/app/${app}/endpoint/absent/delivery`)).data;
    await call("POST", `/app/${app}/delivery/${delivery.id}/cancel`);
    assert.deepEqual(receiver.at("/absent"), []);
    await finished(await svix.endpoint.replayMissing(app, "absent", { since }), "endpoint.replay");
    await receiver.waitFor("/absent", sent.id);
    await attempts("absent", sent.id, 1);
    const replay = await svix.endpoint.bulkReplay(app, "absent", { since });
    await finished(replay, "endpoint.bulk-replay");
    await receiver.waitFor("/absent", sent.id, 2);
  },

  async headers() {
    const shown = () => svix.endpoint.getHeaders(app, "first");
    const headers = { "X-Colour": "blue", Authorization: "Bearer hidden" };
    await svix.endpoint.setHeaders(app, "first", { headers });
    assert.deepEqual((await shown()).headers, { "X-Colour": "blue" });
    assert.deepEqual((await shown()).sensitive.map((it) => it.toLowerCase()), ["authorization"]);
    const patch = { headers: { "X-Shape": "round" }, deleteHeaders: ["X-Colour"] };
    await svix.endpoint.patchHeaders(app, "first", patch);
    assert.deepEqual((await shown()).headers, { "X-Shape": "round" });
    const arrival = await takesEffect("the headers arrive", (it) => "x-shape" in it.headers);
    assert.equal(arrival.headers["x-shape"], "round");
    assert.equal(arrival.headers.authorization, "Bearer hidden");
  },

  async rotate() {
    const { key: old } = await svix.endpoint.getSecret(app, "first");
    await svix.endpoint.rotateSecret(app, "first", {});
    const { key: fresh } = await svix.endpoint.getSecret(app, "first");
    assert.notEqual(fresh, old);
    const signatures = (it) => it.headers["webhook-signature"].split(" ").length;
    const { body, headers } = await takesEffect("two secrets sign", (it) => signatures(it) === 2);
    for (const key of [old, fresh]) {
      new standard.Webhook(key).verify(body, headers);
      new Webhook(key).verify(body, headers);
    }
  },

  async "digest signatures"() {
    const fields = { url: `${receiver.url}/digest`, uid: "digest", signatures: ["webhook-digest"] };
    await call("POST", `/app/${app}/endpoint`, fields);
    await send({ payload: { action: "opened" } });
    const [{ body, headers }] = await receiver.wait("/digest", 1);
    const { key } = await svix.endpoint.getSecret(app, "digest");
    const webhooks = new Webhooks({ secret: key });
    assert.ok(await webhooks.verify(body, headers["x-webhook-signature"]));
    assert.ok(!(await webhooks.verify(`${body} `, headers["x-webhook-signature"])));
  },

  async stats() {
    const ask = () => svix.endpoint.getStats(app, "flaky", { since });
    // The message that was to be missed waits for its time here; all others are settled.
    await eventually("one delivery is pending", async () => (await ask()).pending === 1);
    const found = await ask();
    assert.ok(found.success >= 1 && found.fail === 0, JSON.stringify(found));
  },

  async names() {
    for (const uid of [".", ".."]) {
      const url = `${receiver.url}/never`;
      await refused(422, "validation_error", () => svix.endpoint.create(app, { url, uid }));
      // The SDK takes such a name out of the path: what is left names the application, or its list.
      await assert.rejects(() => svix.endpoint.delete(app, uid), ApiException);
      await assert.rejects(() => svix.endpoint.patch(app, uid, { description: "d" }), ApiException);
    }
    assert.equal((await svix.application.get(app)).uid, app);
  },

  async delete() {
    const sent = await send();
    await receiver.waitFor("/first", sent.id);
    await svix.message.expungeContent(app, sent.id);
    const found = await svix.message.get(app, sent.id, { withContent: true });
    assert.deepEqual(found.payload, { expired: true });
    await svix.endpoint.delete(app, "first");
    await refused(404, "not_found", () => svix.endpoint.get(app, "first"));
    await svix.eventType.delete("tour.a", { expunge: true });
    await refused(404, "not_found", () => svix.eventType.get("tour.a"));
    await svix.application.delete(app);
    await refused(404, "not_found", () => svix.application.get(app));
    await refused(404, "not_found", () => send());
  },
};

const { version } = JSON.parse(readFileSync(`${ORACLES}/node_modules/svix/package.json`));
console.log(`svix ${version}`);
for (const [name, step] of Object.entries(steps)) {
  console.log(name);
  await step();
}
receiver.server.closeAllConnections();
receiver.server.close();
console.log("done");
