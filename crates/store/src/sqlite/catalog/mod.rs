//! The catalog, handed to the threads that can do it.

pub(super) mod application;
pub(super) mod endpoint;
mod event_type;
pub(super) mod fan_out;
mod renamed;
pub(super) mod running;
pub(super) mod secret;
mod size;
pub(super) mod token;

use domain::ids::{ApplicationId, EndpointId};
use domain::time::Timestamp;

use crate::Answer;
use crate::catalog::{
    Admission, Application, Catalog, Change, Changed, Changes, Check, Edit, Endpoint, EndpointEdit,
    EventType, Expiry, FanOut, Name, NewApplication, NewEndpoint, Renamed, Schemas, Secret, Token,
};
use crate::keys::{ApplicationKey, EndpointKey};
use crate::page::{Listed, Page};
use crate::queue::Running;
use crate::sqlite::Sqlite;

impl Catalog for Sqlite {
    fn create_application(&self, new: NewApplication) -> Answer<'_, Application> {
        self.write(move |writing| application::create(writing, &new))
    }

    fn application(&self, name: Name<ApplicationId>) -> Answer<'_, Application> {
        self.look_up(move |reading| application::find(reading.connection, &name))
    }

    fn change_application(
        &self,
        key: ApplicationKey,
        change: Edit<Application>,
        at: Timestamp,
    ) -> Answer<'_, Changed<Application>> {
        self.write(move |writing| application::change(writing, key, &change, at))
    }

    fn delete_application_if(
        &self,
        key: ApplicationKey,
        check: Check<Application>,
        at: Timestamp,
    ) -> Answer<'_, ()> {
        self.write(move |writing| application::delete(writing, key, &check, at))
    }

    fn applications(
        &self,
        page: Page<ApplicationId>,
    ) -> Answer<'_, Listed<Application, ApplicationId>> {
        self.read(move |reading| application::list(reading, &page))
    }

    fn create_endpoint_if(&self, new: NewEndpoint, admission: Admission) -> Answer<'_, Endpoint> {
        self.write(move |writing| endpoint::create(writing, &new, &admission))
    }

    fn endpoint(
        &self,
        application: ApplicationKey,
        name: Name<EndpointId>,
    ) -> Answer<'_, Endpoint> {
        self.read(move |reading| {
            endpoint::find(reading.connection, reading.vault, application, &name)
        })
    }

    fn change_endpoint(
        &self,
        application: ApplicationKey,
        key: EndpointKey,
        change: EndpointEdit,
        at: Timestamp,
    ) -> Answer<'_, Changed<Endpoint>> {
        self.write(move |writing| endpoint::change(writing, (application, key), &change, at))
    }

    fn endpoints(
        &self,
        application: ApplicationKey,
        page: Page<EndpointId>,
    ) -> Answer<'_, Listed<Endpoint, EndpointId>> {
        self.read(move |reading| endpoint::list(reading, application, &page))
    }

    fn endpoints_by_key(
        &self,
        application: ApplicationKey,
        keys: Vec<EndpointKey>,
    ) -> Answer<'_, Vec<Endpoint>> {
        self.read(move |reading| endpoint::by_keys(reading, application, &keys))
    }

    fn endpoint_ids(
        &self,
        application: ApplicationKey,
        keys: Vec<EndpointKey>,
    ) -> Answer<'_, Vec<(EndpointKey, EndpointId)>> {
        self.read(move |reading| endpoint::ids_of(reading, application, &keys))
    }

    fn endpoint_key(&self, application: ApplicationKey, id: EndpointId) -> Answer<'_, EndpointKey> {
        self.read(move |reading| endpoint::key_of(reading, application, id))
    }

    fn running(
        &self,
        application: ApplicationKey,
        keys: Vec<EndpointKey>,
    ) -> Answer<'_, Vec<(EndpointKey, Running)>> {
        self.read(move |reading| running::by_keys(reading, application, &keys))
    }

    fn secrets(
        &self,
        application: ApplicationKey,
        key: EndpointKey,
        at: Timestamp,
    ) -> Answer<'_, Vec<Secret>> {
        self.read(move |reading| {
            endpoint::exists(reading.connection, application, key)?;
            secret::live(reading.connection, reading.vault, (application, key), at)
        })
    }

    fn fan_out(&self, application: ApplicationKey, at: Timestamp) -> Answer<'_, FanOut> {
        self.read(move |reading| fan_out::fan_out(reading, application, at))
    }

    fn changes(&self, since: Option<Timestamp>, after: Option<Change>) -> Answer<'_, Changes> {
        let now = self.writer.now();
        self.look_up(move |reading| {
            let connection = reading.connection;
            let event_types = event_type::changes(connection)?;
            let applications = application::changes(connection, (now, since), after)?;
            Ok(Changes { now, event_types, applications })
        })
    }

    fn create_event_type(&self, event_type: EventType) -> Answer<'_, ()> {
        self.write(move |writing| event_type::create(writing.connection, &event_type))
    }

    fn change_event_type(
        &self,
        name: String,
        change: Edit<EventType>,
        at: Timestamp,
    ) -> Answer<'_, Changed<EventType>> {
        self.write(move |writing| event_type::change(writing.connection, &name, &change, at))
    }

    fn event_type(&self, name: String) -> Answer<'_, EventType> {
        self.read(move |reading| event_type::find(reading.connection, &name))
    }

    fn remove_event_type(&self, name: String, check: Check<EventType>) -> Answer<'_, ()> {
        self.write(move |writing| event_type::remove(writing.connection, &name, &check))
    }

    fn event_types(
        &self,
        schemas: Schemas,
        page: Page<String>,
    ) -> Answer<'_, Listed<EventType, String>> {
        self.read(move |reading| event_type::list(reading, schemas, &page))
    }

    fn create_token(&self, token: Token) -> Answer<'_, ()> {
        self.write(move |writing| token::create(writing.connection, &token))
    }

    fn keep_admin_token(&self, hash: Option<[u8; 32]>) -> Answer<'_, Option<[u8; 32]>> {
        self.write(move |writing| token::keep_admin(writing, hash))
    }

    fn token(&self, id: String) -> Answer<'_, Token> {
        self.look_up(move |reading| token::find(reading.connection, &id))
    }

    fn revoke_token(&self, id: String, at: Timestamp) -> Answer<'_, ()> {
        self.write(move |writing| token::revoke(writing.connection, &id, at))
    }

    fn expire_tokens(&self, expiry: Expiry) -> Answer<'_, u32> {
        self.write(move |writing| token::expire(writing.connection, &expiry))
    }

    fn tokens(&self, page: Page<String>) -> Answer<'_, Listed<Token, String>> {
        self.read(move |reading| token::list(reading, &page))
    }

    fn renamed(&self, told: Vec<Renamed>) -> Answer<'_, Vec<Renamed>> {
        self.write(move |writing| renamed::next(writing.connection, &told))
    }
}
