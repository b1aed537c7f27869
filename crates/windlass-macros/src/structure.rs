//! Structs: objects, and names for other types.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Error, Field, Fields, Ident, Item, ItemStruct, Result, Type};

use crate::field::{self, Container};
use crate::rule::{Rules, join};
use crate::shape::Shape;
use crate::type_item::{Output, rule_tokens};
use crate::{serde_attribute, shape, subschema, text, type_item};

/// Describes a struct, and takes its attributes away.
pub fn describe(item: &mut ItemStruct, root: &TokenStream, rules: &Rules) -> Result<Output> {
    let doc = text::doc(&item.attrs);
    let serde = serde_attribute::read(&item.attrs)?;
    let owner = item.ident.clone();
    let container = Container {
        root,
        owner: &owner,
        rename_all: serde.rename_all.as_deref().unwrap_or("camelCase"),
        optional: rules.optional || serde.default.is_some(),
        plain: item.generics.params.is_empty(),
        prefix: String::new(),
        shared: false,
    };
    if let Some(tag) = &serde.tag {
        return Err(Error::new(tag.span(), "`tag` belongs on enums, a struct has no variants"));
    }
    if let (Some(span), Fields::Named(_)) = (serde.transparent, &item.fields) {
        return Err(Error::new(
            span,
            "`transparent` belongs on a struct with one unnamed field: `struct Name(Type)`",
        ));
    }
    match &mut item.fields {
        Fields::Named(fields) => {
            let mut described = Vec::new();
            let mut errors = Vec::new();
            for one in &mut fields.named {
                match field::describe(one, &container) {
                    Ok(field) => described.extend(field),
                    Err(error) => errors.push(error),
                }
            }
            for (at, field) in described.iter().enumerate() {
                let twice = described[..at].iter().any(|other| {
                    other.name == field.name && other.cfgs.is_empty() && field.cfgs.is_empty()
                });
                if let (Some(ident), true, false) = (&field.ident, twice, field.flatten) {
                    let message = format!("two fields have the name `{}` in JSON", field.name);
                    errors.push(Error::new(ident.span(), message));
                }
            }
            join(errors)?;
            let tokens = described.iter().map(|field| &field.tokens);
            let names = names_of(&described, root, &owner, rules);
            let rules = rule_tokens(rules, root, &described)?;
            let schema = quote! {
                #root::object(generator, &#root::Object {
                    doc: #doc,
                    fields: &[#(#tokens),*],
                    rules: &[#(#rules),*],
                })
            };
            let nested = described.iter().filter(|field| field.partial);
            let nested = nested.filter_map(|field| field.ident.clone()).collect();
            let functions = described.into_iter().flat_map(|field| field.functions).collect();
            Ok(Output { schema, functions, nested, names })
        }
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
            newtype(&mut fields.unnamed[0], &owner, &doc, root, rules)
        }
        Fields::Unnamed(fields) => {
            let message = "a struct of several unnamed fields is a list of values of different types, name the fields";
            Err(Error::new_spanned(fields, message))
        }
        Fields::Unit => Err(Error::new_spanned(
            &item.ident,
            "a struct without fields has no JSON, write `{}` after its name",
        )),
    }
}

/// Describes a struct with one unnamed field.
fn newtype(
    field: &mut Field,
    owner: &Ident,
    doc: &str,
    root: &TokenStream,
    rules: &Rules,
) -> Result<Output> {
    let more = field::take(&mut field.attrs)?;
    if let Some(entry) = more.first() {
        let message = "put the rules of a type with one unnamed field on the type";
        return Err(Error::new(entry.key.span(), message));
    }
    field::allowed(&field.ty, &owner.to_string(), rules.allow_float)?;
    let serde = serde_attribute::read(&field.attrs)?;
    field::typed(&serde, rules, &owner.to_string())?;
    field::convert(field, &serde, root);
    let inner = subschema::of_type(root, &field.ty, serde.with.is_some());
    let rules = rule_tokens(rules, root, &[])?;
    let schema = quote!(#root::newtype(generator, #doc, #inner, &[#(#rules),*]));
    Ok(Output { schema, functions: Vec::new(), nested: Vec::new(), names: None })
}

/// The names of the fields as an expression; none if there can be others.
fn names_of(
    fields: &[field::Described],
    root: &TokenStream,
    owner: &Ident,
    rules: &Rules,
) -> Option<TokenStream> {
    if rules.preserve_unknown || fields.iter().any(|field| field.flatten) {
        return None;
    }
    let name = |field: &field::Described| {
        let name = &field.name;
        let (depth, inner) = shape::innermost(&field.kind);
        let is_owner = matches!(inner, Type::Path(path) if path.path.is_ident(owner));
        let fields = if field.is_open || is_owner {
            quote!(::core::option::Option::None)
        } else {
            quote!(#root::fields::Probe::<#inner>::FIELDS)
        };
        let cfgs = &field.cfgs;
        quote!(#(#cfgs)* #root::fields::Name { name: #name, depth: #depth, fields: #fields })
    };
    let names = fields.iter().map(name);
    Some(quote!(&[#(#names),*]))
}

/// Describes a type that is read and written as another one, of which its fields say nothing.
pub fn describe_converted(
    item: &mut Item,
    kind: &Type,
    root: &TokenStream,
    rules: &Rules,
) -> Result<Output> {
    let name = type_item::item_ident(item).to_string();
    let mut attributes: Vec<&mut Vec<Attribute>> = Vec::new();
    match item {
        Item::Struct(item) => {
            attributes.extend(item.fields.iter_mut().map(|field| &mut field.attrs));
        }
        Item::Enum(item) => {
            for variant in &mut item.variants {
                attributes.push(&mut variant.attrs);
                attributes.extend(variant.fields.iter_mut().map(|field| &mut field.attrs));
            }
        }
        _ => {}
    }
    for attributes in attributes {
        if let Some(entry) = field::take(attributes)?.first() {
            let message = format!("`{name}` is converted by serde, put rules on the type");
            return Err(Error::new(entry.key.span(), message));
        }
    }
    field::allowed(kind, &name, rules.allow_float)?;
    if shape::of(kind) == Shape::Bytes {
        let message = "`Vec<u8>` is a list of numbers here, use `Bytes`";
        return Err(Error::new_spanned(kind, message));
    }
    let doc = text::doc(type_item::attributes_of(item)?);
    let inner = subschema::of_plain_type(root, kind);
    let rules = rule_tokens(rules, root, &[])?;
    let schema = quote!(#root::newtype(generator, #doc, #inner, &[#(#rules),*]));
    Ok(Output { schema, functions: Vec::new(), nested: Vec::new(), names: None })
}
