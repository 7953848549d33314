//! What people look at: the cases, by theme.

pub mod answers;
pub mod counting;
pub mod expunging;
pub mod filters;
pub mod listing;
pub mod pages;
pub mod records;
pub mod waiting;
