//! Columns of tables, and the paths of fields.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, LitStr, Result};

use crate::argument;
use crate::attribute::{self, Entry};

const TYPES: &[&str] = &["string", "integer", "number", "boolean", "date"];
const FORMATS: &[&str] =
    &["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// The fields of the struct under `#[api(..)]`.
pub struct Fields {
    /// Their names in JSON; empty if they are not known.
    pub names: Vec<String>,
    /// Whether they are fields of the object itself, and not of its spec.
    pub flat: bool,
}

/// `column("Size", ".spec.size", priority = 1)`.
pub fn column(root: &TokenStream, entry: &Entry, fields: &Fields) -> Result<TokenStream> {
    let (texts, arguments) = entry.call_with_strings()?;
    let [name, path] = texts.as_slice() else {
        let message = "a column has a name and a path: `column(\"Size\", \".spec.size\")`";
        return Err(Error::new(entry.span(), message));
    };
    check_path(path, fields)?;
    let mut fields = vec![quote!(name: #name), quote!(path: #path)];
    for argument in &arguments {
        match argument.name().as_str() {
            "type" => {
                let text = argument.string()?;
                argument::one_of(argument, &text.value(), TYPES)?;
                fields.push(quote!(kind: ::core::option::Option::Some(#text)));
            }
            "format" => {
                let text = argument.string()?;
                argument::one_of(argument, &text.value(), FORMATS)?;
                fields.push(quote!(format: ::core::option::Option::Some(#text)));
            }
            "description" => {
                let text = argument.string()?;
                fields.push(quote!(description: ::core::option::Option::Some(#text)));
            }
            "priority" => {
                let priority = i32::try_from(argument.count()?)
                    .map_err(|_| argument.error("`priority` is a small number"))?;
                fields.push(quote!(priority: #priority));
            }
            _ => {
                let known = ["type", "format", "description", "priority"];
                return Err(attribute::unknown(&argument.key, &known, "in `column`"));
            }
        }
    }
    Ok(quote!(#root::Column { #(#fields,)* ..#root::Column::NONE }))
}

/// Fails for a path that cannot be read, or that names a field which the spec does not have.
pub fn check_path(path: &LitStr, fields: &Fields) -> Result<()> {
    let text = path.value();
    let error = |message: String| Err(Error::new(path.span(), message));
    let Some(rest) = text.strip_prefix('.') else {
        return error(format!("the path `{text}` begins with a dot: `.{text}`"));
    };
    let end = |text: &str| text.find(['.', '[']).unwrap_or(text.len());
    let first = &rest[..end(rest)];
    let mut roots = vec!["status", "metadata", "apiVersion", "kind"];
    let names: Vec<&str> = fields.names.iter().map(String::as_str).collect();
    if fields.flat {
        roots.extend(&names);
    } else {
        roots.push("spec");
    }
    let unknown = fields.flat && names.is_empty();
    if !unknown && !roots.contains(&first) {
        let hint = match attribute::closest(first, &roots) {
            Some(close) => format!("did you mean `.{close}`?"),
            None if fields.flat => format!("the fields of the object are {}", roots.join(", ")),
            None => "it begins with `.spec`, `.status` or `.metadata`".into(),
        };
        return error(format!("the path `{text}` leads to no field, {hint}"));
    }
    let Some(rest) = rest.strip_prefix("spec.") else { return Ok(()) };
    let name = &rest[..end(rest)];
    if fields.flat || names.is_empty() || names.contains(&name) {
        return Ok(());
    }
    let hint = match attribute::closest(name, &names) {
        Some(close) => format!("did you mean `.spec.{close}`?"),
        None => format!("its fields are {}", names.join(", ")),
    };
    error(format!("the spec has no field `{name}`, {hint}"))
}
