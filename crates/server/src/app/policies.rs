//! Policies as they are shown: their documents, their schedules, and what is unwise about them.

use domain::policy::{self, Preset, Scopes, Timetable, Warning};
use serde_json::Value;
use signature::{Profile, Profiles};

use super::{App, Error, Scope};

/// A policy with what follows from it.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The policy and what endpoints start with under it.
    pub preset: Preset,
    /// Where the policy was set: on the endpoint, the application, or the server.
    pub origin: &'static str,
    /// When attempts follow, if every one of them fails.
    pub timetable: Timetable,
    /// What is unwise about it.
    pub warnings: Vec<Warning>,
    /// The profiles that attempts under it are signed in; none if they do not fit together.
    pub signatures: Vec<Profile>,
}

impl Shown {
    fn of(
        preset: Preset,
        origin: &'static str,
        signatures: Result<Profiles, impl std::error::Error>,
    ) -> Self {
        let timetable = preset.policy.timetable();
        let warnings = preset.policy.warnings();
        let signatures = signatures.map_or_else(|_| Vec::new(), |profiles| profiles.to_vec());
        Self { preset, origin, timetable, warnings, signatures }
    }
}

/// Reads a policy as it is saved.
fn read(saved: &Value) -> Result<Preset, Error> {
    policy::read_saved(saved).map_err(|error| Error::field("policy", error.to_string()))
}

impl App {
    /// Shows all presets.
    #[must_use]
    pub fn presets(&self) -> Vec<Shown> {
        let presets = policy::preset_names().filter_map(|name| policy::preset(name).ok());
        presets.map(|preset| self.shown_policy(preset.clone(), "preset")).collect()
    }

    /// Shows a policy as it is for an endpoint that sets nothing itself.
    fn shown_policy(&self, preset: Preset, origin: &'static str) -> Shown {
        let signatures = self.settings.signing.applicable(&[], &preset.endpoint);
        Shown::of(preset, origin, signatures)
    }

    /// Shows one preset.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn preset(&self, name: &str) -> Result<Shown, Error> {
        let preset = policy::preset(name).map_err(|_| Error::Missing("policy"))?;
        Ok(self.shown_policy(preset.clone(), "preset"))
    }

    /// Shows what a policy would mean, without saving it.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn preview(&self, saved: &Value) -> Result<Shown, Error> {
        read(saved).map(|preset| self.shown_policy(preset, "preview"))
    }

    /// Shows the policy that applies to an endpoint, but for messages and event types with their
    /// own.
    ///
    /// # Errors
    /// If there is no such endpoint.
    pub async fn endpoint_policy(&self, scope: &Scope, endpoint: &str) -> Result<Shown, Error> {
        let endpoint = self.endpoint(scope, endpoint).await?;
        // As when it is sent: a document that no longer reads gives way to the next one outwards.
        let set = |saved: Option<&Value>| policy::read_saved(saved?).ok();
        let scopes = Scopes {
            message: None,
            endpoint: set(endpoint.settings.policy.as_ref()),
            event_type: None,
            application: set(scope.application().settings.policy.as_ref()),
            server: self.settings.policy.clone(),
        };
        let (origin, preset) = scopes.applicable();
        let signatures = self.surroundings(scope).profiles(&endpoint.settings);
        Ok(Shown::of(preset, origin.word(), signatures))
    }
}
