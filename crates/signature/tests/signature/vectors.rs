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
