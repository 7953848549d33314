//! How an endpoint's attempts are signed: its profiles, the names of their headers, and its secret.

use http::Method;
use serde_json::{Value, json};
use signature::{Verifier, VerifyingSecret};

use super::{ADMIN, Running};
use crate::sdk::receiver::{Arrival, Receiver, eventually};

/// A secret that a sender's receivers have had for long, and its text.
const PLAIN: &str = "plain:It's a Secret to Everybody";
const ENCODED: &str = "whsec_SXQncyBhIFNlY3JldCB0byBFdmVyeWJvZHk=";
const PRIVATE: &str =
    "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==";
/// Deliveries to this machine are allowed, over plain HTTP.
const OPEN: [(&str, &str); 2] = [("allow_egress", "127.0.0.1"), ("egress.plain_http", "yes")];

/// Makes an endpoint; returns its path at the API.
async fn endpoint(server: &Running, app: &str, mut body: Value) -> String {
    if body.get("url").is_none() {
        body["url"] = json!("https://receiver.example/");
    }
    let made = server.post(&format!("/app/{app}/endpoint"), body).await.expect(201);
    format!("/app/{app}/endpoint/{}", made["id"].as_str().unwrap())
}

/// Sends a message, and waits until the next request has arrived.
async fn arrival(server: &Running, app: &str, receiver: &Receiver, name: &str) -> Arrival {
    let before = receiver.at(name).len();
    server.message(app).await;
    eventually("it arrives", async || receiver.at(name).into_iter().nth(before)).await
}

/// Verifies as a receiver does that has this secret and expects this profile.
fn verifies(arrival: &Arrival, secret: &str, profile: &str) -> bool {
    let secret: VerifyingSecret = secret.parse().unwrap();
    let verifier = Verifier::new(&[secret], &profile.parse().unwrap()).unwrap();
    let header = |name: &str| arrival.headers.get(name).map(|value| value.as_bytes());
    // What was sent before a change is not signed so yet.
    let sent_at = arrival.header("x-sent-at").parse();
    sent_at.is_ok_and(|sent_at| verifier.verify(header, &arrival.body, sent_at).is_ok())
}

#[tokio::test]
async fn an_endpoint_is_signed_in_several_forms_under_names_of_its_owners() {
    let server = Running::sending(&OPEN).await;
    let receiver = Receiver::start().await;
    let app = server.application().await;
    let signing = [
        "standard-webhooks",
        "branded:Formspring",
        "timestamped:Stripe-Signature",
        "v0:X-Slack-Signature:X-Slack-Request-Timestamp",
        "digest:X-Hub-Signature-256",
        "digest-hex:Linear-Signature",
        "digest-base64:X-Shopify-Hmac-Sha256",
    ];
    let companions = [
        "timestamp:X-Sent-At",
        "delivery-id:X-GitHub-Delivery",
        "message-id:X-Message",
        "event-type:X-GitHub-Event",
    ];
    let signatures = [&signing[..], &companions].concat();
    let body = json!({ "url": receiver.url("all"), "signatures": signatures, "secret": PLAIN });
    let path = endpoint(&server, &app, body).await;
    assert_eq!(server.get(&path).await.expect(200)["signatures"], json!(signatures));

    let arrived = arrival(&server, &app, &receiver, "all").await;
    for profile in signing {
        assert!(verifies(&arrived, PLAIN, profile), "{profile}");
    }
    assert!(verifies(&arrived, ENCODED, "standard-webhooks"));
    let message = arrived.header("webhook-id").to_owned();
    let deliveries = server.get(&format!("/app/{app}/delivery")).await.expect(200);
    let delivery = deliveries["data"][0]["id"].as_str().unwrap();
    for (name, value) in [
        ("x-message", &*message),
        ("x-formspring-delivery", delivery),
        ("x-github-delivery", delivery),
        ("x-github-event", "invoice.paid"),
        ("x-slack-request-timestamp", arrived.header("x-sent-at")),
    ] {
        assert_eq!(arrived.header(name), value, "{name}");
    }
    assert_eq!(arrived.header("svix-id"), "");
}

#[tokio::test]
async fn what_cannot_be_signed_or_written_is_refused_in_words() {
    let server = Running::start().await;
    let app = server.application().await;
    let many: Vec<String> = (0..17).map(|each| format!("digest:X-{each}")).collect();
    let table = [
        (json!(["rot13"]), "`rot13` is no profile"),
        (json!(["brandet:Acme"]), "did you mean `branded:<Brand>`?"),
        (json!(["event-id"]), "must hold one that signs"),
        (json!(["branded:A B"]), "is not a brand"),
        (json!(["digest:X Y"]), "is not the name of a header"),
        (json!(["digest:Host"]), "Host has a meaning of its own"),
        (json!(["svix", "timestamp:Content-Type"]), "Content-Type has a meaning of its own"),
        (json!(["timestamped:Authorization"]), "Authorization has a meaning of its own"),
        (json!(["digest:X-Forwarded-For"]), "X-Forwarded-For has a meaning of its own"),
        (json!(["branded:Amzn"]), "X-Amzn-Signature has a meaning of its own"),
        (json!(["svix", "svix"]), "`svix` and `svix` both write the header svix-id"),
        (json!(["branded:Webhook", "webhook-digest"]), "both write the header X-Webhook-Signature"),
        (json!(["branded", "digest:x-redial_signature"]), "`branded:Redial` and"),
        (json!(many), "17 profiles are more than the 16 allowed"),
    ];
    let path = endpoint(&server, &app, json!({})).await;
    for (signatures, words) in table {
        let patch = json!({ "signatures": signatures });
        let told = server.patch(&path, patch.clone()).await.invalid("body.signatures");
        assert!(told.contains(words), "{signatures}: {told}");
        let body = json!({ "url": "https://receiver.example/", "signatures": signatures });
        server.put(&path, body.clone()).await.invalid("body.signatures");
        server.post(&format!("/app/{app}/endpoint"), body).await.invalid("body.signatures");
    }
    let document = json!({ "endpoint": { "signatures": ["digest:Cookie"] } });
    server.patch(&path, json!({ "policy": document })).await.invalid("body.policy");
    assert_eq!(server.get(&path).await.expect(200).get("signatures"), None);
}

#[tokio::test]
async fn a_header_that_a_profile_writes_is_refused_in_both_directions() {
    let server = Running::with(&[("brand", "Acme")]).await;
    let app = server.application().await;
    let document = json!({ "endpoint": { "signatures": ["svix", "branded:Acme"] } });
    // How it comes to be signed so, and the field that is told.
    let ways = [
        (json!({ "signatures": ["branded:Acme"] }), "body.signatures"),
        (json!({ "signatures": ["branded"] }), "body.signatures"),
        (json!({ "policy": "formspring" }), "body.policy"),
        (json!({ "policy": document }), "body.policy"),
    ];
    for (signed, field) in &ways {
        let path = endpoint(&server, &app, signed.clone()).await;
        let headers = format!("{path}/headers");
        for name in ["X-Acme-Delivery", "x_acme_signature"] {
            let body = json!({ "headers": { name: "1" } });
            let place = format!("body.headers.{name}");
            let told = server.put(&headers, body.clone()).await.invalid(&place);
            assert!(told.starts_with("is written by `branded:Acme`"), "{told}");
            server.patch(&headers, body.clone()).await.invalid(&place);
            server.patch(&path, body).await.invalid(&place);
        }
        // What else stands there does not matter, and what is in nobody's way is taken.
        server.put(&headers, json!({ "headers": { "X-Acme-Team": "1" } })).await.expect(204);

        let path = endpoint(&server, &app, json!({ "headers": { "X_Acme_Delivery": "1" } })).await;
        let told = server.patch(&path, signed.clone()).await.invalid(field);
        assert!(told.contains("writes the header X_Acme_Delivery"), "{told}");
        let mut body = signed.clone();
        body["url"] = json!("https://receiver.example/");
        body["headers"] = json!({ "X-Acme-Signature": "1" });
        server.post(&format!("/app/{app}/endpoint"), body).await.invalid(field);
        // Both at once may go together.
        let mut both = signed.clone();
        both["headers"] = json!({});
        server.patch(&path, both).await.expect(200);
    }
    // Headers that are kept secret count as well.
    let path = endpoint(&server, &app, json!({ "headers": { "X-Api-Key": "1" } })).await;
    let patch = json!({ "signatures": ["digest:X-API-Key"] });
    server.patch(&path, patch).await.invalid("body.signatures");
    // A policy counts only for an endpoint without profiles of its own.
    let path = endpoint(&server, &app, json!({ "headers": { "X-Acme-Delivery": "1" } })).await;
    let patch = json!({ "policy": "formspring", "signatures": ["svix"] });
    server.patch(&path, patch).await.expect(200);
    server.patch(&path, json!({ "signatures": [] })).await.invalid("body.signatures");
}

#[tokio::test]
async fn an_application_or_the_server_can_say_how_its_endpoints_are_signed() {
    let options = [
        OPEN[0],
        OPEN[1],
        ("brand", "Acme"),
        ("signatures", "digest:Acme-Digest,timestamp:X-Sent-At"),
    ];
    let server = Running::sending(&options).await;
    let receiver = Receiver::start().await;
    let app = server.application().await;
    let path = endpoint(&server, &app, json!({ "url": receiver.url("x"), "secret": PLAIN })).await;
    let shown = async |path: &str| {
        let policy = server.get(&format!("{path}/policy")).await.expect(200);
        policy["signatures"].clone()
    };
    let usual = json!([
        { "profile": "digest:Acme-Digest", "headers": ["Acme-Digest"] },
        { "profile": "timestamp:X-Sent-At", "headers": ["X-Sent-At"] }
    ]);
    assert_eq!(shown(&path).await, usual);
    let arrived = arrival(&server, &app, &receiver, "x").await;
    assert!(verifies(&arrived, PLAIN, "digest:Acme-Digest"));
    assert_eq!(arrived.header("webhook-id"), "");

    // The preset says which form; the server, whose brand.
    let headers = json!(["X-Acme-Signature", "X-Acme-Delivery"]);
    let branded = json!([{ "profile": "branded:Acme", "headers": headers }]);
    assert_eq!(server.get("/policy/formspring").await.expect(200)["signatures"], branded);
    assert_eq!(server.get("/policy/stripe").await.expect(200)["signatures"], usual);
    server.patch(&format!("/app/{app}"), json!({ "policy": "formspring" })).await.expect(200);
    assert_eq!(shown(&path).await, branded);
    // A header of the endpoint's own would be in its way from now on.
    let body = json!({ "headers": { "x-acme-delivery": "1" } });
    server.patch(&path, body).await.invalid("body.headers.x-acme-delivery");
    let own = json!({ "signatures": ["branded:Other", "timestamp:X-Sent-At"] });
    server.patch(&path, own).await.expect(200);
    let arrives = async || {
        let arrived = arrival(&server, &app, &receiver, "x").await;
        verifies(&arrived, PLAIN, "branded:Other").then_some(())
    };
    eventually("its own profiles count", arrives).await;
}

#[tokio::test]
async fn a_secret_that_receivers_have_already_is_kept_as_it_is() {
    let server = Running::start().await;
    let app = server.application().await;
    let shown = json!({ "key": PLAIN, "standardWebhooksKey": ENCODED });
    let path = endpoint(&server, &app, json!({ "secret": PLAIN })).await;
    assert_eq!(server.get(&format!("{path}/secret")).await.expect(200), shown);
    let path = endpoint(&server, &app, json!({})).await;
    let rotate = format!("{path}/secret/rotate");
    let made = server.get(&format!("{path}/secret")).await.expect(200);
    assert_eq!(made.get("standardWebhooksKey"), None);
    assert_eq!(server.post(&rotate, json!({ "key": PLAIN })).await.expect(200), shown);
    server.post(&rotate, json!({})).await.expect(200);
    let body = json!({ "url": "https://receiver.example/", "secret": PLAIN });
    server.put(&path, body).await.expect(200);
    assert_eq!(server.get(&format!("{path}/secret")).await.expect(200), shown);

    let table = [
        ("It's a Secret to Everybody", "plain: (shared, the text of a secret"),
        ("plain:short", "16 to 256 characters, these are 5"),
        ("plain:It's a Secret to Everybody ", "was it copied with a blank"),
    ];
    for (secret, words) in table {
        let told = server.post(&rotate, json!({ "key": secret })).await.invalid("body.key");
        assert!(told.contains(words), "{secret}: {told}");
        let body = json!({ "url": "https://receiver.example/", "secret": secret });
        let told = server.put(&path, body).await.invalid("body.secret");
        assert!(told.contains(words) && !told.contains("Everybody"), "{secret}: {told}");
    }
    let token = server.token(&app, true).await;
    let answer = server.ask(&token, Method::GET, &format!("{path}/secret"), &Value::Null).await;
    assert_eq!(answer.status, 403, "who may only read sees no secret");
}

#[tokio::test]
async fn a_key_pair_goes_with_no_keyed_hash_whatever_is_set_first() {
    let server = Running::start().await;
    let app = server.application().await;
    let words = "the profile digest:X-Sig needs a shared secret (whsec_ or plain:)";
    let digest = json!(["standard-webhooks", "digest:X-Sig"]);
    let path = endpoint(&server, &app, json!({ "signatures": digest })).await;
    let rotate = format!("{path}/secret/rotate");
    let told = server.post(&rotate, json!({ "key": PRIVATE })).await.invalid("body.key");
    assert!(told.starts_with(words), "{told}");
    let body = json!({ "url": "https://receiver.example/", "secret": PRIVATE });
    server.put(&path, body).await.invalid("body.secret");
    let path = endpoint(&server, &app, json!({ "secret": PRIVATE })).await;
    let told = server.patch(&path, json!({ "signatures": digest })).await;
    assert!(told.invalid("body.signatures").starts_with(words));
    server.patch(&path, json!({ "policy": "formspring" })).await.invalid("body.policy");
    let mut body = json!({ "secret": PRIVATE, "signatures": digest });
    body["url"] = json!("https://receiver.example/");
    server.post(&format!("/app/{app}/endpoint"), body).await.invalid("body.secret");
    let answer = server.ask(ADMIN, Method::GET, &path, &Value::Null).await.expect(200);
    assert_eq!(answer.get("signatures"), None);
}

#[tokio::test]
async fn during_a_grace_a_form_holds_both_signatures_if_it_has_room() {
    let server = Running::sending(&OPEN).await;
    let receiver = Receiver::start().await;
    let app = server.application().await;
    let signatures = ["timestamped:X-Sig", "digest:X-Digest", "svix", "timestamp:X-Sent-At"];
    let body = json!({ "url": receiver.url("x"), "signatures": signatures, "secret": PLAIN });
    let path = endpoint(&server, &app, body).await;
    arrival(&server, &app, &receiver, "x").await;
    let rotated = server.post(&format!("{path}/secret/rotate"), json!({})).await.expect(200);
    let new = rotated["key"].as_str().unwrap();
    let both = async || {
        let arrived = arrival(&server, &app, &receiver, "x").await;
        verifies(&arrived, new, "svix").then_some(arrived)
    };
    let arrived = eventually("the new one signs", both).await;
    for (profile, old_fits) in
        [("timestamped:X-Sig", true), ("svix", true), ("digest:X-Digest", false)]
    {
        assert!(verifies(&arrived, new, profile), "{profile}");
        assert_eq!(verifies(&arrived, PLAIN, profile), old_fits, "{profile}");
    }
}
