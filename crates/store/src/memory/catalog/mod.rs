//! What people set up.

mod application;
mod endpoint;
mod event_type;
mod fan_out;
mod running;
mod secret;
mod token;
