//! One field: its rules, its schema, and the serde attributes it gets.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Error, Result, Type, parse_quote};

use crate::attribute;
use crate::json::Json;
use crate::rule::{Place, Reader, Rules};
use crate::serde_attribute::{self, Serde};
use crate::shape::{self, Shape};
use crate::{names, subschema, text};

/// What a type says about all its fields.
pub struct Container<'a> {
    /// The path of the support code.
    pub root: &'a TokenStream,
    /// The name of the type.
    pub owner: &'a Ident,
    /// `#[serde(rename_all)]` of fields.
    pub rename_all: &'a str,
    /// Whether fields are optional unless they say otherwise.
    pub optional: bool,
    /// Whether generated functions can be named: the type has no parameters.
    pub plain: bool,
    /// What the names of generated functions begin with; the variant of an enum.
    pub prefix: String,
    /// Whether the fields share one object with those of other variants, so that the API server
    /// cannot fill in their defaults.
    pub shared: bool,
}

/// A field, ready to be described.
pub struct Described {
    /// The name in Rust.
    pub ident: Option<Ident>,
    /// The name in JSON.
    pub name: String,
    /// Whether every object has it.
    pub required: bool,
    /// The expression of the field's description.
    pub tokens: TokenStream,
    /// The expressions of its schema and of its rules.
    pub schema: TokenStream,
    /// The rules of the field.
    pub rules: Vec<TokenStream>,
    /// Functions that the field needs.
    pub functions: Vec<TokenStream>,
    /// `partial`.
    pub partial: bool,
    /// Whether the API server fills it in.
    pub has_default: bool,
    /// Whether its fields are fields of the struct.
    pub flatten: bool,
    /// The type.
    pub kind: Type,
    /// Whether the type does not decide about its fields.
    pub is_open: bool,
    /// The `#[cfg(..)]` attributes.
    pub cfgs: Vec<syn::Attribute>,
}

/// Returns the `#[cfg(..)]` attributes: what they exclude is in no schema.
pub fn cfgs(attributes: &[syn::Attribute]) -> Vec<syn::Attribute> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).cloned().collect()
}

/// Describes a field, and takes its `#[k8s(..)]` attributes away; `None` if it is not part of the JSON.
pub fn describe(field: &mut syn::Field, container: &Container<'_>) -> Result<Option<Described>> {
    let entries = take(&mut field.attrs)?;
    let serde = serde_attribute::read(&field.attrs)?;
    if serde.skip {
        return Ok(None);
    }
    let ident = field.ident.as_ref().map(IdentExt::unraw);
    let plain_name = ident.as_ref().map(ToString::to_string).unwrap_or_default();
    let shown =
        if plain_name.is_empty() { container.owner.to_string() } else { plain_name.clone() };
    let reader =
        Reader { root: container.root, place: Place::Field, name: &shown, kind: Some(&field.ty) };
    let mut rules = reader.read(&entries)?;
    if !rules.schemaless {
        allowed(&field.ty, &shown, rules.allow_float)?;
    }
    typed(&serde, &rules, &shown)?;
    let name =
        serde.rename.clone().unwrap_or_else(|| names::field(container.rename_all, &plain_name));
    let required = is_required(&field.ty, &rules, &serde, container);
    let mut functions = Vec::new();
    default(field, &mut rules, &serde, container, &plain_name, &mut functions)?;
    presence(field, &rules, &serde, container, required);
    let schema = schema(field, &rules, &serde, container);
    let root = container.root;
    let doc = text::doc(&field.attrs);
    let list = &rules.tokens;
    let flatten = serde.flatten;
    let cfgs = cfgs(&field.attrs);
    let tokens = quote! {
        #(#cfgs)*
        #root::Field {
            name: #name,
            doc: #doc,
            required: #required,
            flatten: #flatten,
            schema: #schema,
            rules: &[#(#list),*],
        }
    };
    let ident = field.ident.clone();
    let (partial, has_default) = (rules.partial, rules.default.is_some());
    let is_open = rules.schemaless || rules.preserve_unknown || serde.with.is_some();
    let rules = rules.tokens;
    let described = Described {
        ident,
        name,
        required,
        tokens,
        schema,
        rules,
        functions,
        partial,
        has_default,
        flatten,
        kind: field.ty.clone(),
        is_open,
        cfgs,
    };
    Ok(Some(described))
}

/// Fails if a function writes a value, and nothing says as what.
pub fn typed(serde: &Serde, rules: &Rules, name: &str) -> Result<()> {
    match serde.with {
        Some(span) if !rules.typed => Err(Error::new(
            span,
            format!(
                "nothing says what `{name}` is in JSON, add its type: `#[k8s(type = \"string\")]`"
            ),
        )),
        _ => Ok(()),
    }
}

/// Takes the `#[k8s(..)]` attributes away and returns their arguments.
pub fn take(attributes: &mut Vec<syn::Attribute>) -> Result<Vec<attribute::Entry>> {
    let mut entries = Vec::new();
    let mut errors = Vec::new();
    attributes.retain(|attribute| {
        if !attribute.path().is_ident("k8s") {
            return true;
        }
        match &attribute.meta {
            syn::Meta::List(list) => match attribute::entries(list.tokens.clone()) {
                Ok(more) => entries.extend(more),
                Err(error) => errors.push(error),
            },
            syn::Meta::Path(_) => {}
            syn::Meta::NameValue(pair) => {
                errors.push(Error::new(
                    pair.span(),
                    "arguments belong in parentheses: `#[k8s(min = 1)]`",
                ));
            }
        }
        false
    });
    crate::rule::join(errors)?;
    Ok(entries)
}

/// Fails for types that JSON or Kubernetes cannot hold well.
pub fn allowed(kind: &Type, name: &str, allow_float: bool) -> Result<()> {
    let is = |kind: &Type, names: &[&str]| matches!(kind, Type::Path(path) if names.iter().any(|name| path.path.is_ident(name)));
    let error = |message: String| Err(Error::new(kind.span(), message));
    if shape::any(kind, &|inner| matches!(inner, Type::Tuple(_))) {
        return error(format!(
            "`{name}` is a tuple, a list of values of different types, use a struct"
        ));
    }
    if shape::any(kind, &|inner| is(inner, &["i128", "u128"])) {
        return error(format!("`{name}` has 128 bits, and Kubernetes knows 64, use a string"));
    }
    if !allow_float && shape::any(kind, &|inner| is(inner, &["f32", "f64"])) {
        return error(format!(
            "`{name}` is a floating-point number, which not all languages read alike, use an integer or a \
             Quantity, or add #[k8s(allow_float)]"
        ));
    }
    let keys = |inner: &Type| {
        let of = shape::key(inner).map(|key| (shape::option(key).is_some(), shape::of(key)));
        of.is_some_and(|(is_option, shape)| {
            is_option || matches!(shape, Shape::List | Shape::Map | Shape::Bytes | Shape::Float)
        })
    };
    if shape::any(kind, &keys) {
        return error(format!("`{name}` has keys that are no strings in JSON, use `String`"));
    }
    let nested = shape::element(kind);
    if nested.is_some_and(|inner| shape::any(inner, &|inner| shape::of(inner) == Shape::Bytes)) {
        return error(format!(
            "`{name}` holds `Vec<u8>`, which is a list of numbers there, use `Bytes`"
        ));
    }
    Ok(())
}

fn is_required(kind: &Type, rules: &Rules, serde: &Serde, container: &Container<'_>) -> bool {
    if serde.flatten {
        // A flattened field is read even if it has a default, unless it is an `Option`.
        return shape::option(kind).is_none();
    }
    if rules.required {
        return true;
    }
    let has_default = rules.default.is_some() || serde.default.is_some();
    let optional = rules.optional || container.optional || has_default;
    !optional && shape::option(kind).is_none()
}

/// Adds the rule of a default that is an expression, and a function for serde.
fn default(
    field: &mut syn::Field,
    rules: &mut Rules,
    serde: &Serde,
    container: &Container<'_>,
    name: &str,
    functions: &mut Vec<TokenStream>,
) -> Result<()> {
    let root = container.root;
    let kind = &field.ty;
    if let (None, Some(Some(path))) = (&rules.default, &serde.default) {
        let path: syn::ExprPath = syn::parse_str(path)?;
        rules.tokens.push(quote!(#root::Rule::DefaultOf(|| {
            let value: #kind = #path();
            #root::serde_json::to_value(value).unwrap_or_default()
        })));
    }
    let Some((value, span)) = &rules.default else { return Ok(()) };
    let bare = shape::bare(kind);
    let literal = match value {
        Json::Value(value) => literal(value, shape::of(bare)),
        Json::Expression(_) if matches!(shape::of(bare), Shape::Duration | Shape::Bytes) => {
            return Err(Error::new(
                *span,
                "the default is written as text here: `default = \"1h\"`",
            ));
        }
        Json::Expression(tokens) => {
            rules.tokens.push(quote!(#root::Rule::DefaultOf(|| {
                let value: #bare = #tokens;
                #root::serde_json::to_value(value).unwrap_or_default()
            })));
            Some(tokens.clone())
        }
    };
    if literal.is_none() && container.shared && shape::option(kind).is_none() {
        let message = format!(
            "the API server cannot fill in the default of a field that only some variants have, make `{name}` an `Option`"
        );
        return Err(Error::new(*span, message));
    }
    let is_free = serde.default.is_none() && shape::option(kind).is_none() && container.plain;
    if let (Some(literal), true, false) = (literal, is_free, name.is_empty()) {
        let function = format_ident!("__default_{}{}", container.prefix, name);
        let cfgs = cfgs(&field.attrs);
        functions.push(quote! {
            #(#cfgs)*
            fn #function() -> #kind { #literal }
        });
        let path = format!("{}::{function}", container.owner);
        field.attrs.push(parse_quote!(#[serde(default = #path)]));
    }
    Ok(())
}

/// A default as a literal of Rust, if its type is a plain one.
fn literal(value: &serde_json::Value, shape: Shape) -> Option<TokenStream> {
    let parse = |text: String| text.parse::<TokenStream>().ok();
    match (shape, value) {
        (Shape::String, serde_json::Value::String(text)) => {
            Some(quote!(::std::string::String::from(#text)))
        }
        (Shape::Integer, serde_json::Value::Number(number)) => parse(number.to_string()),
        (Shape::Float, serde_json::Value::Number(number)) => {
            parse(format!("{:?}", number.as_f64()?))
        }
        (Shape::Boolean, serde_json::Value::Bool(flag)) => Some(quote!(#flag)),
        _ => None,
    }
}

/// Declares to serde which fields may be missing.
fn presence(
    field: &mut syn::Field,
    rules: &Rules,
    serde: &Serde,
    container: &Container<'_>,
    required: bool,
) {
    let root = container.root;
    let is_option = shape::option(&field.ty).is_some();
    if !rules.schemaless {
        convert(field, serde, root);
    }
    if serde.flatten {
        return;
    }
    let has_default = serde.default.is_some() || field.attrs.iter().any(is_serde_default);
    if is_option && !has_default {
        // Of a type with parameters, a plain `default` would demand that they have one, too.
        field.attrs.push(match container.plain {
            true => parse_quote!(#[serde(default)]),
            false => parse_quote!(#[serde(default = "::core::option::Option::default")]),
        });
    }
    if is_option && !required && !serde.skip_serializing_if {
        field
            .attrs
            .push(parse_quote!(#[serde(skip_serializing_if = "::core::option::Option::is_none")]));
    }
    let wants_default = (rules.optional || container.optional) && rules.default.is_none();
    if !is_option && !required && wants_default && !has_default {
        field.attrs.push(parse_quote!(#[serde(default)]));
        if let (Some(empty), false) = (is_empty(&field.ty), serde.skip_serializing_if) {
            field.attrs.push(parse_quote!(#[serde(skip_serializing_if = #empty)]));
        }
    }
}

/// Lets serde write durations and bytes as text.
pub fn convert(field: &mut syn::Field, serde: &Serde, root: &TokenStream) {
    let module = match shape::of(&field.ty) {
        Shape::Duration => quote!(#root::duration),
        Shape::Bytes => quote!(#root::bytes),
        _ => return,
    };
    if serde.with.is_none() {
        let module = module.to_string().replace(' ', "");
        field.attrs.push(parse_quote!(#[serde(with = #module)]));
    }
}

fn is_serde_default(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("serde")
        && serde_attribute::read(std::slice::from_ref(attribute))
            .is_ok_and(|serde| serde.default.is_some())
}

/// The function that finds a value of a plain type empty.
fn is_empty(kind: &Type) -> Option<&'static str> {
    let Type::Path(path) = kind else { return None };
    Some(match shape::last(path)?.as_str() {
        "String" => "::std::string::String::is_empty",
        "Vec" => "::std::vec::Vec::is_empty",
        "BTreeMap" => "::std::collections::BTreeMap::is_empty",
        "HashMap" => "::std::collections::HashMap::is_empty",
        "BTreeSet" => "::std::collections::BTreeSet::is_empty",
        "HashSet" => "::std::collections::HashSet::is_empty",
        _ => return None,
    })
}

fn schema(
    field: &syn::Field,
    rules: &Rules,
    serde: &Serde,
    container: &Container<'_>,
) -> TokenStream {
    let root = container.root;
    if rules.schemaless {
        return quote!(#root::any);
    }
    subschema::of_type(root, &field.ty, serde.with.is_some())
}
