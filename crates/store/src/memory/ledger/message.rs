//! Messages as they are looked at.

use domain::ids::MessageId;

use crate::Error;
use crate::catalog::Name;
use crate::keys::{ApplicationKey, MessageKey};
use crate::ledger::{MessageEntry, MessageFilter, Payload};
use crate::memory::State;
use crate::memory::page;
use crate::memory::rows::MessageRow;
use crate::page::{Direction, Listed, Page};
use crate::queue::NewMessage;

impl State {
    /// Finds a message by its id, or by the sender's id for it.
    ///
    /// # Errors
    /// If the application has none of that name.
    pub fn message(
        &self,
        application: ApplicationKey,
        name: Name<MessageId>,
    ) -> Result<MessageEntry, Error> {
        self.named(application, name, true)
    }

    /// Finds a message without its payload.
    ///
    /// # Errors
    /// If the application has none of that name.
    pub fn message_without_payload(
        &self,
        application: ApplicationKey,
        name: Name<MessageId>,
    ) -> Result<MessageEntry, Error> {
        self.named(application, name, false)
    }

    fn named(
        &self,
        application: ApplicationKey,
        name: Name<MessageId>,
        with_payload: bool,
    ) -> Result<MessageEntry, Error> {
        let key = match name {
            Name::Id(id) => self.message_ids.get(&(application, id)),
            Name::Uid(event_id) => self.event_ids.get(&(application, event_id)),
        };
        let key = key.ok_or(Error::Missing("message"))?;
        let row = self.messages.get(key).ok_or(Error::Missing("message"))?;
        Ok(entry(*key, row, with_payload))
    }

    /// Lists an application's messages, newest first.
    #[must_use]
    pub fn messages(
        &self,
        application: ApplicationKey,
        filter: &MessageFilter,
        page: &Page<MessageId>,
    ) -> Listed<MessageEntry, MessageId> {
        let theirs = (application, MessageId::from_bytes([0; 20]))
            ..=(application, MessageId::from_bytes([0xff; 20]));
        let rows = self.message_ids.range(theirs).map(|((_, id), key)| (*id, *key));
        let list = (Direction::Descending, MessageEntry::bytes as fn(&_) -> _);
        page::page(rows, list, page, |_, key| {
            let row = self.messages.get(&key)?;
            let NewMessage { event_type, channels, received_at, .. } = &row.message;
            let wanted = filter.wants(event_type, channels, *received_at);
            wanted.then(|| entry(key, row, filter.with_payload))
        })
    }

    /// Removes a message's payload and leaves its deliveries alone, as earlier versions did: what they
    /// left pending is found by its owner.
    ///
    /// # Errors
    /// If the application has no such message.
    pub fn forget_payload(
        &mut self,
        application: ApplicationKey,
        message: MessageKey,
    ) -> Result<(), Error> {
        let row = self.messages.get_mut(&message);
        let row = row.filter(|row| row.application == application);
        row.ok_or(Error::Missing("message"))?.payload = None;
        Ok(())
    }
}

fn entry(key: MessageKey, row: &MessageRow, with_payload: bool) -> MessageEntry {
    let payload = match &row.payload {
        None => Payload::Gone,
        Some(payload) if with_payload => Payload::Kept(payload.clone()),
        Some(_) => Payload::Omitted,
    };
    let message = row.message.clone();
    MessageEntry {
        key,
        application: row.application,
        id: message.id,
        event_type: message.event_type,
        event_id: message.event_id,
        channels: message.channels,
        content_type: message.content_type,
        policy: message.policy,
        deliver_at: message.deliver_at,
        only: message.only,
        received_at: message.received_at,
        payload,
    }
}
