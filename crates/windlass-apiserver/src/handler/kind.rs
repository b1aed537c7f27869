//! The rules of a kind, built-in or custom, behind one face.

use std::sync::Arc;

use serde_json::Value;

use crate::builtin::{NameRule, Part, Plain, Strategy, strategy_of};
use crate::custom::{self, Verdict, Version};
use crate::resource::Resource;

/// The rules of one kind.
#[derive(Clone, Copy)]
pub(crate) enum Rules<'a> {
    /// A built-in kind.
    Builtin(&'static dyn Strategy),
    /// A custom kind.
    Custom(&'a Version),
}

impl<'a> Rules<'a> {
    /// Returns the rules of a resource.
    pub fn of(resource: &'a Resource) -> Self {
        match &resource.custom {
            Some(version) => Self::Custom(version),
            None => Self::Builtin(strategy_of(&resource.gvk)),
        }
    }

    /// Returns what a built-in kind does differently from all others; custom kinds do nothing of
    /// it.
    pub fn hooks(self) -> &'static dyn Strategy {
        match self {
            Self::Builtin(strategy) => strategy,
            Self::Custom(_) => &Plain,
        }
    }

    pub fn defaults(self, object: &mut Value) {
        match self {
            Self::Builtin(strategy) => strategy.defaults(object),
            Self::Custom(version) => version.default(object),
        }
    }

    pub fn prepare_create(self, object: &mut Value) {
        match self {
            Self::Builtin(strategy) => strategy.prepare_create(object),
            Self::Custom(version) => version.prepare_create(object),
        }
    }

    pub fn prepare_part(self, part: Part, object: &mut Value, old: &Value, now: &str) {
        match (self, part) {
            (Self::Builtin(strategy), _) => strategy.prepare_part(part, object, old, now),
            (Self::Custom(version), Part::Main) => version.prepare_update(object, old),
            (Self::Custom(version), Part::Status) => version.prepare_status(object, old),
            (Self::Custom(_), _) => {}
        }
    }

    pub fn validate(self, object: &Value) -> Verdict {
        match self {
            Self::Builtin(strategy) => strategy.validate(object).into(),
            Self::Custom(version) => version.validate(object, None, custom::Part::Main),
        }
    }

    pub fn validate_part(self, part: Part, object: &Value, old: &Value) -> Verdict {
        let version = match self {
            Self::Builtin(strategy) => return strategy.validate_part(part, object, old).into(),
            Self::Custom(version) => version,
        };
        let part = match part {
            Part::Status => custom::Part::Status,
            _ => custom::Part::Main,
        };
        version.validate(object, Some(old), part)
    }

    /// Returns `true` if an object is of another kind or version than its resource, which only a
    /// custom one can be; nothing else is checked then.
    pub fn is_other_kind(self, object: &Value) -> bool {
        matches!(self, Self::Custom(version) if !version.type_errors(object).is_empty())
    }

    pub fn warnings(self, object: &Value, old: Option<&Value>) -> Vec<String> {
        match self {
            Self::Builtin(strategy) => strategy.warnings(object, old),
            Self::Custom(version) => version.warnings(object, old),
        }
    }

    pub fn checks_meta(self) -> bool {
        !matches!(self, Self::Builtin(strategy) if !strategy.checks_meta())
    }

    pub fn name_rule(self) -> NameRule {
        match self {
            Self::Builtin(strategy) => strategy.name_rule(),
            Self::Custom(_) => NameRule::Subdomain,
        }
    }

    pub fn has_generation(self) -> bool {
        match self {
            Self::Builtin(strategy) => strategy.has_generation(),
            Self::Custom(_) => true,
        }
    }

    pub fn allows_create_on_update(self) -> bool {
        matches!(self, Self::Builtin(strategy) if strategy.allows_create_on_update())
    }

    pub fn allows_unconditional_update(self) -> bool {
        matches!(self, Self::Builtin(strategy) if strategy.allows_unconditional_update())
    }

    pub fn returns_deleted_object(self) -> bool {
        matches!(self, Self::Builtin(strategy) if strategy.returns_deleted_object())
    }

    /// Names and values of field selectors beyond the common two; `None` if the kind has no list.
    pub fn fields(self, object: &Value) -> Option<Vec<(Arc<str>, String)>> {
        match self {
            Self::Builtin(strategy) => {
                let fields = strategy.selectable_fields(object)?;
                Some(fields.into_iter().map(|(name, value)| (name.into(), value)).collect())
            }
            Self::Custom(version) => {
                let fields = version.selectable_values(object);
                Some(fields.into_iter().map(|(name, value)| (name.into(), value)).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use crate::resource::builtins;

    /// The string literals of a file that are names of built-in kinds, apart from its tests.
    fn kinds_named(path: &Path, kinds: &BTreeSet<String>) -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let literals = code.flat_map(|line| line.split('"').skip(1).step_by(2));
        let named = literals.filter(|literal| kinds.contains(*literal));
        named.map(|literal| format!("{literal} in {}", path.display())).collect()
    }

    fn sources(directory: &Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => sources(&path, found),
                false => found.push(path),
            }
        }
    }

    #[test]
    fn generic_code_names_no_built_in_kind() {
        let names = builtins().iter().flat_map(|r| [r.plural.to_string(), r.gvk.kind.to_string()]);
        // These subresources belong to several kinds.
        let generic = ["status", "scale", "proxy"];
        let parts = builtins().iter().flat_map(|r| r.subresources.keys().cloned());
        let parts = parts.filter(|name| !generic.contains(&name.as_str()));
        let kinds: BTreeSet<String> = names.chain(parts).collect();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut files = vec![root.join("handler.rs"), root.join("server.rs")];
        sources(&root.join("handler"), &mut files);
        sources(&root.join("server"), &mut files);
        assert!(files.len() > 30, "{files:?}");
        // Requests to these subresources may last, and a health check is called "log".
        files.retain(|file| !file.ends_with("flight.rs") && !file.ends_with("health.rs"));
        let named: Vec<String> = files.iter().flat_map(|file| kinds_named(file, &kinds)).collect();
        assert!(named.is_empty(), "a hook in `Strategy` belongs there: {named:#?}");
    }
}
