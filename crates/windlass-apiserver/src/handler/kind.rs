//! The rules of a kind, built-in or custom, behind one face.

use std::sync::Arc;

use serde_json::Value;

use crate::builtin::{NameRule, Strategy, strategy_of};
use crate::custom::{Part, Verdict, Version};
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
    /// The rules of a resource.
    pub fn of(resource: &'a Resource) -> Self {
        match &resource.custom {
            Some(version) => Self::Custom(version),
            None => Self::Builtin(strategy_of(&resource.gvk)),
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

    pub fn prepare_update(self, object: &mut Value, old: &Value) {
        match self {
            Self::Builtin(strategy) => strategy.prepare_update(object, old),
            Self::Custom(version) => version.prepare_update(object, old),
        }
    }

    pub fn prepare_status(self, object: &mut Value, old: &Value) {
        match self {
            Self::Builtin(strategy) => strategy.prepare_status(object, old),
            Self::Custom(version) => version.prepare_status(object, old),
        }
    }

    pub fn validate(self, object: &Value) -> Verdict {
        match self {
            Self::Builtin(strategy) => strategy.validate(object).into(),
            Self::Custom(version) => version.validate(object, None, Part::Main),
        }
    }

    pub fn validate_update(self, object: &Value, old: &Value) -> Verdict {
        match self {
            Self::Builtin(strategy) => strategy.validate_update(object, old).into(),
            Self::Custom(version) => version.validate(object, Some(old), Part::Main),
        }
    }

    pub fn validate_status(self, object: &Value, old: &Value) -> Verdict {
        match self {
            Self::Builtin(strategy) => strategy.validate_status(object, old).into(),
            Self::Custom(version) => version.validate(object, Some(old), Part::Status),
        }
    }

    /// Whether an object is of another kind or version than its resource, which only a custom one
    /// can be; nothing else is checked then.
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
