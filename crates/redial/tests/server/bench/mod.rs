//! `redial bench`: that it measures something, and says what it cannot do.

mod store;
mod whole;
