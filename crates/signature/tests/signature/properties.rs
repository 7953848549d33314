//! What holds for every secret, id, time and body.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use signature::{
    Attempt, Error, PrivateKey, Profile, SharedSecret, Signer, SigningSecret, Verifier,
};

use crate::request::{Request, SIGNING_PROFILES};

#[derive(Debug)]
struct Case {
    secret: SigningSecret,
    profile: Profile,
    message_id: String,
    timestamp: i64,
    body: Vec<u8>,
}

impl Case {
    fn sign(&self) -> Request {
        let signer =
            Signer::new(std::slice::from_ref(&self.secret), std::slice::from_ref(&self.profile))
                .unwrap();
        let attempt = Attempt {
            message_id: &self.message_id,
            delivery_id: "dlv_1",
            event_type: "user.created",
            timestamp: self.timestamp,
            body: &self.body,
        };
        let headers = signer
            .headers(&attempt)
            .unwrap()
            .into_iter()
            .map(|header| (header.name.to_owned(), header.value.into_owned().into_bytes()))
            .collect();
        Request { headers, body: self.body.clone() }
    }

    fn verify(&self, request: &Request) -> Result<(), Error> {
        let verifier = Verifier::new(&[self.secret.for_receiver()], &self.profile).unwrap();
        verifier.verify(|name| request.header(name), &request.body, self.timestamp).map(|_| ())
    }
}

fn shared_secret() -> impl Strategy<Value = SigningSecret> {
    proptest::collection::vec(any::<u8>(), 24..=75)
        .prop_map(|bytes| SigningSecret::Shared(SharedSecret::from_random(&bytes).unwrap()))
}

fn plain_secret() -> impl Strategy<Value = SigningSecret> {
    "plain:[!-~][ -~]{14,254}[!-~]".prop_map(|text| text.parse().unwrap())
}

fn private_key() -> impl Strategy<Value = SigningSecret> {
    any::<[u8; 32]>().prop_map(|bytes| SigningSecret::Private(PrivateKey::from_random(&bytes)))
}

fn case() -> impl Strategy<Value = Case> {
    let secret_and_profile = prop_oneof![
        4 => (shared_secret(), select(&SIGNING_PROFILES[..])),
        2 => (plain_secret(), select(&SIGNING_PROFILES[..])),
        1 => (private_key(), select(&SIGNING_PROFILES[..2])),
    ];
    let body = proptest::collection::vec(any::<u8>(), 0..300);
    (secret_and_profile, "[!-\\-/-~]{1,64}", 0..=i64::MAX, body).prop_map(
        |((secret, profile), message_id, timestamp, body)| Case {
            secret,
            profile: profile.parse().unwrap(),
            message_id,
            timestamp,
            body,
        },
    )
}

/// Flips one bit of a text that is not empty.
fn flip(text: &mut [u8], at: Index) {
    let bit = at.index(text.len() * 8);
    text[bit / 8] ^= 1 << (bit % 8);
}

/// Which of a request's headers its signature depends on.
fn signed_headers(request: &Request) -> Vec<usize> {
    let unsigned = ["X-Acme-Delivery", "X-Webhook-ID", "X-Webhook-Event", "X-Webhook-Timestamp"];
    (0..request.headers.len())
        .filter(|index| !unsigned.contains(&request.headers[*index].0.as_str()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_signed_verifies(case in case()) {
        prop_assert_eq!(case.verify(&case.sign()), Ok(()));
    }

    #[test]
    fn a_secret_survives_being_written_down(case in case()) {
        let text = case.secret.reveal();
        let again: SigningSecret = text.parse().unwrap();
        prop_assert_eq!(again.reveal(), text);
    }

    #[test]
    fn a_flipped_bit_of_the_body_is_refused(case in case(), at in any::<Index>()) {
        prop_assume!(!case.body.is_empty());
        let mut request = case.sign();
        flip(&mut request.body, at);
        prop_assert!(matches!(case.verify(&request), Err(Error::Mismatch(_))));
    }

    #[test]
    fn a_flipped_bit_of_any_signed_header_is_refused(
        case in case(),
        header in any::<Index>(),
        at in any::<Index>(),
    ) {
        let mut request = case.sign();
        let signed = signed_headers(&request);
        let header = *header.get(&signed);
        flip(&mut request.headers[header].1, at);
        prop_assert!(case.verify(&request).is_err());
    }

    #[test]
    fn a_longer_or_shorter_body_is_refused(case in case(), extra in any::<u8>()) {
        let mut request = case.sign();
        request.body.push(extra);
        prop_assert!(case.verify(&request).is_err());
        request.body.truncate(case.body.len().saturating_sub(1));
        prop_assert!(case.body.is_empty() || case.verify(&request).is_err());
    }

    #[test]
    fn another_secret_is_refused(case in case(), other in shared_secret()) {
        let request = case.sign();
        let verifier = Verifier::new(&[other.for_receiver()], &case.profile).unwrap();
        prop_assert!(
            verifier.verify(|name| request.header(name), &request.body, case.timestamp).is_err()
        );
    }

    #[test]
    fn arbitrary_headers_are_refused_without_a_panic(
        case in case(),
        value in proptest::collection::vec(any::<u8>(), 0..200),
        now in any::<i64>(),
    ) {
        let verifier = Verifier::new(&[case.secret.for_receiver()], &case.profile).unwrap();
        prop_assert!(verifier.verify(|_| Some(&value), &case.body, now).is_err());
    }

    #[test]
    fn arbitrary_text_is_parsed_without_a_panic(text in "(whsec_|plain:|whsk_|whpk_)?.{0,120}") {
        if let Ok(secret) = text.parse::<SigningSecret>() {
            prop_assert!(*secret.reveal() == text);
        }
    }

    #[test]
    fn a_profile_that_can_be_read_is_written_as_it_was(
        text in "(branded|timestamped|v0|digest(-hex|-base64)?|(delivery|message)-id|event-type|timestamp)\
                 (:[A-Za-z._-]{0,12}){0,3}"
    ) {
        if let Ok(profile) = text.parse::<Profile>() {
            prop_assert_eq!(profile.to_string(), text);
        }
    }

    #[test]
    fn arbitrary_text_is_no_profile_and_no_panic(text in ".{0,120}") {
        prop_assert!(text.parse::<Profile>().is_err());
    }
}
