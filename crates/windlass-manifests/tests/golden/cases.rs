//! The cases, in Rust.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::compare::{differences, golden};

mod archive;
mod bag;
mod database;
mod fleet;
mod gate;
mod guard;
mod kubernetes;
mod ledger;
mod lists;
mod maps;
mod meter;
mod more;
mod names;
mod numbers;
mod objects;
mod pipeline;
mod policy;
mod presence;
mod real_backup_schedule;
mod real_cache;
mod real_others;
mod rejected;
mod rules;
mod strings;
mod texts;
mod versions;
mod workflow;

pub mod prelude {
    pub use std::collections::BTreeMap;

    pub use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
    pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
        Condition, LabelSelector, MicroTime, ObjectMeta, Time,
    };
    pub use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
    pub use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
    pub use kube::CustomResourceExt;
    pub use serde_json::Value;
    pub use windlass::schema::Bytes;
    pub use windlass::{api, k8s};

    pub use super::{agrees, agrees_apart_from_texts};
    pub use crate::golden;
}

/// Declares a test: the kinds agree with the manifests of a case.
#[macro_export]
macro_rules! golden {
    ($test:ident, $case:literal, $($kind:ty),+ $(,)?) => {
        #[test]
        fn $test() {
            agrees($case, vec![$(<$kind as CustomResourceExt>::crd()),+]);
        }
    };
    (apart from texts: $test:ident, $case:literal, $($kind:ty),+ $(,)?) => {
        #[test]
        fn $test() {
            agrees_apart_from_texts($case, vec![$(<$kind as CustomResourceExt>::crd()),+]);
        }
    };
}

pub fn agrees(case: &str, crds: Vec<CustomResourceDefinition>) {
    compare(case, crds, true);
}

pub fn agrees_apart_from_texts(case: &str, crds: Vec<CustomResourceDefinition>) {
    compare(case, crds, false);
}

fn compare(case: &str, crds: Vec<CustomResourceDefinition>, texts: bool) {
    let mut golden = golden(case);
    let mut found = Vec::new();
    for crd in &crds {
        windlass::crd::check_crd(crd).unwrap_or_else(|problems| panic!("{problems}"));
        crate::accepted::accepts(crd);
        let name = crd.metadata.name.as_deref().unwrap();
        let expected = golden.remove(name).unwrap_or_else(|| panic!("{case} has no {name}"));
        found.extend(differences(expected, windlass::crd::to_value(crd), texts));
    }
    assert!(golden.is_empty(), "{:?} are missing", golden.keys());
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}
