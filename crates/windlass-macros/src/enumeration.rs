//! Enums: choices of strings, and unions.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Fields, ItemEnum, Result, Variant, parse_quote};

use crate::field::{self, Container, cfgs};
use crate::rule::{Rules, join};
use crate::serde_attribute::{self, Serde};
use crate::type_item::{Output, rule_tokens};
use crate::{names, text};

/// Describes an enum, and takes its attributes away.
pub fn describe(item: &mut ItemEnum, root: &TokenStream, rules: &Rules) -> Result<Output> {
    let doc = text::doc(&item.attrs);
    let serde = serde_attribute::read(&item.attrs)?;
    let has_data = item.variants.iter().any(|variant| !matches!(variant.fields, Fields::Unit));
    let external = serde.tag.is_none() && serde.untagged.is_none();
    let rename = rename(item, &serde, has_data && external);
    let rename_fields = serde.rename_all_fields.clone().unwrap_or_else(|| "camelCase".into());
    if serde.rename_all_fields.is_none() && has_data {
        item.attrs.push(parse_quote!(#[serde(rename_all_fields = "camelCase")]));
    }
    let owner = item.ident.clone();
    let plain = item.generics.params.is_empty();
    if item.variants.is_empty() {
        return Err(Error::new_spanned(&item.ident, "an enum without variants has no values"));
    }
    let mut variants = Vec::new();
    let mut errors = same_names(item, &rename)?;
    let mut functions = Vec::new();
    for variant in &mut item.variants {
        let own = serde_attribute::read(&variant.attrs)?.rename_all;
        let container = Container {
            root,
            owner: &owner,
            rename_all: own.as_deref().unwrap_or(&rename_fields),
            optional: rules.optional,
            plain,
            prefix: format!("{}_", names::variant("snake_case", &variant.ident.to_string())),
            shared: !external,
        };
        match describe_variant(variant, &container, &rename, has_data && external, &mut functions) {
            Ok(tokens) => variants.extend(tokens),
            Err(error) => errors.push(error),
        }
    }
    join(errors)?;
    let tagging = match (&serde.tag, &serde.content) {
        (Some(tag), Some(content)) => quote!(#root::Tagging::Adjacent(#tag, #content)),
        (Some(tag), None) => quote!(#root::Tagging::Internal(#tag)),
        _ if serde.untagged.is_some() => quote!(#root::Tagging::Untagged),
        _ => quote!(#root::Tagging::External),
    };
    let rules = rule_tokens(rules, root, &[])?;
    let schema = quote! {
        #root::union(generator, &#root::Union {
            doc: #doc,
            tagging: #tagging,
            variants: &[#(#variants),*],
            rules: &[#(#rules),*],
        })
    };
    Ok(Output { schema, functions, nested: Vec::new(), names: None })
}

/// Returns errors about variants that are the same in JSON.
fn same_names(item: &ItemEnum, rename: &str) -> Result<Vec<Error>> {
    let mut known = Vec::new();
    let mut errors = Vec::new();
    for variant in &item.variants {
        let serde = serde_attribute::read(&variant.attrs)?;
        if serde.skip || serde.untagged.is_some() || !cfgs(&variant.attrs).is_empty() {
            continue;
        }
        let own = || names::variant(rename, &variant.ident.to_string());
        let name = serde.rename.unwrap_or_else(own);
        if known.contains(&name) {
            let message = format!("two variants have the name `{name}` in JSON");
            errors.push(Error::new(variant.ident.span(), message));
        }
        known.push(name);
    }
    Ok(errors)
}

/// The rule for the names of variants: those that are fields begin in lower case.
fn rename(item: &mut ItemEnum, serde: &Serde, are_fields: bool) -> String {
    match &serde.rename_all {
        Some(rule) => rule.clone(),
        None if are_fields => {
            item.attrs.push(parse_quote!(#[serde(rename_all = "camelCase")]));
            "camelCase".into()
        }
        None => "PascalCase".into(),
    }
}

fn describe_variant(
    variant: &mut Variant,
    container: &Container<'_>,
    rename: &str,
    are_fields: bool,
    functions: &mut Vec<TokenStream>,
) -> Result<Option<TokenStream>> {
    let root = container.root;
    let serde = serde_attribute::read(&variant.attrs)?;
    if serde.skip {
        return Ok(None);
    }
    if let Some(span) = serde.untagged {
        let message =
            "a variant without a tag can be anything, put `untagged` on the enum or remove it";
        return Err(Error::new(span, message));
    }
    if let Some(span) = serde.with {
        return Err(Error::new(span, "put `with` on the field of the variant"));
    }
    let entries = field::take(&mut variant.attrs)?;
    if let Some(entry) = entries.first() {
        return Err(Error::new(entry.key.span(), "put rules on the fields of a variant"));
    }
    let name =
        serde.rename.clone().unwrap_or_else(|| names::variant(rename, &variant.ident.to_string()));
    let doc = text::doc(&variant.attrs);
    let content = match &mut variant.fields {
        Fields::Unit => {
            if are_fields {
                let module = quote!(#root::unit).to_string().replace(' ', "");
                variant.attrs.push(parse_quote!(#[serde(with = #module)]));
                quote!(#root::Content::Nothing)
            } else {
                quote!(#root::Content::Unit)
            }
        }
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
            let described = field::describe(&mut fields.unnamed[0], container)?;
            let Some(described) = described else { return Ok(None) };
            let (schema, rules) = (described.schema, described.rules);
            quote!(#root::Content::Value(#schema, &[#(#rules),*]))
        }
        Fields::Unnamed(fields) => {
            let message = "a variant of several unnamed fields is a list of values of different types, name the fields";
            return Err(Error::new_spanned(fields, message));
        }
        Fields::Named(fields) => {
            let mut tokens = Vec::new();
            for one in &mut fields.named {
                let Some(field) = field::describe(one, container)? else { continue };
                functions.extend(field.functions);
                tokens.push(field.tokens);
            }
            quote!(#root::Content::Fields(&[#(#tokens),*]))
        }
    };
    let cfgs = cfgs(&variant.attrs);
    Ok(Some(quote!(#(#cfgs)* #root::Variant { name: #name, doc: #doc, content: #content })))
}
