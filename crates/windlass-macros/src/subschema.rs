//! Expressions for the schemas of the types of fields.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::Type;
use syn::spanned::Spanned;

use crate::shape::{self, Shape};

/// The expression for the schema of a type that serde writes as text where that is needed, or by
/// functions of the author.
pub fn of_type(root: &TokenStream, kind: &Type, converted: bool) -> TokenStream {
    match shape::of(kind) {
        _ if converted => subschema(root, shape::bare(kind)),
        Shape::Duration => quote!(#root::duration::schema),
        Shape::Bytes => quote!(#root::bytes::schema),
        _ => of_plain_type(root, kind),
    }
}

/// The expression for the schema of a type that serde writes as it is. A duration inside that is not
/// written as text does not compile.
pub fn of_plain_type(root: &TokenStream, kind: &Type) -> TokenStream {
    let kind = shape::bare(kind);
    let schema = subschema(root, kind);
    let durations = shape::all(
        kind,
        &|inner| matches!(inner, Type::Path(path) if shape::last(path).is_some_and(|name| name == "Duration")),
    );
    if durations.is_empty() {
        return schema;
    }
    let checks = durations.into_iter().map(|duration| {
        let span = duration.span().resolved_at(Span::call_site());
        quote::quote_spanned!(span=> #root::duration::is_text::<#duration>();)
    });
    quote!({ #(#checks)* #schema })
}

fn subschema(root: &TokenStream, kind: &Type) -> TokenStream {
    let span = kind.span().resolved_at(Span::call_site());
    quote::quote_spanned!(span=> #root::schemars::SchemaGenerator::subschema_for::<#kind>)
}
