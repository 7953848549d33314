//! How an endpoint's attempts are signed: which profiles apply, and what their texts mean.
//!
//! The crate `signature` has the forms and writes them. Here is whose choice counts: the endpoint's,
//! else that of the policy its defaults come from, else the server's.

use std::fmt;

use signature::{Brand, Error, Profile, Profiles, SetupFault};

use crate::nearest::nearest;
use crate::policy::EndpointDefaults;

/// What the operator sets about signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signing {
    /// The brand of the profiles that leave it open.
    pub brand: Brand,
    /// The profiles where neither the endpoint nor its policy sets any.
    pub profiles: Profiles,
}

/// Why profiles cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable(String);

impl Signing {
    /// Returns the profiles of an endpoint's attempts. `own` are the endpoint's own as they are saved,
    /// `defaults` come from the policy that applies to it.
    ///
    /// # Errors
    /// If its own do not read, or if the brand that is put in makes two profiles write one header.
    pub fn applicable(
        &self,
        own: &[String],
        defaults: &EndpointDefaults,
    ) -> Result<Profiles, Error> {
        if own.is_empty() {
            return defaults.signatures.as_ref().unwrap_or(&self.profiles).with_brand(&self.brand);
        }
        let read: Result<Vec<Profile>, Error> = own.iter().map(|text| text.parse()).collect();
        Profiles::new(read?)?.with_brand(&self.brand)
    }
}

impl Default for Signing {
    #[expect(
        clippy::expect_used,
        reason = "both are written here, and every test begins with them"
    )]
    fn default() -> Self {
        Self {
            brand: "Redial".parse().expect("a word is a brand"),
            profiles: Profiles::new(vec![Profile::StandardWebhooks, Profile::Svix])
                .expect("they write different headers"),
        }
    }
}

/// Reads profiles as people write them.
///
/// # Errors
/// Says which text is no profile, and which one may have been meant, or why they do not fit together.
pub fn read<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Profiles, Unusable> {
    let read: Result<Vec<Profile>, Error> = texts.into_iter().map(str::parse).collect();
    Ok(Profiles::new(read?)?)
}

impl From<Error> for Unusable {
    fn from(error: Error) -> Self {
        Self(match error {
            Error::Setup(SetupFault::UnknownProfile(text)) => unknown(&text),
            Error::Setup(SetupFault::NothingSigned) => {
                "must hold one that signs: an attempt is signed in at least one way".to_owned()
            }
            Error::Setup(fault) => fault.to_string(),
            // None of these is about profiles.
            Error::Secret(_)
            | Error::Attempt { .. }
            | Error::MissingHeader { .. }
            | Error::MalformedHeader { .. }
            | Error::TooOld { .. }
            | Error::TooNew { .. }
            | Error::NoUsableSignature { .. }
            | Error::Mismatch(_) => error.to_string(),
        })
    }
}

/// Says that a text is no profile, and which form may have been meant. The names in it say nothing
/// about that.
fn unknown(text: &str) -> String {
    let word = |text: &'static str| text.split(':').next().unwrap_or_default();
    let typed = text.split(':').next().unwrap_or_default();
    let meant = nearest(typed, Profile::FORMS.into_iter().map(word));
    let meant = meant.and_then(|meant| Profile::FORMS.into_iter().rfind(|it| word(it) == meant));
    let hint = meant.map(|meant| format!("did you mean `{meant}`? Allowed are"));
    let hint = hint.unwrap_or_else(|| "allowed are".to_owned());
    format!("`{text}` is no profile; {hint} {}", Profile::FORMS.join(", "))
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unusable {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::preset;

    fn applicable(own: &[&str], policy: &str) -> Result<Vec<String>, String> {
        let signing = Signing {
            brand: "Acme".parse().unwrap(),
            profiles: read(["timestamped:Acme-Signature"]).unwrap(),
        };
        let own: Vec<String> = own.iter().map(|text| (*text).to_owned()).collect();
        let profiles = signing.applicable(&own, &preset(policy).unwrap().endpoint);
        let profiles = profiles.map_err(|error| error.to_string())?;
        Ok(profiles.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_endpoints_choice_counts_before_its_policys_and_that_before_the_servers() {
        let own = ["svix", "branded:Other", "branded"];
        assert_eq!(
            applicable(&own, "formspring").unwrap(),
            ["svix", "branded:Other", "branded:Acme"]
        );
        assert_eq!(applicable(&[], "formspring").unwrap(), ["branded:Acme"]);
        assert_eq!(applicable(&[], "stripe").unwrap(), ["timestamped:Acme-Signature"]);
    }

    #[test]
    fn a_brand_that_makes_two_profiles_write_one_header_is_found() {
        let error = applicable(&["branded", "digest:x-acme-signature"], "redial").unwrap_err();
        assert!(error.contains("both write the header"), "{error}");
        assert!(applicable(&["rot13"], "redial").is_err());
    }

    #[test]
    fn a_text_that_is_no_profile_is_refused_with_the_one_that_may_have_been_meant() {
        let table = [
            ("svyx", "did you mean `svix`? Allowed are standard-webhooks, svix"),
            ("brandet:Acme", "`brandet:Acme` is no profile; did you mean `branded:<Brand>`?"),
            ("digest", "did you mean `digest:<Header>`?"),
            ("svix:X", "did you mean `svix`?"),
            ("v0:X-Sig", "did you mean `v0:<Header>:<Timestamp-Header>`?"),
            ("", "`` is no profile; allowed are standard-webhooks"),
            ("kafka", "`kafka` is no profile; allowed are standard-webhooks"),
            ("digest:Host", "the header Host has a meaning of its own"),
            ("event-id", "must hold one that signs"),
        ];
        for (text, told) in table {
            let refusal = read([text]).unwrap_err().to_string();
            assert!(refusal.contains(told), "{text}: {refusal}");
        }
        assert!(read([]).unwrap_err().to_string().contains("must hold one that signs"));
    }
}
