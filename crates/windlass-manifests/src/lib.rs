//! Manifests from Rust types.
//!
//! [`macro@api`] on a struct makes a kind of it, and [`macro@k8s`] describes the types inside:
//!
//! ```
//! # extern crate windlass_manifests as windlass;
//! use kube::CustomResourceExt;
//! use windlass::{api, k8s};
//!
//! /// A memcached cluster.
//! #[api(
//!     group = "cache.example.com",
//!     version = "v1alpha1",
//!     kind = "Memcached",
//!     short = "mc",
//!     status = MemcachedStatus,
//!     column("Size", ".spec.size"),
//! )]
//! pub struct MemcachedSpec {
//!     /// How many memcached pods to run.
//!     #[k8s(min = 1, max = 5)]
//!     pub size: i32,
//! }
//!
//! /// What the operator reports.
//! #[k8s]
//! #[derive(Default)]
//! pub struct MemcachedStatus {
//!     #[k8s(optional, list = set)]
//!     pub nodes: Vec<String>,
//! }
//!
//! let crd = Memcached::crd();
//! assert_eq!(crd.metadata.name.as_deref(), Some("memcacheds.cache.example.com"));
//! windlass::crd::check::<Memcached>().unwrap();
//! ```
//!
//! [`schema`] makes structural schemas of types, [`crd`] makes definitions of kinds, merges their
//! versions, and checks them as the API server would; [`diff`] finds changes of definitions that
//! break stored objects or clients. [`model`] describes a whole operator, from which
//! [`files`] renders everything that installs it; [`rbac`] knows roles.

pub use windlass_macros::{api, k8s};

pub mod crd;
pub mod diff;
pub mod files;
pub mod generate;
pub mod model;
pub mod rbac;
mod render;
pub mod schema;
pub mod yaml;

pub use files::Files;
pub use model::Model;

/// What the code that the macros generate refers to.
#[doc(hidden)]
pub mod __private {
    pub use {k8s_openapi, kube, schemars, serde, serde_json};

    pub use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

    pub use crate::crd::default::default_spec;
    pub use crate::crd::{Api, Column, Definition, Scale};
    pub use crate::schema::{
        Cel, Content, Count, Field, Object, Rule, Tagging, Union, Variant, any, bytes, duration,
        fields, newtype, object, union, unit,
    };
}
