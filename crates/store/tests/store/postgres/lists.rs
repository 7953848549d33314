//! What waits while all connections for lists are in use, and what does not.

use std::sync::Arc;

use domain::time::Timestamp;
use store::catalog::Name;
use store::keys::ApplicationKey;
use store::ledger::MessageFilter;
use store::page::{From, Page};
use store::postgres::{Postgres, Settings};
use store::{Catalog as _, Error, Ledger as _};

use super::server::{Schema, url};

const CONNECTIONS: usize = 3;

#[tokio::test]
async fn what_every_request_looks_up_waits_for_no_list() {
    let schema = Schema::create().await;
    let settings = Settings { connections: CONNECTIONS, ..schema.settings(&url()) };
    let store = Arc::new(Postgres::connect(settings).await.unwrap());
    let beside = schema.beside().await;
    beside.run("begin; lock table messages in access exclusive mode").await;
    let mut lists = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS * 4 {
        let store = Arc::clone(&store);
        lists.spawn(async move {
            let page = Page { from: From::Start, limit: 1 };
            store.messages(ApplicationKey(1), MessageFilter::default(), page).await
        });
    }
    let waiting = "select count(*) from pg_locks where not granted \
        and relation = 'messages'::regclass";
    while schema.number(waiting).await < i64::try_from(CONNECTIONS).unwrap() {
        tokio::task::yield_now().await;
    }
    let is_missing = |error: &Error| matches!(error, Error::Missing(_));
    assert!(store.token(String::new()).await.is_err_and(|error| is_missing(&error)));
    let name = Name::Uid("nobody".to_owned());
    assert!(store.application(name).await.is_err_and(|error| is_missing(&error)));
    assert!(store.answer([0; 32], Timestamp::EPOCH).await.unwrap().is_none());
    store.changes(None, None).await.unwrap();
    beside.run("commit").await;
    assert!(lists.join_all().await.into_iter().all(|listed| listed.is_ok()));
}
