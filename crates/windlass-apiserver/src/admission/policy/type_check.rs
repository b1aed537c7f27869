//! Type checking of validating policies: their expressions against the kinds they match.
//!
//! A policy whose expressions name fields that a kind does not have still applies; the warnings
//! are for its author, in `status.typeChecking`.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use windlass_cel::admission::{Environment, Gives};
use windlass_cel::{Decl, Shape as Kind};

use crate::admission::text;
use crate::builtin::rules::value;
use crate::resource::{Gvk, Resource};
use crate::schema;
use crate::server::Inner;
use crate::shape::{Scalar, ShapeKind, ShapeRef};

/// How many kinds of a rule are checked at most.
const KINDS_MAX: usize = 10;

/// A problem of an expression with the kinds that its policy matches.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExpressionWarning {
    /// The path of the expression, such as `spec.validations[0].expression`.
    pub field: String,
    /// What is wrong with it, for each kind on lines of its own.
    pub warning: String,
}

impl Inner {
    /// Returns what is wrong with the expressions of a validating policy.
    pub(crate) fn type_check_policy(&self, policy: &Value) -> Vec<ExpressionWarning> {
        let spec = &policy["spec"];
        let kinds = self.checked_kinds(spec);
        let environments: Vec<(String, Environment)> = kinds
            .iter()
            .map(|resource| (kind_text(&resource.gvk), environment(spec, decl_of_kind(resource))))
            .collect();
        let mut warnings = Vec::new();
        for (index, validation) in value::items(spec, "validations").iter().enumerate() {
            for field in ["expression", "messageExpression"] {
                let source = text(validation, &[field]);
                if source.is_empty() {
                    continue;
                }
                let problems = environments.iter().filter_map(|(kind, environment)| {
                    let compiled = environment.compile(source, Gives::Anything, true);
                    compiled.err().map(|why| format!("{kind}: {why}"))
                });
                let problems: Vec<String> = problems.collect();
                if !problems.is_empty() {
                    let field = format!("spec.validations[{index}].{field}");
                    warnings.push(ExpressionWarning { field, warning: problems.join("\n") });
                }
            }
        }
        warnings
    }

    /// The kinds that the rules of a policy name without wildcards, in order.
    fn checked_kinds(&self, spec: &Value) -> Vec<Arc<Resource>> {
        let mut found: Vec<Arc<Resource>> = Vec::new();
        for rule in value::items(&spec["matchConstraints"], "resourceRules") {
            let (groups, versions) = (names(rule, "apiGroups"), names(rule, "apiVersions"));
            let all = |names: &BTreeSet<&str>| names.contains("*");
            if all(&groups) || all(&versions) {
                continue;
            }
            let resources = names(rule, "resources");
            let mut resolved = Vec::new();
            for group in &groups {
                for version in &versions {
                    let plain = resources.iter().filter(|name| !name.contains(['*', '/']));
                    let kinds = plain.map(|name| self.registry.find(group, version, name));
                    resolved.extend(kinds.flatten().take(KINDS_MAX));
                }
            }
            found.extend(resolved.into_iter().take(KINDS_MAX));
        }
        let key = |resource: &Arc<Resource>| {
            let gvk = &resource.gvk;
            (gvk.group.clone(), gvk.version.clone(), gvk.kind.clone())
        };
        found.sort_by_key(key);
        found.dedup_by_key(|resource| key(resource));
        found
    }
}

fn names<'a>(rule: &'a Value, field: &str) -> BTreeSet<&'a str> {
    value::items(rule, field).iter().filter_map(Value::as_str).collect()
}

/// `apps/v1, Kind=Deployment`.
fn kind_text(gvk: &Gvk) -> String {
    format!("{}/{}, Kind={}", gvk.group, gvk.version, gvk.kind)
}

/// The variables of a policy for objects of one kind.
fn environment(spec: &Value, object: Decl) -> Environment {
    let mut environment = Environment::composed(spec["paramKind"].is_object()).of(Arc::new(object));
    for variable in value::items(spec, "variables") {
        let source = text(variable, &["expression"]);
        let compiled = environment.compile(source, Gives::Anything, true).ok();
        environment.declare(text(variable, &["name"]), compiled.as_ref());
    }
    environment
}

fn decl_of_kind(resource: &Resource) -> Decl {
    let Some(version) = &resource.custom else {
        return decl_of(&resource.shape, &mut Vec::new());
    };
    let Some(decl) = Decl::from_schema(&version.schema, true, &resource.gvk.kind) else {
        return Decl::dynamic();
    };
    let Kind::Object(object) = &decl.shape else { return decl };
    let metadata = Gvk::new("meta.k8s.io", "v1", "ObjectMeta");
    let metadata = decl_of(&schema::shape_of(&metadata), &mut Vec::new());
    let fields = object.by_key.iter().filter(|(key, _)| *key != "metadata");
    let fields = fields.map(|(key, decl)| (key.clone(), (**decl).clone()));
    Decl::object(&object.name, fields.chain([("metadata".to_owned(), metadata)]))
}

/// Declares a shape; a type within itself may be anything.
fn decl_of(shape: &ShapeRef, within: &mut Vec<String>) -> Decl {
    match shape.kind() {
        ShapeKind::Any => Decl::dynamic(),
        ShapeKind::Scalar(scalar) => match scalar {
            Scalar::Boolean => Decl::new(Kind::Bool),
            Scalar::Bytes => Decl::new(Kind::Bytes),
            Scalar::Int32 | Scalar::Int64 => Decl::new(Kind::Int),
            Scalar::IntOrString => Decl::new(Kind::IntOrString),
            Scalar::MicroTime | Scalar::Time => Decl::new(Kind::Timestamp),
            Scalar::Number => Decl::new(Kind::Double),
            // An amount may be written as a number, too.
            Scalar::Quantity => Decl::dynamic(),
            Scalar::Duration | Scalar::String => Decl::new(Kind::Str),
        },
        ShapeKind::List(list) => Decl::list(decl_of(&list.item, within)),
        ShapeKind::Object(object) if object.fields.is_empty() => match &object.rest {
            Some(rest) => Decl::map(decl_of(rest, within)),
            None => Decl::dynamic(),
        },
        ShapeKind::Object(object) => {
            let name = &shape.get().go_type;
            if within.contains(name) {
                return Decl::dynamic();
            }
            within.push(name.clone());
            let fields: Vec<(String, Decl)> = object
                .fields
                .iter()
                .map(|(key, field)| (key.clone(), decl_of(&field.shape, within)))
                .collect();
            within.pop();
            Decl::object(name, fields)
        }
    }
}
