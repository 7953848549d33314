//! The hot path's trait: a batch is split into its lanes, which run side by side.

pub(super) mod accept;
pub(super) mod batch;
pub(super) mod lease;
pub(super) mod load;
pub(super) mod probe;
pub(super) mod settle;

use std::sync::Arc;

use domain::partition::Partition;
use domain::time::Timestamp;

use crate::Answer;
use crate::keys::{Lease, Node};
use crate::postgres::io::wake;
use crate::postgres::{Postgres, upkeep};
use crate::queue::{
    Batch, Call, Committed, Confirmed, Load, Loaded, Queue, Renewal, Request, Waiting,
};

impl Queue for Postgres {
    fn commit(&self, batch: Arc<Batch>) -> Answer<'_, Committed> {
        self.answer(async move {
            let Batch { accepts, settles, upkeep } = &*batch;
            // An error in one lane leaves the others their commit; repeating the batch is safe.
            let (accepts, settles, upkeep) = tokio::join!(
                accept::commit(&self.accepts, &self.notes, accepts),
                settle::commit(&self.settles, settles),
                upkeep::commit(&self.upkeep, self.dead_letters_kept, upkeep),
            );
            for touched in [accepts.as_ref().map(|lane| lane.1), upkeep.as_ref().map(|lane| lane.1)]
            {
                self.wake.others(touched.unwrap_or_default());
            }
            Ok(Committed { accepts: accepts?.0, settles: settles?, upkeep: upkeep?.0 })
        })
    }

    fn load(&self, load: Load) -> Answer<'_, Loaded> {
        self.answer(self.loads.load(load))
    }

    fn waiting(&self, partitions: Vec<Partition>) -> Answer<'_, Vec<Waiting>> {
        self.answer(load::waiting(&self.pool, partitions))
    }

    fn probe(&self) -> Answer<'_, ()> {
        self.answer(probe::probe(&self.accepts))
    }

    fn requests(&self, partitions: Vec<Partition>) -> Answer<'_, Vec<Request>> {
        self.answer(load::requests(&self.pool, &self.notes, partitions))
    }

    fn now(&self) -> Answer<'_, Timestamp> {
        self.answer(lease::now(&self.leases))
    }

    fn renew(&self, node: Node) -> Answer<'_, Renewal> {
        self.answer(async move {
            let renewal = lease::renew(&self.leases, &node).await?;
            self.wake.owns(&node, &renewal.owned);
            Ok(renewal)
        })
    }

    fn take(&self, node: Node, most: u8) -> Answer<'_, Vec<Lease>> {
        self.answer(async move {
            let leases = lease::take(&self.leases, &node, most).await?;
            self.wake.took(&node, &leases);
            Ok(leases)
        })
    }

    fn release(&self, node: Node, leases: Vec<Lease>) -> Answer<'_, ()> {
        self.answer(async move {
            // Before the release: whoever takes them next wants to hear of what comes.
            self.wake.disown(&leases);
            lease::release(&self.leases, &node, &leases).await
        })
    }

    fn woken(&self) -> Answer<'_, Call> {
        Box::pin(async { Ok(self.wake.heard().await) })
    }

    fn call(&self) -> Answer<'_, Timestamp> {
        self.answer(wake::call_now(&self.pool))
    }

    fn confirm(&self, node: Node, heard: Timestamp) -> Answer<'_, ()> {
        self.answer(async move { lease::confirm(&self.urgent, &node, heard).await })
    }

    fn confirmed(&self) -> Answer<'_, Confirmed> {
        self.answer(lease::confirmed(&self.pool))
    }
}
