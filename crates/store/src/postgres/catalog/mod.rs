//! What people set up. Every write that accepting or sending sees notes first that its application is
//! changed, and so waits for the accepts that hold it, and later accepts for it. The `gate`
//! sees to it that its turn comes.

mod application;
mod endpoint;
mod event_type;
mod fan_out;
mod renamed;
mod running;
mod secret;
mod size;
mod token;

use domain::ids::{ApplicationId, EndpointId};
use domain::time::Timestamp;

use crate::Answer;
use crate::catalog::{
    Admission, Application, Catalog, Change, Changed, Changes, Check, Edit, Endpoint, EndpointEdit,
    EventType, Expiry, FanOut, Name, NewApplication, NewEndpoint, Renamed, Schemas, Secret, Token,
};
use crate::keys::{ApplicationKey, EndpointKey};
use crate::page::{Listed, Page};
use crate::postgres::Postgres;
use crate::queue::Running;

impl Catalog for Postgres {
    fn create_application(&self, new: NewApplication) -> Answer<'_, Application> {
        self.answer(application::create(self, new))
    }

    fn application(&self, name: Name<ApplicationId>) -> Answer<'_, Application> {
        self.answer(application::find(self, name))
    }

    fn change_application(
        &self,
        key: ApplicationKey,
        change: Edit<Application>,
        at: Timestamp,
    ) -> Answer<'_, Changed<Application>> {
        self.answer(application::change(self, key, change, at))
    }

    fn delete_application_if(
        &self,
        key: ApplicationKey,
        check: Check<Application>,
        at: Timestamp,
    ) -> Answer<'_, ()> {
        self.answer(application::delete(self, key, check, at))
    }

    fn applications(
        &self,
        page: Page<ApplicationId>,
    ) -> Answer<'_, Listed<Application, ApplicationId>> {
        self.answer(application::list(self, page))
    }

    fn create_endpoint_if(&self, new: NewEndpoint, admission: Admission) -> Answer<'_, Endpoint> {
        self.answer(endpoint::create(self, new, admission))
    }

    fn endpoint(
        &self,
        application: ApplicationKey,
        name: Name<EndpointId>,
    ) -> Answer<'_, Endpoint> {
        self.answer(endpoint::find(self, application, name))
    }

    fn change_endpoint(
        &self,
        application: ApplicationKey,
        key: EndpointKey,
        change: EndpointEdit,
        at: Timestamp,
    ) -> Answer<'_, Changed<Endpoint>> {
        self.answer(endpoint::change(self, (application, key), change, at))
    }

    fn endpoints(
        &self,
        application: ApplicationKey,
        page: Page<EndpointId>,
    ) -> Answer<'_, Listed<Endpoint, EndpointId>> {
        self.answer(endpoint::list(self, application, page))
    }

    fn endpoints_by_key(
        &self,
        application: ApplicationKey,
        keys: Vec<EndpointKey>,
    ) -> Answer<'_, Vec<Endpoint>> {
        self.answer(endpoint::by_keys(self, application, keys))
    }

    fn endpoint_ids(
        &self,
        application: ApplicationKey,
        keys: Vec<EndpointKey>,
    ) -> Answer<'_, Vec<(EndpointKey, EndpointId)>> {
        self.answer(endpoint::ids_of(self, application, keys))
    }

    fn endpoint_key(&self, application: ApplicationKey, id: EndpointId) -> Answer<'_, EndpointKey> {
        self.answer(endpoint::key_of(self, application, id))
    }

    fn running(
        &self,
        application: ApplicationKey,
        keys: Vec<EndpointKey>,
    ) -> Answer<'_, Vec<(EndpointKey, Running)>> {
        self.answer(running::by_keys(self, application, keys))
    }

    fn secrets(
        &self,
        application: ApplicationKey,
        key: EndpointKey,
        at: Timestamp,
    ) -> Answer<'_, Vec<Secret>> {
        self.answer(secret::live(self, (application, key), at))
    }

    fn fan_out(&self, application: ApplicationKey, at: Timestamp) -> Answer<'_, FanOut> {
        self.answer(fan_out::fan_out(self, application, at))
    }

    fn changes(&self, since: Option<Timestamp>, after: Option<Change>) -> Answer<'_, Changes> {
        self.answer(application::changes(self, since, after))
    }

    fn create_event_type(&self, event_type: EventType) -> Answer<'_, ()> {
        self.answer(event_type::create(self, event_type))
    }

    fn change_event_type(
        &self,
        name: String,
        change: Edit<EventType>,
        at: Timestamp,
    ) -> Answer<'_, Changed<EventType>> {
        self.answer(event_type::change(self, name, change, at))
    }

    fn event_type(&self, name: String) -> Answer<'_, EventType> {
        self.answer(event_type::find(self, name))
    }

    fn remove_event_type(&self, name: String, check: Check<EventType>) -> Answer<'_, ()> {
        self.answer(event_type::remove(self, name, check))
    }

    fn event_types(
        &self,
        schemas: Schemas,
        page: Page<String>,
    ) -> Answer<'_, Listed<EventType, String>> {
        self.answer(event_type::list(self, schemas, page))
    }

    fn create_token(&self, token: Token) -> Answer<'_, ()> {
        self.answer(token::create(self, token))
    }

    fn keep_admin_token(&self, hash: Option<[u8; 32]>) -> Answer<'_, Option<[u8; 32]>> {
        self.answer(token::keep_admin(self, hash))
    }

    fn token(&self, id: String) -> Answer<'_, Token> {
        self.answer(token::find(self, id))
    }

    fn revoke_token(&self, id: String, at: Timestamp) -> Answer<'_, ()> {
        self.answer(token::revoke(self, id, at))
    }

    fn expire_tokens(&self, expiry: Expiry) -> Answer<'_, u32> {
        self.answer(token::expire(self, expiry))
    }

    fn tokens(&self, page: Page<String>) -> Answer<'_, Listed<Token, String>> {
        self.answer(token::list(self, page))
    }

    fn renamed(&self, told: Vec<Renamed>) -> Answer<'_, Vec<Renamed>> {
        self.answer(renamed::next(self, told))
    }
}
