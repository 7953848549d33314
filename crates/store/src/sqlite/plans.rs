//! How SQLite carries out the statements that must stay fast as the tables grow, and how many
//! B-trees the hot path writes to.

use rusqlite::{Connection, StatementStatus};

use crate::page::direct;
use crate::queue::turn::SCHEDULED;
use crate::sqlite::ledger::{attempt, dead_letter, delivery, message};
use crate::sqlite::migrate;
use crate::sqlite::queue::load;
use crate::sqlite::upkeep::number;

fn connection() -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    migrate::migrate(&mut connection).unwrap();
    connection
}

fn plan(sql: &str) -> Vec<String> {
    let connection = connection();
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let parameters = vec![1; statement.parameter_count()];
    let rows = statement.query_map(rusqlite::params_from_iter(parameters), |row| row.get(3));
    rows.unwrap().map(Result::unwrap).collect()
}

/// Adds pending deliveries: so many endpoints with so many each.
fn fill(connection: &Connection, endpoints: i64, each: i64) {
    let sql = "WITH RECURSIVE
            e (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM e WHERE n < ?1),
            m (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM m WHERE n < ?2)
        INSERT INTO deliveries (endpoint, message, application, partition, turn_order, state, turn,
            due, attempts, ambiguous, last_wait, recorded)
        SELECT e.n, m.n, 1, e.n % 64, 0, 0, m.n, m.n, 0, 0, 0, 0 FROM e, m";
    connection.execute(sql, [endpoints, each]).unwrap();
}

#[test]
fn every_list_walks_one_index_and_sorts_nothing() {
    let lists = [
        (
            load::PENDING,
            "SEARCH d USING INDEX deliveries_pending (endpoint=? AND turn>? AND turn<?)",
        ),
        (
            number::DUE,
            "SEARCH deliveries USING INDEX deliveries_pending (endpoint=? AND turn>? AND turn<?)",
        ),
        (message::NEWEST_FIRST, "SEARCH messages USING INDEX messages_id (application=? AND id<?)"),
        (delivery::OF_ENDPOINT, "SEARCH d USING PRIMARY KEY (endpoint=? AND message<?)"),
        (
            dead_letter::DEAD_LETTERS,
            "SEARCH d USING INDEX deliveries_dead (application=? AND (message,endpoint)<(?,?))",
        ),
        (attempt::OF_ENDPOINT, "SEARCH a USING PRIMARY KEY (endpoint=? AND id<?)"),
    ];
    for (sql, first) in lists {
        let plan = plan(&direct(sql, false));
        assert_eq!(plan[0], first, "{plan:#?}");
        assert!(plan.iter().all(|step| step.starts_with("SEARCH ")), "{plan:#?}");
    }
}

#[test]
fn waiting_endpoints_are_found_without_walking_their_backlog() {
    let plan = plan(load::WAITING);
    assert!(plan.iter().all(|step| !step.contains("TEMP B-TREE")), "{plan:#?}");
    assert!(plan.iter().all(|step| !step.contains("SCAN d")), "{plan:#?}");
    let steps = |each| {
        let connection = connection();
        fill(&connection, 5, each);
        let mut statement = connection.prepare(load::WAITING).unwrap();
        let found = statement.query_map([0, 100, SCHEDULED], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(found.map(Result::unwrap).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        statement.get_status(StatementStatus::VmStep)
    };
    assert_eq!(steps(1), steps(2_000));
}

#[test]
fn a_message_costs_at_most_five_b_trees_and_its_settle_three() {
    let connection = connection();
    // Tables without a row number are one B-tree; so is each index, if the row is in it.
    let indexes = |table: &str| {
        let sql = "SELECT name FROM sqlite_schema
            WHERE type = 'index' AND tbl_name = ?1 AND sql IS NOT NULL ORDER BY name";
        let mut statement = connection.prepare(sql).unwrap();
        let names = statement.query_map([table], |row| row.get(0)).unwrap();
        names.map(Result::unwrap).collect::<Vec<String>>()
    };
    // The message and its id, unless it has an event id; the delivery and its place among the
    // pending, until it is dead; the idempotency key.
    assert_eq!(indexes("messages"), ["messages_event_id", "messages_id"]);
    assert_eq!(indexes("deliveries"), ["deliveries_dead", "deliveries_pending"]);
    assert_eq!(indexes("idempotency"), [""; 0]);
    // The delivery, its place among the pending, the attempt.
    assert_eq!(indexes("attempts"), [""; 0]);
    let without = "SELECT count(*) FROM pragma_table_list
        WHERE wr AND name IN ('deliveries', 'idempotency', 'attempts')";
    assert_eq!(connection.query_row(without, [], |row| row.get(0)), Ok(3));
}
