//! Dead letters: list, count, replay one or many, purge.

use store::catalog::Name;
use store::keys::{EndpointKey, MessageKey};
use store::ledger::Within;
pub use store::ledger::{DeliveryFilter, Tally, Task};
use store::page::{From, Listed, Page};

use super::deliveries::Shown;
use super::pages::{Slice, Wanted};
use super::{App, Error, Scope, endpoints};

/// How many dead letters are looked at in one step of a purge.
const STEP: u32 = 500;
/// The most steps of one purge; whoever has more asks again.
const MOST_STEPS: u32 = 40;

/// What a purge did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purged {
    /// How many dead letters were removed.
    pub removed: u64,
    /// Whether none is left that was meant.
    pub done: bool,
}

impl App {
    /// Lists an application's dead letters, newest message first.
    ///
    /// # Errors
    /// If the iterator is none.
    pub async fn dead_letters(
        &self,
        scope: &Scope,
        filter: DeliveryFilter,
        wanted: &Wanted,
    ) -> Result<Slice<Shown>, Error> {
        let application = scope.application().key;
        let places = self.places("dead letters", application, None);
        let page = wanted.by(|text| places.read(text), (MessageKey(0), EndpointKey(0)))?;
        let Listed { entries, reached, done } =
            self.ledger.dead_letters(application, filter, page).await?;
        let listed = Listed { entries, reached: reached.map(|place| places.write(place)), done };
        let slice =
            wanted.slice(listed, |entry| places.write((entry.key.message, entry.key.endpoint)));
        let directory = self.directory(scope, &slice.entries).await?;
        Ok(slice.map(|entry| {
            let endpoint = directory.get(&entry.key.endpoint).copied();
            Shown { entry, endpoint, wait: None, pause: None }
        }))
    }

    /// Counts an application's dead letters, or those to one endpoint, up to a limit.
    ///
    /// # Errors
    /// If there never was such an endpoint.
    pub async fn dead_letter_count(
        &self,
        scope: &Scope,
        endpoint: Option<&str>,
    ) -> Result<Tally, Error> {
        let application = scope.application().key;
        let within = match self.endpoint_key(scope, endpoint).await? {
            Some(endpoint) => Within::Endpoint(application, endpoint),
            None => Within::Application(application),
        };
        Ok(self.ledger.dead_letter_count(within).await?)
    }

    /// Adds an endpoint to a filter, if one is named. By its id it is also found after it was deleted:
    /// its dead letters are still there.
    ///
    /// # Errors
    /// If there never was such an endpoint.
    pub async fn to_endpoint(
        &self,
        scope: &Scope,
        endpoint: Option<&str>,
        filter: DeliveryFilter,
    ) -> Result<DeliveryFilter, Error> {
        let endpoint = self.endpoint_key(scope, endpoint).await?;
        Ok(DeliveryFilter { endpoint, ..filter })
    }

    pub(super) async fn endpoint_key(
        &self,
        scope: &Scope,
        named: Option<&str>,
    ) -> Result<Option<EndpointKey>, Error> {
        let application = scope.application().key;
        match named.map(endpoints::name).transpose()? {
            Some(Name::Id(id)) => Ok(Some(self.catalog.endpoint_key(application, id).await?)),
            Some(uid) => Ok(Some(self.catalog.endpoint(application, uid).await?.key)),
            None => Ok(None),
        }
    }

    /// Removes dead letters for good, in steps, up to a limit.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn purge_dead_letters(
        &self,
        scope: &Scope,
        filter: DeliveryFilter,
    ) -> Result<Purged, Error> {
        let application = scope.application().key;
        let mut from = From::Start;
        let mut removed = 0;
        for _ in 0..MOST_STEPS {
            let page = Page { from, limit: STEP };
            let purged = self.ledger.purge_dead_letters(application, filter.clone(), page).await?;
            removed += u64::try_from(purged.entries.len()).unwrap_or(u64::MAX);
            match purged.reached.filter(|_| !purged.done) {
                Some(reached) => from = From::After(reached),
                None => return Ok(Purged { removed, done: true }),
            }
        }
        Ok(Purged { removed, done: false })
    }
}
