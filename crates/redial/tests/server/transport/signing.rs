//! Signatures: fresh for each attempt, by all live secrets, in the endpoint's profiles.

use std::time::Duration;

use domain::ids::DeliveryId;
use domain::outcome::{Outcome, Unreachable};
use domain::time::Timestamp;
use redial::clock::{Clock as _, SystemClock};
use signature::{Profile, Verifier, VerifyingSecret};

use super::receiver::{OK, Receiver, Seen};
use super::scene::{SECRET, Scene, message, recorded, secret};

const OTHER: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn verifies(seen: &Seen, secret: &str, profile: &Profile) -> bool {
    let secret: VerifyingSecret = secret.parse().unwrap();
    let verifier = Verifier::new(&[secret], profile).unwrap();
    let header = |name: &str| seen.header(name).map(str::as_bytes);
    let now = SystemClock::start().wall().as_seconds();
    verifier.verify(header, &seen.body, now).is_ok()
}

#[tokio::test]
async fn an_attempt_is_signed_under_both_families_of_names() {
    let receiver = Receiver::saying(OK).await;
    let record = Scene::new(&receiver.url()).send().await;
    let seen = receiver.seen().pop().unwrap();
    for profile in [Profile::StandardWebhooks, Profile::Svix] {
        assert!(verifies(&seen, SECRET, &profile), "{profile}");
        assert!(!verifies(&seen, OTHER, &profile), "{profile}");
    }
    assert_eq!(seen.header("webhook-id"), Some(message().to_string().as_str()));
    assert_eq!(recorded(&record, "webhook-signature").as_deref(), seen.header("webhook-signature"));
}

#[tokio::test]
async fn an_independent_library_agrees() {
    let receiver = Receiver::saying(OK).await;
    Scene::new(&receiver.url()).send().await;
    let seen = receiver.seen().pop().unwrap();
    let mut headers = http::HeaderMap::new();
    for line in seen.head.lines().skip(1) {
        let (name, value) = line.split_once(": ").unwrap();
        let name: http::HeaderName = name.parse().unwrap();
        headers.insert(name, value.parse().unwrap());
    }
    let webhook = standardwebhooks::Webhook::new(SECRET).unwrap();
    webhook.verify(&seen.body, &headers).unwrap();
}

#[tokio::test]
async fn every_live_secret_signs_and_an_expired_one_does_not() {
    let receiver = Receiver::saying(OK).await;
    let mut scene = Scene::new(&receiver.url());
    let later = SystemClock::start().now().after(Duration::from_secs(60));
    scene.secrets = vec![secret(SECRET, None), secret(OTHER, Some(later))];
    scene.send().await;
    let seen = receiver.seen().pop().unwrap();
    assert!(verifies(&seen, SECRET, &Profile::Svix) && verifies(&seen, OTHER, &Profile::Svix));
    scene.secrets = vec![secret(SECRET, None), secret(OTHER, Some(Timestamp::EPOCH))];
    scene.send().await;
    let seen = receiver.seen().pop().unwrap();
    assert!(verifies(&seen, SECRET, &Profile::Svix) && !verifies(&seen, OTHER, &Profile::Svix));
}

#[tokio::test]
async fn a_secret_that_expires_between_two_attempts_stops_signing() {
    let receiver = Receiver::saying(OK).await;
    let mut scene = Scene::new(&receiver.url());
    let expires_at = SystemClock::start().now().after(Duration::from_millis(300));
    scene.secrets = vec![secret(SECRET, None), secret(OTHER, Some(expires_at))];
    let member = scene.member();
    scene.send_as(&member).await;
    let signatures = |seen: Seen| seen.header("svix-signature").unwrap().split(' ').count();
    assert_eq!(signatures(receiver.seen().pop().unwrap()), 2);
    let clock = SystemClock::start();
    while clock.now() < expires_at.after(Duration::from_millis(10)) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    scene.send_as(&member).await;
    assert_eq!(signatures(receiver.seen().pop().unwrap()), 1);
}

#[tokio::test]
async fn secrets_expire_on_the_timeline_of_the_rows_and_not_on_our_own_clock() {
    let receiver = Receiver::saying(OK).await;
    let mut scene = Scene::new(&receiver.url());
    let (hour, second) = (Duration::from_secs(3_600), Duration::from_secs(1));
    let now = SystemClock::start().now();
    // By our own clock it expired an hour ago, or will in an hour.
    for expires_at in [now.before(hour), now.after(hour)] {
        scene.secrets = vec![secret(SECRET, None), secret(OTHER, Some(expires_at))];
        let member = scene.member();
        for (rows, signs) in [(expires_at.before(second), true), (expires_at, false)] {
            scene.send_at(&member, rows).await;
            let seen = receiver.seen().pop().unwrap();
            assert_eq!(verifies(&seen, OTHER, &Profile::Svix), signs);
        }
    }
}

#[tokio::test]
async fn an_endpoint_chooses_its_profiles_by_their_words() {
    let receiver = Receiver::saying(OK).await;
    let mut scene = Scene::new(&receiver.url());
    scene.settings.signatures =
        ["branded", "webhook-digest", "digest:X-Hub-Signature-256"].map(str::to_owned).to_vec();
    scene.send().await;
    let seen = receiver.seen().pop().unwrap();
    for profile in ["branded:Redial", "webhook-digest", "digest:X-Hub-Signature-256"] {
        assert!(verifies(&seen, SECRET, &profile.parse().unwrap()), "{profile}");
    }
    let delivery = DeliveryId::derive(&message(), 5).to_string();
    assert_eq!(seen.header("x-redial-delivery"), Some(delivery.as_str()));
    assert_eq!(seen.header("x-webhook-id"), Some(delivery.as_str()));
    assert_eq!(seen.header("x-webhook-event"), Some("invoice.paid"));
    assert_eq!(seen.header("webhook-signature"), None);
}

#[tokio::test]
async fn nothing_is_sent_unsigned() {
    let receiver = Receiver::saying(OK).await;
    for secrets in [vec![], vec![secret("whsec_short", None)]] {
        let mut scene = Scene::new(&receiver.url());
        scene.secrets = secrets;
        let record = scene.send().await;
        assert_eq!(record.outcome, Outcome::Interrupted, "it costs nothing");
        let text = record.error.unwrap();
        assert!(text.starts_with("nothing was sent: "), "{text}");
        assert!(!text.contains("whsec_short"), "{text}");
    }
    let mut scene = Scene::new(&receiver.url());
    scene.settings.signatures = vec!["stripe".to_owned()];
    assert_eq!(scene.send().await.outcome, Outcome::Interrupted);
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn profiles_that_do_not_fit_together_are_their_owners_failed_attempt() {
    let receiver = Receiver::saying(OK).await;
    let mut scene = Scene::new(&receiver.url());
    scene.settings.signatures = vec!["svix".to_owned(), "svix".to_owned()];
    let record = scene.send().await;
    assert_eq!(record.outcome, Outcome::Unreachable(Unreachable::Other));
    let text = record.error.unwrap();
    assert!(text.contains("both write the header"), "{text}");
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn an_attempt_without_its_payload_is_interrupted_and_sends_nothing() {
    let receiver = Receiver::saying(OK).await;
    let scene = Scene::new(&receiver.url());
    let mut sending = scene.sending(&scene.member());
    sending.delivery.payload = None;
    let clock = SystemClock::start();
    let record = scene.transport.send(&sending, clock.now(), &clock).await;
    assert_eq!(record.outcome, Outcome::Interrupted);
    assert_eq!(receiver.connections(), 0);
}
