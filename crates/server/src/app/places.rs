//! Where an entry stands in a list of deliveries: at a row of a message, and at one of an endpoint.
//!
//! Rows are numbered over all applications, so a number would tell one customer how much the others send.
//! So a place is sealed for its list before anybody sees it: nothing can be read off it, and no other list
//! takes it. Every node has the same key, and what stood at the place may be gone when it comes back.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use domain::ids::MessageId;
use store::Vault;
use store::keys::{ApplicationKey, EndpointKey, MessageKey};

use super::App;

/// What each place begins with. With a minus in front of it, it means the page before.
const PREFIX: &str = "at_";

/// The places of one list.
pub(super) struct Places<'a> {
    vault: &'a Vault,
    list: String,
}

impl App {
    /// Returns the places of a list of deliveries: an endpoint's, or those of the whole application.
    pub(super) fn places(
        &self,
        list: &str,
        application: ApplicationKey,
        endpoint: Option<EndpointKey>,
    ) -> Places<'_> {
        let (application, endpoint) = (application.0, endpoint.map(|endpoint| endpoint.0));
        let list = format!("iterators, {list}, application {application}, endpoint {endpoint:?}");
        Places { vault: &self.vault, list }
    }
}

impl Places<'_> {
    /// Writes a place by its rows.
    pub(super) fn write(&self, (message, endpoint): (MessageKey, EndpointKey)) -> String {
        self.seal(&[message.0.to_be_bytes(), endpoint.0.to_be_bytes()].concat())
    }

    /// Reads what [`Places::write`] wrote for this list.
    pub(super) fn read(&self, text: &str) -> Option<(MessageKey, EndpointKey)> {
        let place = self.open::<16>(text)?;
        let (message, endpoint) = place.split_first_chunk()?;
        let endpoint = EndpointKey(i64::from_be_bytes(endpoint.try_into().ok()?));
        Some((MessageKey(i64::from_be_bytes(*message)), endpoint))
    }

    /// Writes a place by its message's id.
    pub(super) fn write_by_id(&self, (message, endpoint): (MessageId, EndpointKey)) -> String {
        self.seal(&[message.as_bytes().as_slice(), &endpoint.0.to_be_bytes()].concat())
    }

    /// Reads what [`Places::write_by_id`] wrote for this list.
    pub(super) fn read_by_id(&self, text: &str) -> Option<(MessageId, EndpointKey)> {
        let place = self.open::<28>(text)?;
        let (message, endpoint) = place.split_first_chunk()?;
        let endpoint = EndpointKey(i64::from_be_bytes(endpoint.try_into().ok()?));
        Some((MessageId::from_bytes(*message), endpoint))
    }

    fn seal(&self, place: &[u8]) -> String {
        // Sealing fails only for more bytes than there is memory.
        let sealed = self.vault.seal(&self.list, place).unwrap_or_default();
        format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(sealed))
    }

    fn open<const N: usize>(&self, text: &str) -> Option<[u8; N]> {
        let sealed = BASE64_URL_SAFE_NO_PAD.decode(text.strip_prefix(PREFIX)?).ok()?;
        self.vault.open(&self.list, &sealed).ok()?.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_by_its_own_list_only_and_shows_no_number() {
        let vault = Vault::new(&mut [5; 32], |bytes| bytes.fill(9));
        let places = |list: &str| Places { vault: &vault, list: list.to_owned() };
        let place = (MessageKey(0x4142_4344), EndpointKey(-1));
        let text = places("a").write(place);
        assert_eq!(places("a").read(&text), Some(place));
        assert_eq!((places("b").read(&text), places("a").read_by_id(&text)), (None, None));
        let shown = BASE64_URL_SAFE_NO_PAD.decode(&text[PREFIX.len()..]).unwrap();
        assert!(!shown.windows(4).any(|window| window == b"ABCD"));
        let by_id = (MessageId::from_bytes([7; 20]), EndpointKey(i64::MAX));
        let text = places("a").write_by_id(by_id);
        assert_eq!(places("a").read_by_id(&text), Some(by_id));
        for garbage in ["", "at_", "12.5", "at_AAAA", "msg_1.5", &text[..text.len() - 1]] {
            assert_eq!(places("a").read_by_id(garbage), None, "{garbage}");
        }
    }
}
