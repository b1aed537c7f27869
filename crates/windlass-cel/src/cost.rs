//! Estimates what an expression costs at worst, before it runs.
//!
//! The estimate decides which rules a definition may have, so it follows the reference step by
//! step, including where that is generous or strange.

use std::sync::Arc;

use super::ast::{Ast, Expr, ExprKind, Fold, Literal};
use super::check::{Checked, Reference};
use super::decl::{Decl, Shape};
use super::macros::ACCUMULATOR;
use super::range::Range;
use super::types::Type;

mod calls;

/// Finds the declaration of a variable.
type Roots<'a> = dyn Fn(&str) -> Option<&'a Decl> + 'a;

/// Returns the worst cost of an expression whose variables look as `root` says.
pub fn estimate<'a>(ast: &Ast, checked: &'a Checked, root: &'a Roots<'a>) -> u64 {
    let ids = ast.ids as usize;
    let mut estimator = Estimator {
        checked,
        root,
        paths: vec![Vec::new(); ids],
        sizes: vec![None; ids],
        entries: vec![None; ids],
        locals: Vec::new(),
    };
    estimator.cost(&ast.root).max
}

/// The sizes of the keys and values of a container.
#[derive(Clone, Copy, Debug)]
struct Entry {
    list: bool,
    key: Range,
    value: Range,
}

impl Entry {
    fn union(self, other: Self) -> Self {
        Self {
            list: self.list,
            key: self.key.union(other.key),
            value: self.value.union(other.value),
        }
    }
}

#[derive(Debug)]
struct Local {
    path: Vec<Arc<str>>,
    size: Option<Range>,
    entry: Option<Entry>,
}

/// An argument of a call, as far as estimates see it.
struct Argument<'e> {
    expr: Option<&'e Expr>,
    path: Vec<Arc<str>>,
    ty: Type,
    size: Option<Range>,
}

struct Estimator<'a> {
    checked: &'a Checked,
    root: &'a Roots<'a>,
    paths: Vec<Vec<Arc<str>>>,
    sizes: Vec<Option<Range>>,
    entries: Vec<Option<Entry>>,
    locals: Vec<(Arc<str>, Local)>,
}

impl Estimator<'_> {
    fn cost(&mut self, expr: &Expr) -> Range {
        match &expr.kind {
            ExprKind::Literal(_) => Range::fixed(0),
            ExprKind::Ident(name) => {
                self.ident(expr, name);
                Range::fixed(1)
            }
            ExprKind::Select { operand, field, test } => self.select(expr, operand, field, *test),
            ExprKind::Call { target, args, .. } => self.call(expr, target.as_deref(), args),
            ExprKind::List(items) => {
                let mut sum = Range::fixed(0);
                let mut value = if items.is_empty() { Range::fixed(0) } else { Range::NOTHING };
                for (item, _) in items {
                    sum = sum.plus(self.cost(item));
                    value = value.union(self.size_or_unknown(item));
                }
                let entry = Entry { list: true, key: Range::fixed(1), value };
                self.entries[expr.id as usize] = Some(entry);
                sum.plus(Range::fixed(10))
            }
            ExprKind::Map(entries) => {
                let mut sum = Range::fixed(0);
                let start = if entries.is_empty() { Range::fixed(0) } else { Range::NOTHING };
                let (mut keys, mut values) = (start, start);
                for (key, value, _) in entries {
                    sum = sum.plus(self.cost(key)).plus(self.cost(value));
                    keys = keys.union(self.size_or_unknown(key));
                    values = values.union(self.size_or_unknown(value));
                }
                let entry = Entry { list: false, key: keys, value: values };
                self.entries[expr.id as usize] = Some(entry);
                sum.plus(Range::fixed(30))
            }
            ExprKind::Struct(_, fields) => {
                let sum = fields
                    .iter()
                    .fold(Range::fixed(0), |sum, (_, value, _)| sum.plus(self.cost(value)));
                sum.plus(Range::fixed(40))
            }
            ExprKind::Fold(fold) => self.fold(expr, fold),
        }
    }

    fn ident(&mut self, expr: &Expr, name: &Arc<str>) {
        let path = match self.find(name) {
            Some(local) => local.path.clone(),
            None => vec![name.clone()],
        };
        self.paths[expr.id as usize] = path;
    }

    fn find(&self, name: &str) -> Option<&Local> {
        let found = self.locals.iter().rev().find(|(local, _)| **local == *name);
        found.map(|(_, local)| local)
    }

    fn select(&mut self, expr: &Expr, operand: &Expr, field: &Arc<str>, test: bool) -> Range {
        if let Some(Reference::Type(_) | Reference::Variable(_)) = self.checked.reference(expr) {
            self.paths[expr.id as usize] = vec![field.clone()];
            return Range::fixed(1);
        }
        let mut sum = self.cost(operand);
        if test {
            return sum;
        }
        let charged = matches!(
            self.checked.ty(operand),
            Type::Map(_) | Type::Object(_) | Type::Named(_, false) | Type::Param(_)
        );
        if charged {
            sum = sum.plus(Range::fixed(1));
        }
        let mut path = self.path(operand);
        path.push(field.clone());
        self.paths[expr.id as usize] = path;
        sum
    }

    fn path(&self, expr: &Expr) -> Vec<Arc<str>> {
        if let ExprKind::Ident(name) = &expr.kind
            && let Some(local) = self.find(name)
        {
            return local.path.clone();
        }
        self.paths[expr.id as usize].clone()
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> Range {
        self.size(expr).unwrap_or(Range::UNKNOWN)
    }

    fn size(&mut self, expr: &Expr) -> Option<Range> {
        if let Some(size) = self.sizes[expr.id as usize] {
            return Some(size);
        }
        let written = match &expr.kind {
            ExprKind::Literal(Literal::Str(text)) => Some(text.chars().count()),
            ExprKind::Literal(Literal::Bytes(bytes)) => Some(bytes.len()),
            ExprKind::Literal(_) => Some(1),
            ExprKind::List(items) => Some(items.len()),
            ExprKind::Map(entries) => Some(entries.len()),
            _ => None,
        };
        if let Some(written) = written {
            return Some(Range::fixed(written as u64));
        }
        if let Some(declared) = self.declared(&self.path(expr)) {
            self.sizes[expr.id as usize] = Some(declared);
            return Some(declared);
        }
        if self.checked.ty(expr).is_scalar() {
            return Some(Range::fixed(1));
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.find(name).and_then(|local| local.size),
            _ => None,
        }
    }

    /// The size that the schema gives the data at a path; the first step is the variable.
    fn declared(&self, path: &[Arc<str>]) -> Option<Range> {
        let (variable, steps) = path.split_first()?;
        let mut decl = (self.root)(variable)?;
        for step in steps {
            decl = match (&**step, &decl.shape) {
                ("@items" | "@values", _) => decl.item()?,
                ("@keys", Shape::Map(_)) => return Some(Range::fixed(0)),
                ("@keys", _) => return None,
                (field, Shape::Object(object)) => &object.fields.get(field)?.decl,
                _ => return None,
            };
        }
        Some(Range::up_to(decl.max.max(0).unsigned_abs()))
    }

    fn entry(&self, expr: &Expr) -> Option<Entry> {
        if let Some(entry) = self.entries[expr.id as usize] {
            return Some(entry);
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.find(name).and_then(|local| local.entry),
            _ => None,
        }
    }

    fn is_list(&self, expr: &Expr, entry: Option<Entry>) -> bool {
        match entry {
            Some(entry) => entry.list,
            None => matches!(self.checked.ty(expr), Type::List(_)),
        }
    }

    fn push(&mut self, name: &Arc<str>, range: &Expr, step: &str, size: Option<Range>) {
        let mut path = self.path(range);
        path.push(step.into());
        self.locals.push((name.clone(), Local { path, size, entry: None }));
    }

    fn bind(&mut self, name: &Arc<str>, value: &Expr) {
        let path = self.path(value);
        let local = Local { path, size: self.size(value), entry: self.entry(value) };
        self.locals.push((name.clone(), local));
    }

    fn fold(&mut self, expr: &Expr, fold: &Fold) -> Range {
        let sum = self.cost(&fold.range);
        let sum = sum.plus(self.cost(&fold.init));
        let empty = matches!(&fold.range.kind, ExprKind::List(items) if items.is_empty());
        let never = matches!(fold.condition.kind, ExprKind::Literal(Literal::Bool(false)));
        let depth = self.locals.len();
        self.bind(&fold.accu, &fold.init);
        if empty && never {
            let sum = sum.plus(self.cost(&fold.result));
            self.locals.truncate(depth);
            self.sizes[expr.id as usize] = self.size(&fold.result);
            self.entries[expr.id as usize] = self.entry(&fold.result);
            return sum;
        }
        let entry = self.entry(&fold.range);
        let list = self.is_list(&fold.range, entry);
        let (key, value) = (entry.map(|e| e.key), entry.map(|e| e.value));
        match &fold.var2 {
            Some(var2) => {
                let (first, second) =
                    if list { ("@indices", "@items") } else { ("@keys", "@values") };
                self.push(&fold.var, &fold.range, first, key);
                self.push(var2, &fold.range, second, value);
            }
            None if list => self.push(&fold.var, &fold.range, "@items", value),
            None => self.push(&fold.var, &fold.range, "@keys", key),
        }
        let round = self.cost(&fold.condition);
        let round = round.plus(self.cost(&fold.step));
        self.locals.truncate(depth + 1);
        let sum = sum.plus(self.cost(&fold.result));
        self.locals.truncate(depth);
        let count = self.size_or_unknown(&fold.range);
        match &fold.init.kind {
            ExprKind::Literal(_) => self.sizes[expr.id as usize] = self.size(&fold.init),
            ExprKind::List(_) | ExprKind::Map(_) => {
                self.sizes[expr.id as usize] = Some(count);
                if let Some(entry) = self.entry(&fold.step) {
                    self.entries[expr.id as usize] = Some(entry);
                }
            }
            _ => {}
        }
        sum.plus(count.times(round))
    }

    fn argument<'e>(&mut self, expr: &'e Expr) -> Argument<'e> {
        let mut path = self.path(expr);
        if path.first().is_some_and(|first| &**first == ACCUMULATOR) {
            path.clear();
        }
        let size = self.size(expr);
        Argument { expr: Some(expr), path, ty: self.checked.ty(expr).clone(), size }
    }
}
