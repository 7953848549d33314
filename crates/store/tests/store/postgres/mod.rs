//! The suite on PostgreSQL, and what only a fleet can do wrong.
//!
//! A server is needed: `scripts/with-postgres cargo nextest run -p redial-store`. Each test works in
//! a schema of its own, so that they run side by side.

mod damage;
mod fleet;
mod leases;
mod lists;
mod lost;
mod migrating;
mod opening;
mod pooler;
mod proxy;
mod pruning;
mod removing;
mod server;
mod slow;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use store::conformance::{Handle, Harness, Pass};
use store::postgres::Postgres;

use self::server::Schema;
use crate::{memory, model, wide};

store::conformance!(open);

#[test]
fn postgres_answers_like_the_reference() {
    model::check(16, memory::open, open);
}

#[tokio::test]
async fn wide_fan_outs_are_looked_at_in_steps() {
    wide::fan_outs_are_looked_at_in_steps(open().await).await;
}

/// Opens an empty store, as two nodes have it.
pub(crate) async fn open() -> Harness {
    if server::is_pooled() {
        return pooler::open().await;
    }
    let schema = Arc::new(Schema::create().await);
    let (store, other) = (schema.open().await, schema.open().await);
    harness(schema, store, other)
}

/// Makes a harness of two stores in one schema.
fn harness(schema: Arc<Schema>, store: Postgres, other: Postgres) -> Harness {
    let guard = Box::new(Arc::clone(&schema));
    let pass: Pass = Box::new(move |by: Duration| {
        let schema = Arc::clone(&schema);
        Box::pin(async move {
            // The database's clock is nobody's to turn: the renewals are made to look older.
            let micros = by.as_micros();
            schema.run(&format!("update nodes set renewed_at = renewed_at - {micros}")).await;
            Ok(())
        })
    });
    let (store, other) = (Handle::new(Arc::new(store)), Handle::new(Arc::new(other)));
    Harness { store, other, pass, guard }
}
