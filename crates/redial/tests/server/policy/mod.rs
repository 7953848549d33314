//! `redial policy`: what is shown, what is refused, and what the lab finds.

mod errors;
mod page;
mod show;
mod simulate;
