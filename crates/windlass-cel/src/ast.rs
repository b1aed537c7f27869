//! The syntax tree of an expression, after macros are expanded.
//!
//! **Invariant:** every node has its own id, below [`Ast::ids`], and no path from the root is
//! longer than a small multiple of the parser's depth limit, so plain recursion is safe.

use std::sync::Arc;

/// A parsed expression.
#[derive(Clone, Debug)]
pub struct Ast {
    /// The root.
    pub root: Expr,
    /// How many ids are used.
    pub ids: u32,
}

/// One node.
#[derive(Clone, Debug)]
pub struct Expr {
    /// Its id.
    pub id: u32,
    /// Its place in the text.
    pub at: u32,
    /// What it is.
    pub kind: ExprKind,
}

/// What a node is.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// A constant.
    Literal(Literal),
    /// A name.
    Ident(Arc<str>),
    /// A field of the operand, or the question whether it is there.
    Select { operand: Box<Expr>, field: Arc<str>, test: bool },
    /// A call.
    Call { target: Option<Box<Expr>>, function: Arc<str>, args: Vec<Expr> },
    /// A list; the flag marks optional items.
    List(Vec<(Expr, bool)>),
    /// A map; the flag marks optional entries.
    Map(Vec<(Expr, Expr, bool)>),
    /// A message by its type name.
    Struct(Arc<str>, Vec<(Arc<str>, Expr, bool)>),
    /// A loop.
    Fold(Box<Fold>),
}

/// A loop over a range that folds into an accumulator.
#[derive(Clone, Debug)]
pub struct Fold {
    /// What is walked.
    pub range: Expr,
    /// The name of an item, of a key, or (with two names) of an index.
    pub var: Arc<str>,
    /// The name of the item or value, if there are two.
    pub var2: Option<Arc<str>>,
    /// The name of the accumulator.
    pub accu: Arc<str>,
    /// Its first value.
    pub init: Expr,
    /// Continues while this is not false.
    pub condition: Expr,
    /// The next value of the accumulator.
    pub step: Expr,
    /// The value of the whole.
    pub result: Expr,
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Str(Arc<str>),
    Bytes(Arc<[u8]>),
}

// === impl Expr ===

impl Expr {
    /// Returns the dotted name this expression spells, if it is nothing but names.
    pub fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            ExprKind::Ident(name) => Some(name.to_string()),
            ExprKind::Select { operand, field, test: false } => {
                let mut name = operand.qualified_name()?;
                name.push('.');
                name.push_str(field);
                Some(name)
            }
            _ => None,
        }
    }

    /// Calls `visit` for this node and all nodes below it.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Self)) {
        visit(self);
        self.children(&mut |child| child.walk(visit));
    }

    fn children<'a>(&'a self, each: &mut dyn FnMut(&'a Self)) {
        match &self.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => {}
            ExprKind::Select { operand, .. } => each(operand),
            ExprKind::Call { target, args, .. } => {
                target.iter().for_each(|target| each(target));
                args.iter().for_each(each);
            }
            ExprKind::List(items) => items.iter().for_each(|(item, _)| each(item)),
            ExprKind::Map(entries) => {
                for (key, value, _) in entries {
                    each(key);
                    each(value);
                }
            }
            ExprKind::Struct(_, fields) => fields.iter().for_each(|(_, value, _)| each(value)),
            ExprKind::Fold(fold) => {
                let parts = [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result];
                parts.into_iter().for_each(each);
            }
        }
    }
}
