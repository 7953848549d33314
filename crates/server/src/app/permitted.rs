//! How far a caller may go in setting an endpoint up: its policy, and limits beyond those that would hold
//! without it, are for operators, and for tokens with the right.
//!
//! What an operator gave an endpoint may stay, and become less. So a token that reads an endpoint and
//! writes it back as it was is not refused.

use std::sync::Arc;

use domain::policy::{self, EndpointDefaults};
use domain::rights::{Ceiling, Right};
use serde_json::Value;
use store::catalog::Endpoint;

use super::endpoints::Edit;
use super::fields::Checks;
use super::{App, Error, Scope};

/// What holds for endpoints of an application that set nothing themselves.
struct Usual {
    defaults: EndpointDefaults,
    application_rate: Option<u32>,
}

impl Usual {
    /// Checks an endpoint as a change makes it.
    fn check(&self, before: Option<&Endpoint>, after: &Endpoint) -> Result<(), Error> {
        let own = before.and_then(|row| row.settings.policy.as_ref());
        if own != after.settings.policy.as_ref() {
            return Err(Error::NotGranted(Right::Policies));
        }
        let own = own.and_then(defaults);
        let most = Ceiling::of(own.as_ref().unwrap_or(&self.defaults), self.application_rate);
        let (was, is) = (before.map(|row| &row.settings), &after.settings);
        let mut checks = Checks::default();
        let limits = [
            ("throttleRate", most.rate, was.and_then(|it| it.rate), is.rate),
            ("inFlight", most.in_flight, was.and_then(|it| it.in_flight), is.in_flight),
        ];
        for (field, most, was, is) in limits {
            let text = format!(
                "must be at most {most} for this token; more needs the right `{}`",
                Right::Policies.word()
            );
            checks.holds(field, !Ceiling::is_exceeded(most, was, is), &text);
        }
        checks.finish()
    }
}

/// Returns what endpoints start with under a policy as it is saved, if it reads.
fn defaults(saved: &Value) -> Option<EndpointDefaults> {
    policy::read_saved(saved).ok().map(|preset| preset.endpoint)
}

impl App {
    /// Returns what a caller has to keep to, if they may not set whatever they want.
    fn usual(&self, scope: &Scope) -> Option<Usual> {
        if scope.caller().rights.has(Right::Policies) {
            return None;
        }
        let settings = &scope.application().settings;
        let own = settings.policy.as_ref().and_then(defaults);
        let defaults = own.unwrap_or_else(|| self.settings.policy.endpoint.clone());
        Some(Usual { defaults, application_rate: settings.rate })
    }

    /// Checks an endpoint that a caller is about to make.
    pub(super) fn check_permitted(&self, scope: &Scope, new: &Endpoint) -> Result<(), Error> {
        self.usual(scope).map_or(Ok(()), |usual| usual.check(None, new))
    }

    /// Returns an edit that also keeps a caller to what they may set.
    pub(super) fn permitted(&self, scope: &Scope, edit: Edit) -> Edit {
        let Some(usual) = self.usual(scope) else { return edit };
        Arc::new(move |row| {
            let after = edit(row)?;
            usual.check(Some(row), &after)?;
            Ok(after)
        })
    }
}
