//! The Kubernetes API in process: a `tower::Service`, and an HTTPS server.
//!
//! [`ApiServer`] is what most users need. The modules are declared in the order in which a request
//! passes them:
//!
//! | step | modules |
//! |---|---|
//! | connect | `serve` (HTTPS), `pki`, `server` (the state of one server), `fault`, `clock`, `random` |
//! | route | `request`, `registry`, `resource`, `discovery`, `openapi` |
//! | authenticate, authorize | `auth` |
//! | decode | `decode`, `schema`, `shape`, `object` |
//! | read, write | `handler`; `handler::write` lists the steps of every write |
//! | merge | `merge`: patches, server-side apply, managed fields |
//! | default, prepare, validate | `builtin`, `custom`; `work` counts in tests what this costs |
//! | allocate, admit | `alloc`, `admission`, `lookup` |
//! | store | `store` |
//! | encode | `response`, `table`, `skim`, `status` |
//!
//! Public is what tests, the embedded cluster and the command need: how a server is started, served,
//! filled and made to fail, and the parts of it that are of use alone.

pub mod clock;
pub mod fault;
pub mod pki;
mod random;
pub mod serve;
pub mod server;

mod discovery;
pub mod openapi;
mod registry;
pub mod request;
pub mod resource;

pub mod auth;

mod decode;
mod object;
pub mod schema;
mod shape;

mod handler;

mod merge;

mod builtin;
pub mod custom;
mod work;

mod admission;
mod alloc;
mod lookup;

pub mod store;

pub mod response;
mod skim;
pub mod status;
mod table;

pub use admission::ExpressionWarning;
pub use auth::User;
pub use server::{ApiServer, Options, Snapshot};
pub use status::Status;
