//! What makes a schema structural.

use windlass_cel::Schema;
use windlass_text::pattern;

use crate::status::{FieldError, FieldErrors};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Returns everything that makes a schema not structural, sorted by text.
pub fn violations(schema: &Schema, place: &str) -> FieldErrors {
    let mut errors = FieldErrors::default();
    invariants(schema, Level::Root, place, &mut errors);
    complete(schema, Some(schema), place, place, &mut errors);
    errors.sort_by_text();
    errors
}

/// Checks that the schema can be read as a structural one at all.
///
/// # Errors
/// The keyword that prevents it.
pub fn convertible(schema: &Schema) -> Result<(), String> {
    let f = &schema.forbidden;
    for (given, name) in [
        (!f.id.is_empty(), "id"),
        (!f.schema.is_empty(), "schema"),
        (f.reference.as_deref().is_some_and(|r| !r.is_empty()), "$ref"),
        (f.pattern_properties, "patternProperties"),
        (f.dependencies.as_ref().is_some_and(|d| !d.is_empty()), "dependencies"),
        (f.additional_items, "additionalItems"),
        (!f.definitions.is_empty(), "definitions"),
    ] {
        if given {
            return Err(format!("OpenAPIV3Schema '{name}' is not supported"));
        }
    }
    let branches = schema.all_of.iter().chain(&schema.any_of).chain(&schema.one_of);
    for branch in schema.not.as_deref().into_iter().chain(branches) {
        convertible(branch)?;
    }
    if schema.preserve_unknown == Some(false) {
        return Err("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or \
                    undefined"
            .into());
    }
    if !schema.items_list.is_empty() {
        return Err("OpenAPIV3Schema 'items' must be a schema, but is an array".into());
    }
    let below = schema.items.as_deref().into_iter().chain(schema.properties.values());
    below.chain(schema.additional_schema()).try_for_each(convertible)
}

fn invariants(schema: &Schema, level: Level, place: &str, errors: &mut FieldErrors) {
    if schema.kind == "array" && schema.items.is_none() {
        errors.push(FieldError::required(format!("{place}.items"), "must be specified"));
    }
    if let Some(items) = &schema.items {
        invariants(items, Level::Item, &format!("{place}.items"), errors);
    }
    for (name, field) in &schema.properties {
        invariants(field, Level::Field, &format!("{place}.properties[{name}]"), errors);
    }
    let additional = format!("{place}.additionalProperties");
    if schema.additional.is_some() && level == Level::Root {
        errors.push(FieldError::forbidden(&additional, "must not be used at the root"));
    }
    if let Some(rest) = schema.additional_schema() {
        invariants(rest, Level::Field, &additional, errors);
    }
    if schema.int_or_string {
        let detail = "must be false if x-kubernetes-int-or-string is true";
        for (given, name) in [
            (schema.preserves(), "x-kubernetes-preserve-unknown-fields"),
            (schema.embedded, "x-kubernetes-embedded-resource"),
        ] {
            if given {
                let field = format!("{place}.{name}");
                errors.push(FieldError::invalid(field, &true.into(), detail));
            }
        }
    }
    let skip_any = int_or_string(&schema.any_of);
    let skip_first = schema.all_of.first().is_some_and(|first| int_or_string(&first.any_of));
    value_validation(schema, skip_any, skip_first, place, errors);
    types(schema, level, place, errors);
    metadata(schema, level, place, errors);
    if schema.embedded && !schema.preserves() && schema.properties.is_empty() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
             x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(format!("{place}.properties"), detail));
    }
}

fn types(schema: &Schema, level: Level, place: &str, errors: &mut FieldErrors) {
    let field = format!("{place}.type");
    if schema.embedded && schema.kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match schema.kind.is_empty() {
            true => FieldError::required(&field, detail),
            false => FieldError::invalid_str(&field, &schema.kind, detail),
        });
    } else if schema.kind.is_empty() && !schema.int_or_string && !schema.preserves() {
        let what = match level {
            Level::Root => "at the root",
            Level::Item => "for specified array items",
            Level::Field => "for specified object fields",
        };
        errors.push(FieldError::required(&field, format!("must not be empty {what}")));
    }
    if schema.embedded && schema.additional.is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(format!("{place}.additionalProperties"), detail));
    }
    if level == Level::Root && !schema.kind.is_empty() && schema.kind != "object" {
        errors.push(FieldError::invalid_str(field, &schema.kind, "must be object at the root"));
    }
}

fn metadata(schema: &Schema, level: Level, place: &str, errors: &mut FieldErrors) {
    let checked = level == Level::Root || schema.embedded;
    for key in ["kind", "apiVersion"] {
        if let Some(field) = schema.properties.get(key)
            && checked
            && field.kind != "string"
        {
            let place = format!("{place}.properties[{key}].type");
            errors.push(FieldError::invalid_str(place, &field.kind, "must be string"));
        }
    }
    let Some(meta) = schema.properties.get("metadata") else { return };
    let place = format!("{place}.properties[metadata]");
    if checked && meta.kind != "object" {
        let field = format!("{place}.type");
        errors.push(FieldError::invalid_str(field, &meta.kind, "must be object"));
    }
    if level != Level::Root {
        return;
    }
    let names = meta.properties.keys().all(|key| key == "name" || key == "generateName");
    let known = usize::from(!meta.kind.is_empty())
        + usize::from(!meta.properties.is_empty())
        + usize::from(meta.default.is_some());
    if !names || meta.size > known {
        let detail = "must not specify anything other than name and generateName, but metadata is \
             implicitly specified";
        errors.push(FieldError::forbidden(place, detail));
    }
}

fn int_or_string(branches: &[Schema]) -> bool {
    let only = |schema: &Schema, kind: &str| schema.size == 1 && schema.kind == kind;
    matches!(branches, [a, b] if only(a, "integer") && only(b, "string"))
}

fn value_validation(
    schema: &Schema,
    skip_any: bool,
    skip_first: bool,
    place: &str,
    errors: &mut FieldErrors,
) {
    for (index, branch) in schema.any_of.iter().enumerate().filter(|_| !skip_any) {
        nested(branch, false, &format!("{place}.anyOf[{index}]"), errors);
    }
    for (index, branch) in schema.all_of.iter().enumerate() {
        nested(branch, skip_first && index == 0, &format!("{place}.allOf[{index}]"), errors);
    }
    for (index, branch) in schema.one_of.iter().enumerate() {
        nested(branch, false, &format!("{place}.oneOf[{index}]"), errors);
    }
    if let Some(not) = &schema.not {
        nested(not, false, &format!("{place}.not"), errors);
    }
    if !schema.pattern.is_empty()
        && let Err(why) = pattern::compile(&schema.pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(FieldError::invalid_str(format!("{place}.pattern"), &schema.pattern, detail));
    }
}

/// A schema inside `allOf` and friends may only say what values are valid.
fn nested(schema: &Schema, skip_any: bool, place: &str, errors: &mut FieldErrors) {
    value_validation(schema, skip_any, false, place, errors);
    if let Some(items) = &schema.items {
        nested(items, false, &format!("{place}.items"), errors);
    }
    for (name, field) in &schema.properties {
        nested(field, false, &format!("{place}.properties[{name}]"), errors);
    }
    let additional = schema.additional.as_ref().is_some_and(|a| a.allows);
    for (given, name, wanted) in [
        (!schema.kind.is_empty(), "type", "empty"),
        (additional, "additionalProperties", "undefined"),
        (schema.default.is_some(), "default", "undefined"),
        (!schema.title.is_empty(), "title", "empty"),
        (!schema.description.is_empty(), "description", "empty"),
        (schema.nullable, "nullable", "false"),
        (schema.preserves(), "x-kubernetes-preserve-unknown-fields", "false"),
        (schema.embedded, "x-kubernetes-embedded-resource", "false"),
        (schema.int_or_string, "x-kubernetes-int-or-string", "false"),
        (!schema.list_map_keys.is_empty(), "x-kubernetes-list-map-keys", "empty"),
        (schema.list_type.is_some(), "x-kubernetes-list-type", "undefined"),
        (schema.map_type.is_some(), "x-kubernetes-map-type", "undefined"),
        (!schema.rules.is_empty(), "x-kubernetes-validations", "empty"),
    ] {
        if given {
            let detail = format!("must be {wanted} to be structural");
            errors.push(FieldError::forbidden(format!("{place}.{name}"), detail));
        }
    }
    if schema.properties.contains_key("metadata") {
        let detail = "must not be specified in a nested context";
        errors.push(FieldError::forbidden(format!("{place}.properties[metadata]"), detail));
    }
}

/// Every field that a value validation names has to be declared outside of it.
fn complete(
    validation: &Schema,
    schema: Option<&Schema>,
    schema_place: &str,
    place: &str,
    errors: &mut FieldErrors,
) {
    let mut branch = |branch: &Schema, place: String| {
        complete_nested(branch, schema, schema_place, &place, errors);
    };
    if let Some(not) = &validation.not {
        branch(not, format!("{place}.not"));
    }
    for (branches, name) in [
        (&validation.all_of, "allOf"),
        (&validation.any_of, "anyOf"),
        (&validation.one_of, "oneOf"),
    ] {
        for (index, one) in branches.iter().enumerate() {
            branch(one, format!("{place}.{name}[{index}]"));
        }
    }
}

fn complete_nested(
    validation: &Schema,
    schema: Option<&Schema>,
    schema_place: &str,
    place: &str,
    errors: &mut FieldErrors,
) {
    let missing = |at: &str| FieldError::required(at, format!("because it is defined in {place}"));
    let Some(schema) = schema else {
        errors.push(missing(schema_place));
        return;
    };
    complete(validation, Some(schema), schema_place, place, errors);
    if let Some(items) = &validation.items {
        let (at, place) = (format!("{schema_place}.items"), format!("{place}.items"));
        complete_nested(items, schema.items.as_deref(), &at, &place, errors);
    }
    for (name, field) in &validation.properties {
        let at = format!("{schema_place}.properties[{name}]");
        let place = format!("{place}.properties[{name}]");
        complete_nested(field, schema.properties.get(name), &at, &place, errors);
    }
}
