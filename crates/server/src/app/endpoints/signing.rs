//! How an endpoint's attempts are signed: which profiles apply to it, and whether its headers and its
//! secret go with them.
//!
//! What a later policy of the application, or another configuration of the server, brings along is not
//! looked at here: the transport leaves out a header that a signature takes by then.

use domain::policy::{self, EndpointDefaults};
use domain::signing::{Signing, Unusable};
use signature::Profiles;
use store::catalog::{Endpoint, EndpointSettings, Secret};

use crate::app::fields::Checks;
use crate::app::{App, Error, Scope, headers, secrets};

/// What an endpoint's profiles depend on besides its own settings.
#[derive(Clone)]
pub(in crate::app) struct Surroundings {
    signing: Signing,
    /// What the application's policy, or the server's, has endpoints start with.
    defaults: EndpointDefaults,
}

/// Which part of a request is told that something does not go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    /// The request sets profiles, in this field.
    Profiles(&'static str),
    /// It sets headers.
    Headers,
    /// It sets the secret.
    Secret,
}

impl Surroundings {
    /// Returns the profiles of an endpoint's attempts.
    ///
    /// # Errors
    /// If they cannot be read, or do not fit together.
    pub(in crate::app) fn profiles(&self, own: &EndpointSettings) -> Result<Profiles, Unusable> {
        // A policy is read only where it matters: this runs while other writers wait.
        let saved = own.policy.as_ref().filter(|_| own.signatures.is_empty());
        let policy = saved.and_then(|saved| policy::read_saved(saved).ok());
        let defaults = policy.as_ref().map_or(&self.defaults, |policy| &policy.endpoint);
        Ok(self.signing.applicable(&own.signatures, defaults)?)
    }

    /// Checks an endpoint as a change makes it, for what the change names. `secret` is the one that
    /// signs from then on, with the field that is told if it cannot.
    pub(super) fn check(
        &self,
        endpoint: &Endpoint,
        secret: Option<&(Secret, &'static str)>,
        named: Named,
    ) -> Result<(), Error> {
        let profiles = match (self.profiles(&endpoint.settings), named) {
            (Ok(profiles), _) => profiles,
            (Err(refusal), Named::Profiles(field)) => {
                return Err(Error::field(field, refusal.to_string()));
            }
            // They do not read any more, and the change is not about them.
            (Err(_), Named::Headers | Named::Secret) => return Ok(()),
        };
        let mut checks = Checks::default();
        check_headers(&mut checks, endpoint, &profiles, named);
        checks.finish()?;
        secret.map_or(Ok(()), |(secret, field)| secrets::check(secret, &profiles, field))
    }
}

/// Checks that no header of the endpoint's own is one that a profile writes.
fn check_headers(checks: &mut Checks, endpoint: &Endpoint, profiles: &Profiles, named: Named) {
    let Endpoint { settings, confidential, .. } = endpoint;
    for name in headers::all(settings, confidential).keys() {
        let Some(writer) = profiles.writer_of(name) else { continue };
        let (field, text) = match named {
            Named::Profiles(field) => {
                let text = format!(
                    "`{writer}` writes the header {name}, which the endpoint's own headers have; \
                     remove it there, or choose another profile"
                );
                (field.to_owned(), text)
            }
            Named::Headers => {
                let text = format!(
                    "is written by `{writer}`, in which the endpoint's attempts are signed; choose \
                     another name, or another profile in `signatures`"
                );
                (format!("headers.{name}"), text)
            }
            Named::Secret => continue,
        };
        checks.holds(&field, false, &text);
    }
}

impl App {
    /// Returns what the profiles of an application's endpoints depend on besides their own settings.
    pub(in crate::app) fn surroundings(&self, scope: &Scope) -> Surroundings {
        let saved = scope.application().settings.policy.as_ref();
        let policy = saved.and_then(|saved| policy::read_saved(saved).ok());
        let policy = policy.as_ref().unwrap_or(&self.settings.policy);
        Surroundings { signing: self.settings.signing.clone(), defaults: policy.endpoint.clone() }
    }
}
