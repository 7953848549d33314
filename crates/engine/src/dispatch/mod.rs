//! Which delivery is sent next, and what becomes of it: slots and turns, loading and starting, ending,
//! settling and burying.

pub(crate) mod attempts;
pub(crate) mod burying;
pub(crate) mod ending;
pub(crate) mod loading;
mod settling;
mod starting;
pub(crate) mod trickle;
pub(crate) mod turns;
