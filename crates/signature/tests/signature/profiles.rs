//! Every profile's headers, and what several secrets and profiles make of them.

use signature::{Attempt, Error, SetupFault, ValueFault};

use crate::request::{
    BODY, COMPANIONS, DELIVERY_ID, MESSAGE_ID, NOW, OTHER_SECRET, PLAIN_SECRET, PRIVATE_KEY,
    PUBLIC_KEY, Request, SECRET, SIGNING_PROFILES, signer,
};

fn names(request: &Request) -> Vec<&str> {
    request.headers.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn every_profile_writes_exactly_the_headers_it_names() {
    for text in SIGNING_PROFILES.iter().chain(&COMPANIONS) {
        let request = Request::signed(&[SECRET], &["standard-webhooks"], NOW, BODY);
        let own = names(&request).len();
        let profile: signature::Profile = text.parse().unwrap();
        if *text == "standard-webhooks" {
            assert_eq!(names(&request), profile.header_names());
        } else {
            let both = Request::signed(&[SECRET], &["standard-webhooks", text], NOW, BODY);
            assert_eq!(names(&both)[own..], profile.header_names());
        }
    }
}

#[test]
fn companions_carry_the_ids_the_type_and_the_time() {
    let request = Request::signed(
        &[SECRET],
        &[&["branded:Acme", "webhook-digest", "svix"][..], &COMPANIONS].concat(),
        NOW,
        BODY,
    );
    assert_eq!(request.text("X-Acme-Delivery"), DELIVERY_ID);
    assert_eq!(request.text("X-Webhook-ID"), DELIVERY_ID);
    assert_eq!(request.text("X-Webhook-Event"), "user.created");
    assert_eq!(request.text("X-Webhook-Timestamp"), NOW.to_string());
    assert_eq!(request.text("X-Event-Id"), MESSAGE_ID);
    assert_eq!(request.text("svix-id"), MESSAGE_ID);
    assert_eq!(request.text("X-GitHub-Delivery"), DELIVERY_ID);
    assert_eq!(request.text("X-Message"), MESSAGE_ID);
    assert_eq!(request.text("X-GitHub-Event"), "user.created");
    assert_eq!(request.text("X-Sent-At"), NOW.to_string());
}

#[test]
fn all_profiles_at_once_verify_each_on_its_own() {
    for secret in [SECRET, PLAIN_SECRET] {
        let request = Request::signed(&[secret], &SIGNING_PROFILES, NOW, BODY);
        for profile in SIGNING_PROFILES {
            assert_eq!(request.verify(&[secret], profile), Ok(0), "{profile}");
            assert!(request.verify(&[OTHER_SECRET], profile).is_err(), "{profile}");
        }
    }
}

#[test]
fn a_plain_secret_keys_every_form_with_the_bytes_of_its_text() {
    let text = PLAIN_SECRET.strip_prefix("plain:").unwrap();
    let secret: signature::SharedSecret = PLAIN_SECRET.parse().unwrap();
    let request = Request::signed(&[PLAIN_SECRET], &SIGNING_PROFILES, NOW, BODY);
    // Libraries of Standard Webhooks decode base64, and are given the same bytes.
    for profile in &SIGNING_PROFILES[..2] {
        assert_eq!(request.verify(&[&secret.reveal_encoded()], profile), Ok(0), "{profile}");
    }
    // The others take the text, which could itself begin like an encoded secret.
    let looks_encoded = format!("plain:{SECRET}");
    let request = Request::signed(&[&looks_encoded], &SIGNING_PROFILES, NOW, BODY);
    for profile in &SIGNING_PROFILES[2..] {
        assert_eq!(request.verify(&[SECRET], profile), Ok(0), "{profile}");
    }
    assert!(request.verify(&[SECRET], "svix").is_err());
    assert!(request.verify(&[&format!("plain:{text}")], "svix").is_err());
}

#[test]
fn the_svix_headers_are_twins_of_the_standard_ones() {
    let request = Request::signed(&[SECRET], &["standard-webhooks", "svix"], NOW, BODY);
    for part in ["id", "timestamp", "signature"] {
        assert_eq!(request.text(&format!("svix-{part}")), request.text(&format!("webhook-{part}")));
    }
}

#[test]
fn during_a_rotation_old_and_new_secret_both_fit() {
    for profile in ["standard-webhooks", "svix", "timestamped:Stripe-Signature", "branded:Acme"] {
        let request = Request::signed(&[OTHER_SECRET, SECRET], &[profile], NOW, BODY);
        assert_eq!(request.verify(&[SECRET], profile), Ok(0));
        assert_eq!(request.verify(&[OTHER_SECRET], profile), Ok(0));
        // The receiver rotates as well, and is told which of its secrets still serves.
        let request = Request::signed(&[SECRET], &[profile], NOW, BODY);
        assert_eq!(request.verify(&[OTHER_SECRET, SECRET], profile), Ok(1));
    }
}

#[test]
fn a_form_with_room_for_one_signature_is_made_with_the_newest_secret_alone() {
    for profile in &SIGNING_PROFILES[4..] {
        let request = Request::signed(&[OTHER_SECRET, SECRET], &[profile], NOW, BODY);
        assert_eq!(request.verify(&[OTHER_SECRET], profile), Ok(0), "{profile}");
        assert!(request.verify(&[SECRET], profile).is_err(), "{profile}");
        // The newest may be of a kind that the form has no use for.
        let request = Request::signed(&[PRIVATE_KEY, SECRET], &[profile], NOW, BODY);
        assert_eq!(request.verify(&[SECRET], profile), Ok(0), "{profile}");
    }
}

#[test]
fn one_form_under_several_names_holds_the_same_signature() {
    let texts = ["timestamped:X-A", "timestamped:X-B", "digest:X-C", "digest-hex:X-D"];
    let request = Request::signed(&[OTHER_SECRET, SECRET], &texts, NOW, BODY);
    assert_eq!(request.text("X-A"), request.text("X-B"));
    assert_eq!(request.text("X-C").strip_prefix("sha256="), Some(request.text("X-D")));
}

#[test]
fn shared_secrets_and_private_keys_sign_side_by_side() {
    let secrets = [PRIVATE_KEY, SECRET];
    let request = Request::signed(&secrets, &["standard-webhooks", "branded:Acme"], NOW, BODY);
    assert!(request.text("webhook-signature").starts_with("v1a,"));
    assert_eq!(request.verify(&[PUBLIC_KEY], "standard-webhooks"), Ok(0));
    assert_eq!(request.verify(&[SECRET], "standard-webhooks"), Ok(0));
    assert_eq!(request.verify(&[SECRET], "branded:Acme"), Ok(0));
}

#[test]
fn a_setup_that_would_sign_nothing_is_refused() {
    let refused = |secrets: &[&str], profiles: &[&str]| match signer(secrets, profiles) {
        Err(Error::Setup(fault)) => fault,
        other => panic!("{other:?} was not refused"),
    };
    assert_eq!(refused(&[], &["svix"]), SetupFault::NoSecret);
    assert_eq!(refused(&[SECRET; 17], &["svix"]), SetupFault::TooManySecrets(17));
    assert_eq!(refused(&[SECRET], &[]), SetupFault::NothingSigned);
    assert_eq!(refused(&[SECRET], &["event-id"]), SetupFault::NothingSigned);
    assert_eq!(
        refused(&[PRIVATE_KEY], &["svix", "webhook-digest"]),
        SetupFault::NeedsSharedSecret("webhook-digest".to_owned())
    );
    let twice = refused(&[SECRET], &["branded:Webhook", "webhook-digest"]);
    assert_eq!(
        twice.to_string(),
        "the profiles `branded:Webhook` and `webhook-digest` both write the header \
         X-Webhook-Signature: keep one of them"
    );
    assert_eq!(refused(&[SECRET], &["branded"]), SetupFault::NeedsBrand);
}

#[test]
fn values_that_would_break_a_header_or_a_signature_are_refused() {
    let signer = signer(&[SECRET], &["standard-webhooks", "webhook-digest"]).unwrap();
    let good = Attempt {
        message_id: MESSAGE_ID,
        delivery_id: DELIVERY_ID,
        event_type: "user.created",
        timestamp: NOW,
        body: BODY,
    };
    let long = "a".repeat(257);
    let attempts = [
        (Attempt { message_id: "a.b", ..good }, "message id", ValueFault::FullStop),
        (Attempt { message_id: "", ..good }, "message id", ValueFault::Empty),
        (Attempt { message_id: &long, ..good }, "message id", ValueFault::TooLong(256)),
        (
            Attempt { delivery_id: "a\r\nHost: b", ..good },
            "delivery id",
            ValueFault::NotVisibleAscii,
        ),
        (Attempt { event_type: "ä", ..good }, "event type", ValueFault::NotVisibleAscii),
        (Attempt { timestamp: -1, ..good }, "timestamp", ValueFault::NotATimestamp),
    ];
    for (attempt, field, fault) in attempts {
        assert_eq!(signer.headers(&attempt), Err(Error::Attempt { field, fault }));
    }
    assert!(signer.headers(&good).is_ok());
    assert!(signer.headers(&Attempt { message_id: &long[1..], ..good }).is_ok());
}

#[test]
fn sixteen_secrets_stay_within_what_a_verifier_takes() {
    let keys: Vec<String> = (0..16u8)
        .map(|n| signature::PrivateKey::from_random(&[n; 32]).reveal().to_string())
        .collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let public = signature::PrivateKey::from_random(&[15; 32]).public_key().to_string();
    let request = Request::signed(&keys, &["svix"], NOW, BODY);
    assert_eq!(request.verify(&[&public], "svix"), Ok(0));

    let request = Request::signed(&[SECRET; 16], &["branded:Acme"], NOW, BODY);
    assert_eq!(request.verify(&[SECRET], "branded:Acme"), Ok(0));
}
