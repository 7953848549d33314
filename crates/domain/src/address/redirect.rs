//! Where a redirect leads, and whether it may be followed.
//!
//! A receiver writes what it likes into `Location`. It gets nowhere with it that an endpoint's owner could
//! not have got by saving that URL: the same rules hold, and the transport has the address vetted before it
//! is dialled. Besides, a redirect may neither take TLS off a request nor lead in circles.

use super::guard::Guard;
use super::refusal::{Reason, Refusal};
use super::url::{DeliverableUrl, Scheme};
use crate::ids::ApplicationId;
use crate::policy::Redirects;

/// The URLs of one attempt: its endpoint's, and those that redirects have led to.
#[derive(Debug, Clone)]
pub struct RedirectChain {
    endpoint: DeliverableUrl,
    hops: Vec<DeliverableUrl>,
}

/// Why a redirect is not followed; displays as the rest of a sentence about the redirect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotFollowed {
    /// The answer does not say where.
    #[error("the answer has no Location")]
    NoLocation,
    /// The answer says it twice.
    #[error("the answer has more than one Location")]
    SeveralLocations,
    /// The answer does not say it in UTF-8.
    #[error("its Location is not text")]
    NoText,
    /// What it says is not a URL that an endpoint could have.
    #[error("its Location makes no sense: {0}")]
    Malformed(Refusal),
    /// The guard refuses the URL.
    #[error("{0}")]
    Blocked(Refusal),
    /// The request would go on without TLS.
    #[error("it leads from https to http")]
    LosesTls,
    /// It leads to where this attempt was already.
    #[error("it leads in a circle")]
    Circle,
    /// The policy allows no more hops.
    #[error("it is one more than the {0} that the policy follows")]
    TooMany(u8),
}

impl RedirectChain {
    /// Begins at the endpoint's own URL.
    #[must_use]
    pub fn begin(endpoint: DeliverableUrl) -> Self {
        Self { endpoint, hops: Vec::new() }
    }

    /// Returns where the last request went.
    fn current(&self) -> &DeliverableUrl {
        self.hops.last().unwrap_or(&self.endpoint)
    }

    /// Tells whether a URL has the scheme, host and port of the endpoint's own.
    #[must_use]
    pub fn is_at_home(&self, url: &DeliverableUrl) -> bool {
        url.origin() == self.endpoint.origin()
    }

    /// Decides where the answer to the last request leads, by the `Location` it has.
    ///
    /// # Errors
    /// Says why the redirect is not followed.
    pub fn next(
        &self,
        location: &str,
        redirects: Redirects,
        guard: &Guard,
        application: ApplicationId,
    ) -> Result<DeliverableUrl, NotFollowed> {
        let most = redirects.most_hops();
        if self.hops.len() >= usize::from(most) {
            return Err(NotFollowed::TooMany(most));
        }
        let from = self.current();
        let refused = |reason| NotFollowed::Malformed(Refusal::from(reason));
        let read = from.join(location).map_err(refused)?;
        // Told before what the guard says of http in general.
        if (from.scheme(), read.scheme()) == (Scheme::Https, Scheme::Http) {
            return Err(NotFollowed::LosesTls);
        }
        let url = guard.vet_read(read, application).map_err(NotFollowed::Blocked)?;
        if url == self.endpoint || self.hops.contains(&url) {
            return Err(NotFollowed::Circle);
        }
        Ok(url)
    }

    /// Goes on to where [`RedirectChain::next`] said.
    pub fn follow(&mut self, url: DeliverableUrl) {
        self.hops.push(url);
    }
}

impl DeliverableUrl {
    /// Reads what a `Location` of this URL's answer means. Like [`DeliverableUrl::parse`] it refuses what
    /// would have to be repaired.
    fn join(&self, location: &str) -> Result<Self, Reason> {
        let resolved;
        let text = match location {
            text if has_scheme(text) => text,
            text if text.starts_with("//") => {
                resolved = [self.scheme().as_str(), ":", text].concat();
                &resolved
            }
            text => {
                resolved = self.resolve(text)?;
                &resolved
            }
        };
        Self::parse(text)
    }
}

/// Tells whether a reference begins with a scheme, and so is none to another URL.
fn has_scheme(reference: &str) -> bool {
    let Some((scheme, _)) = reference.split_once(':') else { return false };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|each| each.is_ascii_alphanumeric() || "+-.".contains(each))
}
