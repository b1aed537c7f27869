//! Structs and enums as text.

use std::fmt::Write as _;

use proc_macro2::Literal;

/// The width of a line.
const WIDTH: usize = 100;

/// A struct or an enum.
pub struct Item {
    pub name: String,
    /// The lines of the comment.
    pub doc: Vec<String>,
    /// Attributes in full, such as `#[api(..)]`.
    pub attributes: Vec<String>,
    pub body: Body,
}

/// What an item consists of.
pub enum Body {
    Struct(Vec<Field>),
    Enum(Vec<Variant>),
}

/// A field of a struct.
pub struct Field {
    pub doc: Vec<String>,
    /// The arguments of `#[k8s(..)]`.
    pub rules: Vec<String>,
    /// The arguments of `#[serde(..)]`.
    pub serde: Vec<String>,
    pub name: String,
    pub kind: String,
}

/// A variant of an enum of strings.
pub struct Variant {
    pub name: String,
    /// The string that the variant stands for.
    pub value: String,
}

/// Returns a string literal.
pub fn literal(text: &str) -> String {
    Literal::string(text).to_string()
}

/// Returns an attribute with its arguments, on one line if it fits.
pub fn attribute(name: &str, arguments: &[String], indent: usize) -> String {
    let line = format!("#[{name}({})]", arguments.join(", "));
    if arguments.is_empty() {
        return format!("#[{name}]");
    }
    if indent + line.len() <= WIDTH {
        return line;
    }
    let mut text = format!("#[{name}(\n");
    for argument in arguments {
        let _ = writeln!(text, "    {argument},");
    }
    text.push_str(")]");
    text
}

/// Indents every line that is not empty.
pub fn indent(text: &str, depth: usize) -> String {
    let space = " ".repeat(4 * depth);
    let mut indented = String::new();
    for line in text.lines() {
        if !line.is_empty() {
            indented.push_str(&space);
            indented.push_str(line);
        }
        indented.push('\n');
    }
    indented
}

// === impl Item ===

impl Item {
    /// Returns the item as text.
    pub fn print(&self) -> String {
        let mut text = String::new();
        comment(&self.doc, &mut text);
        for attribute in &self.attributes {
            text.push_str(attribute);
            text.push('\n');
        }
        let (word, is_empty) = match &self.body {
            Body::Struct(fields) => ("struct", fields.is_empty()),
            Body::Enum(_) => ("enum", false),
        };
        let _ = write!(text, "pub {word} {} {{", self.name);
        if !is_empty {
            text.push('\n');
        }
        text.push_str(&self.body.print());
        text.push_str("}\n");
        text
    }
}

// === impl Body ===

impl Body {
    /// Returns the fields or variants as text: equal bodies are one type.
    pub fn print(&self) -> String {
        let mut text = String::new();
        match self {
            Body::Struct(fields) => {
                for field in fields {
                    comment(&field.doc, &mut text);
                    if !field.rules.is_empty() {
                        text.push_str(&attribute("k8s", &field.rules, 4));
                        text.push('\n');
                    }
                    if !field.serde.is_empty() {
                        text.push_str(&attribute("serde", &field.serde, 4));
                        text.push('\n');
                    }
                    let _ = writeln!(text, "pub {}: {},", field.name, field.kind);
                }
            }
            Body::Enum(variants) => {
                for variant in variants {
                    if variant.name != variant.value {
                        let _ = writeln!(text, "#[serde(rename = {})]", literal(&variant.value));
                    }
                    let _ = writeln!(text, "{},", variant.name);
                }
            }
        }
        indent(&text, 1)
    }
}

fn comment(lines: &[String], text: &mut String) {
    for line in lines {
        let _ = writeln!(text, "{}", format!("/// {line}").trim_end());
    }
}
