//! Differential testing of the embedded API server.
//!
//! ```text
//! seeds, schemas → generate (a sequence of steps) → run (on both servers) → mask → compare
//!                                                 → shrink → fixture
//! ```
//!
//! A [`Sequence`](sequence::Sequence) is data: it can be run again, shrunk and stored. A stored one
//! has the masked answers of the real server, and a test replays it on the embedded server.

pub mod compare;
pub mod custom;
pub mod draw;
pub mod fixture;
pub mod generate;
pub mod kinds;
pub mod mask;
pub mod mutate;
mod reads;
pub mod report;
pub mod run;
pub mod schemas;
pub mod seeds;
pub mod sequence;
pub mod server;
pub mod settle;
pub mod shrink;
pub mod value;
pub mod workloads;
pub mod yaml;
