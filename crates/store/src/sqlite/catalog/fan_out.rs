//! All that fanning a message out and sending it needs, as of one moment.

use domain::time::Timestamp;

use crate::Error;
use crate::catalog::{Application, ApplicationSettings, EndpointView, FanOut};
use crate::keys::ApplicationKey;
use crate::sqlite::catalog::{application, endpoint, running, secret};
use crate::sqlite::io::reader::Reading;

pub(crate) fn fan_out(
    reading: &Reading<'_>,
    key: ApplicationKey,
    at: Timestamp,
) -> Result<FanOut, Error> {
    reading.at_once(|| {
        let application = application::by_key(reading.connection, key)?;
        let application = application.ok_or(Error::Missing("application"))?;
        let mut views = Vec::new();
        for endpoint in endpoint::all(reading, key)? {
            let whose = (key, endpoint.key);
            let secrets = secret::live(reading.connection, reading.vault, whose, at)?;
            let running = running::find(reading.connection, endpoint.key)?;
            views.push(EndpointView { endpoint, secrets, running });
        }
        let Application { id, revision, version, settings, .. } = application;
        let ApplicationSettings { policy, rate, .. } = settings;
        Ok(FanOut { application: id, revision, version, policy, rate, endpoints: views })
    })
}
