//! Columns of tables, and the paths of fields.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Result};

use crate::argument;
use crate::attribute::{self, Entry};
use crate::path::Fields;

const TYPES: &[&str] = &["string", "integer", "number", "boolean", "date"];
const FORMATS: &[&str] =
    &["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// Reads `column("Size", ".spec.size", priority = 1)`.
pub fn column(root: &TokenStream, entry: &Entry, fields: &Fields) -> Result<TokenStream> {
    let (texts, arguments) = entry.call_with_strings()?;
    let [name, path] = texts.as_slice() else {
        let message = "a column has a name and a path: `column(\"Size\", \".spec.size\")`";
        return Err(Error::new(entry.span(), message));
    };
    fields.check(path)?;
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
