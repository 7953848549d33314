//! Examples that others published: whoever follows their documentation gets the same bytes.

use signature::{Attempt, PrivateKey, Signer, SigningSecret};

use crate::request::{PRIVATE_KEY, PUBLIC_KEY, Request, SECRET, signer};

fn signature_of(signer: &Signer, message_id: &str, timestamp: i64, body: &[u8]) -> String {
    let attempt = Attempt { message_id, delivery_id: "dlv_1", event_type: "test", timestamp, body };
    signer.headers(&attempt).unwrap()[2].value.to_string()
}

#[test]
fn the_example_of_the_standard_webhooks_libraries_is_reproduced() {
    let request = Request::usual("standard-webhooks");
    assert_eq!(
        request.text("webhook-signature"),
        "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw="
    );
    assert_eq!(request.text("webhook-timestamp"), "1649367553");
    assert_eq!(request.verify(&[SECRET], "standard-webhooks"), Ok(0));
}

#[test]
fn the_example_of_the_reference_implementation_is_reproduced() {
    let signer =
        signer(&["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], &["standard-webhooks"]).unwrap();
    assert_eq!(
        signature_of(
            &signer,
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#
        ),
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    );
}

#[test]
fn the_ed25519_example_in_the_specification_is_reproduced() {
    let signer = signer(&[PRIVATE_KEY], &["standard-webhooks"]).unwrap();
    assert_eq!(
        signature_of(
            &signer,
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#
        ),
        "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="
    );
}

#[test]
fn a_published_private_key_yields_its_published_public_key() {
    let key: PrivateKey = PRIVATE_KEY.parse().unwrap();
    assert_eq!(key.public_key().to_string(), PUBLIC_KEY);
    let secret: SigningSecret = PRIVATE_KEY.parse().unwrap();
    assert_eq!(secret.for_receiver().reveal().as_str(), PUBLIC_KEY);
}

/// A form's published example: the profile, the secret, the time, the body, and what stands in which
/// header.
struct Vector {
    profile: &'static str,
    secret: &'static str,
    timestamp: i64,
    body: &'static str,
    header: &'static str,
    value: &'static str,
}

/// GitHub's and Slack's are from their documentation. The others were made with OpenSSL, such as
/// `printf %s '1492774577.{}' | openssl dgst -sha256 -hmac 0123456789abcdef`.
const VECTORS: [Vector; 6] = [
    Vector {
        profile: "digest:X-Hub-Signature-256",
        secret: "plain:It's a Secret to Everybody",
        timestamp: 0,
        body: "Hello, World!",
        header: "X-Hub-Signature-256",
        value: "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
    },
    Vector {
        profile: "v0:X-Slack-Signature:X-Slack-Request-Timestamp",
        secret: "plain:8f742231b10e8888abcd99yyyzzz85a5",
        timestamp: 1_531_420_618,
        body: "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
        header: "X-Slack-Signature",
        value: "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    },
    Vector {
        profile: "digest-hex:Linear-Signature",
        secret: "plain:0123456789abcdef",
        timestamp: 0,
        body: "{}",
        header: "Linear-Signature",
        value: "f91e3e9f05cc2df64ac1c26f8adccdffda8d1e4a7a8c50a1a08eeadac6ddfec5",
    },
    Vector {
        profile: "digest-base64:X-Shopify-Hmac-Sha256",
        secret: "plain:0123456789abcdef",
        timestamp: 0,
        body: "{}",
        header: "X-Shopify-Hmac-Sha256",
        value: "+R4+nwXMLfZKwcJvitzN/9qNHkp6jFChoI7q2sbd/sU=",
    },
    Vector {
        profile: "timestamped:Stripe-Signature",
        secret: "plain:0123456789abcdef",
        timestamp: 1_492_774_577,
        body: "{}",
        header: "Stripe-Signature",
        value: "t=1492774577,v1=a4cc39f639ea03fafe07ed6a5c3ddcfbb9f914e6f83a470ab126a187ae668b45",
    },
    Vector {
        profile: "standard-webhooks",
        secret: "plain:0123456789abcdef",
        timestamp: 1_492_774_577,
        body: "{}",
        header: "webhook-signature",
        value: "v1,pF6gPIQMnLaVqfQ6sOFDNpqIY/vbQgR1L3kJaWqypKU=",
    },
];

#[test]
fn the_examples_of_each_form_are_reproduced_and_verified() {
    for vector in &VECTORS {
        let body = vector.body.as_bytes();
        let request = Request::signed(&[vector.secret], &[vector.profile], vector.timestamp, body);
        assert_eq!(request.text(vector.header), vector.value, "{}", vector.profile);
        let verified = request.verify_at(&[vector.secret], vector.profile, vector.timestamp);
        assert_eq!(verified, Ok(0), "{}", vector.profile);
    }
}
