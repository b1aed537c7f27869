//! Keys with arguments of their own: `cel(..)`, `docs(..)`, `ui(..)`, `exactly_one_of(..)`.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use serde_json::{Value, json};
use syn::{Error, LitStr, Result};

use crate::attribute::{self, Entry};

const REASONS: &[&str] =
    &["FieldValueRequired", "FieldValueInvalid", "FieldValueForbidden", "FieldValueDuplicate"];

/// The keyword of objects that keep fields which no schema describes.
pub const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// The rule that writes a keyword.
pub fn keyword(root: &TokenStream, name: &str, value: &Value) -> TokenStream {
    let text = value.to_string();
    quote!(#root::Rule::Keyword(#name, #text))
}

/// Fails if a word is not one of these.
pub fn one_of(entry: &Entry, word: &str, known: &[&str]) -> Result<()> {
    if known.contains(&word) {
        return Ok(());
    }
    let list = known.join("`, `");
    let message = match attribute::closest(word, known) {
        Some(close) => format!("`{}` is not `{word}`, did you mean `{close}`?", entry.key),
        None => format!("`{}` is not `{word}` but one of `{list}`", entry.key),
    };
    Err(entry.error(message))
}

/// Reads `docs(url = "..", description = "..")`.
pub fn docs(root: &TokenStream, entry: &Entry) -> Result<TokenStream> {
    let mut docs = serde_json::Map::new();
    for argument in attribute::entries(entry.call()?)? {
        match argument.name().as_str() {
            "url" => {
                let url = argument.string()?;
                if !is_url(&url.value()) {
                    return Err(argument.error(format_args!("`{}` is not a URL", url.value())));
                }
                docs.insert("url".into(), url.value().into());
            }
            "description" => {
                docs.insert("description".into(), argument.string()?.value().into());
            }
            _ => {
                return Err(attribute::unknown(
                    &argument.key,
                    &["url", "description"],
                    "in `docs`",
                ));
            }
        }
    }
    if !docs.contains_key("url") {
        return Err(Error::new(entry.key.span(), "`docs` needs a URL: `docs(url = \"..\")`"));
    }
    Ok(keyword(root, "externalDocs", &Value::Object(docs)))
}

fn is_url(text: &str) -> bool {
    let clean = !text.contains(|letter: char| letter.is_whitespace() || letter.is_control());
    let scheme = text.split_once("://").is_some_and(|(scheme, rest)| {
        !rest.is_empty()
            && !scheme.is_empty()
            && scheme.chars().all(|letter| letter.is_ascii_alphanumeric())
    });
    clean && (scheme || text.starts_with('/'))
}

/// Reads `ui(display = "..", descriptors = [".."], order = 1, resource("Kind", "v1", "name"))`.
pub fn ui(entry: &Entry) -> Result<Value> {
    let mut ui = serde_json::Map::new();
    let mut resources = Vec::new();
    for argument in attribute::entries(entry.call()?)? {
        match argument.name().as_str() {
            "display" => {
                ui.insert("displayName".into(), argument.string()?.value().into());
            }
            "descriptors" => {
                let list: Vec<String> = argument.strings()?.iter().map(LitStr::value).collect();
                ui.insert("xDescriptors".into(), json!(list));
            }
            "order" => {
                ui.insert("order".into(), argument.count()?.into());
            }
            "resource" => {
                let (texts, _) = argument.call_with_strings()?;
                let [kind, version, name] = texts.as_slice() else {
                    return Err(argument.error("a resource has a kind, a version and a name"));
                };
                resources.push(json!({ "kind": kind.value(), "version": version.value(), "name": name.value() }));
            }
            _ => {
                let known = ["display", "descriptors", "order", "resource"];
                return Err(attribute::unknown(&argument.key, &known, "in `ui`"));
            }
        }
    }
    if !resources.is_empty() {
        ui.insert("resources".into(), Value::Array(resources));
    }
    Ok(Value::Object(ui))
}

/// Reads `cel("rule", message = "..")`.
pub fn cel(root: &TokenStream, entry: &Entry) -> Result<TokenStream> {
    let wrong = || entry.error("`cel` needs one expression in quotes: `cel(\"self > 0\")`");
    let first = entry.call()?.into_iter().next();
    if !matches!(first, Some(TokenTree::Literal(_))) {
        return Err(wrong());
    }
    let (rule, arguments) = entry.call_with_strings()?;
    let [rule] = rule.as_slice() else { return Err(wrong()) };
    well_formed(rule)?;
    let mut fields = vec![quote!(rule: #rule)];
    for argument in &arguments {
        match argument.name().as_str() {
            "message" => {
                let text = argument.string()?;
                if text.value().trim().is_empty() || text.value().contains(['\n', '\r']) {
                    return Err(argument.error("`message` is one line of text"));
                }
                fields.push(quote!(message: ::core::option::Option::Some(#text)));
            }
            "message_expression" => {
                let text = argument.string()?;
                well_formed(&text)?;
                fields.push(quote!(message_expression: ::core::option::Option::Some(#text)));
            }
            "reason" => {
                let word = argument.word()?.to_string();
                one_of(argument, &word, REASONS)?;
                fields.push(quote!(reason: ::core::option::Option::Some(#word)));
            }
            "path" => {
                let text = argument.string()?;
                if !text.value().starts_with(['.', '[']) {
                    return Err(argument.error("`path` begins with a dot: `path = \".field\"`"));
                }
                fields.push(quote!(field_path: ::core::option::Option::Some(#text)));
            }
            "optional_old_self" => {
                let value = argument.boolean()?;
                fields.push(quote!(optional_old_self: ::core::option::Option::Some(#value)));
            }
            _ => {
                let known =
                    ["message", "message_expression", "reason", "path", "optional_old_self"];
                return Err(attribute::unknown(&argument.key, &known, "in `cel`"));
            }
        }
    }
    Ok(quote!(#root::Rule::Cel(#root::Cel { #(#fields,)* ..#root::Cel::NONE })))
}

/// Fails for an expression that is not well formed.
fn well_formed(text: &LitStr) -> Result<()> {
    let Err(problems) = windlass_cel::check_syntax(&text.value()) else { return Ok(()) };
    let Some(problem) = problems.first() else { return Ok(()) };
    let place = problem.column.map(|column| format!(" in column {column}")).unwrap_or_default();
    let why = problem.message.trim_start_matches("Syntax error: ");
    Err(Error::new(text.span(), format!("not an expression of CEL, {why}{place}")))
}

/// The fields of `exactly_one_of(a, b)`.
pub fn members(entry: &Entry) -> Result<Vec<Ident>> {
    let entries = attribute::entries(entry.call()?).map_err(|error| {
        Error::new(
            error.span(),
            format!("`{0}` names fields of the struct: `{0}(a, b)`", entry.key),
        )
    })?;
    if entries.len() < 2 {
        return Err(Error::new(
            entry.key.span(),
            format!("`{0}` needs two fields: `{0}(a, b)`", entry.key),
        ));
    }
    let member = |(at, member): (usize, &Entry)| {
        member.flag()?;
        if entries[..at].iter().any(|other| other.name() == member.name()) {
            let message = format!("`{}` names `{}` twice", entry.key, member.key);
            return Err(Error::new(member.key.span(), message));
        }
        Ok(member.key.clone())
    };
    entries.iter().enumerate().map(member).collect()
}

/// Turns the members of `exactly_one_of` into a rule, by the names of the fields in JSON.
pub fn one_of_tokens(root: &TokenStream, count: &str, names: &[String]) -> TokenStream {
    let count = Ident::new(count, Span::call_site()).into_token_stream();
    quote!(#root::Rule::OneOf(#root::Count::#count, &[#(#names),*]))
}
