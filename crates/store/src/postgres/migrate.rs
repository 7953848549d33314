//! Bringing the schema up to date, and refusing what this version cannot work on.
//!
//! Steps at start only expand: the version before goes on working while they run and afterwards. So
//! a binary starts on its own schema version or the next, and on no other. Nodes that start
//! together take turns by an advisory lock that ends with its transaction.

use std::time::Duration;

use tokio_postgres::types::Type;

use crate::postgres::failure::Failure;
use crate::postgres::io::link::{Access, Pool, Transaction};
use crate::postgres::row::field;
use crate::{Error, Vault};

/// How long a step waits for a table. Whoever wants the table after it waits behind it, accepting
/// included, while a long read in front of it may take its time.
const LOCK_TIMEOUT: &str = "set local lock_timeout = '500ms'";
/// How long the others have the tables to themselves before the next try, and how many tries there
/// are: about as long as a statement may take.
const BETWEEN_TRIES: Duration = Duration::from_millis(500);
const TRIES: u32 = 10;

/// The oldest server that has what the statements use.
const OLDEST_SERVER: i32 = 13;

/// A step.
struct Migration {
    version: i32,
    name: &'static str,
    statements: &'static str,
}

/// All steps, in their order.
const MIGRATIONS: [Migration; 11] = [
    Migration {
        version: 1,
        name: "first",
        statements: include_str!("../../migrations/postgres/0001_first.sql"),
    },
    Migration {
        version: 2,
        name: "memories",
        statements: include_str!("../../migrations/postgres/0002_memories.sql"),
    },
    Migration {
        version: 3,
        name: "skipped",
        statements: include_str!("../../migrations/postgres/0003_skipped.sql"),
    },
    Migration {
        version: 4,
        name: "terms",
        statements: include_str!("../../migrations/postgres/0004_terms.sql"),
    },
    Migration {
        version: 5,
        name: "reused",
        statements: include_str!("../../migrations/postgres/0005_reused.sql"),
    },
    Migration {
        version: 6,
        name: "changes",
        statements: include_str!("../../migrations/postgres/0006_changes.sql"),
    },
    Migration {
        version: 7,
        name: "renamed",
        statements: include_str!("../../migrations/postgres/0007_renamed.sql"),
    },
    Migration {
        version: 8,
        name: "kept",
        statements: include_str!("../../migrations/postgres/0008_kept.sql"),
    },
    Migration {
        version: 9,
        name: "counters",
        statements: include_str!("../../migrations/postgres/0009_counters.sql"),
    },
    Migration {
        version: 10,
        name: "sizes",
        statements: include_str!("../../migrations/postgres/0010_sizes.sql"),
    },
    Migration {
        version: 11,
        name: "hops",
        statements: include_str!("../../migrations/postgres/0011_hops.sql"),
    },
];

/// What is left to be done about the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    /// A step was run; there may be others.
    Something,
}

/// Checks the server, runs what is missing, and checks the key. Each step is a transaction of its own: one
/// that held a table and waited for another would stand in the way of nodes that write, which take them in
/// another order.
pub(crate) async fn migrate(pool: &Pool, vault: &Vault) -> Result<(), Error> {
    let mut tried = 0;
    loop {
        let mut transaction = pool.begin(Access::Write).await?;
        let result = step(&mut transaction, vault).await;
        match transaction.end(result).await {
            Ok(Left::Nothing) => return Ok(()),
            Ok(Left::Something) => tried = 0,
            Err(Failure::Conflict(_)) if tried + 1 < TRIES => {
                tried += 1;
                tokio::time::sleep(BETWEEN_TRIES).await;
            }
            Err(failure) => return Err(failure.into()),
        }
    }
}

/// Runs the first step that is missing; if none is, checks the key.
async fn step(transaction: &mut Transaction<'_>, vault: &Vault) -> Result<Left, Failure> {
    check_server(transaction).await?;
    lock(transaction).await?;
    let versions = versions(transaction).await?;
    refuse_strangers(&versions)?;
    for migration in &MIGRATIONS {
        let checksum = checksum(transaction, migration).await?;
        match versions.iter().find(|applied| applied.version == migration.version) {
            Some(applied) if applied.checksum == checksum => {}
            Some(_) => return Err(changed(migration).into()),
            None => {
                run(transaction, migration, &checksum).await?;
                return Ok(Left::Something);
            }
        }
    }
    check_key(transaction, vault).await?;
    Ok(Left::Nothing)
}

/// What a look at a database found.
pub(crate) struct Found {
    /// Whether this server can be used.
    pub(crate) server: Result<(), Error>,
    /// How many steps its schema is behind, or why this version cannot use it.
    pub(crate) behind: Result<usize, Error>,
    /// Whether the key fits.
    pub(crate) key: Result<(), Error>,
}

/// Looks at a database, and changes nothing.
pub(crate) async fn look(
    transaction: &mut Transaction<'_>,
    vault: &Vault,
) -> Result<Found, Failure> {
    let server = decided(check_server(transaction).await)?;
    if !has_table(transaction, "schema_versions").await? {
        return Ok(Found { server, behind: Ok(MIGRATIONS.len()), key: Ok(()) });
    }
    let versions = read_versions(transaction).await?;
    let known = |migration: &&Migration| {
        versions.iter().any(|applied| applied.version == migration.version)
    };
    let mut behind = refuse_strangers(&versions);
    for migration in MIGRATIONS.iter().filter(known) {
        let checksum = checksum(transaction, migration).await?;
        if !versions.iter().any(|it| it.version == migration.version && it.checksum == checksum) {
            behind = behind.and(Err(changed(migration)));
        }
    }
    let missing = MIGRATIONS.len() - MIGRATIONS.iter().filter(known).count();
    let key = match canary(transaction).await? {
        Some(canary) if !vault.knows(&canary) => Err(another_key()),
        Some(_) | None => Ok(()),
    };
    Ok(Found { server, behind: behind.map(|()| missing), key })
}

/// Takes what was decided about a database out of what may go wrong on the way to it.
fn decided(result: Result<(), Failure>) -> Result<Result<(), Error>, Failure> {
    match result {
        Ok(()) => Ok(Ok(())),
        Err(Failure::Final(error @ Error::CannotOpen(_))) => Ok(Err(error)),
        Err(failure) => Err(failure),
    }
}

async fn check_server(transaction: &mut Transaction<'_>) -> Result<(), Failure> {
    let statement = "select current_setting('server_version_num')::int as version, \
                     current_setting('server_version') as name, \
                     current_setting('fsync') as fsync";
    let Some(row) = transaction.one(statement, &[]).await? else {
        return Err(cannot_open("PostgreSQL does not tell its version").into());
    };
    refuse_server(field(&row, "version")?, field(&row, "name")?, field(&row, "fsync")?)?;
    Ok(())
}

/// Refuses a server that is too old, or that would lose what it has acknowledged.
fn refuse_server(version: i32, name: &str, fsync: &str) -> Result<(), Error> {
    if version < OLDEST_SERVER * 10_000 {
        return Err(cannot_open(format!(
            "this is PostgreSQL {name}; Redial needs version {OLDEST_SERVER} or later"
        )));
    }
    if fsync != "on" {
        return Err(cannot_open(
            "this PostgreSQL runs with fsync = off and would lose what it has acknowledged; \
             set fsync = on and restart it",
        ));
    }
    Ok(())
}

/// Waits until no other node migrates the same schema.
async fn lock(transaction: &mut Transaction<'_>) -> Result<(), Failure> {
    let statement = "select pg_advisory_xact_lock(\
                     hashtextextended('redial schema ' || current_schema(), 0))::text";
    transaction.query(statement, &[]).await?;
    Ok(())
}

struct Applied {
    version: i32,
    name: String,
    checksum: String,
}

async fn versions(transaction: &mut Transaction<'_>) -> Result<Vec<Applied>, Failure> {
    let create = "create table if not exists schema_versions (\
                      version integer primary key, \
                      name text not null, \
                      checksum text not null, \
                      applied_at timestamptz not null default clock_timestamp())";
    // Asked first: creating needs a right on the schema that a careful operator takes away.
    if !has_table(transaction, "schema_versions").await? {
        transaction.run(create).await?;
    }
    read_versions(transaction).await
}

async fn has_table(transaction: &mut Transaction<'_>, name: &str) -> Result<bool, Failure> {
    let statement = "select 1 where to_regclass($1) is not null";
    Ok(transaction.one(statement, &[(&name, Type::TEXT)]).await?.is_some())
}

async fn read_versions(transaction: &mut Transaction<'_>) -> Result<Vec<Applied>, Failure> {
    let statement = "select version, name, checksum from schema_versions order by version";
    let rows = transaction.query(statement, &[]).await?;
    let applied = rows.iter().map(|row| {
        Ok(Applied {
            version: field(row, "version")?,
            name: field(row, "name")?,
            checksum: field(row, "checksum")?,
        })
    });
    applied.collect()
}

/// Refuses a schema that is more than one version ahead.
fn refuse_strangers(versions: &[Applied]) -> Result<(), Error> {
    let newest = MIGRATIONS.last().map_or(0, |migration| migration.version);
    match versions.last() {
        Some(applied) if applied.version > newest + 1 => Err(cannot_open(format!(
            "the database has schema version {} (`{}`); this Redial knows version {newest} and \
             works with {} at the most. Start a newer Redial",
            applied.version,
            applied.name,
            newest + 1,
        ))),
        Some(_) | None => Ok(()),
    }
}

async fn checksum(
    transaction: &mut Transaction<'_>,
    migration: &Migration,
) -> Result<String, Failure> {
    let statement = "select encode(sha256(convert_to($1, 'UTF8')), 'hex') as checksum";
    let row = transaction.one(statement, &[(&migration.statements, Type::TEXT)]).await?;
    let row = row.ok_or_else(|| cannot_open("PostgreSQL does not compute a checksum"))?;
    Ok(field(&row, "checksum")?)
}

async fn run(
    transaction: &mut Transaction<'_>,
    migration: &Migration,
    checksum: &str,
) -> Result<(), Failure> {
    transaction.run(LOCK_TIMEOUT).await?;
    transaction.run(migration.statements).await?;
    let statement = "insert into schema_versions (version, name, checksum) values ($1, $2, $3)";
    let parameters = [
        (&migration.version as _, Type::INT4),
        (&migration.name as _, Type::TEXT),
        (&checksum as _, Type::TEXT),
    ];
    transaction.execute(statement, &parameters).await?;
    Ok(())
}

/// Compares the key with the one this database was first opened with.
async fn check_key(transaction: &mut Transaction<'_>, vault: &Vault) -> Result<(), Failure> {
    match canary(transaction).await? {
        Some(canary) if vault.knows(&canary) => Ok(()),
        Some(_) => Err(another_key().into()),
        None => {
            let canary = vault.canary()?;
            let statement = "insert into meta (name, value) values ('canary', $1)";
            transaction.execute(statement, &[(&canary, Type::BYTEA)]).await?;
            Ok(())
        }
    }
}

/// Index: the primary key of meta.
async fn canary(transaction: &mut Transaction<'_>) -> Result<Option<Vec<u8>>, Failure> {
    let statement = "select value from meta where name = 'canary'";
    let row = transaction.one(statement, &[]).await?;
    Ok(row.map(|row| field(&row, "value")).transpose()?)
}

fn another_key() -> Error {
    cannot_open(
        "the configured key is not the one this database was encrypted with; configure the key it \
         was created with",
    )
}

fn changed(migration: &Migration) -> Error {
    cannot_open(format!(
        "schema version {} (`{}`) of this database is not the one this Redial knows under that \
         number; it was made by a build of its own. Start that one",
        migration.version, migration.name,
    ))
}

fn cannot_open(text: impl Into<String>) -> Error {
    Error::CannotOpen(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(version: i32) -> Vec<Applied> {
        vec![Applied { version, name: "later".to_owned(), checksum: String::new() }]
    }

    #[test]
    fn the_next_schema_version_is_accepted_and_the_one_after_refused_by_name() {
        assert!(refuse_strangers(&[]).is_ok());
        assert!(refuse_strangers(&applied(12)).is_ok());
        let refusal = refuse_strangers(&applied(13)).unwrap_err().to_string();
        assert!(refusal.contains("schema version 13 (`later`)"), "{refusal}");
    }

    #[test]
    fn old_servers_and_those_without_fsync_are_refused() {
        assert!(refuse_server(130_000, "13.0", "on").is_ok());
        let old = refuse_server(120_022, "12.22", "on").unwrap_err().to_string();
        assert!(old.contains("PostgreSQL 12.22"), "{old}");
        let unsafe_one = refuse_server(170_000, "17.0", "off").unwrap_err().to_string();
        assert!(unsafe_one.contains("fsync = on"), "{unsafe_one}");
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn a_store_in_a_file_has_the_same_steps() {
        let ours = MIGRATIONS.iter().map(|step| (i64::from(step.version), step.name));
        assert!(ours.eq(crate::sqlite::steps()));
    }

    #[test]
    fn versions_count_from_one_without_gaps() {
        for (position, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(usize::try_from(migration.version), Ok(position + 1), "{}", migration.name);
        }
    }
}
