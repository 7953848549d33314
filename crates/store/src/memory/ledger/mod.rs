//! What people look at.

mod answer;
mod attempt;
mod counts;
mod dead_letter;
mod delivery;
mod expunge;
mod message;
mod rollup;
mod task;
mod waiting;
