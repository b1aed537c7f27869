//! DELETE and DELETECOLLECTION: options, preconditions, grace, finalizers.

use std::sync::Arc;

use serde_json::{Value, json};

use super::list_options::parse_int;
use super::options::check_dry_run;
use super::stored::Written;
use super::write::Write;
use super::{Answer, Call, DryRun};
use crate::object;
use crate::status::{Details, FieldError, FieldErrors, Result, Status};

/// How an object is to be deleted.
#[derive(Clone, Debug)]
pub(crate) struct DeleteOptions {
    pub grace_seconds: Option<i64>,
    pub policy: Option<String>,
    pub orphan_dependents: Option<bool>,
    pub uid: Option<String>,
    pub version: Option<String>,
    pub dry_run: DryRun,
    /// As webhooks see them.
    pub object: Value,
}

impl Call {
    pub(super) async fn delete(self: &Arc<Self>) -> Result<Answer> {
        let options = self.delete_options()?;
        self.warn_of_children(&options);
        let deleted = Write::delete(self, self.key(), &options).run().await?;
        let gone = matches!(deleted, Written::Gone(_));
        let object = self.object_written(deleted).await?;
        if self.rules().returns_deleted_object() || !gone {
            let late = !gone && options.orphan_dependents == Some(false);
            let held = late && !object::finalizers(&object).is_empty();
            return Ok(Answer::Object(if held { 202 } else { 200 }, object));
        }
        let gr = self.resource.gr();
        let details =
            Details { uid: object::uid(&object).to_owned(), ..Details::of(&gr, &self.info.name) };
        Ok(Answer::Plain(
            200,
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {},
                "status": "Success", "details": details.to_json(),
            }),
        ))
    }

    pub(super) async fn delete_collection(self: &Arc<Self>) -> Result<Answer> {
        let list = self.list_options()?;
        let options = self.delete_options()?;
        self.warn_of_children(&options);
        let revision = self.server.store.revision();
        let mut deleted = Vec::new();
        let (entries, mut metadata) = self.listed(&list).await?;
        for entry in entries {
            let listed = self.object_of(&entry).await?;
            match Write::delete(self, entry.key.clone(), &options).run().await {
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
    pub(crate) fn read_delete_options(&self, body: Option<Value>) -> Result<DeleteOptions> {
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

    /// Adds the kind's warning for deletions that do not say what happens to dependents, whether
    /// the object exists or not.
    fn warn_of_children(&self, options: &DeleteOptions) {
        if options.policy.is_none() && options.orphan_dependents.is_none() {
            self.rules().hooks().deletion_warning().into_iter().for_each(|text| self.warn(text));
        }
    }
}
