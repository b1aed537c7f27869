//! Looks at `'...'.format([...])` before it runs: a constant text must fit the list behind it.

use super::ast::{Ast, Expr, ExprKind, Literal};
use super::check::Checked;
use super::source::Issue;
use super::types::Type;

/// Returns what is wrong with calls of `format` on constant texts with lists that are written out.
pub fn check(ast: &Ast, checked: &Checked) -> Vec<Issue> {
    let mut issues = Vec::new();
    ast.root.walk(&mut |expr| {
        let ExprKind::Call { target: Some(target), function, args } = &expr.kind else { return };
        let ([list], "format") = (args.as_slice(), &**function) else { return };
        let (ExprKind::Literal(Literal::Str(text)), ExprKind::List(items)) =
            (&target.kind, &list.kind)
        else {
            return;
        };
        if let Err((at, text)) = fits(text, items, checked) {
            issues.push(Issue::new(at.unwrap_or(expr).at, text));
        }
    });
    issues
}

/// A fault, and the argument it is about; without one it is about the call.
type Fault<'a> = (Option<&'a Expr>, String);

fn fits<'a>(text: &str, items: &'a [(Expr, bool)], checked: &Checked) -> Result<(), Fault<'a>> {
    let failed = |text: String| (None, text);
    let mut used = 0;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' || chars.next_if_eq(&'%').is_some() {
            continue;
        }
        let Some((item, _)) = items.get(used) else {
            return Err(failed(format!("index {used} out of range")));
        };
        used += 1;
        if chars.next_if_eq(&'.').is_some() {
            let mut digits = String::new();
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            if digits.parse::<i64>().is_err() {
                return Err(failed(format!(
                    "could not parse formatting clause: error while parsing precision: error \
                     while converting precision to integer: strconv.Atoi: parsing \"{digits}\": \
                     invalid syntax"
                )));
            }
        }
        let Some(verb) = chars.next() else {
            return Err(failed("unexpected end of string".into()));
        };
        clause(verb, item, checked)?;
    }
    match items.len() > used {
        false => Ok(()),
        true => Err(failed(format!(
            "too many arguments supplied to string.format (expected {used}, got {})",
            items.len()
        ))),
    }
}

fn clause<'a>(verb: char, item: &'a Expr, checked: &Checked) -> Result<(), Fault<'a>> {
    let ty = checked.ty(item);
    let (fits, needs) = match verb {
        's' => return string(item, checked),
        'd' => (is_whole(ty), "decimal clause can only be used on integers"),
        'f' => (is_number(ty), "fixed-point clause can only be used on doubles"),
        'e' => (is_number(ty), "scientific clause can only be used on doubles"),
        'b' => {
            let fits = is_whole(ty) || matches!(ty, Type::Bool);
            (fits, "only integers and bools can be formatted as binary")
        }
        'o' => (is_whole(ty), "octal clause can only be used on integers"),
        'x' | 'X' => {
            let fits = is_whole(ty) || matches!(ty, Type::String | Type::Bytes);
            (fits, "only integers, byte buffers, and strings can be formatted as hex")
        }
        other => {
            let what = format!("unrecognized formatting clause \"{other}\"");
            return Err((None, format!("could not parse formatting clause: {what}")));
        }
    };
    match fits || is_unknown(ty) {
        true => Ok(()),
        false => Err(refused(item, needs, ty)),
    }
}

/// What `%s` takes: all but objects, and what is known by its name only.
fn string<'a>(item: &'a Expr, checked: &Checked) -> Result<(), Fault<'a>> {
    match &item.kind {
        ExprKind::List(items) => {
            return items.iter().try_for_each(|(item, _)| string(item, checked));
        }
        ExprKind::Map(entries) => {
            return entries.iter().try_for_each(|(key, value, _)| {
                string(key, checked)?;
                string(value, checked)
            });
        }
        _ => {}
    }
    let ty = checked.ty(item);
    match ty {
        Type::Object(_) | Type::Optional(_) | Type::Named(..) | Type::Message(_) => {
            let needs = "string clause can only be used on strings, bools, bytes, ints, doubles, \
                         maps, lists, types, durations, and timestamps";
            Err(refused(item, needs, ty))
        }
        _ => Ok(()),
    }
}

fn refused<'a>(item: &'a Expr, needs: &str, ty: &Type) -> Fault<'a> {
    let given = ty.runtime_name();
    (Some(item), format!("error during formatting: {needs}, was given {given}"))
}

fn is_whole(ty: &Type) -> bool {
    matches!(ty, Type::Int | Type::Uint)
}

/// Texts are taken, too: some numbers have no other form.
fn is_number(ty: &Type) -> bool {
    matches!(ty, Type::Double | Type::String)
}

fn is_unknown(ty: &Type) -> bool {
    matches!(ty, Type::Dyn | Type::Error | Type::Param(_))
}
