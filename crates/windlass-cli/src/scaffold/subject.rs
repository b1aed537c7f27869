//! A kind that is not created, but watched or checked: one of the project, a built-in one, or one of
//! another crate.

use windlass_apiserver::resource;

use super::Named;
use super::package::{Defined, Package};
use crate::failure::Failure;

/// The Rust type of a kind.
pub struct Subject {
    /// The kind and its version, for people.
    pub what: String,
    /// What `use` imports.
    pub path: String,
    /// The full name of the group.
    pub group: String,
    /// Where the project defines it.
    pub own: Option<Defined>,
}

// === impl Subject ===

impl Subject {
    /// Finds the Rust type of a kind; `external` names one of another crate.
    pub fn find(
        package: &Package,
        defined: &[Defined],
        named: &Named,
        external: Option<&str>,
    ) -> Result<Self, Failure> {
        let Named { group, version, kind } = named;
        if let Some(path) = external {
            return Self::external(package, named, path);
        }
        let full = package.group(group);
        let own =
            |one: &&Defined| one.group == full && one.version == *version && one.kind == *kind;
        if let Some(own) = defined.iter().find(own) {
            return Ok(Self {
                what: format!("{kind} ({full}/{version})"),
                path: format!("crate::{}::{kind}", own.module.join("::")),
                group: full,
                own: Some(own.clone()),
            });
        }
        if let Some((group, path)) = built_in(group, version, kind) {
            let prefix = if group.is_empty() { String::new() } else { format!("{group}/") };
            let what = format!("{kind} ({prefix}{version})");
            return Ok(Self { what, path, group, own: None });
        }
        Err(Failure::usage(format!(
            "{kind} of {group}/{version} is neither built in nor defined in this project{}; name the \
             Rust type of a kind of another crate with --external-api-path",
            Defined::others(defined, kind)
        )))
    }

    fn external(package: &Package, named: &Named, path: &str) -> Result<Self, Failure> {
        let Named { group, version, kind } = named;
        let parsed = syn::parse_str::<syn::Path>(path).ok().filter(|path| {
            let plain = path.segments.iter().all(|segment| segment.arguments.is_none());
            plain
                && path.segments.len() > 1
                && path.segments.last().is_some_and(|l| l.ident == kind)
        });
        let parsed = parsed.ok_or_else(|| {
            Failure::usage(format!(
                "{path:?} is not the path of a type {kind}, such as acme::{kind}"
            ))
        })?;
        let first = parsed.segments[0].ident.to_string();
        if first != "crate" && !package.dependencies.contains(&first) {
            return Err(Failure::usage(format!(
                "package {} does not depend on {first}; add it with `cargo add`, then repeat",
                package.name
            )));
        }
        let segments = parsed.segments.iter().map(|segment| segment.ident.to_string());
        Ok(Self {
            what: format!("{kind} ({group}/{version})"),
            path: segments.collect::<Vec<_>>().join("::"),
            group: group.clone(),
            own: None,
        })
    }
}

/// The group and the Rust type of a built-in kind. The group may be short: `networking`.
pub fn built_in(group: &str, version: &str, kind: &str) -> Option<(String, String)> {
    let group = if group == "core" { "" } else { group };
    let found = resource::builtins().iter().find(|one| {
        let gvk = &one.gvk;
        let named = *gvk.group == *group || gvk.group.split('.').next() == Some(group);
        named && *gvk.version == *version && *gvk.kind == *kind && one.has_verb("watch")
    })?;
    let full = found.gvk.group.to_string();
    let module = match full.as_str() {
        "" => "api::core",
        "apiextensions.k8s.io" => "apiextensions_apiserver::pkg::apis::apiextensions",
        "apiregistration.k8s.io" => "kube_aggregator::pkg::apis::apiregistration",
        "internal.apiserver.k8s.io" => "api::apiserverinternal",
        full => &format!("api::{}", full.split('.').next().unwrap_or_default()),
    };
    Some((full.clone(), format!("k8s_openapi::{module}::{version}::{kind}")))
}
