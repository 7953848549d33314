//! Profiles that fit together: what one request can be signed in.

use std::ops::Deref;

use crate::error::{Error, SetupFault};
use crate::header_name::comparable;
use crate::limits::MAX_PROFILES;
use crate::profile::{Brand, Profile};

/// Profiles of which one signs at least, and no two write the same header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profiles(Vec<Profile>);

impl Profiles {
    /// Puts profiles together.
    ///
    /// Names count as the same whatever their case, and all but letters and digits as a hyphen: two
    /// headers of one name would reach a receiver as one value that fits neither form.
    pub fn new(profiles: Vec<Profile>) -> Result<Self, Error> {
        if profiles.len() > MAX_PROFILES {
            return Err(Error::Setup(SetupFault::TooManyProfiles(profiles.len())));
        }
        if !profiles.iter().any(Profile::signs) {
            return Err(Error::Setup(SetupFault::NothingSigned));
        }
        check_header_names(&profiles)?;
        Ok(Self(profiles))
    }

    /// Returns the same profiles, with this brand where one of them leaves it open.
    pub fn with_brand(&self, brand: &Brand) -> Result<Self, Error> {
        Self::new(self.0.iter().map(|profile| profile.clone().with_brand(brand)).collect())
    }

    /// Returns the profile that writes a header of this name, if one does.
    pub fn writer_of(&self, name: &str) -> Option<&Profile> {
        let name = comparable(name);
        let writes = |profile: &&Profile| {
            profile.header_names().into_iter().any(|own| comparable(own) == name)
        };
        self.0.iter().find(writes)
    }
}

impl Deref for Profiles {
    type Target = [Profile];

    fn deref(&self) -> &[Profile] {
        &self.0
    }
}

fn check_header_names(profiles: &[Profile]) -> Result<(), Error> {
    let named =
        |profile| Profile::header_names(profile).into_iter().map(move |name| (name, profile));
    let mut all: Vec<(String, &str, &Profile)> = profiles
        .iter()
        .flat_map(named)
        .map(|(name, profile)| (comparable(name), name, profile))
        .collect();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    match all.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(Error::Setup(SetupFault::HeaderTwice {
            header: pair[0].1.to_owned(),
            profiles: [pair[0].2.to_string(), pair[1].2.to_string()],
        })),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profiles(texts: &[&str]) -> Result<Profiles, SetupFault> {
        let read = texts.iter().map(|text| text.parse().unwrap()).collect();
        match Profiles::new(read) {
            Ok(profiles) => Ok(profiles),
            Err(Error::Setup(fault)) => Err(fault),
            Err(other) => panic!("{other:?} is not about the setup"),
        }
    }

    #[test]
    fn two_profiles_that_write_the_same_header_are_refused_together() {
        let table = [
            (["svix", "svix"], "svix-id"),
            (["branded:Webhook", "webhook-digest"], "X-Webhook-Signature"),
            (["digest:X-Sig", "timestamped:x_sig"], "X-Sig"),
            (["digest-hex:X-Sig", "v0:X-Other:x.sig"], "X-Sig"),
            (["svix", "message-id:Svix-Id"], "svix-id"),
            (["branded", "branded"], "X-<Brand>-Delivery"),
        ];
        for (texts, header) in table {
            let fault = profiles(&texts).unwrap_err();
            let profiles = texts.map(str::to_owned);
            assert_eq!(fault, SetupFault::HeaderTwice { header: header.to_owned(), profiles });
        }
        // One profile can collide with itself.
        assert!(profiles(&["v0:X-Sig:x-sig"]).is_err());
    }

    #[test]
    fn a_brand_that_is_put_in_may_collide() {
        let open = profiles(&["branded", "digest:X-Acme-Signature"]).unwrap();
        assert!(open.with_brand(&"Other".parse().unwrap()).is_ok());
        let error = open.with_brand(&"Acme".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("`branded:Acme`"), "{error}");
    }

    #[test]
    fn companions_alone_sign_nothing() {
        for texts in [&[][..], &["event-id"], &["timestamp:X-At", "delivery-id:X-Id"]] {
            assert_eq!(profiles(texts), Err(SetupFault::NothingSigned));
        }
    }

    #[test]
    fn there_are_sixteen_at_most() {
        let texts: Vec<String> = (0..17).map(|each| format!("digest:X-{each}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        assert_eq!(profiles(&texts[..16]).unwrap().len(), 16);
        assert_eq!(profiles(&texts), Err(SetupFault::TooManyProfiles(17)));
    }

    #[test]
    fn the_writer_of_a_header_is_found_in_every_spelling() {
        let profiles = profiles(&["svix", "branded:Acme"]).unwrap();
        let writer = |name| profiles.writer_of(name).map(ToString::to_string);
        assert_eq!(writer("x_acme.DELIVERY").as_deref(), Some("branded:Acme"));
        assert_eq!(writer("svix-id").as_deref(), Some("svix"));
        assert_eq!(writer("webhook-id"), None);
    }
}
