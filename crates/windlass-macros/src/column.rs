//! Columns of tables, and the paths of fields.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, LitStr, Result};

use crate::argument;
use crate::attribute::{self, Entry};

const TYPES: &[&str] = &["string", "integer", "number", "boolean", "date"];
const FORMATS: &[&str] =
    &["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// `column("Size", ".spec.size", priority = 1)`.
pub fn column(root: &TokenStream, entry: &Entry, spec: &[String]) -> Result<TokenStream> {
    let (texts, arguments) = entry.call_with_strings()?;
    let [name, path] = texts.as_slice() else {
        let message = "a column has a name and a path: `column(\"Size\", \".spec.size\")`";
        return Err(Error::new(entry.span(), message));
    };
    check_path(path, spec)?;
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
pub fn check_path(path: &LitStr, spec: &[String]) -> Result<()> {
    let text = path.value();
    let error = |message: String| Err(Error::new(path.span(), message));
    let Some(rest) = text.strip_prefix('.') else {
        return error(format!("the path `{text}` begins with a dot: `.{text}`"));
    };
    let end = |text: &str| text.find(['.', '[']).unwrap_or(text.len());
    let first = &rest[..end(rest)];
    let roots = ["spec", "status", "metadata", "apiVersion", "kind"];
    if !roots.contains(&first) {
        let hint = match attribute::closest(first, &roots) {
            Some(close) => format!("did you mean `.{close}`?"),
            None => "it begins with `.spec`, `.status` or `.metadata`".into(),
        };
        return error(format!("the path `{text}` leads to no field, {hint}"));
    }
    let Some(rest) = rest.strip_prefix("spec.") else { return Ok(()) };
    let name = &rest[..end(rest)];
    if spec.is_empty() || spec.iter().any(|field| field == name) {
        return Ok(());
    }
    let names: Vec<&str> = spec.iter().map(String::as_str).collect();
    let hint = match attribute::closest(name, &names) {
        Some(close) => format!("did you mean `.spec.{close}`?"),
        None => format!("its fields are {}", names.join(", ")),
    };
    error(format!("the spec has no field `{name}`, {hint}"))
}
