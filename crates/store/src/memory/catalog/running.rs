//! What an endpoint's owner keeps about it while it runs.

use crate::Error;
use crate::keys::{ApplicationKey, EndpointKey};
use crate::memory::State;
use crate::queue::Running;

impl State {
    /// Returns an endpoint's running state.
    ///
    /// # Errors
    /// If it is not there.
    pub fn running(&self, application: ApplicationKey, key: EndpointKey) -> Result<Running, Error> {
        Ok(self.living_endpoint(application, key)?.running)
    }
}
