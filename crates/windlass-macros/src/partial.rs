//! The partial struct of a struct: all its fields are optional, for server-side apply.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Ident, ItemStruct, Meta, Result, Token, Type, TypePath, parse_quote};

use crate::shape;

/// The serde attributes that say whether a field is there, which the partial struct decides alone.
const PRESENCE: [&str; 3] = ["default", "skip_serializing_if", "deny_unknown_fields"];

/// The name of the partial struct.
pub fn name(ident: &Ident) -> Ident {
    format_ident!("{ident}Partial")
}

/// Generates the partial struct of a struct whose attributes are processed.
///
/// `nested` are the fields whose types have partial structs, too.
pub fn expand(item: &ItemStruct, nested: &[Ident], root: &TokenStream) -> Result<TokenStream> {
    let mut partial = item.clone();
    partial.ident = name(&item.ident);
    let serde = quote!(#root::serde).to_string().replace(' ', "");
    partial.attrs = vec![parse_quote!(#[derive(
        ::core::clone::Clone,
        ::core::fmt::Debug,
        ::core::default::Default,
        #root::serde::Serialize,
        #root::serde::Deserialize
    )])];
    let doc = format!("The fields of [`{}`] that an applier sets: each is optional.", item.ident);
    partial.attrs.push(parse_quote!(#[doc = #doc]));
    for attribute in &item.attrs {
        partial.attrs.extend(kept(attribute)?.filter(|kept| kept.path().is_ident("serde")));
    }
    if !partial.attrs.iter().any(|attribute| attribute.meta.path().is_ident("serde")) {
        partial.attrs.push(parse_quote!(#[serde(crate = #serde, rename_all = "camelCase")]));
    }
    for field in &mut partial.fields {
        let mut attributes = Vec::new();
        for attribute in &field.attrs {
            attributes.extend(kept(attribute)?);
        }
        let serde = crate::serde_attribute::read(&attributes)?;
        if !serde.flatten {
            let none = "::core::option::Option::is_none";
            attributes.push(parse_quote!(#[serde(default, skip_serializing_if = #none)]));
        }
        field.attrs = attributes;
        let is_nested = field.ident.as_ref().is_some_and(|ident| nested.contains(ident));
        let bare = shape::option(&field.ty).unwrap_or(&field.ty).clone();
        let inner = if is_nested { partial_of(&bare)? } else { bare };
        field.ty = if serde.flatten { inner } else { parse_quote!(::core::option::Option<#inner>) };
    }
    Ok(quote!(#partial))
}

/// Returns an attribute without what it says about presence; nothing if nothing is left.
fn kept(attribute: &Attribute) -> Result<impl Iterator<Item = Attribute>> {
    if !attribute.path().is_ident("serde") {
        return Ok(Some(attribute.clone()).into_iter());
    }
    let metas = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)?;
    let metas: Vec<Meta> = metas
        .into_iter()
        .filter(|meta| !PRESENCE.iter().any(|name| meta.path().is_ident(name)))
        .collect();
    let attribute = (!metas.is_empty()).then(|| parse_quote!(#[serde(#(#metas),*)]));
    Ok(attribute.into_iter())
}

/// The partial struct of the type of a field, also inside of a `Box`, a list or a map.
fn partial_of(kind: &Type) -> Result<Type> {
    let wrong = || {
        Error::new_spanned(kind, "`partial` belongs on a field whose type has `#[k8s(partial)]`")
    };
    let Type::Path(path) = kind else { return Err(wrong()) };
    let mut path: TypePath = path.clone();
    let last = path.path.segments.last_mut().ok_or_else(wrong)?;
    match &mut last.arguments {
        syn::PathArguments::AngleBracketed(list) => {
            let inner = list.args.iter_mut().rev().find_map(|argument| match argument {
                syn::GenericArgument::Type(inner) => Some(inner),
                _ => None,
            });
            let inner = inner.ok_or_else(wrong)?;
            *inner = partial_of(inner)?;
        }
        _ => last.ident = name(&last.ident),
    }
    Ok(Type::Path(path))
}
