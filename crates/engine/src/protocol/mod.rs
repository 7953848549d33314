//! What goes into an engine and what comes out of it: events and effects, the moment of a step, the
//! limits, and what is announced.

pub mod announcement;
pub mod effect;
pub mod event;
pub mod moment;
pub mod settings;
pub mod suspect;
