//! How PostgreSQL carries out the statements that remove what belongs to somebody: none may read what
//! belongs to others, however much that is.
//!
//! A server is needed: `scripts/with-postgres cargo nextest run -p redial-store`.

use std::time::Duration;

use tokio_postgres::NoTls;
use tokio_postgres::types::Type;

use crate::Vault;
use crate::postgres::io::columns::{Column, parameters, single};
use crate::postgres::io::link::{Access, Pool, Transaction};
use crate::postgres::io::tls::Connector;
use crate::postgres::migrate;
use crate::postgres::upkeep::outlived::LOOK;
use crate::postgres::upkeep::removal::BELONGINGS;
use crate::postgres::upkeep::tombstones::{ATTEMPTS, HELD, NEXT, SUMS, TOMBSTONES};

/// Forty applications with twenty-five endpoints each, most of which were deleted; twenty sums of each
/// of them, and one delivery of each endpoint.
const FILL: &str = "\
    insert into applications (id, settings, created_at, updated_at) \
    select int8send(n), '{}', 0, 0 from generate_series(1, 40) n; \
    insert into endpoints (application, key, id, partition, state, ordering, settings, \
        confidential, created_at, updated_at) \
    select a, a * 100 + e, int8send(e), 0, case e % 5 when 0 then 0 else 3 end, 0, '{}', '', 0, 0 \
    from generate_series(1, 40) a, generate_series(1, 25) e; \
    insert into rollups (kind, subject, minute, succeeded, failed, delivered, dead, latencies) \
    select 1, key, minute, 0, 0, 0, 0, '{}' from applications, generate_series(1, 20) minute; \
    insert into rollups (kind, subject, minute, succeeded, failed, delivered, dead, latencies) \
    select 2, key, minute, 0, 0, 0, 0, '{}' from endpoints, generate_series(1, 20) minute; \
    insert into deliveries (application, endpoint, message, partition, ordering, state, due, turn, \
        attempts, ambiguous, last_wait, recorded) \
    select application, key, key, 0, 0, 1, 0, 0, 0, 0, 0, 0 from endpoints; \
    analyze applications, endpoints, rollups, deliveries";

#[tokio::test]
async fn what_belongs_to_an_application_is_found_without_reading_what_belongs_to_others() {
    let pool = filled().await;
    let mut transaction = pool.begin(Access::Write).await.unwrap();
    for statement in BELONGINGS {
        let parameters = [single(1_i64, Type::INT8), single(200_i64, Type::INT8)];
        let plan = plan(&mut transaction, statement, &parameters).await;
        assert_eq!(reads_of_others(&plan), [""; 0], "{statement}\n{plan:#?}");
    }
}

#[tokio::test]
async fn tombstones_go_without_a_look_at_the_deliveries_of_others() {
    let pool = filled().await;
    let mut transaction = pool.begin(Access::Write).await.unwrap();
    let numbers = [1_i64, 101, 200].map(|number| single(number, Type::INT8));
    let next = plan(&mut transaction, NEXT, &numbers).await;
    assert_eq!(reads_of_others(&next), [""; 0], "{next:#?}");
    for statement in [HELD, ATTEMPTS, SUMS, TOMBSTONES] {
        let columns = [
            single(vec![1_i64; 200], Type::INT8_ARRAY),
            single((101..301).collect::<Vec<i64>>(), Type::INT8_ARRAY),
            single(200_i64, Type::INT8),
        ];
        let plan = plan(&mut transaction, statement, &columns).await;
        assert_eq!(reads_of_others(&plan), [""; 0], "{statement}\n{plan:#?}");
    }
}

#[tokio::test]
async fn the_deliveries_of_a_message_are_looked_up_by_their_keys() {
    let pool = filled().await;
    let mut transaction = pool.begin(Access::Write).await.unwrap();
    let of = |numbers: Vec<i64>| single(numbers, Type::INT8_ARRAY);
    let columns = [
        of(vec![1; 200]),
        of((101..301).collect()),
        of(vec![0; 200]),
        of(vec![9; 200]),
        of(vec![0; 200]),
        single(0_i64, Type::INT8),
    ];
    let plan = plan(&mut transaction, LOOK, &columns).await;
    assert_eq!(reads_of_others(&plan), [""; 0], "{plan:#?}");
}

/// Returns the scans of a plan that are not limited to one application or one endpoint. Rows at known
/// places concern nobody else; requests are few, and so are tombstones.
fn reads_of_others(plan: &[String]) -> Vec<&str> {
    let condition = |place: usize| plan.get(place + 1).map_or("", |line| line.trim());
    let limited = |condition: &str| {
        let whose = ["(application = ", "(subject = ", "(key = "];
        condition.starts_with("Index Cond: ") && whose.iter().any(|own| condition.contains(own))
    };
    let lines = plan.iter().enumerate().filter(|(place, line)| {
        let by_index = (line.contains("Index Scan") || line.contains("Index Only Scan"))
            && !line.contains("endpoints_deleted");
        let whole = line.contains("Seq Scan") && !line.contains("Seq Scan on requests");
        whole || (by_index && !limited(condition(*place)))
    });
    lines.map(|(_, line)| line.as_str()).collect()
}

/// Returns the lines of a statement's plan.
async fn plan(
    transaction: &mut Transaction<'_>,
    statement: &str,
    columns: &[Column<'_>],
) -> Vec<String> {
    let statement = format!("explain (costs off) {statement}");
    let rows = transaction.query(&statement, &parameters(columns)).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// Opens a schema of its own with rows in it.
async fn filled() -> Pool {
    let url = url();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let name = "select 'p_' || replace(gen_random_uuid()::text, '-', '')";
    let name: String = client.query_one(name, &[]).await.unwrap().get(0);
    client.batch_execute(&format!("create schema {name}")).await.unwrap();
    let url = format!("{url}?options=-csearch_path%3D{name}&sslmode=disable");
    let pool = Pool::new(Connector::new(&url, None).unwrap(), 1, Duration::from_secs(10));
    let vault = Vault::new(&mut [7; 32], |bytes| bytes.fill(7));
    migrate::migrate(&pool, &vault).await.unwrap();
    let mut transaction = pool.begin(Access::Write).await.unwrap();
    let filled = transaction.run(FILL).await;
    transaction.end(filled).await.unwrap();
    pool
}

/// Returns where the server is, as the script that starts it says.
#[expect(clippy::disallowed_methods, reason = "the script has no other way to say it")]
fn url() -> String {
    std::env::var("REDIAL_TEST_POSTGRES").unwrap()
}
