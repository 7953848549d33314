//! Feeds secrets, headers and bodies of any kind to parsing and verifying.
//!
//! Two things must hold: nothing panics, and whatever is accepted was signed. The second is checked
//! by signing anew what was accepted: that signature has to be in the header. To get that far at all,
//! some inputs have a genuine signature put among their own bytes.

#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use signature::{Attempt, Profile, Signer, SigningSecret, Verifier, VerifyingSecret};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    secret: Secret<'a>,
    profile: Form<'a>,
    message_id: &'a [u8],
    timestamp: Time<'a>,
    before: &'a [u8],
    genuine: bool,
    after: &'a [u8],
    /// Put behind the body after it was signed.
    appended: &'a [u8],
    body: &'a [u8],
    now: i64,
}

#[derive(Arbitrary, Debug)]
enum Secret<'a> {
    Shared,
    Plain,
    Private,
    Text(&'a str),
}

#[derive(Arbitrary, Debug)]
enum Form<'a> {
    Standard,
    Svix,
    Branded,
    Timestamped,
    V0,
    WebhookDigest,
    Digest,
    DigestHex,
    DigestBase64,
    Text(&'a str),
}

#[derive(Arbitrary, Debug)]
enum Time<'a> {
    Now,
    Text(&'a [u8]),
}

impl Form<'_> {
    fn profile(&self) -> Option<Profile> {
        let text = match self {
            Self::Standard => "standard-webhooks",
            Self::Svix => "svix",
            Self::Branded => "branded:Acme",
            Self::Timestamped => "timestamped:Stripe-Signature",
            Self::V0 => "v0:X-Slack-Signature:X-Slack-Request-Timestamp",
            Self::WebhookDigest => "webhook-digest",
            Self::Digest => "digest:X-Hub-Signature-256",
            Self::DigestHex => "digest-hex:Linear-Signature",
            Self::DigestBase64 => "digest-base64:X-Shopify-Hmac-Sha256",
            Self::Text(text) => text,
        };
        let profile: Profile = text.parse().ok()?;
        assert_eq!(profile.to_string(), text);
        Some(profile)
    }
}

impl Secret<'_> {
    /// The sender's and the receiver's secret; the sender's is not known for a public key.
    fn pair(&self) -> Option<(Option<SigningSecret>, VerifyingSecret)> {
        let text = match self {
            Self::Shared => "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
            Self::Plain => "plain:It's a Secret to Everybody",
            Self::Private => {
                "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
            }
            Self::Text(text) => text,
        };
        match text.parse::<SigningSecret>() {
            Ok(secret) => {
                assert_eq!(secret.reveal().as_str(), text);
                let verifying = secret.for_receiver();
                Some((Some(secret), verifying))
            }
            Err(_) => text.parse().ok().map(|verifying| (None, verifying)),
        }
    }
}

/// What the signature header would be, if the values can be signed.
fn sign(signer: &Signer, message_id: &str, timestamp: i64, body: &[u8]) -> Option<String> {
    let attempt = Attempt { message_id, delivery_id: "dlv_1", event_type: "test", timestamp, body };
    let headers = signer.headers(&attempt).ok()?;
    let signature =
        headers.into_iter().find(|header| is_signature(header.name))?.value.into_owned();
    Some(signature)
}

fn is_signature(name: &str) -> bool {
    !name.ends_with("-id") && !name.to_ascii_lowercase().ends_with("-timestamp")
}

fuzz_target!(|input: Input<'_>| {
    let Some(profile) = input.profile.profile() else { return };
    let Some((signing, verifying)) = input.secret.pair() else { return };
    let signer = signing.and_then(|secret| Signer::new(&[secret], &[profile.clone()]).ok());
    let Ok(verifier) = Verifier::new(&[verifying], &profile) else { return };

    let mut value = input.before.to_vec();
    if let (true, Some(signer), Ok(id)) = (input.genuine, &signer, str::from_utf8(input.message_id))
    {
        value.extend(sign(signer, id, input.now, input.body).unwrap_or_default().bytes());
    }
    value.extend(input.after);
    let now = input.now.to_string();
    let timestamp = match input.timestamp {
        Time::Now => now.as_bytes(),
        Time::Text(text) => text,
    };
    let body = [input.body, input.appended].concat();

    let header = |name: &str| {
        Some(match name {
            "webhook-id" | "svix-id" => input.message_id,
            "webhook-timestamp" | "svix-timestamp" | "X-Slack-Request-Timestamp" => timestamp,
            _ => value.as_slice(),
        })
    };
    if let Ok(verified) = verifier.verify(header, &body, input.now) {
        let signer = signer.expect("nobody can sign for a public key alone");
        let id = verified.message_id.unwrap_or("unsigned");
        let again = sign(&signer, id, verified.timestamp.unwrap_or(0), &body)
            .expect("what was accepted can be signed");
        // `t=…,v1=…` holds its time and its hash apart from each other.
        for part in again.split(",v1=") {
            let found = value.windows(part.len()).any(|window| window == part.as_bytes());
            assert!(found, "accepted without {part} in the header");
        }
    }
});
