//! The hot path, handed to the threads that can do it.

pub(super) mod accept;
pub(super) mod batch;
pub(super) mod lease;
pub(super) mod load;
pub(super) mod probe;
pub(super) mod settle;

use std::sync::Arc;

use domain::partition::Partition;
use domain::time::Timestamp;

use crate::keys::{Lease, Node};
use crate::queue::{
    Batch, Call, Committed, Confirmed, Load, Loaded, Queue, Renewal, Request, Waiting,
};
use crate::sqlite::Sqlite;
use crate::{Answer, Error};

impl Queue for Sqlite {
    fn commit(&self, batch: Arc<Batch>) -> Answer<'_, Committed> {
        self.write(move |writing| batch::write(writing, &batch))
    }

    fn load(&self, load: Load) -> Answer<'_, Loaded> {
        self.read(move |reading| load::load(reading, load))
    }

    fn waiting(&self, partitions: Vec<Partition>) -> Answer<'_, Vec<Waiting>> {
        self.read(move |reading| load::waiting(reading, &partitions))
    }

    fn syncs(&self) -> Option<u64> {
        Some(self.syncs.count())
    }

    fn missing_files(&self) -> Option<String> {
        self.presence.check().err().map(|error| error.to_string())
    }

    fn probe(&self) -> Answer<'_, ()> {
        self.write(probe::probe)
    }

    fn requests(&self, partitions: Vec<Partition>) -> Answer<'_, Vec<Request>> {
        self.read(move |reading| load::requests(reading, &partitions))
    }

    fn now(&self) -> Answer<'_, Timestamp> {
        Box::pin(async move { Ok(self.writer.now()) })
    }

    fn renew(&self, node: Node) -> Answer<'_, Renewal> {
        Box::pin(async move { Ok(self.writer.renew(&node)) })
    }

    fn take(&self, node: Node, most: u8) -> Answer<'_, Vec<Lease>> {
        self.write(move |writing| lease::take(writing, &node, most))
    }

    fn release(&self, node: Node, leases: Vec<Lease>) -> Answer<'_, ()> {
        // Behind what was written under them before.
        self.writer.recall(move |memo| memo.owners.release(&node, &leases))
    }

    fn woken(&self) -> Answer<'_, Call> {
        // There is no other node.
        Box::pin(std::future::pending::<Result<_, Error>>())
    }

    fn call(&self) -> Answer<'_, Timestamp> {
        self.now()
    }

    fn confirm(&self, node: Node, heard: Timestamp) -> Answer<'_, ()> {
        Box::pin(async move {
            self.writer.owners().confirm(&node, heard);
            Ok(())
        })
    }

    fn confirmed(&self) -> Answer<'_, Confirmed> {
        Box::pin(async move { Ok(self.writer.owners().confirmed(self.writer.now())) })
    }
}
