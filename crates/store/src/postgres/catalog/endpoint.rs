//! Endpoints. What is confidential is sealed for its own row.

use domain::ids::EndpointId;
use domain::partition::Partition;
use domain::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::catalog::{
    Admission, Changed, Confidential, Endpoint, EndpointEdit, Name, NewEndpoint, Size, Touches,
    edit,
};
use crate::keys::{ApplicationKey, EndpointKey};
use crate::page::{Direction, Listed, Page};
use crate::postgres::Postgres;
use crate::postgres::catalog::{application, secret, size};
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{bytea, int2, int8, int8_array, parameters, text};
use crate::postgres::io::link::Transaction;
use crate::postgres::io::partitions::number;
use crate::postgres::page::Walk;
use crate::postgres::row::{self, document, field, id, moment, write};
use crate::{Error, Vault, codes, limits};

pub(crate) const MISSING: Error = Error::Missing("endpoint");

/// Creates an endpoint with its first secret. The same one again is found, not made again.
pub(crate) async fn create(
    store: &Postgres,
    new: NewEndpoint,
    admission: Admission,
) -> Result<Endpoint, Failure> {
    let mut turn = store.turn(new.application).await?;
    loop {
        let mut transaction = turn.begin().await?;
        let result = create_in(&mut transaction, store, &new, &admission).await;
        match transaction.end(result).await {
            Err(failure) if turn.again(&failure) => {}
            // The same one was created between our look and our insert.
            Err(failure) if failure.violates("endpoints_id") => {
                return find(store, new.application, Name::Id(new.id)).await;
            }
            result => return result.map_err(|failure| taken(failure, new.uid.as_deref())),
        }
    }
}

async fn create_in(
    transaction: &mut Transaction<'_>,
    store: &Postgres,
    new: &NewEndpoint,
    admission: &Admission,
) -> Result<Endpoint, Failure> {
    let name = Name::Id(new.id);
    if let Some(row) = find_in(transaction, new.application, &name).await? {
        return Ok(endpoint(&row, &store.vault)?);
    }
    application::changed(transaction, new.application, Touches::FanOut).await?;
    let sizes = (Size::default(), Size::of_new(new));
    size::replace(transaction, (&store.vault, new.application), sizes, admission).await?;
    let key = next_key(transaction).await?;
    let place = (new.application, key);
    insert(transaction, new, key, seal(&store.vault, place, &new.confidential)?).await?;
    secret::insert(transaction, &store.vault, place, &new.secret).await?;
    Ok(Endpoint {
        key,
        application: new.application,
        id: new.id,
        uid: new.uid.clone(),
        partition: Partition::of(&new.id),
        state: new.state,
        order: new.order,
        settings: new.settings.clone(),
        confidential: new.confidential.clone(),
        created_at: new.at,
        updated_at: new.at,
    })
}

/// Returns endpoints by row, tombstones included, as long as their application is there.
///
/// Indexes: the primary keys of endpoints and applications.
pub(super) async fn by_keys(
    store: &Postgres,
    application: ApplicationKey,
    keys: Vec<EndpointKey>,
) -> Result<Vec<Endpoint>, Failure> {
    let statement = "\
        select e.* from endpoints e \
        join applications a on a.key = e.application and a.deleted_at is null \
        where e.application = $1 and e.key = any($2) order by e.key";
    let keys: Vec<i64> = keys.iter().map(|key| key.0).collect();
    let columns = [int8(application.0), int8_array(keys)];
    let rows = store.query(statement, &parameters(&columns)).await?;
    Ok(rows.iter().map(|row| endpoint(row, &store.vault)).collect::<Result<_, Error>>()?)
}

/// Returns the ids of endpoints by row, tombstones included.
///
/// Indexes: the primary keys of endpoints and applications.
pub(super) async fn ids_of(
    store: &Postgres,
    application: ApplicationKey,
    keys: Vec<EndpointKey>,
) -> Result<Vec<(EndpointKey, EndpointId)>, Failure> {
    let statement = "\
        select e.key, e.id from endpoints e \
        join applications a on a.key = e.application and a.deleted_at is null \
        where e.application = $1 and e.key = any($2) order by e.key";
    let keys: Vec<i64> = keys.iter().map(|key| key.0).collect();
    let columns = [int8(application.0), int8_array(keys)];
    let rows = store.query(statement, &parameters(&columns)).await?;
    rows.iter().map(|row| Ok((EndpointKey(field(row, "key")?), id(row, "id")?))).collect()
}

/// Finds an endpoint's row, tombstones included, as long as its application is there.
///
/// Indexes: endpoints_id; the primary key of applications.
pub(super) async fn key_of(
    store: &Postgres,
    application: ApplicationKey,
    id: EndpointId,
) -> Result<EndpointKey, Failure> {
    let statement = "\
        select e.key from endpoints e \
        join applications a on a.key = e.application and a.deleted_at is null \
        where e.application = $1 and e.id = $2";
    let columns = [int8(application.0), bytea(id.as_bytes().to_vec())];
    let row = store.one(statement, &parameters(&columns)).await?;
    Ok(EndpointKey(field(&row.ok_or(MISSING)?, "key")?))
}

/// The key is needed before the row: what is sealed is sealed for it.
async fn next_key(transaction: &mut Transaction<'_>) -> Result<EndpointKey, Failure> {
    let row = transaction.one("select nextval('endpoint_keys') as key", &[]).await?;
    Ok(EndpointKey(field(&row.ok_or(MISSING)?, "key")?))
}

/// Indexes: those of endpoints.
async fn insert(
    transaction: &mut Transaction<'_>,
    new: &NewEndpoint,
    key: EndpointKey,
    confidential: Vec<u8>,
) -> Result<(), Failure> {
    let statement = "\
        insert into endpoints (application, key, id, uid, partition, state, reason, ordering, \
            settings, confidential, created_at, updated_at) \
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11)";
    let (state, reason) = codes::state(new.state);
    let columns = [
        int8(new.application.0),
        int8(key.0),
        bytea(new.id.as_bytes().as_slice()),
        text(new.uid.as_deref()),
        int2(number(Partition::of(&new.id))),
        int2(state),
        int2(reason),
        int2(codes::order(new.order)),
        text(write("settings", &new.settings)?),
        bytea(confidential),
        int8(new.at.as_micros()),
    ];
    transaction.execute(statement, &parameters(&columns)).await?;
    Ok(())
}

/// Finds an endpoint that is not deleted.
pub(crate) async fn find(
    store: &Postgres,
    application: ApplicationKey,
    name: Name<EndpointId>,
) -> Result<Endpoint, Failure> {
    let row =
        store.reading(async |transaction| find_in(transaction, application, &name).await).await?;
    Ok(endpoint(&row.ok_or(MISSING)?, &store.vault)?)
}

/// Indexes: endpoints_id, endpoints_uid; the primary key of applications.
async fn find_in(
    transaction: &mut Transaction<'_>,
    application: ApplicationKey,
    name: &Name<EndpointId>,
) -> Result<Option<Row>, Failure> {
    let statement = "\
        select e.* from endpoints e \
        join applications a on a.key = e.application and a.deleted_at is null \
        where e.application = $1 and e.state <> 3 \
          and case when $2::bytea is not null then e.id = $2 else e.uid = $3 end";
    let (by_id, by_uid) = match name {
        Name::Id(id) => (Some(id.as_bytes().as_slice()), None),
        Name::Uid(uid) => (None, Some(uid.as_str())),
    };
    let parameters =
        [(&application.0 as _, Type::INT8), (&by_id as _, Type::BYTEA), (&by_uid as _, Type::TEXT)];
    transaction.one(statement, &parameters).await
}

/// Changes an endpoint by a function of its row as it is.
pub(super) async fn change(
    store: &Postgres,
    place: (ApplicationKey, EndpointKey),
    change: EndpointEdit,
    at: Timestamp,
) -> Result<Changed<Endpoint>, Failure> {
    let mut turn = store.turn(place.0).await?;
    loop {
        let mut transaction = turn.begin().await?;
        let result = change_in(&mut transaction, (&store.vault, place), &change, at).await;
        match transaction.end(result).await {
            Err(failure) if turn.again(&failure) => {}
            result => return result,
        }
    }
}

async fn change_in(
    transaction: &mut Transaction<'_>,
    (vault, place): (&Vault, (ApplicationKey, EndpointKey)),
    change: &EndpointEdit,
    at: Timestamp,
) -> Result<Changed<Endpoint>, Failure> {
    // The application first, as every change of the catalog does. Once it is held, no accept adds a
    // pending delivery in the old order.
    application::hold(transaction, place.0).await.map_err(hidden)?;
    let before = endpoint(&look(transaction, place).await?, vault)?;
    let changed = edit::endpoint(&before, change, at)?;
    let rotated = match &change.secret {
        Some(new) => secret::replace(transaction, vault, place, new).await?,
        None => false,
    };
    let (after, touches) = match changed {
        Some(changed) => changed,
        None if rotated => (edit::rotated(&before, at), Touches::Rest),
        None => return Ok(Changed::nothing(before)),
    };
    if before.order != after.order && has_pending(transaction, &before).await? {
        return Err(limits::reordered().into());
    }
    let sizes = (Size::of(&before), Size::of(&after));
    size::replace(transaction, (vault, place.0), sizes, &change.admission).await?;
    let rewritten = rewrite(transaction, &after, seal(vault, place, &after.confidential)?).await;
    rewritten.map_err(|failure| taken(failure, after.uid.as_deref()))?;
    application::changed(transaction, place.0, touches).await?;
    Ok(Changed { before, after })
}

/// Reads an endpoint's row and holds it until the transaction ends.
///
/// Index: the primary key of endpoints.
async fn look(
    transaction: &mut Transaction<'_>,
    (application, key): (ApplicationKey, EndpointKey),
) -> Result<Row, Failure> {
    let statement = "\
        select * from endpoints where application = $1 and key = $2 and state <> 3 \
        for no key update";
    let columns = [int8(application.0), int8(key.0)];
    let row = transaction.one(statement, &parameters(&columns)).await?;
    row.ok_or_else(|| MISSING.into())
}

/// Index: deliveries_pending.
async fn has_pending(
    transaction: &mut Transaction<'_>,
    endpoint: &Endpoint,
) -> Result<bool, Failure> {
    let statement = "\
        select exists ( \
            select 1 from deliveries d \
            where d.state = 0 and d.partition = $1 and d.endpoint = $2) as pending";
    let columns = [int2(number(endpoint.partition)), int8(endpoint.key.0)];
    let row = transaction.one(statement, &parameters(&columns)).await?;
    Ok(field(&row.ok_or(MISSING)?, "pending")?)
}

/// Index: the primary key of endpoints.
async fn rewrite(
    transaction: &mut Transaction<'_>,
    endpoint: &Endpoint,
    confidential: Vec<u8>,
) -> Result<(), Failure> {
    let statement = "\
        update endpoints \
        set uid = $3, state = $4, reason = $5, ordering = $6, settings = $7, confidential = $8, \
            updated_at = $9 \
        where application = $1 and key = $2";
    let (state, reason) = codes::state(endpoint.state);
    let columns = [
        int8(endpoint.application.0),
        int8(endpoint.key.0),
        text(endpoint.uid.as_deref()),
        int2(state),
        int2(reason),
        int2(codes::order(endpoint.order)),
        text(write("settings", &endpoint.settings)?),
        bytea(confidential),
        int8(endpoint.updated_at.as_micros()),
    ];
    transaction.execute(statement, &parameters(&columns)).await?;
    Ok(())
}

/// Lists an application's endpoints by id, descending.
///
/// Index: endpoints_id.
pub(crate) async fn list(
    store: &Postgres,
    application: ApplicationKey,
    page: Page<EndpointId>,
) -> Result<Listed<Endpoint, EndpointId>, Failure> {
    let statement = "\
        select * from ( \
            select e.*, sum(e.row_bytes) over (order by e.id {direction}) as so_far \
            from ( \
                select e.*, octet_length(e.settings) + octet_length(e.confidential) as row_bytes \
                from endpoints e \
                join applications a on a.key = e.application and a.deleted_at is null \
                where e.application = $1 and e.state <> 3 \
                    and ($2::bytea is null or e.id {compare} $2) \
                order by e.id {direction} limit $3) e) e \
        where so_far - row_bytes < $4 order by id {direction}";
    let newest_first = (Direction::Descending, Endpoint::bytes as fn(&_) -> _);
    let mut walk = Walk::new(&store.notes, page, newest_first);
    let statement = walk.direct(statement);
    while let Some((place, rows)) = walk.next() {
        let place = place.as_ref().map(|id| id.as_bytes().as_slice());
        let most_bytes = walk.most_bytes();
        let parameters = [
            (&application.0 as _, Type::INT8),
            (&place as _, Type::BYTEA),
            (&rows as _, Type::INT8),
            (&most_bytes as _, Type::INT8),
        ];
        let rows = store.query(&statement, &parameters).await?;
        walk.take(&rows, |row| {
            let entry = endpoint(row, &store.vault)?;
            Ok((entry.id, Some(entry)))
        })?;
    }
    Ok(walk.finish())
}

/// Reads an endpoint's row.
pub(crate) fn endpoint(row: &Row, vault: &Vault) -> Result<Endpoint, Error> {
    let application = ApplicationKey(field(row, "application")?);
    let key = EndpointKey(field(row, "key")?);
    let sealed = vault.open(&context((application, key)), field(row, "confidential")?)?;
    let confidential =
        serde_json::from_slice(&sealed).map_err(|error| row::damaged("confidential", error))?;
    Ok(Endpoint {
        key,
        application,
        id: id(row, "id")?,
        uid: field(row, "uid")?,
        partition: row::partition(row, "partition")?,
        state: codes::read_state(field(row, "state")?, field(row, "reason")?)?,
        order: codes::read_order(field(row, "ordering")?)?,
        settings: document(row, "settings")?,
        confidential,
        created_at: moment(row, "created_at")?,
        updated_at: moment(row, "updated_at")?,
    })
}

fn seal(
    vault: &Vault,
    place: (ApplicationKey, EndpointKey),
    confidential: &Confidential,
) -> Result<Vec<u8>, Error> {
    vault.seal(&context(place), write("confidential", confidential)?.as_bytes())
}

fn context((application, endpoint): (ApplicationKey, EndpointKey)) -> String {
    format!("endpoints, application {}, endpoint {}, confidential", application.0, endpoint.0)
}

/// An endpoint of an application that is gone is gone, too.
pub(super) fn hidden(failure: Failure) -> Failure {
    match failure {
        Failure::Final(Error::Missing(_)) => MISSING.into(),
        Failure::Final(_)
        | Failure::Lost(_)
        | Failure::Unknown(_)
        | Failure::Conflict(_)
        | Failure::Slow(_)
        | Failure::Data { .. } => failure,
    }
}

fn taken(failure: Failure, uid: Option<&str>) -> Failure {
    if failure.violates("endpoints_uid") {
        let name = uid.unwrap_or_default().to_owned();
        return Error::Taken { what: "uid", name }.into();
    }
    failure
}
