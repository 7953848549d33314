//! The judgement of the crates `standardwebhooks` and `svix`, in both directions.

use http::{HeaderMap, HeaderName, HeaderValue};
use signature::{Error, Suspicion};

use crate::request::{BODY, MESSAGE_ID, OTHER_SECRET, PRIVATE_KEY, Request, SECRET};

/// The oracles look at the clock themselves and cannot be told another time.
#[expect(clippy::disallowed_methods, reason = "the oracles compare with the real time")]
pub(crate) fn now() -> i64 {
    let elapsed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(elapsed.as_secs()).unwrap()
}

fn header_map(request: &Request) -> HeaderMap {
    request
        .headers
        .iter()
        .map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            (name, HeaderValue::from_bytes(value).unwrap())
        })
        .collect()
}

#[test]
fn the_crate_standardwebhooks_accepts_what_is_signed_here() {
    let oracle = standardwebhooks::Webhook::new(SECRET).unwrap();
    for secrets in [&[SECRET][..], &[OTHER_SECRET, SECRET], &[PRIVATE_KEY, SECRET]] {
        let request = Request::signed(secrets, &["standard-webhooks"], now(), BODY);
        assert!(oracle.verify(BODY, &header_map(&request)).is_ok());
        assert!(oracle.verify(b"{}", &header_map(&request)).is_err());
    }
}

#[test]
fn the_crate_svix_accepts_what_is_signed_here() {
    let oracle = svix::webhooks::Webhook::new(SECRET).unwrap();
    for profile in ["standard-webhooks", "svix"] {
        for secrets in [&[SECRET][..], &[OTHER_SECRET, SECRET], &[PRIVATE_KEY, SECRET]] {
            let request = Request::signed(secrets, &[profile], now(), BODY);
            assert!(oracle.verify(BODY, &header_map(&request)).is_ok());
            assert!(oracle.verify(b"{}", &header_map(&request)).is_err());
        }
    }
}

#[test]
fn what_both_crates_sign_is_accepted_here() {
    let timestamp = now();
    let standard = standardwebhooks::Webhook::new(SECRET).unwrap();
    let svix = svix::webhooks::Webhook::new(SECRET).unwrap();
    for signature in [
        standard.sign(MESSAGE_ID, timestamp, BODY).unwrap(),
        svix.sign(MESSAGE_ID, timestamp, BODY).unwrap(),
    ] {
        for (profile, prefix) in [("standard-webhooks", "webhook"), ("svix", "svix")] {
            let request = Request { headers: Vec::new(), body: BODY.to_vec() }
                .set(&format!("{prefix}-id"), MESSAGE_ID)
                .set(&format!("{prefix}-timestamp"), timestamp.to_string())
                .set(&format!("{prefix}-signature"), &signature);
            assert_eq!(request.verify_at(&[SECRET], profile, timestamp), Ok(0));
        }
    }
}

#[test]
fn a_signer_that_forgot_to_decode_the_secret_is_suspected_and_still_refused() {
    let timestamp = now();
    for key in [SECRET, SECRET.trim_start_matches("whsec_")] {
        let careless = svix::webhooks::Webhook::from_bytes(key.into()).unwrap();
        let request = Request::signed(&[SECRET], &["svix"], timestamp, BODY)
            .set("svix-signature", careless.sign(MESSAGE_ID, timestamp, BODY).unwrap());
        assert_eq!(
            request.verify_at(&[OTHER_SECRET, SECRET], "svix", timestamp),
            Err(Error::Mismatch(Suspicion::SecretUsedAsText))
        );
    }
}
