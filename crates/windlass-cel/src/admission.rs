//! The expressions of admission: conditions of webhooks, and policies that accept, deny or change
//! requests.
//!
//! An API server evaluates them, and so can every program that is sent an `AdmissionReview`; both
//! give the same answers.
//!
//! ```
//! use serde_json::{Value, json};
//! use windlass_cel::admission::{Policy, Scope};
//!
//! let policy = Policy::compile(&json!({"validations": [
//!     {"expression": "object.spec.size <= 5", "message": "at most 5"},
//! ]}));
//! let object = json!({"spec": {"size": 6}});
//! let mut scope = Scope::new(&object, &Value::Null, json!({"operation": "CREATE"}));
//! let verdict = policy.validate(&mut scope);
//! assert_eq!(verdict.denials[0].message, "at most 5");
//! ```

mod conditions;
mod environment;
mod policy;
mod program;

pub use conditions::Conditions;
pub use environment::{Environment, Gives, Unusable};
pub use policy::{Denial, Mutation, Policy, Verdict};
pub use program::{Program, Scope};
