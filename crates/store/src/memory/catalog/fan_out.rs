//! All that fanning a message out and sending it needs, as of one moment.

use domain::endpoint::State as EndpointState;
use domain::time::Timestamp;

use crate::Error;
use crate::catalog::{EndpointView, FanOut};
use crate::keys::ApplicationKey;
use crate::memory::State;

impl State {
    /// Returns all that fanning a message out and sending it needs.
    ///
    /// # Errors
    /// If there is no such application.
    pub fn fan_out(&self, key: ApplicationKey, at: Timestamp) -> Result<FanOut, Error> {
        let application = self.living_applications().find(|row| row.key == key);
        let application = application.ok_or(Error::Missing("application"))?;
        let theirs = self.endpoints.values().filter(|row| {
            row.endpoint.application == key && row.endpoint.state != EndpointState::Deleted
        });
        let view = theirs.map(|row| EndpointView {
            endpoint: row.endpoint.clone(),
            secrets: row.live_secrets(at),
            running: row.running,
        });
        Ok(FanOut {
            application: application.id,
            revision: application.revision,
            version: application.version,
            policy: application.settings.policy.clone(),
            rate: application.settings.rate,
            endpoints: view.collect(),
        })
    }
}
