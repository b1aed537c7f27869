//! Subresources: status, scale, and those of pods, namespaces and service accounts.

use std::sync::Arc;

use serde_json::{Value, json};

use super::write::{Intent, Part, Write};
use super::{Answer, Call, DryRun, WriteOptions};
use crate::admission::Operation;
use crate::builtin::{Action, binding};
use crate::merge::{PathSet, UpdateRequest};
use crate::object;
use crate::resource::{Gvk, Resource};
use crate::status::{Result, Status};

mod connect;
mod eviction;
mod log;
mod scale;

impl Call {
    pub(super) async fn subresource(self: &Arc<Self>) -> Result<Answer> {
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
        match (self.rules().hooks().action(name), self.info.verb.as_str()) {
            (Action::Part(_), "get") => self.get().await,
            (Action::Part(part), "update") => self.update_part(part).await,
            (Action::Part(part), "patch") => self.patch_part(part).await,
            (Action::Scale, _) => self.scale().await,
            (Action::Finalize, _) => self.finalize().await,
            (Action::Bind, _) => self.bind().await,
            (Action::Evict, _) => self.evict().await,
            (Action::Token, _) => self.token_request().await,
            (Action::Log, _) => self.log(),
            (Action::Connect | Action::Part(_), _) => self.connect().await,
        }
    }

    /// Answers a create of a kind that is never stored: a review or a binding.
    pub(super) async fn answer_posted(self: &Arc<Self>) -> Result<Answer> {
        if self.rules().hooks().posted_to().is_some() {
            return self.bind().await;
        }
        let options = self.write_options("CreateOptions", false)?;
        let mut body = self.decode_new(&options)?;
        self.dedup_owners(&mut body);
        self.track(None, &mut body, &options.manager, "");
        let server: &crate::server::Inner = &self.server;
        let asked = crate::auth::review::Asked {
            user: &self.user,
            namespace: self.namespace(),
            body,
            authorizer: &server.authorizer,
            authenticator: &server.authenticator,
            lookup: server,
            now: server.clock.now(),
        };
        match crate::auth::review::answer(&self.resource.gvk.kind, asked) {
            Some(answer) => Ok(Answer::Object(201, answer?)),
            None => Err(self.verb_refused()),
        }
    }

    /// PUT of a namespace's `finalize`: its spec's finalizers, and with the last one its end.
    async fn finalize(self: &Arc<Self>) -> Result<Answer> {
        let options = self.write_options("UpdateOptions", false)?;
        let body = self.decode_body(&options)?;
        self.check_name(&body)?;
        let make = |_: &Value| Ok(body.clone());
        let intent = Intent::Change { make: &make, versioned: true, tracked: false };
        let written =
            Write::change(self, Part::Finalize, intent, "UpdateOptions", &options).run().await?;
        self.answer_written(200, written).await
    }

    /// POST of a binding: puts a pod onto a node.
    async fn bind(self: &Arc<Self>) -> Result<Answer> {
        let options = self.write_options("CreateOptions", false)?;
        let gvk = binding::gvk();
        let mut binding = self.decode_as(&gvk, &options)?;
        self.place(&mut binding)?;
        let by_path = !self.info.subresource.is_empty();
        let name = object::name(&binding).to_owned();
        if by_path && name != self.info.name {
            return Err(Status::bad_request("name in URL does not match name in Binding object"));
        }
        let binding = self.admit_part(binding, &options).await?;
        binding::check(&binding)?;
        let call = self.on_object(self.bound_resource()?, &name);
        let stamp = self.server.clock.stamp();
        let make = |old: &Value| binding::bound(old, &binding, &stamp);
        // Nobody owns what a binding sets.
        let intent = Intent::Change { make: &make, versioned: false, tracked: true };
        Write::change(&call, Part::Binding, intent, "CreateOptions", &options).run().await?;
        Ok(Answer::Plain(201, success(201)))
    }

    /// The resource of the object that a binding is about.
    fn bound_resource(&self) -> Result<Arc<Resource>> {
        let gvk = &self.resource.gvk;
        match self.rules().hooks().posted_to() {
            None => Ok(self.resource.clone()),
            Some(plural) => self
                .server
                .registry
                .find(&gvk.group, &gvk.version, plural)
                .ok_or_else(Status::no_such_resource),
        }
    }

    /// The same request aimed at an object itself, which admission has let pass already.
    pub(super) fn on_object(&self, resource: Arc<Resource>, name: &str) -> Arc<Call> {
        let mut info = self.info.clone();
        name.clone_into(&mut info.name);
        info.resource = resource.plural.to_string();
        info.subresource.clear();
        let mut call = Call::new(
            self.server.clone(),
            info,
            self.query.clone(),
            self.headers.clone(),
            self.user.clone(),
            resource,
            self.form,
            self.body.clone(),
        );
        call.admitted = true;
        Arc::new(call)
    }

    /// Lets admission see an object that is posted to a subresource.
    pub(super) async fn admit_part(&self, object: Value, options: &WriteOptions) -> Result<Value> {
        let shown = self.options_object("CreateOptions", options);
        let mut review = self.review(Operation::Create, Some(object), shown);
        review.dry_run = options.dry_run == DryRun::All;
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
        self.track_as(&gvk, &mut body, &options, &self.info.subresource);
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

    /// Refuses exec, attach, port-forward and proxies once admission has seen them: they need a
    /// container, and no container runs here.
    async fn connect(&self) -> Result<Answer> {
        let mut review = self.review(Operation::Connect, Some(connect::options(self)), Value::Null);
        self.server.mutate(&mut review, self).await?;
        self.server.validate(&review, self).await?;
        let object = self.entry()?.object();
        self.rules().hooks().check_connection(&object)?;
        let what = match self.info.subresource.as_str() {
            "exec" => "nothing can be executed in it",
            "attach" => "there is nothing to attach to",
            "portforward" => "no port of it is open",
            _ => "nothing answers behind it",
        };
        let (kind, name) = (self.resource.gvk.kind.to_lowercase(), &self.info.name);
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

/// `Status` of a success.
pub(super) fn success(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code})
}
