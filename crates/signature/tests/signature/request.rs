//! A request as it would travel: signed headers and a body, which a test may then damage.

use signature::{Attempt, Error, Profile, Signer, SigningSecret, Verifier, VerifyingSecret};

pub(crate) const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
/// A secret as an older sender of one's own has it.
pub(crate) const PLAIN_SECRET: &str = "plain:8f742231b10e8888abcd99yyyzzz85a5";
pub(crate) const OTHER_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub(crate) const PRIVATE_KEY: &str =
    "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==";
pub(crate) const PUBLIC_KEY: &str = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=";
pub(crate) const MESSAGE_ID: &str = "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk";
pub(crate) const DELIVERY_ID: &str = "dlv_27UH4WbU6Z5A5EzD8u03UvzRbpk";
pub(crate) const NOW: i64 = 1_649_367_553;
pub(crate) const BODY: &[u8] = br#"{"email":"test@example.com","username":"test_user"}"#;

/// One profile of each form that signs. They write different headers; the first two are Standard
/// Webhooks.
pub(crate) const SIGNING_PROFILES: [&str; 9] = [
    "standard-webhooks",
    "svix",
    "timestamped:Stripe-Signature",
    "branded:Acme",
    "v0:X-Slack-Signature:X-Slack-Request-Timestamp",
    "digest:X-Hub-Signature-256",
    "digest-hex:Linear-Signature",
    "digest-base64:X-Shopify-Hmac-Sha256",
    "webhook-digest",
];
/// One companion of each kind.
pub(crate) const COMPANIONS: [&str; 5] = [
    "event-id",
    "delivery-id:X-GitHub-Delivery",
    "message-id:X-Message",
    "event-type:X-GitHub-Event",
    "timestamp:X-Sent-At",
];

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// Signs the body at a time of the caller's choice.
    pub(crate) fn signed(secrets: &[&str], profiles: &[&str], timestamp: i64, body: &[u8]) -> Self {
        let attempt = Attempt {
            message_id: MESSAGE_ID,
            delivery_id: DELIVERY_ID,
            event_type: "user.created",
            timestamp,
            body,
        };
        let signer = signer(secrets, profiles).unwrap();
        let headers = signer
            .headers(&attempt)
            .unwrap()
            .into_iter()
            .map(|header| (header.name.to_owned(), header.value.into_owned().into_bytes()))
            .collect();
        Self { headers, body: body.to_vec() }
    }

    /// Signs the usual body with the usual secret at the usual time.
    pub(crate) fn usual(profile: &str) -> Self {
        Self::signed(&[SECRET], &[profile], NOW, BODY)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers
            .iter()
            .find(|(candidate, _)| candidate.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_slice())
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        str::from_utf8(self.header(name).unwrap()).unwrap()
    }

    pub(crate) fn set(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.retain(|(candidate, _)| candidate != name);
        self.headers.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(candidate, _)| candidate != name);
        self
    }

    pub(crate) fn with_body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = body.as_ref().to_vec();
        self
    }

    /// Verifies at the usual time; tells which secret fitted.
    pub(crate) fn verify(&self, secrets: &[&str], profile: &str) -> Result<usize, Error> {
        self.verify_at(secrets, profile, NOW)
    }

    pub(crate) fn verify_at(
        &self,
        secrets: &[&str],
        profile: &str,
        now: i64,
    ) -> Result<usize, Error> {
        let verifier = verifier(secrets, profile)?;
        let verified = verifier.verify(|name| self.header(name), &self.body, now)?;
        Ok(verified.secret)
    }
}

pub(crate) fn signer(secrets: &[&str], profiles: &[&str]) -> Result<Signer, Error> {
    let secrets: Vec<SigningSecret> = secrets.iter().map(|text| text.parse().unwrap()).collect();
    let profiles: Vec<Profile> = profiles.iter().map(|text| text.parse().unwrap()).collect();
    Signer::new(&secrets, &profiles)
}

pub(crate) fn verifier(secrets: &[&str], profile: &str) -> Result<Verifier, Error> {
    let secrets: Vec<VerifyingSecret> = secrets.iter().map(|text| text.parse().unwrap()).collect();
    Verifier::new(&secrets, &profile.parse().unwrap())
}
