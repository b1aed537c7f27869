//! Evaluates a policy in a webhook, with the answers that the API server would give.

use std::sync::Arc;

use futures::FutureExt;
use k8s_openapi::api::admissionregistration::v1::{
    NamedRuleWithOperations, ValidatingAdmissionPolicyBindingSpec,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::core::response::{StatusCause, StatusDetails};
use kube::core::{DynamicObject, Status};
use serde_json::{Map, Value, json};
use windlass_cel::Schema;
use windlass_cel::admission::{self as cel, Denial, Scope};
use windlass_manifests::Model;
use windlass_text::LabelSelector;

use super::{Declared, merge};
use crate::cache::Key;
use crate::client::Client;
use crate::error::Result;
use crate::kind::Kind;
use crate::webhook::{Answer, Call, Handler, Served};

/// Returns the webhook of one part of a policy.
pub(super) fn served(policy: &Declared, model: &Model, mutating: bool) -> Served {
    let spec = policy.model.spec(mutating);
    let constraints = policy.model.spec.match_constraints.clone().unwrap_or_default();
    let bound = policy.model.binding.match_resources.clone().unwrap_or_default();
    let excluded = [constraints.exclude_resource_rules, bound.exclude_resource_rules];
    let evaluator = Arc::new(Evaluator {
        name: model.policy_name(&policy.model),
        policy: cel::Policy::compile(&spec),
        schema: Schema::parse(&policy.object.schema()),
        params: policy.params.as_ref().map(|params| params.kind.clone()),
        binding: policy.model.binding.clone(),
        rules: constraints.resource_rules.unwrap_or_default(),
        bound: bound.resource_rules.unwrap_or_default(),
        excluded: excluded.into_iter().flatten().flatten().collect(),
    });
    let handler: Handler = Arc::new(move |call| {
        let evaluator = evaluator.clone();
        async move {
            if !evaluator.concerns(&call.request) {
                return Ok(Answer::allowed());
            }
            let call = call.whole()?;
            match mutating {
                true => evaluator.mutate(call).await,
                false => evaluator.validate(call).await,
            }
        }
        .boxed()
    });
    Served { entry: policy.model.webhook(mutating, &model.name), handler }
}

/// A policy with its binding.
struct Evaluator {
    /// The name of the policy and of the binding in a cluster that has them.
    name: String,
    policy: cel::Policy,
    schema: Schema,
    params: Option<Kind>,
    binding: ValidatingAdmissionPolicyBindingSpec,
    rules: Vec<NamedRuleWithOperations>,
    bound: Vec<NamedRuleWithOperations>,
    excluded: Vec<NamedRuleWithOperations>,
}

/// What the expressions of a call read besides its objects.
struct Surroundings {
    request: Value,
    namespace: Arc<Value>,
    params: Vec<Option<Value>>,
}

// === impl Evaluator ===

impl Evaluator {
    /// Returns `false` for requests that the webhook configuration cannot leave out.
    fn concerns(&self, request: &Value) -> bool {
        let any =
            |rules: &[NamedRuleWithOperations]| rules.iter().any(|rule| matches(rule, request));
        any(&self.rules) && !any(&self.excluded) && (self.bound.is_empty() || any(&self.bound))
    }

    async fn validate(&self, call: Call) -> Result<Answer> {
        let (object, old) = (&call.request["object"], &call.request["oldObject"]);
        let mut said = Said::default();
        match self.surroundings(&call).await {
            Ok(around) => {
                for params in &around.params {
                    let mut scope = around.scope(object, old, params.as_ref());
                    let verdict = self.policy.validate(&mut scope);
                    verdict.denials.into_iter().for_each(|denial| said.add(self, denial));
                    said.annotations.extend(
                        verdict.annotations.into_iter().map(|(key, value)| (key, value.into())),
                    );
                }
            }
            Err(why) => said.denied = self.policy.failed(unconfigured(&why)),
        }
        Ok(Answer::Raw(said.response(self, &call.request)))
    }

    async fn mutate(&self, call: Call) -> Result<Answer> {
        let (original, old) = (&call.request["object"], &call.request["oldObject"]);
        if !original.is_object() {
            return Ok(Answer::allowed());
        }
        let around = match self.surroundings(&call).await {
            Ok(around) => around,
            Err(_) if self.policy.ignores_failures() => return Ok(Answer::allowed()),
            Err(why) => {
                return Ok(self.unchanged(&call.request, &unconfigured(&why), "Forbidden"));
            }
        };
        let mut object = original.clone();
        'params: for params in &around.params {
            for mutation in self.policy.mutations() {
                let made = {
                    let mut scope = around.scope(&object, old, params.as_ref());
                    match self.policy.applies(&mut scope) {
                        Ok(false) => continue 'params,
                        Ok(true) => mutation.apply(&scope, &object, |part| {
                            merge::merge(&self.schema, &object, &part)
                        }),
                        Err(why) => Err(why),
                    }
                };
                match made {
                    Ok(made) => object = made,
                    Err(_) if self.policy.ignores_failures() => break 'params,
                    Err(why) => return Ok(self.unchanged(&call.request, &why, "Invalid")),
                }
            }
        }
        let original = original.to_string();
        Answer::patched(&original, &original, &object.to_string())
    }

    /// The answer to a request whose object could not be changed.
    fn unchanged(&self, request: &Value, why: &str, reason: &str) -> Answer {
        let name = &self.name;
        let text = format!("policy '{name}' with binding '{name}' denied request: {why}");
        let status = Status::failure(&text, reason).with_code(403);
        let status = status.with_details(details(request, &text)).boxed();
        Answer::Denied { status, warnings: Vec::new() }
    }

    /// Reads what the expressions need from the cluster.
    async fn surroundings(&self, call: &Call) -> Result<Surroundings, String> {
        let text = |field: &str| call.request[field].as_str().unwrap_or_default();
        let kind = &call.request["kind"];
        let own = kind["kind"] == "Namespace" && kind["group"] == "";
        let mut namespace = Value::Null;
        if !own && !text("namespace").is_empty() && self.policy.uses("namespaceObject") {
            let kind = Kind::of::<Namespace>();
            let found = read(client(call)?, &kind, &Key::cluster(text("namespace"))).await?;
            namespace = found.unwrap_or_default();
        }
        let params = self.parameters(call, text("namespace")).await?;
        Ok(Surroundings { request: request(&call.request), namespace: namespace.into(), params })
    }

    /// The parameters to evaluate with, one after the other; `None` means no parameter.
    async fn parameters(&self, call: &Call, at: &str) -> Result<Vec<Option<Value>>, String> {
        let (Some(kind), Some(reference)) = (&self.params, &self.binding.param_ref) else {
            return Ok(vec![None]);
        };
        let namespace = match (kind.namespaced(), reference.namespace.as_deref()) {
            (false, Some(_)) => {
                let why =
                    "paramRef.namespace must not be provided for a cluster-scoped `paramKind`";
                return Err(why.into());
            }
            (true, None) if at.is_empty() => {
                let why = "cannot use namespaced paramRef in policy binding that matches \
                           cluster-scoped resources";
                return Err(why.into());
            }
            (true, None) => Some(at),
            (_, given) => given,
        };
        let client = client(call)?;
        let found = match &reference.name {
            Some(name) => {
                read(client, kind, &Key::new(namespace, name)).await?.into_iter().collect()
            }
            None => {
                let selector = json!(reference.selector.clone().unwrap_or_default());
                let selector = LabelSelector::from_object(&selector).map_err(|e| e.to_string())?;
                let mut found = list(client, kind, namespace).await?;
                found.retain(|object| selector.matches_object(object));
                found
            }
        };
        if found.is_empty() && reference.parameter_not_found_action.as_deref() != Some("Allow") {
            let why = "no params found for policy binding with `Deny` parameterNotFoundAction";
            return Err(why.into());
        }
        Ok(found.into_iter().map(Some).collect())
    }
}

fn unconfigured(why: &str) -> String {
    format!("failed to configure binding: {why}")
}

fn client(call: &Call) -> Result<&Client, String> {
    call.seed.client().ok_or_else(|| "this webhook is not served by a manager".into())
}

async fn read(client: &Client, kind: &Kind, key: &Key) -> Result<Option<Value>, String> {
    let found = client.api_of::<DynamicObject>(kind).get(key).await.map_err(|e| e.chain())?;
    Ok(found.map(|object| json!(*object)))
}

async fn list(client: &Client, kind: &Kind, at: Option<&str>) -> Result<Vec<Value>, String> {
    let list = client.api_of::<DynamicObject>(kind).list();
    let list = match at {
        Some(namespace) => list.namespace(namespace),
        None => list,
    };
    let found = list.items().await.map_err(|e| e.chain())?;
    Ok(found.iter().map(|object| json!(**object)).collect())
}

// === impl Surroundings ===

impl Surroundings {
    fn scope<'a>(
        &'a self,
        object: &'a Value,
        old: &'a Value,
        params: Option<&'a Value>,
    ) -> Scope<'a> {
        Scope::new(object, old, self.request.clone())
            .namespace(self.namespace.clone())
            .params(params)
    }
}

/// What a validating policy answers.
#[derive(Default)]
struct Said {
    denied: Option<Denial>,
    warnings: Vec<String>,
    failures: Vec<Value>,
    annotations: Map<String, Value>,
}

// === impl Said ===

impl Said {
    fn add(&mut self, policy: &Evaluator, denial: Denial) {
        let (name, actions) = (&policy.name, &policy.binding.validation_actions);
        let acts = |wanted: &str| actions.iter().any(|action| action == wanted);
        let message = &denial.message;
        if denial.rule.is_some() && acts("Warn") {
            self.warnings.push(format!(
                "Validation failed for ValidatingAdmissionPolicy '{name}' with binding '{name}': \
                 {message}"
            ));
        }
        if let Some(rule) = denial.rule.filter(|_| acts("Audit")) {
            self.failures.push(json!({
                "message": message, "policy": name, "binding": name,
                "expressionIndex": rule, "validationActions": actions,
            }));
        }
        if denial.rule.is_none() || acts("Deny") {
            self.denied.get_or_insert(denial);
        }
    }

    fn response(mut self, policy: &Evaluator, request: &Value) -> Value {
        let mut response = json!({"allowed": self.denied.is_none()});
        if !self.failures.is_empty() {
            let failures = Value::Array(self.failures).to_string();
            self.annotations.insert("validation_failure".into(), failures.into());
        }
        if !self.annotations.is_empty() {
            response["auditAnnotations"] = Value::Object(self.annotations);
        }
        if !self.warnings.is_empty() {
            response["warnings"] = self.warnings.into();
        }
        if let Some(denial) = self.denied {
            let name = &policy.name;
            let text = format!(
                "ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: {}",
                denial.message
            );
            let reason = if denial.reason.is_empty() { "Invalid" } else { &denial.reason };
            let code = match reason {
                "Unauthorized" => 401,
                "Forbidden" => 403,
                "RequestEntityTooLarge" => 413,
                _ => 422,
            };
            let status = Status::failure(&text, reason).with_code(code);
            response["status"] = json!(status.with_details(details(request, &text)));
        }
        response
    }
}

/// Which object was refused, and why.
fn details(request: &Value, cause: &str) -> StatusDetails {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    StatusDetails {
        name: text(&request["name"]),
        group: text(&request["resource"]["group"]),
        kind: text(&request["resource"]["resource"]),
        causes: vec![StatusCause {
            reason: String::new(),
            message: cause.to_owned(),
            field: String::new(),
        }],
        uid: String::new(),
        retry_after_seconds: 0,
    }
}

/// The variable `request`: everything but the objects, with the fields that a review leaves out when
/// they are empty.
fn request(review: &Value) -> Value {
    let mut request = review.clone();
    if let Value::Object(fields) = &mut request {
        for objects in ["object", "oldObject", "uid"] {
            fields.remove(objects);
        }
        for text in ["name", "namespace", "subResource", "requestSubResource"] {
            fields.entry(text).or_insert_with(|| "".into());
        }
    }
    request
}

/// Returns `true` if a rule matches a request in the version of the request or of the webhook.
fn matches(rule: &NamedRuleWithOperations, request: &Value) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let listed = |list: &Option<Vec<String>>, wanted: &str| {
        list.iter().flatten().any(|one| one == "*" || one == wanted)
    };
    let subresource = text(&request["subResource"]);
    let resource = |wanted: &str, plural: &str| {
        let (resource, part) = wanted.split_once('/').unwrap_or((wanted, ""));
        (resource == "*" || resource == plural) && (part == "*" || part == subresource)
    };
    let served = |resource_of: &Value| {
        let plural = text(&resource_of["resource"]);
        listed(&rule.api_groups, &text(&resource_of["group"]))
            && listed(&rule.api_versions, &text(&resource_of["version"]))
            && rule.resources.iter().flatten().any(|wanted| resource(wanted, &plural))
    };
    let name = text(&request["name"]);
    let named = rule
        .resource_names
        .as_deref()
        .is_none_or(|names| names.is_empty() || names.contains(&name));
    named
        && listed(&rule.operations, &text(&request["operation"]))
        && (served(&request["resource"]) || served(&request["requestResource"]))
}
