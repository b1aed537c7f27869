//! JSON in attributes: `3`, `"text"`, `["a", "b"]`, `{ name: "n", "size": 2 }`.

use proc_macro2::TokenStream;
use serde_json::{Map, Value};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Error, Ident, Lit, LitStr, Result, Token};

/// A value of an attribute.
pub enum Json {
    /// JSON.
    Value(Value),
    /// An expression of Rust.
    Expression(TokenStream),
}

/// Reads JSON.
pub fn value(tokens: TokenStream) -> Result<Value> {
    parse.parse2(tokens)
}

/// Reads JSON, or an expression of Rust if it begins with a path.
pub fn value_or_expression(tokens: TokenStream) -> Result<Json> {
    match value(tokens.clone()) {
        Ok(value) => Ok(Json::Value(value)),
        Err(error) => match syn::parse2::<syn::Expr>(tokens.clone()) {
            Ok(
                syn::Expr::Path(_)
                | syn::Expr::Call(_)
                | syn::Expr::Struct(_)
                | syn::Expr::MethodCall(_),
            ) => Ok(Json::Expression(tokens)),
            _ => Err(error),
        },
    }
}

fn parse(input: ParseStream<'_>) -> Result<Value> {
    if input.peek(syn::token::Brace) {
        return object(input);
    }
    if input.peek(syn::token::Bracket) {
        return array(input);
    }
    if input.peek(Ident) {
        let word = input.call(Ident::parse_any)?;
        return if word == "null" {
            Ok(Value::Null)
        } else {
            Err(Error::new(word.span(), format!("`{word}` is not JSON, put text into quotes")))
        };
    }
    let sign = input.parse::<Option<Token![-]>>()?;
    let literal: Lit = input.parse().map_err(|error| {
        Error::new(error.span(), "expected JSON: a number, a string, true, [..] or {..}")
    })?;
    scalar(&literal, sign.is_some())
}

fn scalar(literal: &Lit, negative: bool) -> Result<Value> {
    let sign = if negative { "-" } else { "" };
    let wrong =
        || Error::new(literal.span(), "expected JSON: a number, a string, true, [..] or {..}");
    match literal {
        Lit::Str(text) if !negative => Ok(text.value().into()),
        Lit::Bool(flag) if !negative => Ok(flag.value.into()),
        Lit::Int(number) => {
            serde_json::from_str(&format!("{sign}{}", number.base10_digits())).map_err(|_| wrong())
        }
        Lit::Float(number) => {
            serde_json::from_str(&format!("{sign}{}", number.base10_digits())).map_err(|_| wrong())
        }
        _ => Err(wrong()),
    }
}

fn array(input: ParseStream<'_>) -> Result<Value> {
    let inner;
    syn::bracketed!(inner in input);
    let mut items = Vec::new();
    while !inner.is_empty() {
        items.push(parse(&inner)?);
        if !inner.is_empty() {
            inner.parse::<Token![,]>()?;
        }
    }
    Ok(Value::Array(items))
}

fn object(input: ParseStream<'_>) -> Result<Value> {
    let inner;
    syn::braced!(inner in input);
    let mut fields = Map::new();
    while !inner.is_empty() {
        let key = if inner.peek(LitStr) {
            inner.parse::<LitStr>()?.value()
        } else {
            inner.call(Ident::parse_any)?.unraw().to_string()
        };
        inner.parse::<Token![:]>()?;
        fields.insert(key, parse(&inner)?);
        if !inner.is_empty() {
            inner.parse::<Token![,]>()?;
        }
    }
    Ok(Value::Object(fields))
}
