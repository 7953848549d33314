//! What a receiver refuses, and what it tells the developer who has to find out why.

use signature::{Error, SecretFault, SetupFault, Suspicion, ValueFault, VerifyingSecret};

use crate::request::{
    BODY, NOW, OTHER_SECRET, PLAIN_SECRET, PRIVATE_KEY, PUBLIC_KEY, Request, SECRET, verifier,
};

fn standard() -> Request {
    Request::usual("standard-webhooks")
}

fn refused(request: &Request) -> Error {
    request.verify(&[SECRET], "standard-webhooks").unwrap_err()
}

fn malformed(name: &str, fault: ValueFault) -> Error {
    Error::MalformedHeader { name: name.to_owned(), fault }
}

#[test]
fn a_missing_header_is_named() {
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        assert_eq!(
            refused(&standard().without(name)),
            Error::MissingHeader { name: name.to_owned() }
        );
    }
    let v0 = "v0:X-Slack-Signature:X-Slack-Request-Timestamp";
    for (profile, name) in [
        ("branded:Acme", "X-Acme-Signature"),
        ("timestamped:Stripe-Signature", "Stripe-Signature"),
        ("webhook-digest", "X-Webhook-Signature"),
        ("digest-base64:X-Shopify-Hmac-Sha256", "X-Shopify-Hmac-Sha256"),
        (v0, "X-Slack-Request-Timestamp"),
    ] {
        assert_eq!(
            standard().verify(&[SECRET], profile),
            Err(Error::MissingHeader { name: name.to_owned() })
        );
    }
    let request = Request::usual(v0).without("X-Slack-Signature");
    let missing = Error::MissingHeader { name: "X-Slack-Signature".to_owned() };
    assert_eq!(request.verify(&[SECRET], v0), Err(missing));
}

#[test]
fn an_empty_signature_is_never_accepted() {
    for value in ["v1,", "v1", ",", "v1a,", "v1, v1,", " ", "v1,=", "v1,\0"] {
        let request = standard().set("webhook-signature", value);
        assert!(request.verify(&[SECRET, PUBLIC_KEY], "standard-webhooks").is_err(), "{value:?}");
    }
    for value in ["t=1649367553,v1=", "t=1649367553", "v1=", "t=,v1=", ""] {
        let request = standard().set("X-Acme-Signature", value);
        assert!(request.verify(&[SECRET], "branded:Acme").is_err(), "{value:?}");
    }
    for value in ["sha256=", "sha256", "", "sha1="] {
        let request = standard().set("X-Webhook-Signature", value);
        assert!(request.verify(&[SECRET], "webhook-digest").is_err(), "{value:?}");
    }
    for value in ["v0=", "v0", "", "v1="] {
        let profile = "v0:X-Sig:X-At";
        let request = Request::usual(profile).set("X-Sig", value);
        assert!(request.verify(&[SECRET], profile).is_err(), "{value:?}");
    }
    for profile in ["digest-hex:X-Sig", "digest-base64:X-Sig"] {
        for value in ["", " ", "sha256=", "="] {
            let request = Request::usual(profile).set("X-Sig", value);
            assert!(request.verify(&[SECRET], profile).is_err(), "{profile} {value:?}");
        }
    }
}

#[test]
fn one_form_is_never_taken_for_another() {
    // The same hash of the body, or of time and body, in another notation or over another text.
    for (signed, value_of) in [
        ("digest:X-Sig", "X-Sig"),
        ("digest-hex:X-Sig", "X-Sig"),
        ("digest-base64:X-Sig", "X-Sig"),
        ("timestamped:X-Sig", "X-Sig"),
        ("v0:X-Sig:X-At", "X-Sig"),
        ("standard-webhooks", "webhook-signature"),
    ] {
        let value = Request::usual(signed).text(value_of).to_owned();
        for expected in [
            "digest:X-Sig",
            "digest-hex:X-Sig",
            "digest-base64:X-Sig",
            "timestamped:X-Sig",
            "v0:X-Sig:X-At",
        ] {
            let request = standard().set("X-At", NOW.to_string()).set("X-Sig", &value);
            let verified = request.verify(&[SECRET], expected);
            assert_eq!(verified.is_ok(), signed == expected, "{signed} as {expected}");
        }
    }
}

#[test]
fn a_part_of_a_signature_is_never_accepted() {
    let request = standard();
    let whole = request.text("webhook-signature").to_owned();
    for end in 0..whole.len() {
        let cut = request.clone().set("webhook-signature", &whole[..end]);
        assert!(cut.verify(&[SECRET], "standard-webhooks").is_err(), "{}", &whole[..end]);
    }
    assert!(
        refused(&request.set("webhook-signature", whole + "="))
            .to_string()
            .contains("no signature")
    );
}

#[test]
fn a_garbled_timestamp_is_named() {
    for value in
        ["", "now", "1649367553.5", "+1649367553", " 1649367553", "-1", "99999999999999999999"]
    {
        assert_eq!(
            refused(&standard().set("webhook-timestamp", value)),
            malformed("webhook-timestamp", ValueFault::NotATimestamp)
        );
    }
    assert_eq!(
        refused(&standard().set("webhook-timestamp", "1649367553000")),
        malformed("webhook-timestamp", ValueFault::Milliseconds)
    );
}

#[test]
fn an_old_or_early_request_is_refused_with_how_far_off_it_is() {
    for profile in ["standard-webhooks", "branded:Acme", "v0:X-Sig:X-At"] {
        let request = Request::usual(profile);
        assert_eq!(request.verify_at(&[SECRET], profile, NOW + 300), Ok(0));
        assert_eq!(request.verify_at(&[SECRET], profile, NOW - 300), Ok(0));
        let late = request.verify_at(&[SECRET], profile, NOW + 301).unwrap_err();
        assert_eq!(late, Error::TooOld { seconds: 301, tolerance: 300 });
        assert!(late.to_string().contains("clock"), "{late}");
        let early = request.verify_at(&[SECRET], profile, NOW - 301).unwrap_err();
        assert_eq!(early, Error::TooNew { seconds: 301, tolerance: 300 });
    }
}

#[test]
fn the_tolerance_is_the_callers() {
    let request = standard();
    let verifier = verifier(&[SECRET], "standard-webhooks")
        .unwrap()
        .with_tolerance(std::time::Duration::from_secs(10));
    let at = |now| verifier.verify(|name| request.header(name), BODY, now).is_ok();
    assert!(at(NOW + 10));
    assert!(!at(NOW + 11));
}

#[test]
fn a_text_cut_elsewhere_is_refused_though_its_signature_fits() {
    // The content signed is "<id>.<time>.<body>"; with the body below it can be cut in two ways.
    let body = format!(r#"{{"note":".{NOW}.forged"}}"#);
    let request = Request::signed(&[SECRET], &["standard-webhooks"], NOW, body.as_bytes());
    let id = format!("{}.{NOW}.{{\"note\":\"", request.text("webhook-id"));
    let request = request.set("webhook-id", id).with_body("forged\"}");
    assert_eq!(refused(&request), malformed("webhook-id", ValueFault::FullStop));
}

#[test]
fn signatures_of_another_kind_are_told_apart_from_wrong_ones() {
    let by_private_key = Request::signed(&[PRIVATE_KEY], &["svix"], NOW, BODY);
    let error = by_private_key.verify(&[SECRET], "svix").unwrap_err();
    assert!(error.to_string().contains("plain:) cannot check"), "{error}");
    let error = Request::usual("svix").verify(&[PUBLIC_KEY], "svix").unwrap_err();
    assert!(error.to_string().contains("whpk_) cannot check"), "{error}");
    let error = refused(&standard().set("webhook-signature", "v2,abc"));
    assert!(error.to_string().contains("neither v1, nor v1a"), "{error}");
}

#[test]
fn unknown_versions_beside_a_good_signature_do_no_harm() {
    let request = standard();
    let value = format!("v2,abc x v1,AAAA {}", request.text("webhook-signature"));
    assert_eq!(
        request.set("webhook-signature", value).verify(&[SECRET], "standard-webhooks"),
        Ok(0)
    );
    let request = Request::usual("branded:Acme");
    let value = format!("{},v0=abc", request.text("X-Acme-Signature"));
    assert_eq!(request.set("X-Acme-Signature", value).verify(&[SECRET], "branded:Acme"), Ok(0));
}

#[test]
fn two_times_in_a_branded_header_are_refused() {
    let request = Request::usual("branded:Acme");
    let value = format!("t={NOW},{}", request.text("X-Acme-Signature"));
    assert_eq!(
        request.set("X-Acme-Signature", value).verify(&[SECRET], "branded:Acme"),
        Err(malformed("X-Acme-Signature", ValueFault::NotOfForm("t=<unix time>,v1=<hex>")))
    );
}

#[test]
fn too_many_signatures_and_too_long_headers_are_refused_even_if_one_fits() {
    let request = standard();
    let good = request.text("webhook-signature").to_owned();
    let many = format!("{good}{}", " v9,x".repeat(16));
    assert_eq!(
        refused(&request.clone().set("webhook-signature", many)),
        malformed("webhook-signature", ValueFault::TooManySignatures(16))
    );
    let longest = format!("{good} v9,{}", "x".repeat(4096 - good.len() - 4));
    let within = request.clone().set("webhook-signature", &longest);
    assert_eq!(within.verify(&[SECRET], "standard-webhooks"), Ok(0));
    let long = longest + "x";
    assert_eq!(
        refused(&request.set("webhook-signature", long)),
        malformed("webhook-signature", ValueFault::TooLong(4096))
    );
    let request = Request::usual("branded:Acme");
    let many = format!("{}{}", request.text("X-Acme-Signature"), ",v0=x".repeat(16));
    assert_eq!(
        request.set("X-Acme-Signature", many).verify(&[SECRET], "branded:Acme"),
        Err(malformed("X-Acme-Signature", ValueFault::TooManySignatures(16)))
    );
}

#[test]
fn a_changed_body_is_suspected_where_it_can_be_shown() {
    for profile in ["standard-webhooks", "branded:Acme", "v0:X-Sig:X-At", "webhook-digest"] {
        let suspicion = |signed: &[u8], received: &[u8]| {
            let request = Request::signed(&[SECRET], &[profile], NOW, signed).with_body(received);
            match request.verify(&[OTHER_SECRET, SECRET], profile) {
                Err(Error::Mismatch(suspicion)) => suspicion,
                other => panic!("{other:?} is not a mismatch"),
            }
        };
        assert_eq!(suspicion(b"{}", b"{}\n"), Suspicion::WhitespaceAdded);
        assert_eq!(suspicion(b"{}", b"\n {} \r\n"), Suspicion::WhitespaceAdded);
        assert_eq!(suspicion(b" {}", b" {}\n"), Suspicion::WhitespaceAdded);
        assert_eq!(suspicion(b"{}\n", b"{}"), Suspicion::LineBreakRemoved);
        assert_eq!(suspicion(b"{}\r\n", b"{}"), Suspicion::LineBreakRemoved);
        assert_eq!(suspicion(b"{}", b""), Suspicion::BodyEmpty);
        assert_eq!(suspicion(br#"{"a": 1}"#, br#"{"a":1}"#), Suspicion::SecretOrBody);
    }
}

#[test]
fn a_large_body_is_not_hashed_again_for_a_suspicion() {
    let large = vec![b'a'; 256 * 1024];
    let request =
        Request::signed(&[SECRET], &["svix"], NOW, &large).with_body([&large[..], b"\n"].concat());
    assert_eq!(request.verify(&[SECRET], "svix"), Err(Error::Mismatch(Suspicion::SecretOrBody)));
}

#[test]
fn private_and_public_keys_are_kept_apart() {
    assert!(matches!(
        PRIVATE_KEY.parse::<VerifyingSecret>(),
        Err(Error::Secret(SecretFault::NotForReceivers))
    ));
    assert!(matches!(
        verifier(&[PUBLIC_KEY], "webhook-digest"),
        Err(Error::Setup(SetupFault::NeedsSharedSecret(_)))
    ));
    for companion in ["event-id", "timestamp:X-At"] {
        let refused = verifier(&[SECRET], companion).unwrap_err();
        assert_eq!(refused, Error::Setup(SetupFault::NothingSigned));
    }
    let refused = verifier(&[SECRET], "branded").unwrap_err();
    assert_eq!(refused, Error::Setup(SetupFault::NeedsBrand));
}

#[test]
fn nothing_printed_holds_a_secret() {
    let encoded = SECRET.trim_start_matches("whsec_");
    let signer = crate::request::signer(&[SECRET], &["svix", "webhook-digest"]).unwrap();
    let verifier = verifier(&[SECRET], "svix").unwrap();
    let error = standard().verify(&[OTHER_SECRET], "standard-webhooks").unwrap_err();
    let plain = crate::request::verifier(&[PLAIN_SECRET], "digest:X-Sig").unwrap();
    let plain = format!("{plain:?} {:?}", PLAIN_SECRET.parse::<VerifyingSecret>().unwrap());
    assert!(!plain.contains(&PLAIN_SECRET[6..20]), "{plain}");
    let printed = format!("{signer:?} {verifier:?} {error:?} {error}");
    assert!(printed.contains("secrets: 1") && printed.contains("MacKey(…)"), "{printed}");
    assert!(!printed.contains(encoded), "{printed}");
}
