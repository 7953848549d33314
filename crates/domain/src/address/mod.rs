//! Decides where a request may go: which URLs are stored and which addresses are dialled.
//!
//! [`Guard`] holds the operator's settings. `vet_url` turns text into a [`DeliverableUrl`] when an
//! endpoint is saved; `route` turns a resolver's answer into [`VettedAddress`]es just before a
//! connection is opened; `check_peer` looks once more after it. A [`RedirectChain`] reads where a
//! redirect leads, by the rules by which an endpoint is saved. Neither a URL nor an address can be made
//! elsewhere, so a request to an unvetted place does not compile.
//!
//! Nothing here resolves, connects, reads a clock or logs.

mod allowed;
mod guard;
mod host;
mod pool;
mod port;
mod ranges;
mod redirect;
mod refusal;
mod route;
mod url;

pub use self::allowed::{AllowedRange, InvalidRange};
pub use self::guard::{Guard, PlainHttp, Settings, VettedAddress};
pub use self::host::{Host, HostName, InvalidName, NameRule};
pub use self::pool::{POOL_MAX_AGE, PolicyVersion, PoolKey};
pub use self::port::{BadPort, PortRule, UsablePort};
pub use self::redirect::{NotFollowed, RedirectChain};
pub use self::refusal::{Malformed, REFUSAL_CODE, Reason, Refusal};
pub use self::route::{Proxy, Proxying, Route};
pub use self::url::{DeliverableUrl, MAX_URL_BYTES, Scheme};
