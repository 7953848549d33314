//! An endpoint's running state, as its owner writes it.

use crate::keys::{ApplicationKey, EndpointKey};
use crate::memory::State;
use crate::queue::Running;

impl State {
    /// Writes an endpoint's running state; answers whether there is such an endpoint.
    pub(in crate::memory) fn run(
        &mut self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        running: Running,
    ) -> bool {
        let row = self.endpoints.get_mut(&endpoint);
        let row = row.filter(|row| row.endpoint.application == application);
        row.map(|row| row.running = running).is_some()
    }
}
