//! The operator expression of a file: `Operator::new(..)` and the calls on it.

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Expr, ExprCall, ExprMethodCall};

use super::source::{Edit, Source};
use crate::failure::Failure;

/// The calls of an operator expression, from `new` outwards.
pub struct Chain {
    calls: Vec<Call>,
}

/// One call: `new`, or a method.
struct Call {
    name: String,
    /// From the dot, or of `new` from its first byte.
    start: usize,
    end: usize,
}

/// The calls that belong to kinds: new ones are added behind the last of them.
const OF_KINDS: [&str; 5] = ["api", "sample", "controller", "webhook", "conversion"];

// === impl Chain ===

impl Chain {
    /// All operator expressions of a file, without those of its tests.
    pub fn all(source: &Source) -> Vec<Self> {
        let mut finder = Finder { source, found: Vec::new() };
        finder.visit_file(&source.syntax);
        finder.found
    }

    /// Returns `true` if the expression has a call such as `.api::<shop::Shop>()`.
    pub fn has(&self, source: &Source, call: &str) -> bool {
        self.calls.iter().any(|known| known.is(source, call))
    }

    /// Adds calls behind those of the other kinds.
    pub fn insert(&self, source: &Source, calls: &[String]) -> Edit {
        let last = |names: &[&str]| {
            self.calls.iter().rposition(|call| names.contains(&call.name.as_str()))
        };
        let index = last(&OF_KINDS).or_else(|| last(&["version"])).unwrap_or(0);
        let anchor = &self.calls[index];
        let (line_start, line_end) = (source.line_start(anchor.start), source.line_end(anchor.end));
        let starts_line = index > 0 && is_blank(&source.text[line_start..anchor.start]);
        let alone = is_comment(&source.text[anchor.end..line_end]);
        // Calls that share their line with other code are followed by calls on the same line.
        if !(alone || starts_line) {
            return Edit::insert(anchor.end, calls.concat());
        }
        let before = &source.text[line_start..anchor.start];
        let indent: String = before.chars().take_while(|c| c.is_whitespace()).collect();
        let step = if starts_line { "" } else { "    " };
        let newline = source.newline();
        let lines = calls.iter().map(|call| format!("{newline}{indent}{step}{call}"));
        Edit::insert(if alone { line_end } else { anchor.end }, lines.collect::<String>())
    }

    /// Removes a call that [`insert`](Self::insert) added; `None` if there is no such call.
    pub fn remove(&self, source: &Source, call: &str) -> Option<Edit> {
        let call = self.calls.iter().find(|known| known.is(source, call))?;
        let line_start = source.line_start(call.start);
        let first_on_line = is_blank(&source.text[line_start..call.start]);
        let mut start = call.start;
        if first_on_line && line_start > 0 {
            start = line_start - 1;
            if source.text[..start].ends_with('\r') {
                start -= 1;
            }
        }
        Some(Edit::remove(start..call.end))
    }
}

// === impl Call ===

impl Call {
    fn is(&self, source: &Source, call: &str) -> bool {
        self.compact(source) == call
    }

    /// The text of the call without white space.
    fn compact(&self, source: &Source) -> String {
        source.text[self.start..self.end].split_whitespace().collect()
    }
}

/// Returns the one operator expression of some files.
pub fn only<'a>(
    sources: impl IntoIterator<Item = &'a Source>,
) -> Result<Option<(&'a Source, Chain)>, Failure> {
    let mut found: Vec<(&Source, Chain)> = Vec::new();
    for source in sources {
        found.extend(Chain::all(source).into_iter().map(|chain| (source, chain)));
    }
    if found.len() > 1 {
        let places = found.iter().map(|(source, chain)| {
            format!("{}:{}", source.path, source.line(chain.calls[0].start))
        });
        return Err(Failure::other(format!(
            "there are several operator expressions ({}), and it is not clear which one to edit; \
             nothing was changed",
            places.collect::<Vec<_>>().join(", ")
        )));
    }
    Ok(found.pop())
}

struct Finder<'a> {
    source: &'a Source,
    found: Vec<Chain>,
}

impl<'a> Visit<'a> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        let tests = item.attrs.iter().any(|attribute| {
            attribute.path().is_ident("cfg")
                && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test")
        });
        if !tests {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'a ExprMethodCall) {
        let (mut methods, mut receiver) = (vec![call], &*call.receiver);
        while let Expr::MethodCall(inner) = receiver {
            methods.push(inner);
            receiver = &inner.receiver;
        }
        match receiver {
            Expr::Call(new) if is_new(new) => {
                methods.reverse();
                self.add(new, &methods);
                methods.iter().for_each(|method| {
                    method.args.iter().for_each(|argument| self.visit_expr(argument));
                });
            }
            _ => visit::visit_expr_method_call(self, call),
        }
    }

    fn visit_expr_call(&mut self, call: &'a ExprCall) {
        if is_new(call) {
            self.add(call, &[]);
        } else {
            visit::visit_expr_call(self, call);
        }
    }
}

impl Finder<'_> {
    fn add(&mut self, new: &ExprCall, methods: &[&ExprMethodCall]) {
        let range = self.source.range(new.span());
        let mut calls = vec![Call { name: "new".into(), start: range.start, end: range.end }];
        calls.extend(methods.iter().map(|method| Call {
            name: method.method.to_string(),
            start: self.source.range(method.dot_token.span()).start,
            end: self.source.range(method.span()).end,
        }));
        self.found.push(Chain { calls });
    }
}

/// Returns `true` for `Operator::new(..)`, also with a longer path.
fn is_new(call: &ExprCall) -> bool {
    let Expr::Path(path) = &*call.func else { return false };
    let mut names = path.path.segments.iter().rev().map(|segment| segment.ident.to_string());
    names.next().as_deref() == Some("new") && names.next().as_deref() == Some("Operator")
}

fn is_blank(text: &str) -> bool {
    text.chars().all(char::is_whitespace)
}

/// Returns `true` if the rest of a line is empty or a comment that ends with it.
fn is_comment(rest: &str) -> bool {
    let rest = rest.trim();
    let block = rest.strip_prefix("/*").and_then(|rest| rest.strip_suffix("*/"));
    rest.is_empty()
        || rest.starts_with("//")
        || block.is_some_and(|block| !block.contains("/*") && !block.contains("*/"))
}
