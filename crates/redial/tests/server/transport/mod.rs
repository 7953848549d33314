//! The transport against receivers of every kind, on real sockets.
//!
//! Receivers are scripts on loopback that say exactly the bytes a case is about. Names are resolved
//! by the test itself, or by a name server that it plays.

mod answers;
mod bad_receivers;
mod environment;
mod guarding;
mod names;
mod proxies;
mod rates;
mod receiver;
mod redirects;
mod requests;
mod reuse;
mod scene;
mod signing;
mod tls;
