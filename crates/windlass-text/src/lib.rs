//! The text formats of Kubernetes, read and written as the API server reads and writes them.
//!
//! | module | format |
//! |---|---|
//! | [`name`] | names, label keys and label values |
//! | [`quantity`] | amounts: `500m`, `1Gi` |
//! | [`time`] | times and durations: `1h30m` |
//! | [`select`] | label selectors and field selectors |
//! | [`format`](mod@format) | the formats that a schema can ask for: `date-time`, `uuid`, `cidr` |
//! | [`pattern`] | Go's regular expressions |
//! | [`json_patch`] | the operations of JSON patches |
//! | [`number`], [`quote`](mod@quote) | numbers and strings as Go prints them |
//! | [`work`] | counts and limits what reading a client's data costs |
//!
//! ```
//! use windlass_text::{LabelSelector, Quantity, name};
//!
//! let request: Quantity = "0.5".parse().unwrap();
//! let limit: Quantity = "1500m".parse().unwrap();
//! assert!(request < limit);
//! assert_eq!(request.add(&limit).to_string(), "2");
//!
//! let selector = LabelSelector::parse("app=web,tier!=cache").unwrap();
//! assert_eq!(selector.requirements().count(), 2);
//!
//! assert!(name::dns1123_label("web-0"));
//! assert!(windlass_text::pattern::compile("^[a-z]+$").unwrap().is_match("web"));
//! ```
//!
//! **Invariant:** every function is total: a text gives a value or an error in the words of the
//! API server, in time linear in the text, without a panic.

pub mod format;
pub mod json_patch;
pub mod name;
pub mod number;
pub mod pattern;
pub mod quantity;
pub mod quote;
pub mod select;
pub mod time;
pub mod work;

pub use quantity::Quantity;
pub use quote::quote;
pub use select::{FieldSelector, LabelSelector};
