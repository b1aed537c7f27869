//! What `#[serde(..)]` says about names and presence.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::{Attribute, Error, LitStr, Result, Token, Type};

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
    /// `with`, `serialize_with` or `deserialize_with`: where it is written.
    pub with: Option<Span>,
    /// `from` or `try_from`: the type that is read.
    pub from: Option<Type>,
    /// `into`: the type that is written.
    pub into: Option<Type>,
    /// `transparent`: where it is written.
    pub transparent: Option<Span>,
    /// `tag`.
    pub tag: Option<LitStr>,
    /// `content`.
    pub content: Option<String>,
    /// `untagged`: where it is written.
    pub untagged: Option<Span>,
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
                "rename" | "rename_all" | "rename_all_fields"
                    if meta.input.peek(syn::token::Paren) =>
                {
                    let text = both(&meta)?;
                    let slot = match name.as_str() {
                        "rename" => &mut serde.rename,
                        "rename_all" => &mut serde.rename_all,
                        _ => &mut serde.rename_all_fields,
                    };
                    *slot = Some(text);
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
                    serde.with = Some(span(&meta));
                    text(&meta)?;
                }
                "from" | "try_from" => serde.from = Some(meta.value()?.parse::<LitStr>()?.parse()?),
                "into" => serde.into = Some(meta.value()?.parse::<LitStr>()?.parse()?),
                "transparent" => serde.transparent = Some(span(&meta)),
                "tag" => serde.tag = Some(meta.value()?.parse()?),
                "content" => serde.content = Some(text(&meta)?),
                "untagged" => serde.untagged = Some(span(&meta)),
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

fn span(meta: &syn::meta::ParseNestedMeta<'_>) -> Span {
    meta.path.get_ident().map_or_else(Span::call_site, syn::Ident::span)
}

/// Reads `name(serialize = "a", deserialize = "a")`.
fn both(meta: &syn::meta::ParseNestedMeta<'_>) -> Result<String> {
    let (mut written, mut read) = (None, None);
    meta.parse_nested_meta(|inner| {
        let text = inner.value()?.parse::<LitStr>()?.value();
        if inner.path.is_ident("deserialize") {
            read = Some(text);
        } else {
            written = Some(text);
        }
        Ok(())
    })?;
    match (written, read) {
        (Some(written), Some(read)) if written == read => Ok(read),
        _ => Err(Error::new(
            span(meta),
            "objects are read as they were written, give one name for both directions",
        )),
    }
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

// === impl Serde ===

impl Serde {
    /// Returns the type in whose place a value is read and written, if there is one. `inner` is the
    /// type of the one unnamed field of a struct.
    pub fn converted(&self, inner: Option<&Type>) -> Result<Option<&Type>> {
        let text = |kind: &Type| kind.to_token_stream().to_string();
        let fails = |kind: &Type, message: String| Err(Error::new_spanned(kind, message));
        match (&self.from, &self.into) {
            (None, None) => Ok(None),
            (Some(from), Some(into)) if text(from) == text(into) => Ok(Some(from)),
            (Some(from), Some(into)) => fails(
                into,
                format!("`{}` is written but `{}` is read, use one type", text(into), text(from)),
            ),
            (Some(from), None) if inner.is_some_and(|inner| text(inner) == text(from)) => {
                Ok(Some(from))
            }
            (Some(from), None) => fails(
                from,
                format!("`{0}` is read but not written, add `into = \"{0}\"`", text(from)),
            ),
            (None, Some(into)) => fails(
                into,
                format!("`{0}` is written but not read, add `try_from = \"{0}\"`", text(into)),
            ),
        }
    }
}
