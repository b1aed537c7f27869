//! Subresources: parts of an object, its scale, connections, and those that belong to one kind.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::{Answer, Call, DryRun, WriteOptions};
use crate::admission::Operation;
use crate::builtin::Action;
use crate::resource::Resource;
use crate::status::{Result, Status};

mod connect;
mod scale;

/// A request that one kind alone has: a subresource of its own, or an object that is never stored.
pub(crate) trait Subresource: Sync {
    /// Answers the request.
    fn answer<'a>(&self, call: &'a Arc<Call>) -> BoxFuture<'a, Result<Answer>>;
}

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
            (Action::Own(own), _) => own.answer(self).await,
            (Action::Connect | Action::Part(_), _) => self.connect().await,
        }
    }

    /// Answers a create of a kind that is never stored: a review, or what its kind makes of it.
    pub(super) async fn answer_posted(self: &Arc<Self>) -> Result<Answer> {
        if let Some(own) = self.rules().hooks().posted() {
            return own.answer(self).await;
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

    /// The same request aimed at an object itself, which admission has let pass already.
    pub(crate) fn on_object(&self, resource: Arc<Resource>, name: &str) -> Arc<Call> {
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
    pub(crate) async fn admit_part(&self, object: Value, options: &WriteOptions) -> Result<Value> {
        let shown = self.options_object("CreateOptions", options);
        let mut review = self.review(Operation::Create, Some(object), shown);
        review.dry_run = options.dry_run == DryRun::All;
        self.server.mutate(&mut review, self).await?;
        self.server.validate(&review, self).await?;
        Ok(review.object.unwrap_or_default())
    }

    /// Refuses a connection once admission has seen it: it needs a container, and no container runs
    /// here.
    async fn connect(&self) -> Result<Answer> {
        let hooks = self.rules().hooks();
        let connection = hooks
            .connection(&self.info.subresource, &self.query)
            .unwrap_or_else(|| connect::proxied(self));
        let shown = connect::shown(self, connection.options);
        let mut review = self.review(Operation::Connect, Some(shown), Value::Null);
        self.server.mutate(&mut review, self).await?;
        self.server.validate(&review, self).await?;
        let object = self.entry()?.object();
        hooks.check_connection(&object)?;
        let (kind, name) = (self.resource.gvk.kind.to_lowercase(), &self.info.name);
        let missing = connection.missing;
        let why = format!("{kind} {name:?} is simulated, no container runs: {missing}");
        Err(Status::bad_request(why))
    }

    /// The options of a write that a subresource does on behalf of a user.
    pub(crate) fn plain_options(&self, dry_run: DryRun) -> WriteOptions {
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
pub(crate) fn success(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code})
}
