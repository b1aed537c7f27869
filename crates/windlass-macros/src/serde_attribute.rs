//! What `#[serde(..)]` says about names and presence.

use proc_macro2::TokenStream;
use syn::{Attribute, LitStr, Result, Token};

/// The attributes that matter for a schema.
#[derive(Default)]
pub struct Serde {
    /// `rename`.
    pub rename: Option<String>,
    /// `rename_all`.
    pub rename_all: Option<String>,
    /// `rename_all_fields`.
    pub rename_all_fields: Option<String>,
    /// `default`, with its function.
    pub default: Option<Option<String>>,
    /// `flatten`.
    pub flatten: bool,
    /// `skip` or `skip_deserializing`.
    pub skip: bool,
    /// `skip_serializing_if`.
    pub skip_serializing_if: bool,
    /// `with`, `serialize_with` or `deserialize_with`.
    pub with: bool,
    /// `tag`.
    pub tag: Option<String>,
    /// `content`.
    pub content: Option<String>,
    /// `untagged`.
    pub untagged: bool,
    /// `crate`.
    pub has_crate: bool,
}

/// Reads all `#[serde(..)]` attributes.
pub fn read(attributes: &[Attribute]) -> Result<Serde> {
    let mut serde = Serde::default();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
        attribute.parse_nested_meta(|meta| {
            let text = |meta: &syn::meta::ParseNestedMeta<'_>| -> Result<String> {
                Ok(meta.value()?.parse::<LitStr>()?.value())
            };
            let Some(name) = meta.path.get_ident().map(ToString::to_string) else { return Ok(()) };
            match name.as_str() {
                "rename" | "rename_all" if meta.input.peek(syn::token::Paren) => {
                    meta.parse_nested_meta(|inner| {
                        let text = text(&inner)?;
                        if inner.path.is_ident("deserialize") {
                            let slot = if name == "rename" {
                                &mut serde.rename
                            } else {
                                &mut serde.rename_all
                            };
                            *slot = Some(text);
                        }
                        Ok(())
                    })?;
                }
                "rename" => serde.rename = Some(text(&meta)?),
                "rename_all" => serde.rename_all = Some(text(&meta)?),
                "rename_all_fields" => serde.rename_all_fields = Some(text(&meta)?),
                "default" if meta.input.peek(Token![=]) => serde.default = Some(Some(text(&meta)?)),
                "default" => serde.default = Some(None),
                "flatten" => serde.flatten = true,
                "skip" | "skip_deserializing" => serde.skip = true,
                "skip_serializing_if" => {
                    serde.skip_serializing_if = true;
                    text(&meta)?;
                }
                "with" | "serialize_with" | "deserialize_with" => {
                    serde.with = true;
                    text(&meta)?;
                }
                "tag" => serde.tag = Some(text(&meta)?),
                "content" => serde.content = Some(text(&meta)?),
                "untagged" => serde.untagged = true,
                "crate" => {
                    serde.has_crate = true;
                    text(&meta)?;
                }
                _ => skip(&meta)?,
            }
            Ok(())
        })?;
    }
    Ok(serde)
}

/// Skips an attribute that says nothing about the schema.
fn skip(meta: &syn::meta::ParseNestedMeta<'_>) -> Result<()> {
    if meta.input.peek(Token![=]) {
        meta.value()?.parse::<syn::Expr>()?;
    } else if meta.input.peek(syn::token::Paren) {
        let inner;
        syn::parenthesized!(inner in meta.input);
        inner.parse::<TokenStream>()?;
    }
    Ok(())
}
