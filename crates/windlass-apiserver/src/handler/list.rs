//! LIST: snapshots, exact versions, pages.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::list_options::{ListOptions, VersionMatch, parse_version};
use super::{Answer, Call};
use crate::response::{AnswerShape, Chunks, Encoding};
use crate::status::{Result, Status};
use crate::store::{Entry, Key, Table};

/// Base64 as Go reads it: bits left over at the end do not matter.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&base64::alphabet::URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// Objects encoded before others get their turn.
const ENCODED_AT_ONCE: usize = 64;

/// What a continue token says.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Token {
    v: String,
    rv: i64,
    start: String,
}

/// One page.
struct Page {
    revision: u64,
    entries: Vec<Arc<Entry>>,
    cont: Option<String>,
    remaining: Option<usize>,
}

impl Call {
    pub(super) async fn list(&self) -> Result<Answer> {
        let options = self.list_options()?;
        let page = self.page(&options).await?;
        self.check_form()?;
        self.encode_page(page).await
    }

    /// The objects a list shows, and what its metadata says of those it does not.
    pub(super) async fn listed(
        &self,
        options: &ListOptions,
    ) -> Result<(Vec<Arc<Entry>>, Map<String, Value>)> {
        let page = self.page(options).await?;
        let mut rest = Map::new();
        if let Some(token) = page.cont.or_else(|| self.resource.is_custom().then(String::new)) {
            rest.insert("continue".into(), token.into());
        }
        if let Some(count) = page.remaining {
            rest.insert("remainingItemCount".into(), count.into());
        }
        Ok((page.entries, rest))
    }

    async fn page(&self, options: &ListOptions) -> Result<Page> {
        let token = self.token(options)?;
        let (table, revision) = self.state_for(options, token.as_ref()).await?;
        let start = token.map(|t| self.start_key(&t.start));
        let namespace = options.filter.namespace.as_deref();
        // Lists at version "0" are served whole, as the watch cache does.
        let whole = options.limit == 0 || options.version == "0";
        let limit = if whole { usize::MAX } else { options.limit };
        if self.selects_by_objects(&options.filter) {
            let all = table.range(namespace, start.as_ref()).cloned().collect();
            let mut entries = self.select(&options.filter, all).await?;
            let more = entries.len() > limit;
            entries.truncate(limit);
            let cont = more.then(|| self.next_token(revision, entries.last()));
            return Ok(Page { revision, entries, cont, remaining: None });
        }
        let mut candidates = table.range(namespace, start.as_ref());
        let mut matching = candidates.by_ref().filter(|entry| options.filter.matches(entry));
        let entries: Vec<Arc<Entry>> = matching.by_ref().take(limit).cloned().collect();
        let more = matching.next().is_some();
        let remaining = (more && options.filter.is_plain()).then(|| 1 + candidates.count());
        let cont = more.then(|| self.next_token(revision, entries.last()));
        Ok(Page { revision, entries, cont, remaining })
    }

    /// The table to list from, and the version the list has.
    async fn state_for(
        &self,
        options: &ListOptions,
        token: Option<&Token>,
    ) -> Result<(Table, u64)> {
        let store = &self.server.store;
        let newest = || {
            let world = store.world();
            (world.table(&self.storage), world.revision)
        };
        if let Some(token) = token {
            let Ok(revision) = u64::try_from(token.rv) else { return Ok(newest()) };
            if revision > store.revision() {
                return Err(self.server.too_large(revision));
            }
            let table = store
                .at(&self.storage, revision)
                .map_err(|_| self.continue_expired(&token.start))?;
            return Ok((table, revision));
        }
        if options.version.is_empty() || options.version == "0" {
            return Ok(newest());
        }
        let wanted = parse_version(&options.version)
            .map_err(|e| Status::bad_request(format!("invalid resource version: {e}")))?;
        let exact = match options.version_match {
            Some(VersionMatch::Exact) => true,
            Some(VersionMatch::NotOlderThan) => false,
            None => options.limit > 0,
        };
        self.server.wait_for_revision(wanted).await?;
        if !exact {
            return Ok(newest());
        }
        let table = store.at(&self.storage, wanted).map_err(|_| {
            Status::expired("The resourceVersion for the provided list is too old.")
        })?;
        Ok((table, wanted))
    }

    fn token(&self, options: &ListOptions) -> Result<Option<Token>> {
        if options.cont.is_empty() {
            return Ok(None);
        }
        if !options.version.is_empty() && options.version != "0" {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let invalid = |why: String| {
            Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let bytes = LENIENT.decode(options.cont.trim_end_matches('=')).map_err(|_| {
            let at = options
                .cont
                .bytes()
                .position(|b| !(b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
            let at = at.unwrap_or(options.cont.len().saturating_sub(1));
            invalid(format!("illegal base64 data at input byte {at}"))
        })?;
        let token: Token = serde_json::from_slice(&bytes).map_err(|_| {
            invalid(match bytes.first() {
                None => "unexpected end of JSON input".to_owned(),
                Some(b'{') => "unexpected end of JSON input".to_owned(),
                Some(first) => {
                    let shown = crate::status::quote(&char::from(*first).to_string());
                    let shown = shown.trim_matches('"');
                    format!("invalid character '{shown}' looking for beginning of value")
                }
            })
        })?;
        if token.v != "meta.k8s.io/v1" {
            return Err(invalid(format!(
                "server does not recognize this encoded version {}",
                token.v
            )));
        }
        if token.rv == 0 {
            let why = "incorrect encoded start resourceVersion (version meta.k8s.io/v1)";
            return Err(invalid(why.to_owned()));
        }
        if token.start.is_empty() {
            return Err(invalid("encoded start key empty (version meta.k8s.io/v1)".to_owned()));
        }
        let start = token.start.trim_start_matches('/');
        if start.starts_with("../") || start.contains("/../") {
            return Err(invalid(token.start));
        }
        Ok(Some(token))
    }

    /// The first key at or after a token's start, which is relative to the list's scope.
    fn start_key(&self, start: &str) -> Key {
        let start = start.trim_start_matches('/');
        let scoped = !self.namespace().is_empty() || !self.resource.namespaced;
        if scoped {
            return Key::new(self.namespace(), start);
        }
        let (namespace, name) = start.split_once('/').unwrap_or((start, ""));
        Key::new(namespace, name)
    }

    fn next_token(&self, revision: u64, last: Option<&Arc<Entry>>) -> String {
        let start = last.map_or_else(String::new, |entry| {
            let scoped = !self.namespace().is_empty() || !self.resource.namespaced;
            match scoped {
                true => format!("{}\0", entry.key.name),
                false => format!("{}/{}\0", entry.key.namespace, entry.key.name),
            }
        });
        encode_token(i64::try_from(revision).unwrap_or(i64::MAX), start)
    }

    /// 410 for a token whose version is gone, with a token that continues at the newest state.
    fn continue_expired(&self, start: &str) -> Status {
        let mut status = Status::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
        );
        status.cont = Some(encode_token(-1, start.to_owned()));
        status
    }

    async fn encode_page(&self, page: Page) -> Result<Answer> {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".into(), page.revision.to_string().into());
        // Lists of custom resources have the field always, in their own form.
        let shown = self.resource.is_custom() && self.form.shape == AnswerShape::Object;
        if let Some(token) = page.cont.or_else(|| shown.then(String::new)) {
            metadata.insert("continue".into(), token.into());
        }
        if let Some(count) = page.remaining {
            metadata.insert("remainingItemCount".into(), count.into());
        }
        let raw = self.form.shape == AnswerShape::Object
            && self.form.encoding == Encoding::Json
            && !self.form.pretty
            && page.entries.iter().all(|e| self.server.is_raw(&self.resource, e));
        if raw {
            return Ok(self.raw_list(&metadata, page.entries));
        }
        self.encode_ahead(&page.entries).await;
        if let Some(answer) = self.metadata_list(&metadata, &page.entries) {
            return Ok(answer);
        }
        let metadata = match self.protobuf_list(metadata, &page.entries) {
            Ok(answer) => return Ok(answer),
            Err(metadata) => metadata,
        };
        let entries: Vec<&Entry> = page.entries.iter().map(|entry| &**entry).collect();
        let objects = self.server.objects_of(&self.resource, &entries).await?;
        self.encode_list(metadata, objects)
    }

    /// A list of objects in the form that was asked for.
    pub(super) fn encode_list(
        &self,
        metadata: Map<String, Value>,
        objects: Vec<Value>,
    ) -> Result<Answer> {
        let list = match self.form.shape {
            AnswerShape::Table => {
                let mut table = self.table(&objects)?;
                table["metadata"] = Value::Object(metadata);
                table
            }
            AnswerShape::Metadata => {
                let api_version = self.form.meta_version();
                let items = objects.iter().map(|object| {
                    let mut item = crate::table::partial_metadata(object);
                    item["apiVersion"] = api_version.into();
                    item
                });
                list_of("PartialObjectMetadataList", api_version, metadata, items.collect())
            }
            AnswerShape::Object => self.list_object(metadata, objects),
        };
        Ok(Answer::Plain(200, list))
    }

    /// A list document of objects.
    pub(super) fn list_object(&self, metadata: Map<String, Value>, objects: Vec<Value>) -> Value {
        let custom = self.resource.is_custom();
        let items = objects.into_iter().map(|mut object| {
            if !custom {
                crate::object::strip_type(&mut object);
            }
            object
        });
        let api_version = self.resource.gvk.api_version();
        list_of(&self.resource.list_kind, &api_version, metadata, items.collect())
    }

    /// A list made of the stored bytes, streamed.
    fn raw_list(&self, metadata: &Map<String, Value>, entries: Vec<Arc<Entry>>) -> Answer {
        let gvk = &self.resource.gvk;
        let head = format!(
            "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{},\"items\":[",
            self.resource.list_kind,
            gvk.api_version(),
            Value::Object(metadata.clone())
        );
        let prefix = match self.resource.is_custom() {
            true => self.server.type_prefix(&self.resource),
            false => Bytes::from_static(b"{"),
        };
        let items = entries.into_iter().enumerate().flat_map(move |(index, entry)| {
            let comma = Bytes::from_static(if index == 0 { b"" } else { b"," });
            [comma, prefix.clone(), entry.body.slice(1..)]
        });
        let pieces =
            std::iter::once(Bytes::from(head)).chain(items).chain([Bytes::from_static(b"]}\n")]);
        streamed("application/json", pieces)
    }

    /// Encodes what a list in protobuf is made of; others get their turns in between.
    async fn encode_ahead(&self, entries: &[Arc<Entry>]) {
        if self.form.encoding != Encoding::Protobuf || self.resource.is_custom() {
            return;
        }
        let gvk = &self.resource.gvk;
        let Some(message) = windlass_protobuf::message_of(&gvk.api_version(), &gvk.kind) else {
            return;
        };
        for entries in entries.chunks(ENCODED_AT_ONCE) {
            for entry in entries.iter().filter(|e| self.server.is_raw(&self.resource, e)) {
                entry.protobuf(message);
            }
            tokio::task::yield_now().await;
        }
    }

    /// A list of built-in objects in protobuf, item by item; gives the metadata back if that is
    /// not what was asked for.
    fn protobuf_list(
        &self,
        metadata: Map<String, Value>,
        entries: &[Arc<Entry>],
    ) -> std::result::Result<Answer, Map<String, Value>> {
        let form = self.form;
        let fits = form.encoding == Encoding::Protobuf
            && form.shape == AnswerShape::Object
            && entries.iter().all(|e| self.server.is_raw(&self.resource, e));
        let version = self.resource.gvk.api_version();
        let message = windlass_protobuf::message_of(&version, &self.resource.gvk.kind);
        let Some(message) = message.filter(|_| fits) else { return Err(metadata) };
        let items = entries.iter().map(|entry| entry.protobuf(message));
        let Some(items) = items.collect::<Option<Vec<_>>>() else { return Err(metadata) };
        let metadata = Value::Object(metadata);
        let kind = &self.resource.list_kind;
        match windlass_protobuf::list_pieces(&version, kind, &metadata, items) {
            Ok(pieces) => Ok(streamed(windlass_protobuf::MEDIA_TYPE, pieces)),
            Err(_) => match metadata {
                Value::Object(metadata) => Err(metadata),
                _ => Err(Map::new()),
            },
        }
    }
}

/// A list document; its parts are moved into it.
fn list_of(
    kind: &str,
    api_version: &str,
    metadata: Map<String, Value>,
    items: Vec<Value>,
) -> Value {
    let mut list = Map::new();
    list.insert("kind".into(), kind.into());
    list.insert("apiVersion".into(), api_version.into());
    list.insert("metadata".into(), Value::Object(metadata));
    list.insert("items".into(), Value::Array(items));
    Value::Object(list)
}

/// An answer of many pieces: at once if it is short, else streamed.
pub(super) fn streamed(
    content_type: &'static str,
    pieces: impl Iterator<Item = Bytes> + Send + 'static,
) -> Answer {
    let mut chunks = Chunks::new(pieces);
    let first = chunks.next().unwrap_or_default();
    let Some(second) = chunks.next() else {
        return Answer::Ready(crate::response::bytes_of(200, content_type, first));
    };
    let chunks = [first, second].into_iter().chain(chunks);
    Answer::Ready(crate::response::stream(content_type, futures::stream::iter(chunks)))
}

fn encode_token(rv: i64, start: String) -> String {
    let token = Token { v: "meta.k8s.io/v1".into(), rv, start };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
}
