//! Subresources: status, scale, and those of pods, namespaces and service accounts.

use serde_json::{Value, json};

use super::update::{Part, Update};
use super::{Answer, Call, DryRun, WriteOptions};
use crate::admission::{Operation, Review};
use crate::merge::{PathSet, UpdateRequest};
use crate::object;
use crate::resource::Gvk;
use crate::status::{FieldError, GroupResource, Result, Status};

mod connect;
mod eviction;
mod scale;

impl Call {
    pub(super) async fn subresource(&self) -> Result<Answer> {
        let name = self.info.subresource.as_str();
        let Some(sub) = self.resource.subresources.get(name) else {
            return Err(match self.resource.is_custom() {
                true => Status::not_found(&self.resource.gr(), &self.info.name),
                false => Status::no_such_resource(),
            });
        };
        if !sub.verbs.contains(&self.info.verb) {
            return Err(self.verb_refused());
        }
        match (name, self.info.verb.as_str()) {
            ("status" | "approval" | "ephemeralcontainers" | "resize", "get") => self.get().await,
            ("status", "update") => self.update_part(Part::Status).await,
            ("status", "patch") => self.patch_part(Part::Status).await,
            ("approval", "update") => self.update_part(Part::Status).await,
            ("approval", "patch") => self.patch_part(Part::Status).await,
            ("scale", _) => self.scale().await,
            ("finalize", "update") => self.finalize().await,
            ("binding", "create") => self.bind().await,
            ("eviction", "create") => self.evict().await,
            ("token", "create") => self.token_request().await,
            ("log", "get") => self.log().await,
            ("ephemeralcontainers" | "resize", "update") => self.update_part(Part::Pod).await,
            ("ephemeralcontainers" | "resize", "patch") => self.patch_part(Part::Pod).await,
            _ => self.connect().await,
        }
    }

    /// Creates of kinds that are answers, not objects.
    pub(super) async fn create_virtual(&self) -> Option<Result<Answer>> {
        let (server, user) = (&self.server, &self.user);
        let kind = &*self.resource.gvk.kind;
        let review =
            matches!(&*self.resource.gvk.group, "authentication.k8s.io" | "authorization.k8s.io");
        if kind == "Binding" {
            return Some(self.bind().await);
        }
        if !review {
            return None;
        }
        let decoded = self.write_options("CreateOptions", false).and_then(|options| {
            let mut body = self.decode_body(&options)?;
            self.track(None, &mut body, &options, "");
            Ok(body)
        });
        let body = match decoded {
            Ok(body) => body,
            Err(status) => return Some(Err(status)),
        };
        let (authorizer, now) = (&server.authorizer, server.clock.now());
        let lookup: &crate::server::Inner = server;
        use crate::auth::review::*;
        let answer = match kind {
            "SelfSubjectAccessReview" => self_subject_access_review(user, body, authorizer, lookup),
            "SubjectAccessReview" => subject_access_review(body, authorizer, lookup),
            "LocalSubjectAccessReview" => {
                local_subject_access_review(self.namespace(), body, authorizer, lookup)
            }
            "SelfSubjectRulesReview" => self_subject_rules_review(user, body, authorizer, lookup),
            "SelfSubjectReview" => Ok(self_subject_review(user, body, now)),
            "TokenReview" => token_review(body, &server.authenticator, lookup, now),
            _ => Err(self.verb_refused()),
        };
        Some(answer.map(|value| Answer::Object(201, value)))
    }

    /// PUT of a namespace's `finalize`: its spec's finalizers, and with the last one its end.
    async fn finalize(&self) -> Result<Answer> {
        let options = self.write_options("UpdateOptions", false)?;
        let body = self.decode_body(&options)?;
        self.check_name(&body)?;
        let update = Update {
            part: Part::Finalize,
            options: &options,
            options_kind: "UpdateOptions",
            versioned: true,
            tracked: false,
        };
        let make = |_: &Value| Ok(body.clone());
        let written = self.change(&update, &make).await?;
        self.answer_written(200, written).await
    }

    /// POST of a binding: puts a pod onto a node.
    async fn bind(&self) -> Result<Answer> {
        let options = self.write_options("CreateOptions", false)?;
        let gvk = Gvk::new("", "v1", "Binding");
        let mut binding = self.decode_as(&gvk, &options)?;
        self.place(&mut binding)?;
        let by_path = !self.info.subresource.is_empty();
        let name = object::name(&binding).to_owned();
        if by_path && name != self.info.name {
            return Err(Status::bad_request("name in URL does not match name in Binding object"));
        }
        let binding = self.admit_part(binding, &options).await?;
        self.check_binding(&binding)?;
        let call = self.on_pod(&name);
        let node = binding["target"]["name"].as_str().unwrap_or_default().to_owned();
        let update = Update {
            part: Part::Binding,
            options: &options,
            options_kind: "CreateOptions",
            versioned: false,
            tracked: false,
        };
        let stamp = self.server.clock.stamp();
        let make = |old: &Value| bound(old, &binding, &node, &stamp);
        call.change(&update, &make).await?;
        Ok(Answer::Plain(201, success(201)))
    }

    fn check_binding(&self, binding: &Value) -> Result<()> {
        let target = &binding["target"];
        let kind = target["kind"].as_str().unwrap_or_default();
        let mut errors = Vec::new();
        if !kind.is_empty() && kind != "Node" {
            let known = ["Node", "<empty>"];
            errors.push(FieldError::not_supported("target.kind", &json!(kind), &known));
        }
        if target["name"].as_str().is_none_or(str::is_empty) {
            errors.push(FieldError::required("target.name", ""));
        }
        match errors.as_slice() {
            [] => Ok(()),
            [one] => Err(Status::untyped(one.to_string())),
            many => {
                let texts: Vec<_> = many.iter().map(FieldError::to_string).collect();
                Err(Status::untyped(format!("[{}]", texts.join(", "))))
            }
        }
    }

    /// The same request aimed at a pod.
    pub(super) fn on_pod(&self, name: &str) -> Call {
        let pods = self.server.registry.find("", "v1", "pods").expect("pods are built in");
        let mut info = self.info.clone();
        name.clone_into(&mut info.name);
        info.resource = "pods".into();
        info.subresource.clear();
        let mut call = Call::new(
            self.server.clone(),
            info,
            self.query.clone(),
            self.headers.clone(),
            self.user.clone(),
            pods,
            self.form,
            self.body.clone(),
        );
        call.admitted = true;
        call
    }

    /// Lets admission see an object that is posted to a subresource.
    pub(super) async fn admit_part(&self, object: Value, options: &WriteOptions) -> Result<Value> {
        let mut review = Review {
            operation: Operation::Create,
            resource: &self.resource,
            subresource: &self.info.subresource,
            name: self.info.name.clone(),
            namespace: self.namespace().to_owned(),
            object: Some(object),
            old: None,
            user: &self.user,
            dry_run: options.dry_run == DryRun::All,
            options: self.options_object("CreateOptions", options),
        };
        self.server.mutate(&mut review, self).await?;
        self.server.validate(&review, self).await?;
        Ok(review.object.unwrap_or_default())
    }

    /// POST of `serviceaccounts/NAME/token`.
    async fn token_request(&self) -> Result<Answer> {
        let options = self.write_options("CreateOptions", false)?;
        let gvk = Gvk::new("authentication.k8s.io", "v1", "TokenRequest");
        let mut body = self.decode_as(&gvk, &options)?;
        self.place(&mut body)?;
        if body["spec"].is_object() && body["spec"]["expirationSeconds"].is_null() {
            body["spec"]["expirationSeconds"] = 3600.into();
        }
        self.track_as(&gvk, &mut body, &options, "token");
        let body = self.admit_part(body, &options).await?;
        let lookup: &crate::server::Inner = &self.server;
        let answer = crate::auth::token::token_request(
            self.server.authenticator.signer(),
            lookup,
            self.namespace(),
            &self.info.name,
            body,
            self.server.clock.now(),
        )?;
        Ok(Answer::Object(201, answer))
    }

    /// Records in `managedFields` the creation of an object of another kind than the resource.
    fn track_as(&self, gvk: &Gvk, object: &mut Value, options: &WriteOptions, subresource: &str) {
        let request = UpdateRequest {
            live: None,
            shape: &crate::schema::shape_of(gvk),
            gvk,
            subresource,
            manager: &options.manager,
            now: &self.server.clock.stamp(),
            reset: &PathSet::default(),
            convert: &|_: &Value, _: &str| None,
        };
        crate::merge::track_update(&request, object);
    }

    /// GET of a pod's log: there is no container that could have written one.
    async fn log(&self) -> Result<Answer> {
        let pod = self.entry()?.object();
        self.check_log_options()?;
        let wanted = self.query.get("container").unwrap_or_default();
        let containers = container_names(&pod);
        let main = pod["spec"]["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
        if wanted.is_empty() && main.len() > 1 {
            return Err(Status::bad_request(format!(
                "a container name must be specified for pod {}, choose one of: [{}]",
                self.info.name,
                containers.join(" ")
            )));
        }
        if !wanted.is_empty() && !containers.iter().any(|c| c == wanted) {
            return Err(Status::bad_request(format!(
                "container {wanted} is not valid for pod {}",
                self.info.name
            )));
        }
        if pod["spec"]["nodeName"].as_str().is_none_or(str::is_empty) {
            return Ok(Answer::Ready(crate::response::bytes_of(
                204,
                "text/plain",
                bytes::Bytes::new(),
            )));
        }
        let container = match main {
            [only] if wanted.is_empty() => only["name"].as_str().unwrap_or_default(),
            _ => wanted,
        };
        let why = format!(
            "container {container:?} of pod {:?} is simulated: it does not run and writes no log",
            self.info.name
        );
        if self.query.flag("follow") {
            // Clients that follow a log take a failure for a passing one and ask again and again.
            let line = bytes::Bytes::from(format!("{why}\n"));
            return Ok(Answer::Ready(crate::response::bytes_of(200, "text/plain", line)));
        }
        Err(Status::bad_request(why))
    }

    fn check_log_options(&self) -> Result<()> {
        let mut errors = Vec::new();
        for (field, least) in [("tailLines", 0), ("limitBytes", 1), ("sinceSeconds", 1)] {
            let Some(number) = super::list_options::parse_int(self.query.get(field))? else {
                continue;
            };
            if number < least {
                let why = match least {
                    0 => "must be greater than or equal to 0",
                    _ => "must be greater than 0",
                };
                errors.push(FieldError::invalid(field, &json!(number), why));
            }
        }
        match errors.is_empty() {
            true => Ok(()),
            false => Err(Status::invalid("", "PodLogOptions", &self.info.name, &errors)),
        }
    }

    /// Refuses exec, attach, port-forward and proxies once admission has seen them: they need a
    /// container, and no container runs here.
    async fn connect(&self) -> Result<Answer> {
        let mut review = Review {
            operation: Operation::Connect,
            resource: &self.resource,
            subresource: &self.info.subresource,
            name: self.info.name.clone(),
            namespace: self.namespace().to_owned(),
            object: Some(connect::options(self)),
            old: None,
            user: &self.user,
            dry_run: false,
            options: Value::Null,
        };
        self.server.mutate(&mut review, self).await?;
        self.server.validate(&review, self).await?;
        let object = self.entry()?.object();
        let (kind, name) = (&self.resource.gvk.kind, &self.info.name);
        let placed = object["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
        if &**kind == "Pod" && !placed {
            return Err(Status::bad_request(format!("pod {name} does not have a host assigned")));
        }
        let what = match self.info.subresource.as_str() {
            "exec" => "nothing can be executed in it",
            "attach" => "there is nothing to attach to",
            "portforward" => "no port of it is open",
            _ => "nothing answers behind it",
        };
        let kind = kind.to_lowercase();
        Err(Status::bad_request(format!("{kind} {name:?} is simulated, no container runs: {what}")))
    }

    /// The options of a write that a subresource does on behalf of a user.
    pub(super) fn plain_options(&self, dry_run: DryRun) -> WriteOptions {
        WriteOptions {
            dry_run,
            validation: super::FieldValidation::Ignore,
            manager: self.default_manager(),
            manager_given: false,
            force: false,
        }
    }
}

/// The names of all containers of a pod, in the order in which they start.
fn container_names(pod: &Value) -> Vec<String> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let all = lists.iter().flat_map(|list| pod["spec"][list].as_array().into_iter().flatten());
    all.filter_map(|c| c["name"].as_str().map(str::to_owned)).collect()
}

/// The pod on its node.
fn bound(old: &Value, binding: &Value, node: &str, stamp: &str) -> Result<Value> {
    let name = object::name(old);
    let gr = GroupResource { group: "", resource: "pods/binding" };
    if object::is_deleting(old) {
        return Err(Status::conflict(
            &gr,
            name,
            format!("pod {name} is being deleted, cannot be assigned to a host"),
        ));
    }
    let current = old["spec"]["nodeName"].as_str().unwrap_or_default();
    if !current.is_empty() {
        return Err(Status::conflict(
            &gr,
            name,
            format!("pod {name} is already assigned to node \"{current}\""),
        ));
    }
    let uid = object::uid(binding);
    if !uid.is_empty() && uid != object::uid(old) {
        return Err(Status::conflict(
            &gr,
            name,
            format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                object::uid(old)
            ),
        ));
    }
    let gates = old["spec"]["schedulingGates"].as_array();
    if gates.is_some_and(|g| !g.is_empty()) {
        return Err(Status::conflict(
            &gr,
            name,
            format!("pod {name} has non-empty .spec.schedulingGates"),
        ));
    }
    let mut new = old.clone();
    new["spec"]["nodeName"] = node.into();
    for field in ["annotations", "labels"] {
        let given = object::meta(binding).get(field).and_then(Value::as_object);
        for (key, value) in given.into_iter().flatten() {
            new["metadata"][field][key] = value.clone();
        }
    }
    let condition = json!({
        "type": "PodScheduled", "status": "True",
        "lastProbeTime": null, "lastTransitionTime": stamp,
    });
    set_condition(&mut new, condition);
    Ok(new)
}

/// Sets a condition of the status by its type; times change only with the status.
pub(super) fn set_condition(object: &mut Value, condition: Value) {
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }
    let Some(list) = object["status"]["conditions"].as_array_mut() else { return };
    match list.iter_mut().find(|c| c["type"] == condition["type"]) {
        None => list.push(condition),
        Some(old) => {
            let same = old["status"] == condition["status"];
            let since = old["lastTransitionTime"].clone();
            *old = condition;
            if same {
                old["lastTransitionTime"] = since;
            }
        }
    }
}

/// `Status` of a success.
pub(super) fn success(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code})
}
