//! DELETE and DELETECOLLECTION: options, preconditions, grace, finalizers.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::list_options::parse_int;
use super::options::check_dry_run;
use super::update::Outcome;
use super::{Answer, Call, DryRun};
use crate::admission::{Operation, Review};
use crate::clock::stamp;
use crate::custom::names;
use crate::object;
use crate::status::{Details, FieldError, FieldErrors, GroupResource, Result, Status};
use crate::store::{Change, Entry, Key};

const TRIES: usize = 32;
const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// How an object is to be deleted.
#[derive(Clone, Debug)]
pub(super) struct DeleteOptions {
    pub grace_seconds: Option<i64>,
    pub policy: Option<String>,
    pub orphan_dependents: Option<bool>,
    pub uid: Option<String>,
    pub version: Option<String>,
    pub dry_run: DryRun,
    /// As webhooks see them.
    pub object: Value,
}

/// What became of the object.
pub(super) struct Deleted {
    /// The object as it was last, with apiVersion and kind.
    pub object: Value,
    /// Whether it is gone; otherwise something still holds it.
    pub gone: bool,
}

impl Call {
    pub(super) async fn delete(&self) -> Result<Answer> {
        let options = self.delete_options()?;
        self.warn_of_children(&options);
        let deleted = self.delete_object(&self.key(), &options).await?;
        let returns = self.rules().returns_deleted_object() || !deleted.gone;
        if returns {
            let late = !deleted.gone && options.orphan_dependents == Some(false);
            let held = late && !object::finalizers(&deleted.object).is_empty();
            return Ok(Answer::Object(if held { 202 } else { 200 }, deleted.object));
        }
        let gr = self.resource.gr();
        let details = Details {
            uid: object::uid(&deleted.object).to_owned(),
            ..Details::of(&gr, &self.info.name)
        };
        Ok(Answer::Plain(
            200,
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {},
                "status": "Success", "details": details.to_json(),
            }),
        ))
    }

    pub(super) async fn delete_collection(&self) -> Result<Answer> {
        let list = self.list_options()?;
        let options = self.delete_options()?;
        self.warn_of_children(&options);
        let revision = self.server.store.revision();
        let mut deleted = Vec::new();
        let (entries, mut metadata) = self.listed(&list).await?;
        for entry in entries {
            let listed = self.object_of(&entry).await?;
            match self.delete_object(&entry.key, &options).await {
                Ok(_) => deleted.push(listed),
                Err(status) if status.is_not_found() => {}
                Err(status) => return Err(status),
            }
        }
        metadata.insert("resourceVersion".into(), revision.to_string().into());
        Ok(Answer::Plain(200, self.list_object(metadata, deleted)))
    }

    /// Options from the body, or from the query if the body is empty.
    pub(super) fn delete_options(&self) -> Result<DeleteOptions> {
        let body = match self.body.is_empty() {
            true => None,
            false => Some(self.delete_options_body()?),
        };
        self.read_delete_options(body)
    }

    /// Reads options from a document (of a body or an eviction), or from the query.
    pub(super) fn read_delete_options(&self, body: Option<Value>) -> Result<DeleteOptions> {
        let query = &self.query;
        let text = |v: &Value| v.as_str().map(str::to_owned);
        let mut errors = FieldErrors::default();
        let mut options = match &body {
            Some(body) => DeleteOptions {
                grace_seconds: body["gracePeriodSeconds"].as_i64(),
                policy: text(&body["propagationPolicy"]),
                orphan_dependents: body["orphanDependents"].as_bool(),
                uid: text(&body["preconditions"]["uid"]),
                version: text(&body["preconditions"]["resourceVersion"]),
                dry_run: DryRun::No,
                object: Value::Null,
            },
            None => DeleteOptions {
                grace_seconds: parse_int(query.get("gracePeriodSeconds"))?,
                policy: query.get("propagationPolicy").map(str::to_owned),
                orphan_dependents: query
                    .get("orphanDependents")
                    .map(|_| query.flag("orphanDependents")),
                uid: None,
                version: None,
                dry_run: DryRun::No,
                object: Value::Null,
            },
        };
        let dry_run: Vec<String> = match &body {
            Some(body) => {
                body["dryRun"].as_array().into_iter().flatten().filter_map(text).collect()
            }
            None => query.all("dryRun").to_vec(),
        };
        if options.policy.is_some() && options.orphan_dependents.is_some() {
            let shown = json!(options.policy);
            errors.push(FieldError::invalid(
                "propagationPolicy",
                &shown,
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        if let Some(policy) = &options.policy
            && !matches!(policy.as_str(), "Foreground" | "Background" | "Orphan")
        {
            let known = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(FieldError::not_supported("propagationPolicy", &json!(policy), &known));
        }
        options.dry_run = check_dry_run(&dry_run, &mut errors);
        if !errors.is_empty() {
            return Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", &errors));
        }
        let mut object = body.unwrap_or_else(|| json!({}));
        object["kind"] = "DeleteOptions".into();
        object["apiVersion"] = "meta.k8s.io/v1".into();
        options.object = object;
        Ok(options)
    }

    /// Deletes one object, or marks it as being deleted.
    pub(super) async fn delete_object(
        &self,
        key: &Key,
        options: &DeleteOptions,
    ) -> Result<Deleted> {
        for _ in 0..TRIES {
            let entry = self.server.store.world().get(&self.storage, key);
            let entry = entry.ok_or_else(|| Status::not_found(&self.resource.gr(), &key.name))?;
            match self.try_delete(&entry, options).await {
                Ok(deleted) => return Ok(deleted),
                Err(Outcome::Raced) => {}
                Err(Outcome::Failed(status)) => return Err(*status),
            }
        }
        Err(Status::modified(&self.resource.gr(), &key.name))
    }

    async fn try_delete(
        &self,
        entry: &Arc<Entry>,
        options: &DeleteOptions,
    ) -> std::result::Result<Deleted, Outcome> {
        let old = self.object_of(entry).await?;
        self.admit_delete(&old, &entry.key, options).await?;
        self.check_delete_preconditions(&old, options)?;
        let mut new = old.clone();
        let plan = if &*self.resource.plural == "namespaces" && self.resource.gvk.group.is_empty() {
            self.plan_namespace(&mut new)
        } else if self.is_definition() && !object::is_deleting(&old) {
            self.plan_definition(&mut new)
        } else {
            self.plan(&mut new, options)
        };
        if options.dry_run == DryRun::All {
            return Ok(Deleted { object: new, gone: plan == Plan::Remove });
        }
        match plan {
            Plan::Pending => Ok(Deleted { object: old, gone: false }),
            Plan::Mark => {
                let entry = self.mark(entry, &old, new).await?;
                Ok(Deleted { object: self.object_of(&entry).await?, gone: false })
            }
            Plan::Remove => {
                self.commit(&entry.key, entry, Change::Delete).await?;
                Ok(Deleted { object: old, gone: true })
            }
            Plan::MarkAndRemove => {
                let marked = self.mark(entry, &old, new).await?;
                let object = self.object_of(&marked).await?;
                self.commit(&entry.key, &marked, Change::Delete).await?;
                Ok(Deleted { object, gone: true })
            }
        }
    }

    async fn mark(
        &self,
        entry: &Arc<Entry>,
        old: &Value,
        new: Value,
    ) -> std::result::Result<Arc<Entry>, Outcome> {
        if new == *old {
            return Ok(entry.clone());
        }
        let change = self.put(new).await?;
        self.commit(&entry.key, entry, change).await
    }

    async fn admit_delete(&self, old: &Value, key: &Key, options: &DeleteOptions) -> Result<()> {
        let mut review = Review {
            operation: Operation::Delete,
            resource: &self.resource,
            subresource: "",
            name: key.name.to_string(),
            namespace: self.namespace_of(key),
            object: None,
            old: Some(old),
            user: &self.user,
            dry_run: options.dry_run == DryRun::All,
            options: options.object.clone(),
        };
        self.server.mutate(&mut review, self).await?;
        self.server.validate(&review, self).await
    }

    fn namespace_of(&self, key: &Key) -> String {
        match &*self.resource.plural {
            "namespaces" if self.resource.gvk.group.is_empty() => key.name.to_string(),
            _ => key.namespace.to_string(),
        }
    }

    /// Adds the warning for deletions of jobs, existing or not, about what happens to their pods.
    fn warn_of_children(&self, options: &DeleteOptions) {
        if options.policy.is_none() && options.orphan_dependents.is_none() && self.is_job() {
            self.warn("child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning");
        }
    }

    fn is_job(&self) -> bool {
        &*self.resource.gvk.group == "batch" && &*self.resource.plural == "jobs"
    }

    fn check_delete_preconditions(&self, old: &Value, options: &DeleteOptions) -> Result<()> {
        let gvk = &self.resource.gvk;
        // The message names the kind, where other conflicts name the resource.
        let gr = GroupResource { group: &gvk.group, resource: &gvk.kind };
        let name = object::name(old);
        if let Some(uid) = &options.uid
            && uid != object::uid(old)
        {
            let why = format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
                object::uid(old)
            );
            return Err(Status::conflict(&gr, name, why));
        }
        let version = object::meta_str(old, "resourceVersion");
        if let Some(wanted) = &options.version
            && wanted != version
        {
            let why = format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
            );
            return Err(Status::conflict(&gr, name, why));
        }
        Ok(())
    }

    /// What a deletion does to an object, which is changed to its marked form.
    fn plan(&self, object: &mut Value, options: &DeleteOptions) -> Plan {
        let mut graceful = None;
        if self.is_pod() {
            match self.pod_grace(object, options) {
                Grace::Pending => return Plan::Pending,
                Grace::None => {}
                Grace::Seconds(seconds) => graceful = Some(seconds),
            }
        }
        self.gc_finalizers(object, options);
        let held = !object::finalizers(object).is_empty();
        if let Some(seconds) = graceful {
            return if held || seconds > 0 { Plan::Mark } else { Plan::MarkAndRemove };
        }
        if !held {
            return Plan::Remove;
        }
        self.mark_deleting(object, 0);
        Plan::Mark
    }

    fn is_pod(&self) -> bool {
        self.resource.gvk.group.is_empty() && &*self.resource.plural == "pods"
    }

    /// The grace period of a pod, which is marked with it.
    fn pod_grace(&self, pod: &mut Value, options: &DeleteOptions) -> Grace {
        if object::is_deleting(pod) {
            let current =
                object::meta(pod).get("deletionGracePeriodSeconds").and_then(Value::as_i64);
            let Some(current) = current.filter(|seconds| *seconds != 0) else { return Grace::None };
            let Some(wanted) = options.grace_seconds.filter(|wanted| *wanted < current) else {
                return Grace::Pending;
            };
            let at = object::meta_str(pod, "deletionTimestamp").parse::<Timestamp>();
            let at = at.unwrap_or_else(|_| self.server.clock.now());
            let earlier = later(at, wanted.saturating_sub(current));
            let metadata = object::meta_mut(pod);
            metadata.insert("deletionTimestamp".into(), stamp(earlier).into());
            metadata.insert("deletionGracePeriodSeconds".into(), wanted.into());
            return Grace::Seconds(wanted);
        }
        let spec = &pod["spec"];
        let default = spec["terminationGracePeriodSeconds"].as_i64();
        let mut seconds = options.grace_seconds.or(default).unwrap_or(0);
        let finished = matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
        if spec["nodeName"].as_str().is_none_or(str::is_empty) || finished {
            seconds = 0;
        }
        if seconds < 0 {
            seconds = 1;
        }
        self.mark_deleting(pod, seconds);
        Grace::Seconds(seconds)
    }

    fn mark_deleting(&self, object: &mut Value, grace_seconds: i64) {
        if object::is_deleting(object) {
            return;
        }
        let at = later(self.server.clock.now(), grace_seconds);
        let metadata = object::meta_mut(object);
        metadata.insert("deletionTimestamp".into(), stamp(at).into());
        metadata.insert("deletionGracePeriodSeconds".into(), grace_seconds.into());
        if let Some(generation) = metadata.get("generation").and_then(Value::as_i64)
            && generation > 0
        {
            metadata.insert("generation".into(), (generation + 1).into());
        }
    }

    /// Sets the finalizers the garbage collector acts on.
    fn gc_finalizers(&self, object: &mut Value, options: &DeleteOptions) {
        if &*self.resource.plural == "events" {
            return;
        }
        let existing: Vec<String> =
            object::finalizers(object).into_iter().map(str::to_owned).collect();
        let has = |name: &str| existing.iter().any(|f| f == name);
        let policy = match (options.orphan_dependents, options.policy.as_deref()) {
            (Some(true), _) => ORPHAN,
            (Some(false), _) => "",
            (None, Some("Orphan")) => ORPHAN,
            (None, Some("Foreground")) => FOREGROUND,
            (None, Some(_)) => "",
            (None, None) if has(ORPHAN) => ORPHAN,
            (None, None) if has(FOREGROUND) => FOREGROUND,
            (None, None) if self.orphans_by_default() => ORPHAN,
            (None, None) => "",
        };
        let mut wanted: Vec<String> =
            existing.iter().filter(|f| *f != ORPHAN && *f != FOREGROUND).cloned().collect();
        if !policy.is_empty() {
            wanted.push(policy.to_owned());
        }
        let same = wanted.len() == existing.len() && wanted.iter().all(|f| existing.contains(f));
        if !same {
            object::set_finalizers(object, wanted);
        }
    }

    fn orphans_by_default(&self) -> bool {
        let gvk = &self.resource.gvk;
        self.is_job()
            || (gvk.group.is_empty() && &*self.resource.plural == "replicationcontrollers")
    }

    fn is_definition(&self) -> bool {
        &*self.resource.gvk.group == "apiextensions.k8s.io"
            && &*self.resource.plural == "customresourcedefinitions"
    }

    /// A definition is deleted after its objects: until then it is terminating.
    fn plan_definition(&self, definition: &mut Value) -> Plan {
        let stamp = self.server.clock.stamp();
        let mut finalizers: Vec<String> =
            object::finalizers(definition).into_iter().map(str::to_owned).collect();
        if !finalizers.iter().any(|f| f == names::FINALIZER) {
            finalizers.push(names::FINALIZER.to_owned());
        }
        object::set_finalizers(definition, finalizers);
        object::meta_mut(definition).insert("deletionTimestamp".into(), stamp.clone().into());
        names::set_terminating(definition, &names::Deletion::Pending, &stamp);
        Plan::Mark
    }

    /// A namespace is deleted after its contents: until then it is terminating.
    fn plan_namespace(&self, namespace: &mut Value) -> Plan {
        let held = namespace["spec"]["finalizers"].as_array().is_some_and(|f| !f.is_empty())
            || !object::finalizers(namespace).is_empty();
        if !held {
            return Plan::Remove;
        }
        self.mark_deleting(namespace, 0);
        object::meta_mut(namespace).remove("deletionGracePeriodSeconds");
        namespace["status"]["phase"] = "Terminating".into();
        Plan::Mark
    }
}

/// A time so many seconds later, within the calendar.
fn later(time: Timestamp, seconds: i64) -> Timestamp {
    let whole = SignedDuration::from_secs(seconds);
    time.checked_add(whole).unwrap_or(if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// A deletion is under way already: nothing to do.
    Pending,
    /// The object stays, marked.
    Mark,
    /// The object is removed.
    Remove,
    /// The object is marked as deleted for watchers, then removed.
    MarkAndRemove,
}

enum Grace {
    None,
    Pending,
    Seconds(i64),
}
