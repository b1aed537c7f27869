//! Options of lists and watches: selectors, versions, paging.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_text::select::{FieldSelector, LabelSelector};

use super::Call;
use crate::status::{FieldError, Result, Status};
use crate::store::Entry;

const MATCH: &str = "resourceVersionMatch";

/// `resourceVersionMatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VersionMatch {
    Exact,
    NotOlderThan,
}

/// Options of a list or watch, checked.
#[derive(Clone, Debug)]
pub(super) struct ListOptions {
    pub filter: Filter,
    /// `resourceVersion` as given; empty if unset.
    pub version: String,
    pub version_match: Option<VersionMatch>,
    pub limit: usize,
    pub cont: String,
    pub bookmarks: bool,
    pub send_initial_events: Option<bool>,
    pub timeout_seconds: Option<u64>,
}

/// Which objects are shown.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    pub namespace: Option<String>,
    /// A watch of one object by its path.
    pub name: Option<String>,
    pub labels: LabelSelector,
    pub fields: FieldSelector,
}

impl Filter {
    /// Returns `true` if a stored object is shown, by its fields as they were stored.
    pub fn matches(&self, entry: &Entry) -> bool {
        self.matches_beside_fields(entry)
            && (self.fields.is_everything() || self.fields.matches(|f| field(entry, f)))
    }

    fn matches_beside_fields(&self, entry: &Entry) -> bool {
        if self.namespace.as_deref().is_some_and(|n| n != &*entry.key.namespace) {
            return false;
        }
        if self.name.as_deref().is_some_and(|n| n != &*entry.key.name) {
            return false;
        }
        self.labels.is_everything() || self.labels.matches(&entry.labels)
    }

    /// Returns `true` if a selector names fields that are only found in the object itself.
    fn reads_objects(&self) -> bool {
        self.fields.requirements().any(|r| !r.field.starts_with("metadata."))
    }

    /// Returns `true` if it lets everything of its namespace through.
    pub fn is_plain(&self) -> bool {
        self.name.is_none() && self.labels.is_everything() && self.fields.is_everything()
    }
}

fn field<'a>(entry: &'a Entry, name: &str) -> Option<&'a str> {
    match name {
        "metadata.name" => Some(&entry.key.name),
        "metadata.namespace" => Some(&entry.key.namespace),
        _ => entry.fields.iter().find(|(k, _)| &**k == name).map(|(_, v)| v.as_str()),
    }
}

impl Call {
    /// Returns the entries that a filter lets through, in their order.
    ///
    /// Fields of custom objects are those of the version that was asked for: the objects are
    /// converted to it, all together.
    ///
    /// # Errors
    /// If the conversion fails.
    pub(super) async fn select(
        &self,
        filter: &Filter,
        mut entries: Vec<Arc<Entry>>,
    ) -> Result<Vec<Arc<Entry>>> {
        let Some(version) = self.resource.custom.as_ref().filter(|_| filter.reads_objects()) else {
            entries.retain(|entry| filter.matches(entry));
            return Ok(entries);
        };
        entries.retain(|entry| filter.matches_beside_fields(entry));
        let stored: Vec<&Entry> = entries.iter().map(|entry| &**entry).collect();
        let objects = self.server.objects_of(&self.resource, &stored).await?;
        let selected = |(entry, object): &(Arc<Entry>, Value)| {
            let values = version.selectable_values(object);
            filter.fields.matches(|name| match name {
                "metadata.name" => Some(&*entry.key.name),
                "metadata.namespace" => Some(&*entry.key.namespace),
                name => values.iter().find(|(field, _)| field == name).map(|(_, v)| v.as_str()),
            })
        };
        let pairs = entries.into_iter().zip(objects).filter(selected);
        Ok(pairs.map(|(entry, _)| entry).collect())
    }

    /// Returns `true` if [`Call::select`] has to look at the objects themselves.
    pub(super) fn selects_by_objects(&self, filter: &Filter) -> bool {
        self.resource.is_custom() && filter.reads_objects()
    }

    pub(super) fn list_options(&self) -> Result<ListOptions> {
        let query = &self.query;
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default())
            .map_err(Status::bad_request)?;
        let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or_default())
            .map_err(Status::bad_request)?;
        self.check_fields(&fields)?;
        let limit = parse_int(query.get("limit"))?.unwrap_or(0).max(0);
        let timeout = parse_int(query.get("timeoutSeconds"))?;
        let namespace = self.namespace();
        let options = ListOptions {
            filter: Filter {
                namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
                name: None,
                labels,
                fields,
            },
            version: query.get("resourceVersion").unwrap_or_default().to_owned(),
            version_match: None,
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            cont: query.get("continue").unwrap_or_default().to_owned(),
            bookmarks: query.flag("allowWatchBookmarks"),
            send_initial_events: query
                .get("sendInitialEvents")
                .filter(|v| !v.is_empty())
                .map(|_| query.flag("sendInitialEvents")),
            timeout_seconds: timeout.and_then(|t| u64::try_from(t).ok()).filter(|t| *t > 0),
        };
        self.check_version_match(options)
    }

    fn check_version_match(&self, mut options: ListOptions) -> Result<ListOptions> {
        let watch = self.info.verb == "watch";
        let given = self.query.get(MATCH).unwrap_or_default();
        let errors = if watch {
            watch_version_errors(&options, given)
        } else {
            list_version_errors(&options, given)
        };
        if !errors.is_empty() {
            return Err(Status::invalid("meta.k8s.io", "ListOptions", "", &errors));
        }
        options.version_match = match given {
            "Exact" => Some(VersionMatch::Exact),
            "NotOlderThan" => Some(VersionMatch::NotOlderThan),
            _ => None,
        };
        Ok(options)
    }

    /// Whether the kind has the fields that a selector names.
    fn check_fields(&self, selector: &FieldSelector) -> Result<()> {
        if selector.is_everything() {
            return Ok(());
        }
        let own = self.rules().fields(&Value::Null);
        for requirement in selector.requirements() {
            let name = requirement.field.as_str();
            if name == "metadata.name"
                || name == "metadata.namespace" && self.rules().hooks().selects_namespace()
            {
                continue;
            }
            match &own {
                Some(fields) if fields.iter().any(|(k, _)| &**k == name) => {}
                Some(_) => {
                    return Err(Status::bad_request(self.rules().hooks().unselectable(name)));
                }
                None => {
                    return Err(Status::bad_request(format!(
                        "\"{name}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                    )));
                }
            }
        }
        Ok(())
    }
}

/// Go's `strconv.ParseInt` of a query value.
pub(crate) fn parse_int(text: Option<&str>) -> Result<Option<i64>> {
    let Some(text) = text.filter(|t| !t.is_empty()) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        let digits = text.trim_start_matches(['+', '-']);
        let number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let problem = if number { "value out of range" } else { "invalid syntax" };
        Status::bad_request(format!(
            "strconv.ParseInt: parsing {}: {problem}",
            crate::status::quote(text)
        ))
    })
}

/// A resourceVersion; the error is the storage layer's text.
pub(super) fn parse_version(text: &str) -> std::result::Result<u64, String> {
    parse_uint(text).map_err(|error| {
        format!("resourceVersion: Invalid value: {}: {error}", crate::status::quote(text))
    })
}

/// Go's `strconv.ParseUint`.
pub(super) fn parse_uint(text: &str) -> std::result::Result<u64, String> {
    text.parse().map_err(|_| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let problem = if digits { "value out of range" } else { "invalid syntax" };
        format!("strconv.ParseUint: parsing {}: {problem}", crate::status::quote(text))
    })
}

/// Problems of the version options of a watch.
fn watch_version_errors(options: &ListOptions, given: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match (options.send_initial_events, given) {
        (Some(_), "NotOlderThan") | (None, "") => {}
        (Some(_), "") => errors.push(FieldError::forbidden(
            MATCH,
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        )),
        (Some(_), other) => {
            errors.push(FieldError::forbidden(
                MATCH,
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
            let known = ["NotOlderThan"];
            errors.push(FieldError::not_supported(MATCH, &json!(other), &known));
        }
        (None, other) => {
            errors.push(FieldError::forbidden(
                MATCH,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
            if other != "NotOlderThan" {
                let known = ["NotOlderThan"];
                errors.push(FieldError::not_supported(MATCH, &json!(other), &known));
            }
        }
    }
    // A watch from no version is given a match by the server itself.
    let matched = !given.is_empty() || matches!(&*options.version, "" | "0");
    if !options.cont.is_empty() && matched {
        let text = "resourceVersionMatch is forbidden when continue is provided";
        errors.push(FieldError::forbidden(MATCH, text));
    }
    errors
}

/// Problems of the version options of a list.
fn list_version_errors(options: &ListOptions, given: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if options.send_initial_events.is_some() {
        let text = "sendInitialEvents is forbidden for list";
        errors.push(FieldError::forbidden("sendInitialEvents", text));
    }
    if !given.is_empty() {
        if options.version.is_empty() {
            let text = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(FieldError::forbidden(MATCH, text));
        }
        if !options.cont.is_empty() {
            let text = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(MATCH, text));
        }
        if given != "Exact" && given != "NotOlderThan" {
            let known = ["Exact", "NotOlderThan", ""];
            errors.push(FieldError::not_supported(MATCH, &json!(given), &known));
        }
        if given == "Exact" && options.version == "0" {
            let text = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(FieldError::forbidden(MATCH, text));
        }
    }
    errors
}
