//! The rules of a definition's schema beyond being structural: keywords, list types, rules, cost.

use std::collections::HashSet;

use serde_json::Value;
use windlass_cel::{Rule, Schema};

use super::{defaults, structural};
use crate::custom::path;
use crate::status::{FieldError, FieldErrors, WHOLE_LISTS_MAX};

/// The estimated cost one rule may have.
const RULE_COST_MAX: u64 = 10_000_000;
/// The estimated cost all rules of a schema may have together.
const TOTAL_COST_MAX: u64 = 100_000_000;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// What the check of one schema depends on.
pub struct Check<'a> {
    /// Whether the status subresource is there.
    pub status: bool,
    /// Whether the schema is the stored one: its rules may then cost what they want.
    pub unchanged: bool,
    /// The schema as given.
    pub raw: &'a Value,
}

/// Problems of a schema; `place` is the path of its parent.
pub fn validate(schema: &Schema, place: &str, check: &Check<'_>) -> FieldErrors {
    if !check.raw.is_object() {
        return FieldErrors::default();
    }
    let mut errors = FieldErrors::default();
    let root = format!("{place}.openAPIV3Schema");
    if check.status {
        allowed_at_root(schema, &root, check.raw, &mut errors);
    }
    if schema.nullable {
        let detail = "nullable cannot be true at the root";
        errors.push(FieldError::forbidden(format!("{root}.nullable"), detail));
    }
    let mut unreadable = None;
    let mut with_rules = false;
    match structural::convertible(schema) {
        Err(why) => unreadable = Some(FieldError::invalid_str(&root, "", why)),
        Ok(()) => {
            let found = structural::violations(schema, &root);
            let found = match found.is_empty() {
                true => {
                    schema.compile_rules();
                    defaults::validate(schema, &root)
                }
                false => found,
            };
            with_rules = found.is_empty();
            errors.extend(found);
        }
    }
    let mut walker = Walker::new(check.unchanged);
    let context = Context { cardinality: Some(1), rules: with_rules, ..Context::default() };
    walker.walk(schema, &root, true, &context);
    errors.extend(std::mem::take(&mut walker.errors));
    errors.extend(std::mem::take(&mut walker.rule_errors));
    if errors.is_empty() {
        errors.extend(unreadable);
    }
    walker.total(&root, &mut errors);
    errors
}

fn allowed_at_root(schema: &Schema, root: &str, raw: &Value, errors: &mut FieldErrors) {
    const ALLOWED: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum \
         ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf \
         Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations]";
    if !schema.kind.is_empty() && schema.kind != "object" {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the \
             status subresource is enabled";
        errors.push(FieldError::invalid_str(format!("{root}.type"), &schema.kind, detail));
        return;
    }
    let f = &schema.forbidden;
    let other = !f.id.is_empty()
        || !f.schema.is_empty()
        || f.reference.is_some()
        || schema.nullable
        || schema.default.is_some()
        || !schema.allowed.is_empty()
        || schema.max_properties.is_some()
        || schema.min_properties.is_some()
        || !(schema.all_of.is_empty() && schema.any_of.is_empty() && schema.one_of.is_empty())
        || schema.not.is_some()
        || schema.additional.is_some()
        || f.pattern_properties
        || f.dependencies.is_some()
        || f.additional_items
        || !f.definitions.is_empty()
        || schema.embedded
        || schema.int_or_string
        || !schema.list_map_keys.is_empty()
        || schema.list_type.is_some()
        || schema.map_type.is_some();
    if other {
        let detail = format!(
            "only {ALLOWED} fields are allowed at the root of the schema if the status \
             subresource is enabled"
        );
        errors.push(FieldError::invalid(root, raw, detail));
    }
}

/// What the surroundings of a node mean for it.
#[derive(Clone, Default)]
struct Context {
    /// Why defaults may not be used here.
    no_defaults: Option<String>,
    inside_meta: bool,
    /// The nearest place above that does not correlate on update.
    uncorrelated: Option<String>,
    /// How often the node can occur; `None` if nothing bounds it.
    cardinality: Option<u64>,
    /// Whether rules are compiled here.
    rules: bool,
}

struct Walker {
    errors: FieldErrors,
    rule_errors: FieldErrors,
    total: u64,
    expensive: Vec<(u64, String)>,
    unchanged: bool,
}

impl Walker {
    fn new(unchanged: bool) -> Self {
        Self {
            errors: FieldErrors::default(),
            rule_errors: FieldErrors::default(),
            total: 0,
            expensive: Vec::new(),
            unchanged,
        }
    }

    fn walk(&mut self, schema: &Schema, place: &str, root: bool, context: &Context) {
        let before = self.errors.len();
        self.keywords(schema, place, context);
        self.below(schema, place, root, context);
        if schema.preserve_unknown == Some(false) {
            let field = format!("{place}.x-kubernetes-preserve-unknown-fields");
            let detail = "must be true or undefined";
            self.errors.push(FieldError::invalid(field, &false.into(), detail));
        }
        self.map_type(schema, place);
        self.list_type(schema, place);
        self.map_keys(schema, place);
        self.list_items(schema, place);
        for (index, rule) in schema.rules.iter().enumerate() {
            let field = format!("{place}.x-kubernetes-validations[{index}]");
            rule_form(rule, schema, &field, &mut self.errors);
        }
        if self.errors.len() == before && context.rules {
            self.rules(schema, place, context);
        }
    }

    fn keywords(&mut self, schema: &Schema, place: &str, context: &Context) {
        let f = &schema.forbidden;
        let field = |name: &str| format!("{place}.{name}");
        if !schema.kind.is_empty() && !TYPES.contains(&schema.kind.as_str()) {
            let kind = Value::from(schema.kind.as_str());
            self.errors.push(FieldError::not_supported(field("type"), &kind, &TYPES));
        }
        if let (Some(_), Some(reason)) = (&schema.default, &context.no_defaults) {
            let detail = format!("must not be set {reason}");
            self.errors.push(FieldError::forbidden(field("default"), detail));
        }
        for (given, name) in [
            (!f.id.is_empty(), "id"),
            (f.additional_items, "additionalItems"),
            (f.pattern_properties, "patternProperties"),
            (!f.definitions.is_empty(), "definitions"),
            (f.dependencies.is_some(), "dependencies"),
            (f.reference.is_some(), "$ref"),
        ] {
            if given {
                let detail = format!("{name} is not supported");
                self.errors.push(FieldError::forbidden(field(name), detail));
            }
        }
        if schema.kind == "null" {
            let detail = "type cannot be set to null, use nullable as an alternative";
            self.errors.push(FieldError::forbidden(field("type"), detail));
        }
        if !schema.items_list.is_empty() {
            let detail = "items must be a schema object and not an array";
            self.errors.push(FieldError::forbidden(field("items"), detail));
        }
        if context.inside_meta && schema.embedded {
            let detail = "must not be used inside of resource meta";
            let field = field("x-kubernetes-embedded-resource");
            self.errors.push(FieldError::forbidden(field, detail));
        }
        if schema.unique_items {
            let detail =
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.errors.push(FieldError::forbidden(field("uniqueItems"), detail));
        }
    }

    fn below(&mut self, schema: &Schema, place: &str, root: bool, context: &Context) {
        let inner = Context {
            cardinality: context
                .cardinality
                .and_then(|count| Some(count.saturating_mul(elements_max(schema)?))),
            ..context.clone()
        };
        if let Some(additional) = &schema.additional {
            let field = format!("{place}.additionalProperties");
            if !schema.properties.is_empty() && (!additional.allows || additional.schema.is_some())
            {
                let detail = "additionalProperties and properties are mutual exclusive";
                self.errors.push(FieldError::forbidden(&field, detail));
            }
            if let Some(rest) = &additional.schema {
                let mut inner = inner.clone();
                if context.inside_meta {
                    let reason = "inside additionalProperties applying to object metadata";
                    inner.no_defaults = Some(reason.into());
                }
                self.walk(rest, &field, false, &inner);
            }
        }
        for (name, field) in &schema.properties {
            let mut inner = inner.clone();
            if schema.map_type.as_deref().is_some_and(|t| t != "granular" && t != "atomic") {
                inner.uncorrelated.get_or_insert_with(|| place.to_owned());
            }
            let meta = matches!(name.as_str(), "metadata" | "kind" | "apiVersion");
            if (root || schema.embedded) && meta {
                inner.inside_meta = true;
                if root {
                    inner.no_defaults = Some(format!("in top-level {name}"));
                }
            }
            self.walk(field, &format!("{place}.properties[{name}]"), false, &inner);
        }
        let plain = Context { rules: false, ..context.clone() };
        if let Some(not) = &schema.not {
            self.walk(not, &format!("{place}.not"), false, &plain);
        }
        for (branches, name) in
            [(&schema.all_of, "allOf"), (&schema.one_of, "oneOf"), (&schema.any_of, "anyOf")]
        {
            for (index, branch) in branches.iter().enumerate() {
                self.walk(branch, &format!("{place}.{name}[{index}]"), false, &plain);
            }
        }
        for (name, definition) in &schema.forbidden.definitions {
            self.walk(definition, &format!("{place}.definitions[{name}]"), false, &plain);
        }
        let mut item_context = inner;
        if schema.list_type.as_deref() != Some("map") {
            item_context.uncorrelated.get_or_insert_with(|| place.to_owned());
        }
        if let Some(items) = &schema.items {
            self.walk(items, &format!("{place}.items"), false, &item_context);
        }
        for (index, items) in schema.items_list.iter().enumerate() {
            self.walk(items, &format!("{place}.items[{index}]"), false, &item_context);
        }
        for (name, dependency) in schema.forbidden.dependencies.iter().flatten() {
            if let Some(dependency) = dependency {
                self.walk(dependency, &format!("{place}.dependencies[{name}]"), false, &plain);
            }
        }
    }

    fn wrong_type(&mut self, schema: &Schema, place: &str, detail: &str) {
        let field = format!("{place}.type");
        self.errors.push(match schema.kind.is_empty() {
            true => FieldError::required(field, detail),
            false => FieldError::invalid_str(field, &schema.kind, detail),
        });
    }

    fn map_type(&mut self, schema: &Schema, place: &str) {
        let Some(given) = &schema.map_type else { return };
        if schema.kind != "object" {
            self.wrong_type(schema, place, "must be object if x-kubernetes-map-type is specified");
        }
        if given != "atomic" && given != "granular" {
            let field = format!("{place}.x-kubernetes-map-type");
            let given = Value::from(given.as_str());
            self.errors.push(FieldError::not_supported(field, &given, &["atomic", "granular"]));
        }
    }

    fn list_type(&mut self, schema: &Schema, place: &str) {
        let Some(given) = &schema.list_type else { return };
        if schema.kind != "array" {
            self.wrong_type(schema, place, "must be array if x-kubernetes-list-type is specified");
        } else if let (Some(items), "set") = (&schema.items, given.as_str()) {
            let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
            let shown = items.list_type.as_deref().map_or(Value::Null, Value::from);
            let wrong = match items.kind.as_str() {
                "array" if items.list_type.as_deref().is_some_and(|t| t != "atomic") => {
                    Some("x-kubernetes-list-type")
                }
                "object" if items.map_type.as_deref() != Some("atomic") => {
                    Some("x-kubernetes-map-type")
                }
                _ => None,
            };
            if let Some(name) = wrong {
                let field = format!("{place}.items.{name}");
                self.errors.push(FieldError::invalid(field, &shown, detail));
            }
        }
        if !["atomic", "set", "map"].contains(&given.as_str()) {
            let field = format!("{place}.x-kubernetes-list-type");
            let given = Value::from(given.as_str());
            self.errors.push(FieldError::not_supported(field, &given, &["atomic", "set", "map"]));
        }
    }

    fn map_keys(&mut self, schema: &Schema, place: &str) {
        let keys = &schema.list_map_keys;
        let field = format!("{place}.x-kubernetes-list-type");
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        match schema.list_type.as_deref() {
            None if !keys.is_empty() => self.errors.push(FieldError::required(field, detail)),
            Some(other) if other != "map" && !keys.is_empty() => {
                self.errors.push(FieldError::invalid_str(field, other, detail));
            }
            _ => {}
        }
        if schema.list_type.as_deref() != Some("map") {
            return;
        }
        let field = format!("{place}.x-kubernetes-list-map-keys");
        if keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            self.errors.push(FieldError::required(&field, detail));
        }
        let Some(items) = &schema.items else {
            if schema.items_list.is_empty() {
                let detail = "must have a schema if x-kubernetes-list-type is map";
                self.errors.push(FieldError::required(format!("{place}.items"), detail));
            }
            return;
        };
        if items.kind != "object" {
            let field = format!("{place}.items.type");
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            self.errors.push(FieldError::invalid_str(field, &items.kind, detail));
            return;
        }
        let shown = Value::from(keys.clone());
        let (mut seen, mut shown_count) = (HashSet::new(), 0);
        let mut refuse = |errors: &mut FieldErrors, detail: &str| {
            shown_count += 1;
            if shown_count <= WHOLE_LISTS_MAX {
                errors.push(FieldError::invalid(&field, &shown, detail));
            }
        };
        for key in keys {
            match items.properties.get(key) {
                Some(one) if one.kind == "array" || one.kind == "object" => {
                    let field = format!("{place}.items.properties[{key}].type");
                    let detail =
                        "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    self.errors.push(FieldError::invalid_str(field, &items.kind, detail));
                }
                Some(_) => {}
                None => {
                    refuse(&mut self.errors, "entries must all be names of item properties");
                }
            }
            if !seen.insert(key) {
                refuse(&mut self.errors, "must not contain duplicate entries");
            }
        }
    }

    fn list_items(&mut self, schema: &Schema, place: &str) {
        let (Some(items), Some(kind @ ("set" | "map"))) =
            (&schema.items, schema.list_type.as_deref())
        else {
            return;
        };
        if items.nullable {
            let detail = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
            self.errors.push(FieldError::forbidden(format!("{place}.items.nullable"), detail));
        }
        let required: HashSet<&String> = items.required.iter().collect();
        for key in schema.list_map_keys.iter().filter(|_| kind == "map") {
            let Some(one) = items.properties.get(key) else { continue };
            let field = |name: &str| format!("{place}.items.properties[{key}].{name}");
            let why = "this property is in x-kubernetes-list-map-keys, so it";
            if !required.contains(key) && one.default.is_none() {
                let detail = format!("{why} must have a default or be a required property");
                self.errors.push(FieldError::required(field("default"), detail));
            }
            if one.nullable {
                let detail = format!("{why} cannot be nullable");
                self.errors.push(FieldError::forbidden(field("nullable"), detail));
            }
        }
    }

    fn rules(&mut self, schema: &Schema, place: &str, context: &Context) {
        for (index, rule) in schema.rules.iter().enumerate() {
            let Some(compiled) = rule.compiled() else { continue };
            if compiled.error.as_deref() == Some(windlass_cel::NO_DECLARATIONS) {
                let field = format!("{place}.x-kubernetes-validations");
                let why = "internal error: failed to construct type information for \
                           x-kubernetes-validations rules: unable to convert structural schema \
                           to CEL declarations";
                self.rule_errors.push(FieldError::internal(field, why));
                break;
            }
            let field = |name: &str| format!("{place}.x-kubernetes-validations[{index}].{name}");
            let count = context.cardinality.unwrap_or(compiled.max_cardinality);
            let cost = compiled.max_cost.saturating_mul(count);
            self.observe(field("rule"), cost, "estimated rule cost");
            let invalid = |field: String, detail: &String| {
                let kind = crate::status::FieldErrorKind::Invalid;
                FieldError::raw(kind, field, rule.shown(), detail)
            };
            self.rule_errors.extend(compiled.error.iter().map(|e| invalid(field("rule"), e)));
            if let Some(error) = &compiled.message_error {
                self.rule_errors.push(invalid(field("messageExpression"), error));
            } else if let Some(cost) = compiled.message_max_cost {
                self.observe(field("messageExpression"), cost, "estimated messageExpression cost");
            }
            if compiled.uses_old_self {
                if let Some(uncorrelated) = &context.uncorrelated {
                    let detail = format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema \
                         within {uncorrelated}"
                    );
                    let error = FieldError::invalid_str(field("rule"), &rule.rule, detail);
                    self.rule_errors.push(error);
                }
            } else if let Some(optional) = rule.optional_old_self {
                let detail = "may not be set if oldSelf is not used in rule";
                let field = field("optionalOldSelf");
                self.rule_errors.push(FieldError::invalid(field, &optional.into(), detail));
            }
        }
    }

    fn observe(&mut self, field: String, cost: u64, what: &str) {
        if !self.unchanged && cost > RULE_COST_MAX {
            let detail = cost_text(what, cost, RULE_COST_MAX);
            self.rule_errors.push(FieldError::forbidden(&field, detail));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= TOTAL_COST_MAX / 100 {
            self.expensive.push((cost, field));
            self.expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            self.expensive.truncate(4);
        }
    }

    fn total(&self, root: &str, errors: &mut FieldErrors) {
        if self.total <= TOTAL_COST_MAX {
            return;
        }
        for (_, field) in &self.expensive {
            let detail = "contributed to estimated rule cost total exceeding cost limit for \
                 entire OpenAPIv3 schema";
            errors.push(FieldError::forbidden(field, detail));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden(root, cost_text(what, self.total, TOTAL_COST_MAX)));
    }
}

/// How often the parts of a node can occur at most; `None` if nothing bounds it.
fn elements_max(schema: &Schema) -> Option<u64> {
    let bound = |max: Option<i64>| max.map(|max| max.max(0).unsigned_abs());
    match schema.kind.as_str() {
        "object" if schema.additional.is_some() => bound(schema.max_properties),
        "array" => bound(schema.max_items),
        _ => Some(1),
    }
}

fn cost_text(what: &str, cost: u64, max: u64) -> String {
    let factor = cost as f64 / max as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding \
         maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

fn rule_form(rule: &Rule, schema: &Schema, place: &str, errors: &mut FieldErrors) {
    let breaks = |text: &str| text.contains(['\n', '\r']);
    let field = |name: &str| format!("{place}.{name}");
    let message = rule.message.trim();
    let empty = "must be non-empty if specified";
    let lines = "must not contain line breaks";
    if rule.rule.trim().is_empty() {
        errors.push(FieldError::required(field("rule"), "rule is not specified"));
    } else if !rule.message.is_empty() && message.is_empty() {
        errors.push(FieldError::invalid_str(field("message"), &rule.message, empty));
    } else if breaks(message) {
        errors.push(FieldError::invalid_str(field("message"), &rule.message, lines));
    } else if breaks(rule.rule.trim()) && message.is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.push(FieldError::required(field("message"), detail));
    }
    if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(field("messageExpression"), detail));
    }
    const REASONS: [&str; 4] =
        ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
    if let Some(reason) = &rule.reason
        && !REASONS.contains(&reason.as_str())
    {
        let reason = Value::from(reason.as_str());
        errors.push(FieldError::not_supported(field("reason"), &reason, &REASONS));
    }
    if rule.field_path.is_empty() {
        return;
    }
    let mut wrong = |detail: &str| {
        errors.push(FieldError::invalid_str(field("fieldPath"), &rule.field_path, detail));
    };
    if rule.field_path.trim().is_empty() {
        wrong(empty);
    }
    if breaks(&rule.field_path) {
        wrong(lines);
    }
    let readable = structural::convertible(schema).is_ok();
    if readable && path::resolve(&rule.field_path, schema, true).is_err() {
        wrong("must be a valid path");
    }
}
