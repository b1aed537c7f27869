//! Whether the defaults in a schema satisfy the schema.

use serde_json::{Map, Value};
use windlass_cel::Schema;

use crate::custom::rules::{self, OBJECT_BUDGET};
use crate::custom::validate::{self, Mode};
use crate::custom::{meta, prune};
use crate::status::{FieldError, FieldErrors};

/// Problems of all defaults in a schema.
pub fn validate(schema: &Schema, place: &str) -> FieldErrors {
    let mut checker = Checker { errors: FieldErrors::default(), budget: OBJECT_BUDGET };
    checker.node(schema, place, schema, &[], false, true);
    checker.errors
}

/// The way from a resource to a node inside of it.
#[derive(Clone, Debug)]
enum Step {
    Field(String),
    Item,
}

struct Checker {
    errors: FieldErrors,
    budget: i64,
}

impl Checker {
    fn node(
        &mut self,
        schema: &Schema,
        place: &str,
        resource: &Schema,
        way: &[Step],
        inside_meta: bool,
        is_resource: bool,
    ) {
        if self.budget < 0 {
            return;
        }
        let (resource, way, inside_meta) = match is_resource || schema.embedded {
            true => (schema, &[][..], false),
            false => (resource, way, inside_meta),
        };
        let embedded = is_resource || schema.embedded;
        if let Some(default) = &schema.default {
            let place = format!("{place}.default");
            match inside_meta {
                true => self.in_meta(schema, default, &place, resource, way),
                false => self.plain(schema, default, &place, embedded),
            }
        }
        if let Some(items) = &schema.items {
            let way = longer(way, Step::Item);
            self.node(items, &format!("{place}.items"), resource, &way, inside_meta, false);
        }
        for (name, field) in &schema.properties {
            let meta = matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
            let inside = inside_meta || (embedded && meta);
            let way = longer(way, Step::Field(name.clone()));
            let place = format!("{place}.properties[{name}]");
            self.node(field, &place, resource, &way, inside, false);
        }
    }

    fn plain(&mut self, schema: &Schema, default: &Value, place: &str, embedded: bool) {
        let mut pruned = default.clone();
        prune::prune_value(schema, &mut pruned, embedded);
        if pruned != *default {
            let detail = "must not have unknown fields";
            self.errors.push(FieldError::invalid(place, default, detail));
        }
        let mut coerced = default.clone();
        if let Err(error) = prune::coerce_embedded(schema, &mut coerced, embedded, false) {
            let field = prune::child(place, &error.field);
            self.errors.push(FieldError { field, ..error });
            return;
        }
        let found = match embedded {
            true => meta::validate_resource(schema, &coerced, place),
            false => {
                let found = meta::validate_embedded(schema, &coerced).into_iter();
                found.map(|e| FieldError { field: prune::child(place, &e.field), ..e }).collect()
            }
        };
        match found.is_empty() {
            true => self.value(schema, &coerced, place),
            false => self.errors.extend(found),
        }
    }

    fn in_meta(
        &mut self,
        schema: &Schema,
        default: &Value,
        place: &str,
        resource: &Schema,
        way: &[Step],
    ) {
        let mut object = surround(default, way);
        let broken = match prune::coerce_embedded(resource, &mut object, true, false) {
            Err(error) => Some(error.to_string()),
            Ok(_) => {
                let found = meta::validate_resource(resource, &object, "");
                let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
                match &texts[..] {
                    [] => None,
                    [one] => Some(one.clone()),
                    all => Some(format!("[{}]", all.join(", "))),
                }
            }
        };
        match broken {
            Some(why) => {
                let detail = format!("must result in valid metadata: {why}");
                self.errors.push(FieldError::invalid(place, default, detail));
            }
            None => self.value(schema, default, place),
        }
    }

    fn value(&mut self, schema: &Schema, default: &Value, place: &str) {
        let found = validate::validate(schema, default, Some(place), Mode::Default);
        if !found.is_empty() {
            self.errors.extend(found);
            return;
        }
        let mut left = self.budget;
        let found = rules::evaluate(schema, default, Some(default), place, &mut left).errors;
        if found.is_empty() {
            let mut alone = self.budget;
            let found = rules::evaluate(schema, default, None, place, &mut alone).errors;
            self.errors.extend(found);
            left = left.min(alone);
        }
        self.errors.extend(found);
        self.budget = left;
    }
}

fn longer(way: &[Step], step: Step) -> Vec<Step> {
    way.iter().cloned().chain([step]).collect()
}

/// The smallest resource that has the value at the end of the way.
fn surround(value: &Value, way: &[Step]) -> Value {
    let mut value = value.clone();
    for step in way.iter().rev() {
        value = match step {
            Step::Item => Value::Array(vec![value]),
            Step::Field(name) => Value::Object(Map::from_iter([(name.clone(), value)])),
        };
    }
    if let Value::Object(map) = &mut value {
        for (key, given) in [("kind", "Validation"), ("apiVersion", "validation/v1")] {
            map.entry(key).or_insert_with(|| given.into());
        }
    }
    value
}
