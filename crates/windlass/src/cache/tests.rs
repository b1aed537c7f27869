//! The cache as a whole, against a server that plays exact behaviours.

mod author;
mod fake;
mod faults;
mod handlers;
mod indexes;
mod lists;
mod model;
mod own_writes;
mod protobuf;
mod race;
mod reflector;
mod stores;
mod transforms;
