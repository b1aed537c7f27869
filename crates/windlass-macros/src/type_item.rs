//! The item under an attribute: a struct or an enum.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Generics, Ident, Item, Path, Result, Token, Type, parse_quote};

use crate::attribute::{self, Entry};
use crate::kind::Kind;
use crate::rule::{Place, Reader, Rules};
use crate::{enumeration, field, partial, structure};

/// What an attribute makes of a type.
pub struct Output {
    /// The expression of its schema, where `generator` is the generator.
    pub schema: TokenStream,
    /// Functions that its fields need.
    pub functions: Vec<TokenStream>,
    /// The fields whose types have partial structs, too.
    pub nested: Vec<Ident>,
    /// The names of the fields as an expression, if no others are possible.
    pub names: Option<TokenStream>,
}

/// Expands `#[api(..)]` or `#[k8s(..)]`.
pub fn expand(arguments: TokenStream, item: TokenStream, is_api: bool) -> TokenStream {
    let parsed = match syn::parse2::<Item>(item.clone()) {
        Ok(parsed) => parsed,
        Err(error) => return error.to_compile_error(),
    };
    let mut shown = parsed.clone();
    match expand_item(arguments, parsed, is_api) {
        Ok(tokens) => tokens,
        Err(error) => {
            strip(&mut shown);
            let error = error.to_compile_error();
            quote!(#error #shown)
        }
    }
}

fn expand_item(arguments: TokenStream, mut item: Item, is_api: bool) -> Result<TokenStream> {
    let attributes = attributes_of(&mut item)?;
    if !is_api && attributes.iter().any(|attribute| last_is(attribute.path(), "api")) {
        return Err(Error::new_spanned(item_ident(&item), "put `#[api(..)]` above `#[k8s(..)]`"));
    }
    let mut entries = attribute::entries(arguments)?;
    let mut kind = None;
    if is_api {
        let own = std::mem::take(&mut entries);
        let (found, root) = Kind::read(own, &item)?;
        kind = Some((found, root));
    }
    let attributes = attributes_of(&mut item)?;
    entries.extend(field::take(attributes)?);
    let name = item_ident(&item).to_string();
    let newtype = newtype_of(&item).cloned();
    let serde = crate::serde_attribute::read(attributes_of(&mut item)?)?;
    let converted = serde.converted(newtype.as_ref())?.cloned();
    let inner = converted.clone().or(newtype);
    let default_root = quote!(::windlass::__private);
    let reader =
        Reader { root: &default_root, place: Place::Type, name: &name, kind: inner.as_ref() };
    let root_path =
        crate_of(&entries)?.or_else(|| kind.as_ref().and_then(|(_, root)| root.clone()));
    let root = root_path.map_or_else(|| default_root.clone(), |path| quote!(#path::__private));
    let reader = Reader { root: &root, ..reader };
    let rules = reader.read(&entries)?;
    let output = match (&mut item, &converted) {
        (item, Some(kind)) => structure::describe_converted(item, kind, &root, &rules)?,
        (Item::Struct(item), None) => structure::describe(item, &root, &rules)?,
        (Item::Enum(item), None) => enumeration::describe(item, &root, &rules)?,
        _ => unreachable_item(&item)?,
    };
    let derives = derive(&mut item, &root)?;
    let schema = json_schema(&item, &root, &output);
    let wants_partial = rules.partial || kind.as_ref().is_some_and(|(kind, _)| kind.is_partial());
    if let (Some(kind), true) = (&converted, wants_partial) {
        return Err(Error::new_spanned(kind, "a type that serde converts cannot be `partial`"));
    }
    let partial = partial_struct(&item, &output, &root, wants_partial)?;
    let kind = kind.map(|(kind, _)| kind.expand(&item, &root, &derives)).transpose()?;
    Ok(quote!(#item #schema #partial #kind))
}

/// Generates the partial struct if it is wanted.
fn partial_struct(
    item: &Item,
    output: &Output,
    root: &TokenStream,
    wanted: bool,
) -> Result<Option<TokenStream>> {
    match (item, output.nested.first()) {
        (Item::Struct(item), _) if wanted && matches!(item.fields, syn::Fields::Named(_)) => {
            partial::expand(item, &output.nested, root).map(Some)
        }
        (item, _) if wanted => Err(Error::new_spanned(
            item_ident(item),
            "`partial` belongs on a struct with named fields",
        )),
        (_, Some(field)) => Err(Error::new(
            field.span(),
            format!("`{field}` is `partial`, but its struct is not, add `partial` to the struct"),
        )),
        _ => Ok(None),
    }
}

fn unreachable_item(item: &Item) -> Result<Output> {
    Err(Error::new_spanned(item, "the attribute applies to structs and enums"))
}

/// `crate = path` of the arguments.
fn crate_of(entries: &[Entry]) -> Result<Option<Path>> {
    let entry = entries.iter().find(|entry| entry.name() == "crate");
    entry.map(|entry| syn::parse2(entry.tokens()?)).transpose()
}

/// The type inside of a struct with one unnamed field.
fn newtype_of(item: &Item) -> Option<&Type> {
    let Item::Struct(item) = item else { return None };
    match &item.fields {
        syn::Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
            fields.unnamed.first().map(|field| &field.ty)
        }
        _ => None,
    }
}

/// Adds the derives that are missing, and returns the names of those that were there.
fn derive(item: &mut Item, root: &TokenStream) -> Result<Vec<String>> {
    let is_enum = matches!(item, Item::Enum(_));
    let attributes = attributes_of(item)?;
    let mut known = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("derive")) {
        let paths = attribute.parse_args_with(Punctuated::<Path, Token![,]>::parse_terminated)?;
        for path in &paths {
            if last_is(path, "JsonSchema") {
                let message =
                    "`JsonSchema` is implemented by the attribute, remove it from `derive`";
                return Err(Error::new_spanned(path, message));
            }
        }
        known.extend(
            paths.iter().filter_map(|path| path.segments.last().map(|last| last.ident.to_string())),
        );
    }
    let wanted = [
        ("Clone", quote!(::core::clone::Clone)),
        ("Debug", quote!(::core::fmt::Debug)),
        ("Serialize", quote!(#root::serde::Serialize)),
        ("Deserialize", quote!(#root::serde::Deserialize)),
    ];
    let missing: Vec<TokenStream> = wanted
        .into_iter()
        .filter(|(name, _)| !known.iter().any(|known| known == name))
        .map(|(_, path)| path)
        .collect();
    if !missing.is_empty() {
        attributes.insert(0, parse_quote!(#[derive(#(#missing),*)]));
    }
    let serde = crate::serde_attribute::read(attributes)?;
    if !serde.has_crate {
        let path = quote!(#root::serde).to_string().replace(' ', "");
        attributes.push(parse_quote!(#[serde(crate = #path)]));
    }
    if !is_enum && serde.rename_all.is_none() {
        attributes.push(parse_quote!(#[serde(rename_all = "camelCase")]));
    }
    Ok(known)
}

/// Implements `JsonSchema`.
fn json_schema(item: &Item, root: &TokenStream, output: &Output) -> TokenStream {
    let ident = item_ident(item);
    let name = ident.to_string();
    let mut generics = generics_of(item);
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(#root::schemars::JsonSchema));
    }
    let (parameters, arguments, clause) = generics.split_for_impl();
    let schema = &output.schema;
    let functions = &output.functions;
    let functions = (!functions.is_empty()).then(|| {
        quote! {
            impl #parameters #ident #arguments #clause {
                #(#functions)*
            }
        }
    });
    let names = output.names.as_ref().map(|names| {
        quote! {
            impl #parameters #root::fields::Fields for #ident #arguments #clause {
                const FIELDS: &'static [#root::fields::Name] = {
                    #[allow(unused_imports)]
                    use #root::fields::Open as _;
                    #names
                };
            }
        }
    });
    quote! {
        #functions
        #names

        impl #parameters #root::schemars::JsonSchema for #ident #arguments #clause {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                ::std::borrow::Cow::Borrowed(#name)
            }

            fn schema_id() -> ::std::borrow::Cow<'static, str> {
                ::std::borrow::Cow::Borrowed(::core::any::type_name::<Self>())
            }

            fn json_schema(generator: &mut #root::schemars::SchemaGenerator) -> #root::schemars::Schema {
                #schema
            }
        }
    }
}

/// Removes attributes of derives, so that an error is the only one.
fn strip(item: &mut Item) {
    let clean = |attributes: &mut Vec<Attribute>| {
        let ours = ["k8s", "api", "serde", "derive", "default"];
        attributes.retain(|attribute| !ours.iter().any(|name| last_is(attribute.path(), name)));
    };
    if let Ok(attributes) = attributes_of(item) {
        clean(attributes);
    }
    match item {
        Item::Struct(item) => item.fields.iter_mut().for_each(|field| clean(&mut field.attrs)),
        Item::Enum(item) => {
            for variant in &mut item.variants {
                clean(&mut variant.attrs);
                variant.fields.iter_mut().for_each(|field| clean(&mut field.attrs));
            }
        }
        _ => {}
    }
}

/// The attributes of a struct or an enum.
pub fn attributes_of(item: &mut Item) -> Result<&mut Vec<Attribute>> {
    match item {
        Item::Struct(item) => Ok(&mut item.attrs),
        Item::Enum(item) => Ok(&mut item.attrs),
        _ => Err(Error::new_spanned(
            item.to_token_stream(),
            "the attribute applies to structs and enums",
        )),
    }
}

fn generics_of(item: &Item) -> Generics {
    match item {
        Item::Struct(item) => item.generics.clone(),
        Item::Enum(item) => item.generics.clone(),
        _ => Generics::default(),
    }
}

/// The name of a struct or an enum.
pub fn item_ident(item: &Item) -> Ident {
    match item {
        Item::Struct(item) => item.ident.clone(),
        Item::Enum(item) => item.ident.clone(),
        _ => Ident::new("_", proc_macro2::Span::call_site()),
    }
}

fn last_is(path: &Path, name: &str) -> bool {
    path.segments.last().is_some_and(|segment| segment.ident == name)
}

/// The rules of a type, as expressions, with those about several fields.
pub fn rule_tokens(
    rules: &Rules,
    root: &TokenStream,
    fields: &[field::Described],
) -> Result<Vec<TokenStream>> {
    let mut tokens = rules.tokens.clone();
    let mut errors = Vec::new();
    for (count, members) in &rules.one_of {
        let mut names = Vec::new();
        for member in members {
            match member_name(member, fields) {
                Ok(name) => names.push(name),
                Err(error) => errors.push(error),
            }
        }
        tokens.push(crate::argument::one_of_tokens(root, count, &names));
    }
    crate::rule::join(errors)?;
    Ok(tokens)
}

fn member_name(member: &Ident, fields: &[field::Described]) -> Result<String> {
    let found =
        fields.iter().find(|field| field.ident.as_ref().is_some_and(|ident| ident == member));
    match found {
        Some(field) if field.required => Err(Error::new(
            member.span(),
            format!(
                "`{member}` is required, but one of several fields must be optional, make it an `Option`"
            ),
        )),
        Some(field) if field.has_default => Err(Error::new(
            member.span(),
            format!("`{member}` has a default, so it is always set, remove one of the two"),
        )),
        Some(field) => Ok(field.name.clone()),
        None => {
            let names: Vec<String> = fields
                .iter()
                .filter_map(|field| field.ident.as_ref().map(ToString::to_string))
                .collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let hint = attribute::closest(&member.to_string(), &names);
            let hint = hint.map_or_else(
                || format!("its fields are {}", names.join(", ")),
                |close| format!("did you mean `{close}`?"),
            );
            Err(Error::new(member.span(), format!("the struct has no field `{member}`, {hint}")))
        }
    }
}
