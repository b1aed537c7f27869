//! Doc comments as descriptions.

use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// Returns the text of doc comments.
///
/// What follows a line of `---` is for developers, and so are lines that begin with `TODO`. Several
/// blank lines are one.
pub fn doc(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    });
    let mut text = Vec::new();
    for line in
        lines.flat_map(|line| line.lines().map(str::to_owned).collect::<Vec<_>>().or_blank())
    {
        let line = line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned();
        if line.starts_with("---") {
            break;
        }
        let repeats_blank = line.is_empty() && text.last().is_none_or(String::is_empty);
        if !line.starts_with("TODO") && !repeats_blank {
            text.push(line);
        }
    }
    text.join("\n").trim_end().to_owned()
}

/// An empty doc line has no lines, but stands for one.
trait OrBlank {
    fn or_blank(self) -> Self;
}

impl OrBlank for Vec<String> {
    fn or_blank(self) -> Self {
        if self.is_empty() { vec![String::new()] } else { self }
    }
}
