//! Reads the arguments of attributes: `key`, `key = value`, `key(arguments)`.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{Error, LitBool, LitInt, LitStr, Result, Token};

/// One argument.
pub struct Entry {
    /// The key.
    pub key: Ident,
    value: Value,
}

enum Value {
    None,
    Equals(TokenStream),
    Call(TokenStream),
}

/// Reads all arguments.
pub fn entries(tokens: TokenStream) -> Result<Vec<Entry>> {
    let parse = |input: ParseStream<'_>| {
        let mut entries = Vec::new();
        while !input.is_empty() {
            entries.push(entry(input)?);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(entries)
    };
    parse.parse2(tokens)
}

fn entry(input: ParseStream<'_>) -> Result<Entry> {
    let key = Ident::parse_any(input)
        .map_err(|error| Error::new(error.span(), "expected a key, such as `min = 1`"))?;
    if input.peek(Token![=]) {
        input.parse::<Token![=]>()?;
        let mut tokens = TokenStream::new();
        while !input.is_empty() && !input.peek(Token![,]) {
            tokens.extend([input.parse::<TokenTree>()?]);
        }
        if tokens.is_empty() {
            return Err(Error::new(key.span(), format!("`{key} =` needs a value")));
        }
        return Ok(Entry { key, value: Value::Equals(tokens) });
    }
    if input.peek(syn::token::Paren) {
        let inner;
        syn::parenthesized!(inner in input);
        return Ok(Entry { key, value: Value::Call(inner.parse()?) });
    }
    Ok(Entry { key, value: Value::None })
}

/// An error about a key that is not known, with the one that was probably meant.
pub fn unknown(key: &Ident, known: &[&str], place: &str) -> Error {
    let name = key.unraw().to_string();
    if let Some(hint) = hint(&name) {
        return Error::new(key.span(), format!("unknown key `{name}` {place}, {hint}"));
    }
    let message = match closest(&name, known) {
        Some(close) => format!("unknown key `{name}` {place}, did you mean `{close}`?"),
        None => format!("unknown key `{name}` {place}, known keys are {}", known.join(", ")),
    };
    Error::new(key.span(), message)
}

/// Returns the known word that is written almost like this one.
pub fn closest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |word: &&&str| strsim::damerau_levenshtein(name, word);
    let limit = (name.len() / 3).max(1);
    known.iter().min_by_key(distance).filter(|word| distance(word) <= limit).copied()
}

/// What to use in place of a word that other tools know.
fn hint(name: &str) -> Option<&'static str> {
    Some(match name {
        "unique_items" | "unique" | "uniqueItems" => {
            "the API server refuses `uniqueItems`, use `list = set`"
        }
        "minimum" => "use `min`",
        "maximum" => "use `max`",
        "exclusive_minimum" | "above" => "use `exclusive_min`",
        "exclusive_maximum" | "below" => "use `exclusive_max`",
        "list_type" => "use `list = map(\"key\")`, `list = set` or `list = atomic`",
        "list_map_key" | "list_map_keys" => "use `list = map(\"key\")`",
        "map_type" | "struct_type" => "use `map = atomic` or `map = granular`",
        "x_validation" | "validation" | "rule" => "use `cel(\"rule\", message = \"..\")`",
        "shortname" | "short_name" | "short_names" => "use `short`",
        "namespaced" => "objects belong to a namespace unless `scope = Cluster` is given",
        "printcolumn" | "print_column" => "use `column(\"Name\", \".spec.path\")`",
        "external_docs" => "use `docs(url = \"..\")`",
        "one_of" => "use `exactly_one_of`, `at_most_one_of` or `at_least_one_of`",
        "choices" | "one_of_values" => "use `enum = [..]`",
        _ => return None,
    })
}

// === impl Entry ===

impl Entry {
    /// The key as text.
    pub fn name(&self) -> String {
        self.key.unraw().to_string()
    }

    /// Returns where the value is written, or the key if there is none.
    pub fn span(&self) -> Span {
        match &self.value {
            Value::Equals(tokens) | Value::Call(tokens) if !tokens.is_empty() => tokens.span(),
            _ => self.key.span(),
        }
    }

    /// An error at the value.
    pub fn error(&self, message: impl std::fmt::Display) -> Error {
        Error::new(self.span(), message)
    }

    /// A key without a value.
    pub fn flag(&self) -> Result<()> {
        match self.value {
            Value::None => Ok(()),
            _ => Err(self.error(format_args!("`{}` takes no value", self.key))),
        }
    }

    /// Reads `key` or `key = true` or `key = false`.
    pub fn boolean(&self) -> Result<bool> {
        match &self.value {
            Value::None => Ok(true),
            Value::Equals(tokens) => syn::parse2::<LitBool>(tokens.clone())
                .map(|literal| literal.value)
                .map_err(|_| self.error(format_args!("`{}` is `true` or `false`", self.key))),
            Value::Call(_) => Err(self.error(format_args!("`{}` is `true` or `false`", self.key))),
        }
    }

    /// Reads `key = "text"`.
    pub fn string(&self) -> Result<LitStr> {
        let wrong = || self.error(format_args!("`{0}` is a string: `{0} = \"..\"`", self.key));
        match &self.value {
            Value::Equals(tokens) => syn::parse2(tokens.clone()).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }

    /// Reads `key = "text"` or nothing.
    pub fn optional_string(&self) -> Result<Option<LitStr>> {
        match self.value {
            Value::None => Ok(None),
            _ => self.string().map(Some),
        }
    }

    /// Reads `key = "text"` or `key = ["one", "two"]`.
    pub fn strings(&self) -> Result<Vec<LitStr>> {
        let wrong =
            || self.error(format_args!("`{0}` is a list of strings: `{0} = [\"..\"]`", self.key));
        let Value::Equals(tokens) = &self.value else { return Err(wrong()) };
        if let Ok(one) = syn::parse2::<LitStr>(tokens.clone()) {
            return Ok(vec![one]);
        }
        let list: syn::ExprArray = syn::parse2(tokens.clone()).map_err(|_| wrong())?;
        list.elems.iter().map(|item| literal_string(item).ok_or_else(wrong)).collect()
    }

    /// Reads `key = Word`.
    pub fn word(&self) -> Result<Ident> {
        let wrong = || self.error(format_args!("`{0}` is a word: `{0} = Word`", self.key));
        match &self.value {
            Value::Equals(tokens) => syn::parse2(tokens.clone()).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }

    /// Returns `true` for `key = word`.
    pub fn is_word(&self, word: &str) -> bool {
        matches!(&self.value, Value::Equals(tokens)
            if syn::parse2::<Ident>(tokens.clone()).is_ok_and(|found| found == word))
    }

    /// Reads `key = 3`, without a sign.
    pub fn count(&self) -> Result<u64> {
        let wrong = || self.error(format_args!("`{0}` is a whole number: `{0} = 3`", self.key));
        match &self.value {
            Value::Equals(tokens) => {
                let literal: LitInt = syn::parse2(tokens.clone()).map_err(|_| wrong())?;
                literal.base10_parse().map_err(|_| wrong())
            }
            _ => Err(wrong()),
        }
    }

    /// The tokens of `key = tokens`.
    pub fn tokens(&self) -> Result<TokenStream> {
        match &self.value {
            Value::Equals(tokens) => Ok(tokens.clone()),
            _ => Err(self.error(format_args!("`{0}` needs a value: `{0} = ..`", self.key))),
        }
    }

    /// The tokens of `key(tokens)`.
    pub fn call(&self) -> Result<TokenStream> {
        match &self.value {
            Value::Call(tokens) => Ok(tokens.clone()),
            _ => Err(self.error(format_args!("`{0}` takes arguments: `{0}(..)`", self.key))),
        }
    }

    /// The string literals and arguments of `key("one", "two", argument = value)`.
    pub fn call_with_strings(&self) -> Result<(Vec<LitStr>, Vec<Entry>)> {
        let parse = |input: ParseStream<'_>| {
            let mut strings = Vec::new();
            while input.peek(LitStr) {
                strings.push(input.parse::<LitStr>()?);
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok((strings, input.parse::<TokenStream>()?))
        };
        let (strings, rest) = parse.parse2(self.call()?)?;
        Ok((strings, entries(rest)?))
    }
}

fn literal_string(item: &syn::Expr) -> Option<LitStr> {
    match item {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.clone()),
        _ => None,
    }
}
