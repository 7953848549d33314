// A receiver that keeps what arrives and fails when it is told to.
//
// It belongs to a tour of an SDK: the tour says which statuses come next at a path, sends, and waits
// for what arrives there. Every wait has a limit, and says what it waited for.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { setTimeout } from "node:timers/promises";

const LONGEST_WAIT = 30_000;

/** Asks again and again until there is an answer. */
export async function eventually(what, ask) {
  for (const end = Date.now() + LONGEST_WAIT; Date.now() < end; await setTimeout(20)) {
    const found = await ask();
    if (found) return found;
  }
  assert.fail(`within ${LONGEST_WAIT} ms it did not happen that ${what}`);
}

/** Listens on a port of this machine. */
export class Receiver {
  #arrivals = new Map();
  #answers = new Map();

  constructor(port) {
    this.url = `http://127.0.0.1:${port}`;
    this.server = createServer(async (request, response) => {
      const chunks = [];
      for await (const chunk of request) chunks.push(chunk);
      const status = this.#answers.get(request.url)?.shift() ?? 204;
      const body = Buffer.concat(chunks).toString();
      const { headers, url } = request;
      this.at(url).push({ id: headers["webhook-id"], headers, body, status });
      response.writeHead(status).end();
    });
    this.server.listen(port, "127.0.0.1");
  }

  /** Returns what has arrived at a path. */
  at(path) {
    if (!this.#arrivals.has(path)) this.#arrivals.set(path, []);
    return this.#arrivals.get(path);
  }

  /** Gives the next requests at a path these statuses; later ones get 204. */
  answer(path, ...statuses) {
    this.#answers.set(path, statuses);
  }

  /** Waits for that many arrivals at a path. */
  async wait(path, count) {
    await eventually(`${count} requests arrive at ${path}`, () => this.at(path).length >= count);
    return [...this.at(path)];
  }

  /** Waits for that many arrivals of a message at a path. */
  async waitFor(path, message, count = 1) {
    const own = () => this.at(path).filter(({ id }) => id === message);
    await eventually(`${message} arrives ${count} times at ${path}`, () => own().length >= count);
    return own();
  }
}

/** Returns a function that calls what the server offers beyond the SDKs. */
export function plain(url, token) {
  return async (method, path, body) => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const options = { method, headers, body: body && JSON.stringify(body) };
    const answer = await fetch(`${url}/api/v1${path}`, options);
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : undefined;
  };
}
