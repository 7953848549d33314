//! Signs and verifies webhooks, for senders and receivers alike.
//!
//! A sender makes one [`Signer`] per endpoint, from the endpoint's secrets and the [`Profile`]s its
//! owner chose, and asks it for the headers of every [`Attempt`]. A receiver makes one [`Verifier`],
//! from the secrets it was given and the profile it expects, and shows it every request.
//!
//! ```
//! use signature::{Attempt, Profile, Signer, SigningSecret, Verifier, VerifyingSecret};
//!
//! // The sender.
//! let secret: SigningSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD".parse()?;
//! let signer = Signer::new(&[secret], &[Profile::StandardWebhooks])?;
//! let body = br#"{"email":"test@example.com","username":"test_user"}"#;
//! let headers = signer.headers(&Attempt {
//!     message_id: "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
//!     delivery_id: "dlv_27UH4WbU6Z5A5EzD8u03UvzRbpk",
//!     event_type: "user.created",
//!     timestamp: 1_649_367_553,
//!     body,
//! })?;
//! assert_eq!(headers[2].name, "webhook-signature");
//! assert_eq!(headers[2].value, "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=");
//!
//! // The receiver, three seconds later.
//! let secret: VerifyingSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD".parse()?;
//! let verifier = Verifier::new(&[secret], &Profile::StandardWebhooks)?;
//! let header = |name: &str| {
//!     headers.iter().find(|header| header.name == name).map(|header| header.value.as_bytes())
//! };
//! let verified = verifier.verify(header, body, 1_649_367_556)?;
//! assert_eq!(verified.message_id, Some("msg_27UH4WbU6Z5A5EzD8u03UvzRbpk"));
//!
//! // Anything else is refused, with a reason for the log.
//! let error = verifier.verify(header, b"{}", 1_649_367_556).unwrap_err();
//! assert!(error.to_string().starts_with("no signature fits: the secret is not the one"));
//! # Ok::<(), signature::Error>(())
//! ```
//!
//! # Which forms there are
//!
//! | text | headers | hashed |
//! |---|---|---|
//! | `standard-webhooks` | `webhook-id`, `webhook-timestamp`, `webhook-signature: v1,<base64>` | `id.timestamp.body` |
//! | `svix` | the same as `svix-…` | `id.timestamp.body` |
//! | `timestamped:<Header>` | `<Header>: t=<unix>,v1=<hex>` | `timestamp.body` |
//! | `branded:<Brand>` | the same as `X-<Brand>-Signature`, and `X-<Brand>-Delivery` | `timestamp.body` |
//! | `v0:<Header>:<Timestamp-Header>` | `<Header>: v0=<hex>`, `<Timestamp-Header>: <unix>` | `v0:timestamp:body` |
//! | `digest:<Header>` | `<Header>: sha256=<hex>` | `body` |
//! | `digest-hex:<Header>` | `<Header>: <hex>` | `body` |
//! | `digest-base64:<Header>` | `<Header>: <base64>` | `body` |
//! | `webhook-digest` | `X-Webhook-Signature: sha256=<hex>`, `X-Webhook-ID`, `X-Webhook-Event`, `X-Webhook-Timestamp` | `body` |
//!
//! Beside one of these, companions tell more about an attempt: `delivery-id:<Header>`,
//! `message-id:<Header>`, `event-type:<Header>`, `timestamp:<Header>`, and `event-id`, which is
//! `message-id:X-Event-Id`.
//!
//! A receiver that was made for another sender is verified in the same way. This is GitHub's published
//! example:
//!
//! ```
//! use signature::{Profile, Verifier, VerifyingSecret};
//!
//! let secret: VerifyingSecret = "plain:It's a Secret to Everybody".parse()?;
//! let profile: Profile = "digest:X-Hub-Signature-256".parse()?;
//! let verifier = Verifier::new(&[secret], &profile)?;
//! let header = |name: &str| {
//!     assert_eq!(name, "X-Hub-Signature-256");
//!     Some(&b"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"[..])
//! };
//! assert!(verifier.verify(header, b"Hello, World!", 1_649_367_553).is_ok());
//! # Ok::<(), signature::Error>(())
//! ```
//!
//! # What the hash is keyed with
//!
//! A shared secret looks like `whsec_<base64>`. Standard Webhooks decode the base64 and use the bytes.
//! The other forms use the text as it is shown, `whsec_` included, because that is what the libraries
//! of their inventors do with the secret they are given: Stripe's for `t=…,v1=…`, GitHub's Octokit for
//! `sha256=…`. So a receiver pastes the same text into whatever library it has.
//!
//! A secret that receivers have already is `plain:<text>`. Its bytes, without the mark, are the key of
//! every form. Libraries of Standard Webhooks decode what they are given, so they take it as
//! [`SharedSecret::reveal_encoded`] shows it.
//!
//! # Layout
//!
//! - `secret`, `key_pair`: the secrets and their texts
//! - `profile`, `profiles`, `header_name`, `attempt`: which headers there are, and what they are made
//!   from
//! - `signer`: from an attempt to its headers
//! - `verifier`: from a request to an answer; `claim` reads the headers, `diagnosis` looks for reasons
//! - `mac`, `timestamp`: the two building blocks that both sides share
//! - [`limits`]: how much of everything there may be
//!
//! **Invariant:** there is neither a clock nor randomness in here; both are arguments.

mod attempt;
mod claim;
mod diagnosis;
mod error;
mod header_name;
mod key_pair;
pub mod limits;
mod mac;
mod profile;
mod profiles;
mod secret;
mod signer;
mod timestamp;
mod verifier;

pub use attempt::{Attempt, Header};
pub use diagnosis::Suspicion;
pub use error::{Error, SecretFault, SetupFault, ValueFault};
pub use header_name::{HeaderName, comparable, is_reserved};
pub use key_pair::{PrivateKey, PublicKey};
pub use profile::{Brand, Companion, DigestForm, Profile};
pub use profiles::Profiles;
pub use secret::{SharedSecret, SigningSecret, VerifyingSecret};
pub use signer::Signer;
pub use verifier::{DEFAULT_TOLERANCE, Verified, Verifier};
