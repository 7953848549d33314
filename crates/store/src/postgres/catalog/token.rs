//! API tokens.

use domain::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::Error;
use crate::catalog::token::{open_admin, seal_admin};
use crate::catalog::{Ends, Expiry, Granted, Scope, Token};
use crate::page::{Direction, Listed, Page};
use crate::postgres::Postgres;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{boolean, bytea, int8, parameters, text, text_array};
use crate::postgres::io::link::Transaction;
use crate::postgres::page::Walk;
use crate::postgres::row::{
    damaged, field, moment, optional_document, optional_id, optional_moment, write,
};

const MISSING: Error = Error::Missing("token");

/// Keeps a token. The same one again changes nothing.
pub(crate) async fn create(store: &Postgres, token: Token) -> Result<(), Failure> {
    store.writing(async |transaction| create_in(transaction, token).await).await
}

async fn create_in(transaction: &mut Transaction<'_>, new: Token) -> Result<(), Failure> {
    if insert(transaction, &new).await? > 0 {
        return Ok(());
    }
    let Some(row) = find_in(transaction, &new.id).await? else {
        return Err(Error::Missing("application").into());
    };
    if token(&row)? == new {
        return Ok(());
    }
    Err(Error::Taken { what: "token", name: new.id }.into())
}

/// Inserts nothing if the token is for an application that is not there. The application is held, so that
/// its deletion revokes the token or has revoked all before it.
///
/// Indexes: the primary key of tokens, applications_id.
async fn insert(transaction: &mut Transaction<'_>, token: &Token) -> Result<u64, Failure> {
    let statement = "\
        insert into tokens (id, hash, name, application, read_only, created_at, expires_at, \
            revoked_at, grants, session) \
        select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10 \
        where $4 is null or exists ( \
            select 1 from applications where id = $4 and deleted_at is null for share) \
        on conflict (id) do nothing";
    let application = match &token.scope {
        Scope::Admin => None,
        Scope::Application(id) => Some(id.as_bytes().as_slice()),
    };
    let granted = Some(&token.granted).filter(|granted| **granted != Granted::default());
    let columns = [
        text(token.id.as_str()),
        bytea(token.hash.as_slice()),
        text(token.name.as_str()),
        bytea(application),
        boolean(token.read_only),
        int8(token.created_at.as_micros()),
        int8(token.expires_at.map(Timestamp::as_micros)),
        int8(token.revoked_at.map(Timestamp::as_micros)),
        text(granted.map(|granted| write("grants", granted)).transpose()?),
        text(token.session.as_deref()),
    ];
    transaction.execute(statement, &parameters(&columns)).await
}

/// Keeps the hash of the configured admin token, and returns the one before. What stays as it was is not
/// written.
pub(super) async fn keep_admin(
    store: &Postgres,
    hash: Option<[u8; 32]>,
) -> Result<Option<[u8; 32]>, Failure> {
    let sealed = hash.map(|hash| seal_admin(&store.vault, &hash)).transpose()?;
    store
        .writing(async |transaction| {
            let row = find_admin(transaction).await?;
            let known = row.map(|row| field::<Vec<u8>>(&row, "value")).transpose()?;
            let before = known.and_then(|known| open_admin(&store.vault, &known));
            match &sealed {
                _ if before == hash => {}
                Some(sealed) => put_admin(transaction, sealed).await?,
                None => forget_admin(transaction).await?,
            }
            Ok(before)
        })
        .await
}

/// Index: the primary key of meta.
async fn find_admin(transaction: &mut Transaction<'_>) -> Result<Option<Row>, Failure> {
    transaction.one("select value from meta where name = 'admin token'", &[]).await
}

/// Index: the primary key of meta.
async fn put_admin(transaction: &mut Transaction<'_>, sealed: &[u8]) -> Result<(), Failure> {
    let statement = "\
        insert into meta (name, value) values ('admin token', $1) \
        on conflict (name) do update set value = excluded.value";
    transaction.execute(statement, &parameters(&[bytea(sealed)])).await.map(drop)
}

/// Index: the primary key of meta.
async fn forget_admin(transaction: &mut Transaction<'_>) -> Result<(), Failure> {
    let statement = "delete from meta where name = 'admin token'";
    transaction.execute(statement, &[]).await.map(drop)
}

/// Finds a token.
pub(crate) async fn find(store: &Postgres, id: String) -> Result<Token, Failure> {
    let mut transaction = store.look_up().await?;
    let result = find_in(&mut transaction, &id).await;
    let row = transaction.end(result).await?;
    Ok(token(&row.ok_or(MISSING)?)?)
}

/// Index: the primary key of tokens.
async fn find_in(transaction: &mut Transaction<'_>, id: &str) -> Result<Option<Row>, Failure> {
    transaction.one("select * from tokens where id = $1", &[(&id, Type::TEXT)]).await
}

/// Revokes a token. The first time counts.
///
/// Index: the primary key of tokens.
pub(super) async fn revoke(store: &Postgres, id: String, at: Timestamp) -> Result<(), Failure> {
    let statement = "update tokens set revoked_at = coalesce(revoked_at, $2) where id = $1";
    let columns = [text(id), int8(at.as_micros())];
    match store.execute(statement, &parameters(&columns)).await? {
        0 => Err(MISSING.into()),
        _ => Ok(()),
    }
}

/// Ends what is not revoked yet.
///
/// Index: tokens_application.
pub(super) async fn expire(store: &Postgres, expiry: Expiry) -> Result<u32, Failure> {
    let statement = match expiry.ends {
        Ends::Now(_) => {
            "update tokens set revoked_at = $2 where application = $1 and revoked_at is null \
                and ($3::text[] is null or session = any ($3))"
        }
        Ends::Later(_) => {
            "update tokens set expires_at = least(expires_at, $2) \
                where application = $1 and revoked_at is null \
                and ($3::text[] is null or session = any ($3))"
        }
    };
    let (Ends::Now(at) | Ends::Later(at)) = expiry.ends;
    let sessions = Some(expiry.sessions).filter(|sessions| !sessions.is_empty());
    let columns = [
        bytea(expiry.application.as_bytes().as_slice()),
        int8(at.as_micros()),
        text_array(sessions),
    ];
    Ok(u32::try_from(store.execute(statement, &parameters(&columns)).await?).unwrap_or(u32::MAX))
}

/// Index: the primary key of tokens.
pub(crate) async fn list(
    store: &Postgres,
    page: Page<String>,
) -> Result<Listed<Token, String>, Failure> {
    let statement = "\
        select * from tokens where $1::text is null or id {compare} $1 \
        order by id {direction} limit $2";
    let by_id = (Direction::Ascending, Token::bytes as fn(&_) -> _);
    let mut walk = Walk::new(&store.notes, page, by_id);
    let statement = walk.direct(statement);
    while let Some((place, rows)) = walk.next() {
        let mut transaction = store.read().await?;
        let parameters = [(&place as _, Type::TEXT), (&rows as _, Type::INT8)];
        let result = transaction.query(&statement, &parameters).await;
        let rows = transaction.end(result).await?;
        walk.take(&rows, |row| {
            let entry = token(row)?;
            Ok((entry.id.clone(), Some(entry)))
        })?;
    }
    Ok(walk.finish())
}

fn token(row: &Row) -> Result<Token, Error> {
    let hash: &[u8] = field(row, "hash")?;
    let scope = optional_id(row, "application")?.map_or(Scope::Admin, Scope::Application);
    Ok(Token {
        id: field(row, "id")?,
        hash: hash.try_into().map_err(|_| damaged("hash", "it has 32 bytes"))?,
        name: field(row, "name")?,
        scope,
        read_only: field(row, "read_only")?,
        granted: optional_document(row, "grants")?.unwrap_or_default(),
        session: field(row, "session")?,
        created_at: moment(row, "created_at")?,
        expires_at: optional_moment(row, "expires_at")?,
        revoked_at: optional_moment(row, "revoked_at")?,
    })
}
