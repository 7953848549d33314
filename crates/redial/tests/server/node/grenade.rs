//! Bytes that panic when they are let go: whoever drops them last goes off.

use bytes::Bytes;

struct Grenade;

impl AsRef<[u8]> for Grenade {
    fn as_ref(&self) -> &[u8] {
        b"{}"
    }
}

impl Drop for Grenade {
    fn drop(&mut self) {
        panic!("as told");
    }
}

/// Makes some.
pub(super) fn grenade() -> Bytes {
    Bytes::from_owner(Grenade)
}
