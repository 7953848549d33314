//! The transport against receivers of every kind, on real sockets.
//!
//! Receivers are scripts on loopback that say exactly the bytes a case is about. Names are resolved
//! by the test, so that nothing here asks a name server.

mod answers;
mod bad_receivers;
mod guarding;
mod receiver;
mod requests;
mod reuse;
mod scene;
mod signing;
mod tls;
