//! Manifests of an operator.
pub mod files;
pub mod model;
pub mod rbac;
mod render;
pub mod yaml;

pub use files::Files;
pub use model::Model;
