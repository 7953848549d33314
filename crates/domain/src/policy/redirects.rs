//! How many redirects a policy allows an attempt to follow, and what a request takes along: none, unless
//! it says otherwise. Where a redirect may lead is decided in [`crate::address`].

use super::Problem;

/// The most hops that a policy may allow.
const MOST_HOPS: u8 = 20;

/// How many redirects one attempt follows, and what it sends where they lead. Each hop's address is vetted
/// anew by the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Redirects {
    most_hops: u8,
    headers: HopHeaders,
}

/// Where a redirected request has its signature, the endpoint's own headers and its credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HopHeaders {
    /// Only at the endpoint's own origin: scheme, host and port.
    SameOrigin,
    /// Wherever the redirects lead.
    Everywhere,
}

impl HopHeaders {
    /// Both.
    pub const ALL: [Self; 2] = [Self::SameOrigin, Self::Everywhere];

    /// Returns the word a policy uses for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::SameOrigin => "same-origin",
            Self::Everywhere => "everywhere",
        }
    }
}

impl Redirects {
    /// Follows up to so many hops.
    ///
    /// # Errors
    /// If that is more than twenty.
    pub fn new(most_hops: u64, headers: HopHeaders) -> Result<Self, Problem> {
        match u8::try_from(most_hops) {
            Ok(most_hops) if most_hops <= MOST_HOPS => Ok(Self { most_hops, headers }),
            _ => {
                let text = format!("is {most_hops}; follow at most {MOST_HOPS} hops");
                Err(Problem::new("redirects", text))
            }
        }
    }

    /// Returns the limit.
    #[must_use]
    pub const fn most_hops(self) -> u8 {
        self.most_hops
    }

    /// Returns where a redirected request has everything that the first one had.
    #[must_use]
    pub const fn headers(self) -> HopHeaders {
        self.headers
    }

    /// Tells whether an answer of this status is a redirect that is to be followed.
    #[must_use]
    pub const fn follows(self, status: u16) -> bool {
        self.most_hops > 0 && is_redirect(status)
    }
}

/// Tells whether a status says that the request is to be made elsewhere. The others of 3xx say something
/// else, or nothing any more.
#[must_use]
pub const fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_hops_are_the_most() {
        let made = |most_hops| Redirects::new(most_hops, HopHeaders::SameOrigin);
        assert_eq!(made(20).unwrap().most_hops(), 20);
        assert!(made(21).is_err() && made(u64::MAX).is_err());
    }

    #[test]
    fn only_what_leads_elsewhere_is_followed_and_only_where_hops_are_allowed() {
        let [none, some] = [0, 1].map(|hops| Redirects::new(hops, HopHeaders::SameOrigin).unwrap());
        for status in 100..=999 {
            let leads = [301, 302, 303, 307, 308].contains(&status);
            assert_eq!((none.follows(status), some.follows(status)), (false, leads), "{status}");
        }
    }
}
