//! The Kubernetes API in process: a `tower::Service`, and an HTTPS server.

pub mod admission;
mod alloc;
pub mod auth;
pub mod builtin;
pub mod clock;
pub mod custom;
pub mod decode;
pub mod discovery;
pub mod fault;
mod handler;
pub mod lookup;
pub mod merge;
pub mod object;
pub mod openapi;
pub mod pki;
mod random;
pub mod registry;
pub mod request;
pub mod resource;
pub mod response;
pub mod schema;
pub mod serve;
pub mod server;
pub mod shape;
mod skim;
pub mod status;
pub mod store;
pub mod table;
mod work;

pub use admission::ExpressionWarning;
pub use auth::User;
pub use server::{ApiServer, Options, Snapshot};
pub use status::Status;
