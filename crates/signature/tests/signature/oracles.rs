//! The judgement of libraries in other languages, which real receivers use: PyPI's
//! `standardwebhooks` and `stripe`, npm's `standardwebhooks` and `@octokit/webhooks`.
//!
//! They are installed by a script beforehand. If they are missing the tests fail: a test that skips
//! itself proves nothing and nobody notices.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::request::{MESSAGE_ID, OTHER_SECRET, PLAIN_SECRET, PRIVATE_KEY, Request, SECRET};
use crate::rust_oracles::now;

/// Bodies that a careless conversion between bytes and text would change.
const BODIES: [&str; 4] =
    [r#"{"a":1}"#, "{\"b\" : \"ä€😀\"}\n", "not json", " \r\n{\"c\":\"\\u0000.v1=,\"}\t"];

fn oracles() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/oracles")
}

/// Has a script carry out tasks.
fn ask(mut command: Command, tasks: &[Value]) -> Vec<Value> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let tasks = serde_json::to_vec(tasks).unwrap();
    child.stdin.take().unwrap().write_all(&tasks).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "the oracle failed: {}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/signature/oracles").join(name)
}

fn ask_python(tasks: &[Value]) -> Vec<Value> {
    let python = oracles().join("venv/bin/python");
    assert!(python.exists(), "run ./check, which installs the oracles");
    let mut command = Command::new(python);
    command.arg(script("verify.py"));
    ask(command, tasks)
}

fn ask_node(tasks: &[Value]) -> Vec<Value> {
    let package = oracles().join("node_modules/@octokit/webhooks");
    assert!(package.exists(), "run ./check, which installs the oracles");
    let mut command = Command::new("node");
    command.arg(script("verify.mjs")).arg(oracles());
    ask(command, tasks)
}

/// Asks to verify a request, and the same with a changed body and with another secret.
fn verify_tasks(action: &str, request: &Request) -> [Value; 3] {
    verify_tasks_with(action, request, SECRET)
}

/// The same for a receiver that was given this text as its secret.
fn verify_tasks_with(action: &str, request: &Request, secret: &str) -> [Value; 3] {
    let headers: serde_json::Map<String, Value> =
        request.headers.iter().map(|(name, _)| (name.clone(), request.text(name).into())).collect();
    let body = str::from_utf8(&request.body).unwrap();
    let third = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    [(secret, body.to_owned()), (secret, format!("{body} ")), (third, body.to_owned())].map(
        |(secret, body)| json!({"do": action, "secret": secret, "headers": headers, "body": body}),
    )
}

/// Each request has to be accepted, and its two damaged copies refused.
fn assert_judged(answers: &[Value]) {
    assert!(!answers.is_empty());
    for three in answers.chunks(3) {
        assert_eq!(three, [json!(true), json!(false), json!(false)]);
    }
}

/// Signs every body with one secret, and with two as during a rotation.
fn requests(profile: &str, secret_sets: &[&[&str]]) -> Vec<Request> {
    let sign = |secrets: &&[&str], body: &str| {
        Request::signed(secrets, &[profile], now(), body.as_bytes())
    };
    secret_sets
        .iter()
        .flat_map(|secrets| BODIES.iter().map(move |body| sign(secrets, body)))
        .collect()
}

fn sign_tasks(action: &str, timestamp: i64) -> Vec<Value> {
    BODIES
        .iter()
        .map(|body| {
            json!({"do": action, "secret": SECRET, "id": MESSAGE_ID, "timestamp": timestamp, "body": body})
        })
        .collect()
}

#[test]
fn the_python_library_of_standard_webhooks_accepts_what_is_signed_here() {
    let sets: [&[&str]; 3] = [&[SECRET], &[OTHER_SECRET, SECRET], &[PRIVATE_KEY, SECRET]];
    let tasks: Vec<Value> = requests("standard-webhooks", &sets)
        .iter()
        .flat_map(|request| verify_tasks("verify standardwebhooks", request))
        .collect();
    assert_judged(&ask_python(&tasks));
}

#[test]
fn what_the_python_library_of_standard_webhooks_signs_is_accepted_here() {
    let timestamp = now();
    let answers = ask_python(&sign_tasks("sign standardwebhooks", timestamp));
    for (body, signature) in BODIES.iter().zip(answers) {
        let request =
            Request::signed(&[SECRET], &["standard-webhooks"], timestamp, body.as_bytes())
                .set("webhook-signature", signature.as_str().unwrap());
        assert_eq!(request.verify_at(&[SECRET], "standard-webhooks", timestamp), Ok(0));
    }
}

#[test]
fn the_python_library_of_stripe_accepts_what_is_signed_here() {
    let tasks: Vec<Value> = requests("branded:Acme", &[&[SECRET], &[OTHER_SECRET, SECRET]])
        .iter()
        .flat_map(|request| verify_tasks("verify stripe", request))
        .collect();
    assert_judged(&ask_python(&tasks));
}

#[test]
fn what_the_python_library_of_stripe_signs_is_accepted_here() {
    let timestamp = now();
    let answers = ask_python(&sign_tasks("sign stripe", timestamp));
    for (body, signature) in BODIES.iter().zip(answers) {
        let request = Request { headers: Vec::new(), body: body.as_bytes().to_vec() }
            .set("X-Acme-Signature", signature.as_str().unwrap());
        assert_eq!(request.verify_at(&[SECRET], "branded:Acme", timestamp), Ok(0));
    }
}

#[test]
fn octokit_accepts_what_is_signed_here() {
    let tasks: Vec<Value> = requests("digest:X-Hub-Signature-256", &[&[SECRET]])
        .iter()
        .flat_map(|request| verify_tasks("verify octokit", request))
        .collect();
    assert_judged(&ask_node(&tasks));
}

#[test]
fn what_octokit_signs_is_accepted_here() {
    let answers = ask_node(&sign_tasks("sign octokit", 0));
    for (body, signature) in BODIES.iter().zip(answers) {
        for (profile, header) in [
            ("digest:X-Hub-Signature-256", "X-Hub-Signature-256"),
            ("webhook-digest", "X-Webhook-Signature"),
        ] {
            let request = Request { headers: Vec::new(), body: body.as_bytes().to_vec() }
                .set(header, signature.as_str().unwrap());
            assert_eq!(request.verify(&[SECRET], profile), Ok(0));
        }
    }
}

/// What a receiver of a plain secret has: the text, and what libraries of Standard Webhooks take.
fn plain_texts() -> (&'static str, String) {
    let secret: signature::SharedSecret = PLAIN_SECRET.parse().unwrap();
    (PLAIN_SECRET.strip_prefix("plain:").unwrap(), secret.reveal_encoded().to_string())
}

/// Asks to verify every body under a plain secret, alone and as the older one of two.
fn plain_tasks(action: &str, profile: &str, given: &str, sets: &[&[&str]]) -> Vec<Value> {
    let requests = requests(profile, sets);
    requests.iter().flat_map(|request| verify_tasks_with(action, request, given)).collect()
}

#[test]
fn libraries_of_standard_webhooks_accept_a_plain_secret_encoded_or_as_raw_bytes() {
    let (text, encoded) = plain_texts();
    let sets: [&[&str]; 2] = [&[PLAIN_SECRET], &[OTHER_SECRET, PLAIN_SECRET]];
    for (action, given) in
        [("verify standardwebhooks", &*encoded), ("verify standardwebhooks raw", text)]
    {
        let tasks = plain_tasks(action, "standard-webhooks", given, &sets);
        assert_judged(&ask_python(&tasks));
        assert_judged(&ask_node(&tasks));
    }
    // Pasted as it is it would be decoded to another key.
    let request = Request::signed(&[PLAIN_SECRET], &["standard-webhooks"], now(), b"{}");
    let pasted = verify_tasks_with("verify standardwebhooks", &request, text);
    assert_eq!(ask_python(&pasted), [json!(false), json!(false), json!(false)]);
    assert_eq!(ask_node(&pasted), [json!(false), json!(false), json!(false)]);
}

#[test]
fn receivers_of_other_senders_accept_the_plain_secret_that_they_have() {
    let (text, _) = plain_texts();
    let sets: [&[&str]; 2] = [&[PLAIN_SECRET], &[OTHER_SECRET, PLAIN_SECRET]];
    let mut tasks = plain_tasks("verify stripe", "timestamped:Stripe-Signature", text, &sets);
    let slack = "v0:X-Slack-Signature:X-Slack-Request-Timestamp";
    let shopify = "digest-base64:X-Shopify-Hmac-Sha256";
    tasks.extend(plain_tasks("verify slack", slack, text, &sets[..1]));
    tasks.extend(plain_tasks("verify shopify", shopify, text, &sets[..1]));
    assert_judged(&ask_python(&tasks));
    let github = "digest:X-Hub-Signature-256";
    assert_judged(&ask_node(&plain_tasks("verify octokit", github, text, &sets[..1])));
}
