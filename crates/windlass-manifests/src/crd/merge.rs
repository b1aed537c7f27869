//! The versions of a kind in one definition.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// Why definitions are not versions of one kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// There is no definition.
    #[error("no definitions were given")]
    Empty,
    /// The definitions differ in something that the versions of a kind share.
    #[error("{first} and {second} differ in {what}, which all versions of a kind share")]
    Differs {
        /// What differs.
        what: &'static str,
        /// The name of the first definition.
        first: String,
        /// The name of the second definition.
        second: String,
    },
    /// A version occurs twice.
    #[error("version {version} of {name} is defined twice")]
    Twice {
        /// The name of the definition.
        name: String,
        /// The version.
        version: String,
    },
    /// Not exactly one version is the one that is stored.
    #[error("{name} is stored in {} ({versions}), set `storage = false` on all versions but one", if versions.is_empty() { "no version" } else { "several versions" })]
    Storage {
        /// The name of the definition.
        name: String,
        /// The versions that are stored, separated by commas.
        versions: String,
    },
}

/// Joins the versions of a kind.
///
/// Names come from the version that is stored.
///
/// # Errors
///
/// Fails if the definitions are not versions of one kind, or if not exactly one is stored.
pub fn merge(
    crds: impl IntoIterator<Item = CustomResourceDefinition>,
) -> Result<CustomResourceDefinition, MergeError> {
    let crds: Vec<CustomResourceDefinition> = crds.into_iter().collect();
    let is_stored =
        |crd: &&CustomResourceDefinition| crd.spec.versions.iter().any(|version| version.storage);
    let first = crds.iter().find(is_stored).or(crds.first()).ok_or(MergeError::Empty)?;
    let mut merged = CustomResourceDefinition { status: None, ..first.clone() };
    merged.spec.versions.clear();
    let name = merged.metadata.name.clone().unwrap_or_default();
    for crd in crds {
        let differs = |what| MergeError::Differs {
            what,
            first: name.clone(),
            second: crd.metadata.name.clone().unwrap_or_default(),
        };
        if crd.spec.group != merged.spec.group {
            return Err(differs("group"));
        }
        if crd.spec.names.kind != merged.spec.names.kind {
            return Err(differs("kind"));
        }
        if crd.spec.names.plural != merged.spec.names.plural {
            return Err(differs("plural"));
        }
        if crd.spec.scope != merged.spec.scope {
            return Err(differs("scope"));
        }
        for version in crd.spec.versions {
            if merged.spec.versions.iter().any(|known| known.name == version.name) {
                return Err(MergeError::Twice { name, version: version.name });
            }
            merged.spec.versions.push(version);
        }
    }
    merged.spec.versions.sort_by(|one, other| one.name.cmp(&other.name));
    let stored = merged.spec.versions.iter().filter(|version| version.storage);
    let stored: Vec<&str> = stored.map(|version| version.name.as_str()).collect();
    if stored.len() != 1 {
        return Err(MergeError::Storage { name, versions: stored.join(", ") });
    }
    Ok(merged)
}
