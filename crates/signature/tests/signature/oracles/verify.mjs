// Signs and verifies with GitHub's library Octokit, and verifies with the one of Standard Webhooks.
//
// Reads a JSON list of tasks from standard input and answers each in a JSON list on standard output:
// a task to verify with true or false, a task to sign with the value of the signature header.
// Its one argument is the directory whose node_modules hold the libraries.

import { createRequire } from "node:module";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";

const installed = createRequire(`${process.argv[2]}/`);
const library = pathToFileURL(installed.resolve("@octokit/webhooks"));
const { Webhooks } = await import(library);

const standard = installed("standardwebhooks");

function verifyStandard({ secret, body, headers }, format) {
  try {
    new standard.Webhook(secret, { format }).verify(body, headers, { jsonParse: false });
    return true;
  } catch (error) {
    if (error instanceof standard.WebhookVerificationError) return false;
    throw error;
  }
}

const answers = {
  "verify standardwebhooks": (task) => verifyStandard(task),
  "verify standardwebhooks raw": (task) => verifyStandard(task, "raw"),
  "verify octokit": ({ secret, body, headers }) =>
    new Webhooks({ secret }).verify(body, headers["X-Hub-Signature-256"]),
  "sign octokit": ({ secret, body }) => new Webhooks({ secret }).sign(body),
};

const tasks = JSON.parse(await text(process.stdin));
const results = await Promise.all(tasks.map((task) => answers[task.do](task)));
process.stdout.write(JSON.stringify(results));
