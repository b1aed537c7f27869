//! Rules: from the keys of `#[k8s(..)]` to what a schema says.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use serde_json::{Value, json};
use syn::{Error, LitStr, Result, Type};

use crate::argument::{PRESERVE, cel, docs, keyword, members, one_of, ui};
use crate::attribute::{self, Entry};
use crate::consistency;
use crate::format;
use crate::json::{self, Json};
use crate::shape::{self, Shape};

const SHARED: &[&str] = &[
    "min",
    "max",
    "exclusive_min",
    "exclusive_max",
    "multiple_of",
    "min_length",
    "max_length",
    "pattern",
    "format",
    "min_items",
    "max_items",
    "min_properties",
    "max_properties",
    "enum",
    "type",
    "doc",
    "title",
    "example",
    "docs",
    "list",
    "map",
    "int_or_string",
    "preserve_unknown",
    "embedded_resource",
    "schema",
    "cel",
    "items",
    "values",
];
const OF_FIELDS: &[&str] = &[
    "default",
    "required",
    "optional",
    "not_empty",
    "nullable",
    "immutable",
    "schemaless",
    "allow_float",
    "partial",
    "ui",
];
const OF_TYPES: &[&str] = &[
    "exactly_one_of",
    "at_most_one_of",
    "at_least_one_of",
    "optional",
    "allow_float",
    "partial",
    "crate",
];
const OF_ELEMENTS: &[&str] = &["nullable"];
/// The keywords of `schema = {..}`: those that no other key writes.
const LOGIC: &[&str] = &["allOf", "anyOf", "oneOf", "not"];

/// What rules are about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A field.
    Field,
    /// A type.
    Type,
    /// The items of a list or the values of a map.
    Element,
}

/// What the attributes of a field or a type say.
#[derive(Default)]
pub struct Rules {
    /// The rules, as expressions.
    pub tokens: Vec<TokenStream>,
    /// `required` or `not_empty`.
    pub required: bool,
    /// `optional`.
    pub optional: bool,
    /// `schemaless`.
    pub schemaless: bool,
    /// `type`, `int_or_string` or `schemaless`: the type in JSON does not follow from that in Rust.
    pub typed: bool,
    /// `preserve_unknown`.
    pub preserve_unknown: bool,
    /// `allow_float`.
    pub allow_float: bool,
    /// `partial`.
    pub partial: bool,
    /// `default`.
    pub default: Option<(Json, Span)>,
    /// `crate`.
    pub root: Option<syn::Path>,
    /// `exactly_one_of` and its like: the name of the variant of `Count`, and the fields.
    pub one_of: Vec<(&'static str, Vec<Ident>)>,
}

/// Reads rules for a value of a type.
pub struct Reader<'a> {
    /// The path of the support code.
    pub root: &'a TokenStream,
    /// What the rules are about.
    pub place: Place,
    /// The name of the field or type, for messages.
    pub name: &'a str,
    /// The type of the value, if it is known.
    pub kind: Option<&'a Type>,
}

/// Returns an error that joins all of them.
pub fn join(errors: Vec<Error>) -> Result<()> {
    let joined = errors.into_iter().reduce(|mut all, error| {
        all.combine(error);
        all
    });
    joined.map_or(Ok(()), Err)
}

// === impl Reader ===

impl Reader<'_> {
    /// Reads all entries, and reports all errors.
    pub fn read(&self, entries: &[Entry]) -> Result<Rules> {
        let mut rules = Rules::default();
        let reshaped = |entry: &Entry| {
            matches!(entry.name().as_str(), "type" | "int_or_string" | "schemaless")
        };
        let shape = match self.kind {
            Some(kind) if !entries.iter().any(reshaped) => shape::of(kind),
            _ => Shape::Other,
        };
        rules.typed = entries.iter().any(reshaped);
        let mut errors = Vec::new();
        for (at, entry) in entries.iter().enumerate() {
            let name = entry.name();
            let repeats = matches!(
                name.as_str(),
                "cel" | "exactly_one_of" | "at_most_one_of" | "at_least_one_of"
            );
            if !repeats && entries[..at].iter().any(|other| other.name() == name) {
                errors.push(Error::new(entry.key.span(), format!("`{name}` is given twice")));
                continue;
            }
            if let Err(error) = self.entry(entry, shape, &mut rules) {
                errors.push(error);
            }
        }
        errors.extend(self.contradiction(entries));
        if errors.is_empty() {
            let kind = self.kind.filter(|_| !entries.iter().any(reshaped));
            errors = consistency::check(entries, kind, self.name);
        }
        join(errors)?;
        Ok(rules)
    }

    /// Returns an error about two keys that exclude each other.
    fn contradiction(&self, entries: &[Entry]) -> Option<Error> {
        let pairs = [
            ("required", "optional"),
            ("not_empty", "optional"),
            ("min", "exclusive_min"),
            ("max", "exclusive_max"),
            ("type", "int_or_string"),
        ];
        let find = |name: &str| entries.iter().find(|entry| entry.name() == name);
        let (one, other) =
            pairs.into_iter().find(|(one, other)| find(one).is_some() && find(other).is_some())?;
        let message = format!("`{one}` and `{other}` exclude each other");
        find(other).map(|entry| Error::new(entry.key.span(), message))
    }

    fn entry(&self, entry: &Entry, shape: Shape, rules: &mut Rules) -> Result<()> {
        let name = entry.name();
        self.known(entry, &name)?;
        let root = self.root;
        match name.as_str() {
            "min" | "max" => {
                let number = self.number(entry, shape)?;
                let keyword = if name == "min" { "minimum" } else { "maximum" };
                rules.push(quote!(#root::Rule::Bound(#keyword, #number)));
            }
            "exclusive_min" | "exclusive_max" => {
                let number = self.number(entry, shape)?;
                let keyword = if name == "exclusive_min" { "minimum" } else { "maximum" };
                rules.push(quote!(#root::Rule::Exclusive(#keyword, #number)));
            }
            "multiple_of" => {
                let number = self.number(entry, shape)?;
                rules.push(quote!(#root::Rule::MultipleOf(#number)));
            }
            "min_length" => self.count(entry, shape, Shape::String, "minLength", rules)?,
            "max_length" => self.count(entry, shape, Shape::String, "maxLength", rules)?,
            "min_items" => self.count(entry, shape, Shape::List, "minItems", rules)?,
            "max_items" => self.count(entry, shape, Shape::List, "maxItems", rules)?,
            "min_properties" => self.count(entry, shape, Shape::Map, "minProperties", rules)?,
            "max_properties" => self.count(entry, shape, Shape::Map, "maxProperties", rules)?,
            "pattern" => {
                self.applies(entry, shape, Shape::String)?;
                let pattern = entry.string()?;
                if let Err(why) = windlass_text::pattern::compile(&pattern.value()) {
                    let why = why.trim_start_matches("error parsing regexp: ");
                    return Err(entry.error(format_args!("not a regular expression of Go, {why}")));
                }
                rules.push(quote!(#root::Rule::Pattern(#pattern)));
            }
            "format" if shape == Shape::Integer && entry.is_word("none") => {
                rules.push(quote!(#root::Rule::Format("")));
            }
            "format" => {
                let format = entry.string()?;
                if format.value().is_empty() {
                    return Err(entry.error("`format` is empty, leave it out"));
                }
                if !matches!(shape, Shape::Integer | Shape::Float) {
                    self.applies(entry, shape, Shape::String)?;
                }
                if let Some(close) = format::misspelt(&format.value()) {
                    return Err(entry.error(format_args!(
                        "no format is called `{}`, did you mean `{close}`?",
                        format.value()
                    )));
                }
                rules.push(quote!(#root::Rule::Format(#format)));
            }
            _ => self.described(entry, &name, shape, rules)?,
        }
        Ok(())
    }

    /// The keys about the shape, the documentation, and the parts of a value.
    fn described(&self, entry: &Entry, name: &str, shape: Shape, rules: &mut Rules) -> Result<()> {
        let root = self.root;
        match name {
            "enum" => self.choices(entry, shape, rules)?,
            "type" => {
                let kind = entry.string()?;
                one_of(
                    entry,
                    &kind.value(),
                    &["string", "integer", "number", "boolean", "array", "object"],
                )?;
                rules.push(quote!(#root::Rule::Type(#kind)));
            }
            "doc" => {
                let text = entry.string()?;
                rules.push(quote!(#root::Rule::Doc(#text)));
            }
            "schema" => self.logic(entry, rules)?,
            "title" => {
                let title = entry.string()?.value();
                rules.push(keyword(root, "title", &title.into()));
            }
            "example" => {
                let example = json::value(entry.tokens()?)?;
                rules.push(keyword(root, "example", &example));
            }
            "docs" => rules.push(docs(root, entry)?),
            "list" => self.list(entry, shape, rules)?,
            "map" => {
                self.applies(entry, shape, Shape::Map)?;
                let word = entry.word()?.to_string();
                one_of(entry, &word, &["atomic", "granular"])?;
                rules.push(keyword(root, "x-kubernetes-map-type", &word.into()));
            }
            "int_or_string" => {
                entry.flag()?;
                if matches!(shape, Shape::Boolean | Shape::List | Shape::Map) {
                    let (name, word) = (self.name, shape.word());
                    return Err(entry.error(format_args!(
                        "`int_or_string` is for integers and strings, but `{name}` is {word}"
                    )));
                }
                rules.push(quote!(#root::Rule::IntOrString));
            }
            "preserve_unknown" => {
                entry.flag()?;
                rules.preserve_unknown = true;
                rules.push(keyword(root, PRESERVE, &true.into()));
            }
            "embedded_resource" => {
                entry.flag()?;
                self.applies(entry, shape, Shape::Map)?;
                rules.push(keyword(root, "x-kubernetes-embedded-resource", &true.into()));
            }
            "cel" => rules.push(cel(root, entry)?),
            "items" => {
                self.applies(entry, shape, Shape::List)?;
                let inner = self.element(entry)?;
                rules.push(quote!(#root::Rule::Items(&[#(#inner),*])));
            }
            "values" => {
                self.applies(entry, shape, Shape::Map)?;
                let inner = self.element(entry)?;
                rules.push(quote!(#root::Rule::Values(&[#(#inner),*])));
            }
            _ => self.special(entry, name, shape, rules)?,
        }
        Ok(())
    }

    /// The keys that only fields or only types have.
    fn special(&self, entry: &Entry, name: &str, shape: Shape, rules: &mut Rules) -> Result<()> {
        let root = self.root;
        match name {
            "default" => {
                let value = json::value_or_expression(entry.tokens()?)?;
                if let Json::Value(value) = &value {
                    self.fits(entry, "default", value, shape)?;
                    let text = value.to_string();
                    rules.push(quote!(#root::Rule::Default(#text)));
                }
                rules.default = Some((value, entry.span()));
            }
            "required" => {
                entry.flag()?;
                rules.required = true;
            }
            "optional" => {
                entry.flag()?;
                rules.optional = true;
            }
            "not_empty" => {
                entry.flag()?;
                rules.required = true;
                rules.push(quote!(#root::Rule::NotEmpty));
            }
            "nullable" => {
                entry.flag()?;
                let is_option = self.kind.is_none_or(|kind| shape::option(kind).is_some());
                if shape != Shape::Other && !is_option {
                    let message = format!("`{}` cannot be null, make it an `Option`", self.name);
                    return Err(Error::new(entry.key.span(), message));
                }
                rules.push(keyword(root, "nullable", &true.into()));
            }
            "immutable" => {
                entry.flag()?;
                rules.push(quote!(#root::Rule::Immutable));
            }
            "schemaless" => {
                entry.flag()?;
                rules.schemaless = true;
            }
            "allow_float" => {
                entry.flag()?;
                rules.allow_float = true;
            }
            "partial" => {
                entry.flag()?;
                rules.partial = true;
            }
            "ui" => {
                let ui = ui(entry)?.to_string();
                rules.push(quote!(#root::Rule::Ui(#ui)));
            }
            "crate" => rules.root = Some(syn::parse2(entry.tokens()?)?),
            _ => {
                let count = match name {
                    "exactly_one_of" => "Exactly",
                    "at_most_one_of" => "AtMost",
                    _ => "AtLeast",
                };
                rules.one_of.push((count, members(entry)?));
            }
        }
        Ok(())
    }

    fn known(&self, entry: &Entry, name: &str) -> Result<()> {
        let (own, other, place, owner) = match self.place {
            Place::Field => (OF_FIELDS, OF_TYPES, "on a field", "the type"),
            Place::Type => (OF_TYPES, OF_FIELDS, "on a type", "the field"),
            Place::Element => (OF_ELEMENTS, OF_FIELDS, "on items and values", "the field"),
        };
        if SHARED.contains(&name) || own.contains(&name) {
            return Ok(());
        }
        if other.contains(&name) {
            let message = format!("`{name}` belongs to {owner}, it has no meaning {place}");
            return Err(Error::new(entry.key.span(), message));
        }
        let known: Vec<&str> = SHARED.iter().chain(own).copied().collect();
        Err(attribute::unknown(&entry.key, &known, place))
    }

    /// Fails if a key does not apply to the JSON of the type.
    fn applies(&self, entry: &Entry, shape: Shape, wanted: Shape) -> Result<()> {
        if shape == Shape::Other || shape == wanted {
            return Ok(());
        }
        let wanted = match wanted {
            Shape::String => "strings",
            Shape::List => "lists",
            Shape::Map => "maps and structs",
            _ => "numbers",
        };
        let message =
            format!("`{}` applies to {wanted}, but `{}` is {}", entry.key, self.name, shape.word());
        Err(Error::new(entry.key.span(), message))
    }

    fn number(&self, entry: &Entry, shape: Shape) -> Result<String> {
        let wrong = || entry.error(format_args!("`{0}` is a number: `{0} = 3`", entry.key));
        let value = json::value(entry.tokens().map_err(|_| wrong())?).map_err(|_| wrong())?;
        if !matches!(shape, Shape::Integer | Shape::Float | Shape::Other) {
            self.applies(entry, shape, Shape::Integer)?;
        }
        let Value::Number(number) = &value else { return Err(wrong()) };
        if shape == Shape::Integer && number.is_f64() {
            return Err(entry.error(format_args!(
                "`{} = {number}` is not a whole number, but `{}` is an integer",
                entry.key, self.name
            )));
        }
        if entry.key == "multiple_of" && number.as_f64().is_none_or(|number| number <= 0.0) {
            return Err(entry.error("`multiple_of` is above 0"));
        }
        Ok(number.to_string())
    }

    fn count(
        &self,
        entry: &Entry,
        shape: Shape,
        wanted: Shape,
        keyword: &str,
        rules: &mut Rules,
    ) -> Result<()> {
        self.applies(entry, shape, wanted)?;
        let root = self.root;
        let count = entry.count()?.to_string();
        rules.push(quote!(#root::Rule::Bound(#keyword, #count)));
        Ok(())
    }

    fn choices(&self, entry: &Entry, shape: Shape, rules: &mut Rules) -> Result<()> {
        let wrong = || entry.error("`enum` is a list of values: `enum = [\"a\", \"b\"]`");
        let values = json::value(entry.tokens().map_err(|_| wrong())?)?;
        let Value::Array(list) = &values else { return Err(wrong()) };
        if list.is_empty() {
            return Err(entry.error("`enum` needs at least one value"));
        }
        for (at, value) in list.iter().enumerate() {
            self.fits(entry, "a value of `enum`", value, shape)?;
            if list[..at].contains(value) {
                return Err(entry.error(format_args!("`enum` lists {value} twice")));
            }
        }
        let root = self.root;
        let text = values.to_string();
        rules.push(quote!(#root::Rule::Enum(#text)));
        Ok(())
    }

    /// `schema = { oneOf: [..] }`.
    fn logic(&self, entry: &Entry, rules: &mut Rules) -> Result<()> {
        let wrong = || entry.error("`schema` is an object: `schema = { oneOf: [..] }`");
        let value = json::value(entry.tokens().map_err(|_| wrong())?)?;
        let Value::Object(keywords) = value else { return Err(wrong()) };
        for (name, value) in &keywords {
            if !LOGIC.contains(&name.as_str()) {
                let known = LOGIC.join("`, `");
                return Err(entry.error(format_args!(
                    "`schema` holds `{known}`, but not `{name}`, which has a key of its own"
                )));
            }
            let fits = if name == "not" { value.is_object() } else { value.is_array() };
            if !fits {
                let wanted = if name == "not" { "a schema" } else { "a list of schemas" };
                return Err(entry.error(format_args!("`{name}` is {wanted}")));
            }
            rules.push(keyword(self.root, name, value));
        }
        Ok(())
    }

    /// Fails if JSON does not fit the type, as far as its syntax shows.
    fn fits(&self, entry: &Entry, what: &str, value: &Value, shape: Shape) -> Result<()> {
        let fits = match shape {
            Shape::String | Shape::Duration | Shape::Bytes => value.is_string(),
            Shape::Integer => value.is_i64() || value.is_u64(),
            Shape::Float => value.is_number(),
            Shape::Boolean => value.is_boolean(),
            Shape::List => value.is_array(),
            Shape::Map => value.is_object(),
            Shape::Other => true,
        };
        if fits || value.is_null() {
            return Ok(());
        }
        let what = if what == "default" { "the default" } else { what };
        let message = format!("{what} is `{value}`, but `{}` is {}", self.name, shape.word());
        Err(entry.error(message))
    }

    fn list(&self, entry: &Entry, shape: Shape, rules: &mut Rules) -> Result<()> {
        self.applies(entry, shape, Shape::List)?;
        let wrong = || entry.error("`list` is `atomic`, `set` or `map(\"key\")`");
        let inner =
            attribute::entries(entry.tokens().map_err(|_| wrong())?).map_err(|_| wrong())?;
        let [inner] = inner.as_slice() else { return Err(wrong()) };
        let root = self.root;
        let word = inner.name();
        match word.as_str() {
            "atomic" | "set" => inner.flag().map_err(|_| wrong())?,
            "map" => {
                let (keys, rest) = inner.call_with_strings().map_err(|_| wrong())?;
                if keys.is_empty() || !rest.is_empty() {
                    return Err(wrong());
                }
                let keys: Vec<String> = keys.iter().map(LitStr::value).collect();
                if let Some(at) = (1..keys.len()).find(|at| keys[..*at].contains(&keys[*at])) {
                    return Err(
                        entry.error(format_args!("`list` names the key `{}` twice", keys[at]))
                    );
                }
                let item = self.kind.and_then(shape::element).map(shape::of);
                if let Some(item) = item.filter(|item| !matches!(item, Shape::Map | Shape::Other)) {
                    return Err(entry.error(format_args!(
                        "`list = map(..)` is for lists of structs, but each item of `{}` is {}, use `list = set`",
                        self.name,
                        item.word()
                    )));
                }
                rules.push(keyword(root, "x-kubernetes-list-map-keys", &json!(keys)));
            }
            _ => return Err(wrong()),
        }
        rules.push(keyword(root, "x-kubernetes-list-type", &word.into()));
        Ok(())
    }

    fn element(&self, entry: &Entry) -> Result<Vec<TokenStream>> {
        let entries = attribute::entries(entry.call()?)?;
        let kind = self.kind.and_then(shape::element);
        let name = format!("an element of {}", self.name);
        let reader = Reader { root: self.root, place: Place::Element, name: &name, kind };
        reader.read(&entries).map(|rules| rules.tokens)
    }
}

// === impl Rules ===

impl Rules {
    fn push(&mut self, tokens: TokenStream) {
        self.tokens.push(tokens);
    }
}
