//! Turns checked expressions into programs: names become places, constants are computed, patterns
//! are read, and every step knows what it costs.

use std::sync::Arc;

use regex::Regex;
use windlass_text::pattern;

use super::ast::{Ast, Expr, ExprKind, Fold, Literal};
use super::charge::Charge;
use super::check::{Checked, Reference};
use super::functions::Function;
use super::library;
use super::macros::ACCUMULATOR;
use super::value::{Buckets, Fault, Text, Val, hash};

/// One step of a program.
#[derive(Debug)]
pub enum Node {
    Const(Val<'static>),
    Variable(usize),
    Local(usize),
    Field(Box<Access>),
    Index(Box<Access>),
    Has(Box<Access>),
    And(Box<(Node, Node)>),
    Or(Box<(Node, Node)>),
    Ternary(Box<(Node, Node, Node)>),
    NotStrictlyFalse(Box<Node>),
    Call(Box<Call>),
    /// The target if it has a value, else the other; the flag asks for the value itself.
    OrElse(Box<(Node, Node, bool)>),
    /// Whether a value is among constants, which are found by their hashes.
    InSet(Box<(Node, (Vec<Val<'static>>, Buckets))>),
    List(Vec<(Node, bool)>),
    Map(Vec<(Node, Node, bool)>),
    Message(Arc<str>, Vec<(Arc<str>, Node, bool)>),
    Fold(Box<Loop>),
    /// A local that is computed when it is first used.
    Bind(Box<(usize, Node, Node)>),
    /// The accumulator with an item appended.
    Push(usize, Box<Node>),
    /// The accumulator with entries inserted.
    Put(usize, Vec<Node>),
}

/// A look at a field or an index.
#[derive(Debug)]
pub struct Access {
    /// Where to look.
    pub operand: Node,
    /// What to look for.
    pub key: Node,
    /// Whether what misses is no error.
    pub optional: bool,
}

/// A call of a function.
#[derive(Debug)]
pub struct Call {
    /// The function.
    pub function: &'static Function,
    /// The arguments, the target first.
    pub args: Vec<Node>,
    /// What the call costs.
    pub charge: Charge,
    /// The pattern, if it is constant.
    pub regex: Option<Regex>,
}

/// A loop.
#[derive(Debug)]
pub struct Loop {
    pub range: Node,
    /// The places of the accumulator, the variable and the second variable.
    pub slots: (usize, usize, Option<usize>),
    pub init: Node,
    /// `None` if the loop never ends early.
    pub condition: Option<Node>,
    pub step: Node,
    pub result: Node,
}

/// A program and how many locals it needs.
#[derive(Debug)]
pub struct Plan {
    /// The first step.
    pub root: Node,
    /// How many locals there are at most.
    pub slots: usize,
}

/// Plans a checked expression; an error of a constant part is returned.
pub fn plan(ast: &Ast, checked: &Checked) -> Result<Plan, String> {
    let mut planner = Planner { checked, scopes: Vec::new(), slots: 0 };
    let root = planner.node(&ast.root)?;
    Ok(Plan { root, slots: planner.slots })
}

struct Planner<'a> {
    checked: &'a Checked,
    scopes: Vec<(Arc<str>, usize)>,
    slots: usize,
}

impl Node {
    /// Returns `true` if the step is a name or a look into one, whose base costs nothing in some
    /// places.
    pub fn is_attribute(&self) -> bool {
        matches!(
            self,
            Self::Variable(_) | Self::Local(_) | Self::Field(_) | Self::Index(_) | Self::Ternary(_)
        )
    }

    fn constant(&self) -> Option<&Val<'static>> {
        match self {
            Self::Const(value) => Some(value),
            _ => None,
        }
    }
}

type Planned = Result<Node, String>;

impl Planner<'_> {
    fn node(&mut self, expr: &Expr) -> Planned {
        match &expr.kind {
            ExprKind::Literal(literal) => Ok(Node::Const(constant(literal))),
            ExprKind::Ident(name) => Ok(self.name(expr, name)),
            ExprKind::Select { operand, field, test } => {
                if let Some(Reference::Type(_) | Reference::Variable(_)) =
                    self.checked.reference(expr)
                {
                    return Ok(self.name(expr, field));
                }
                let operand = self.node(operand)?;
                let key = Node::Const(Val::Str(Text::Shared(field.clone())));
                let access = Box::new(Access { operand, key, optional: false });
                Ok(if *test { Node::Has(access) } else { Node::Field(access) })
            }
            ExprKind::Call { target, args, .. } => self.call(expr, target.as_deref(), args),
            ExprKind::List(items) => self.list(items),
            ExprKind::Map(entries) => self.map(entries),
            ExprKind::Struct(name, fields) => {
                let mut nodes = Vec::with_capacity(fields.len());
                for (field, value, optional) in fields {
                    nodes.push((field.clone(), self.node(value)?, *optional));
                }
                Ok(Node::Message(name.trim_start_matches('.').into(), nodes))
            }
            ExprKind::Fold(fold) => self.fold(fold),
        }
    }

    fn name(&self, expr: &Expr, name: &str) -> Node {
        match self.checked.reference(expr) {
            Some(Reference::Variable(index)) => Node::Variable(*index),
            Some(Reference::Type(ty)) => Node::Const(Val::Type(ty.clone())),
            _ => {
                let found = self.scopes.iter().rev().find(|(local, _)| **local == *name);
                Node::Local(found.map_or(usize::MAX, |(_, slot)| *slot))
            }
        }
    }

    fn call(&mut self, expr: &Expr, target: Option<&Expr>, args: &[Expr]) -> Planned {
        let Some(Reference::Call(function, overloads, member)) = self.checked.reference(expr)
        else {
            return Err("unresolved call".into());
        };
        let target = target.filter(|_| *member);
        if let Some(node) = self.special(function.name, target, args)? {
            return Ok(node);
        }
        let mut nodes = Vec::with_capacity(args.len() + 1);
        for arg in target.into_iter().chain(args) {
            nodes.push(self.node(arg)?);
        }
        let overload = match overloads.as_slice() {
            [one] => one.id,
            _ => "",
        };
        if let Some(node) = folded(function, overload, &mut nodes)? {
            return Ok(node);
        }
        let regex = match (function.name, nodes.get(1).and_then(Node::constant)) {
            ("matches" | "find" | "findAll", Some(Val::Str(source))) => {
                Some(pattern::compile(source)?)
            }
            _ => None,
        };
        let charge = Charge::of(function.name, overload);
        Ok(Node::Call(Box::new(Call { function, args: nodes, charge, regex })))
    }

    /// Calls that are no calls: logic, looks, and optionals that may not need their argument.
    fn special(
        &mut self,
        name: &str,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> Result<Option<Node>, String> {
        Ok(Some(match (name, target, args) {
            ("_&&_", None, [a, b]) => Node::And(Box::new((self.node(a)?, self.node(b)?))),
            ("_||_", None, [a, b]) => Node::Or(Box::new((self.node(a)?, self.node(b)?))),
            ("_?_:_", None, [a, b, c]) => {
                Node::Ternary(Box::new((self.node(a)?, self.node(b)?, self.node(c)?)))
            }
            ("@not_strictly_false", None, [a]) => Node::NotStrictlyFalse(Box::new(self.node(a)?)),
            ("_[_]" | "_[?_]" | "_?._", None, [operand, key]) => {
                let operand = self.node(operand)?;
                let key = self.node(key)?;
                let access = Box::new(Access { operand, key, optional: name != "_[_]" });
                if name == "_?._" { Node::Field(access) } else { Node::Index(access) }
            }
            ("or" | "orValue", Some(a), [b]) => {
                Node::OrElse(Box::new((self.node(a)?, self.node(b)?, name == "orValue")))
            }
            ("_+_", None, [accu, item]) if is_accumulator(accu) => match &item.kind {
                ExprKind::List(items) if matches!(items.as_slice(), [(_, false)]) => {
                    let Node::Local(slot) = self.node(accu)? else { return Ok(None) };
                    Node::Push(slot, Box::new(self.node(&items[0].0)?))
                }
                _ => return Ok(None),
            },
            ("cel.@mapInsert", None, [accu, rest @ ..]) if is_accumulator(accu) => {
                let Node::Local(slot) = self.node(accu)? else { return Ok(None) };
                let rest: Result<Vec<Node>, String> =
                    rest.iter().map(|arg| self.node(arg)).collect();
                Node::Put(slot, rest?)
            }
            _ => return Ok(None),
        }))
    }

    fn list(&mut self, items: &[(Expr, bool)]) -> Planned {
        let mut nodes = Vec::with_capacity(items.len());
        for (item, optional) in items {
            nodes.push((self.node(item)?, *optional));
        }
        let all: Option<Vec<Val<'static>>> = nodes
            .iter()
            .map(|(node, optional)| node.constant().filter(|_| !optional).cloned())
            .collect();
        Ok(all.map_or(Node::List(nodes), |values| Node::Const(Val::list(values))))
    }

    fn map(&mut self, entries: &[(Expr, Expr, bool)]) -> Planned {
        let mut nodes = Vec::with_capacity(entries.len());
        for (key, value, optional) in entries {
            nodes.push((self.node(key)?, self.node(value)?, *optional));
        }
        let constant = |(key, value, optional): &(Node, Node, bool)| {
            Some((key.constant()?.clone(), value.constant()?.clone())).filter(|_| !optional)
        };
        let all: Option<Vec<_>> = nodes.iter().map(constant).collect();
        let Some(all) = all else { return Ok(Node::Map(nodes)) };
        match super::eval::map_of(all) {
            Ok(map) => Ok(Node::Const(map)),
            Err(_) => Ok(Node::Map(nodes)),
        }
    }

    fn fold(&mut self, fold: &Fold) -> Planned {
        let range = self.node(&fold.range)?;
        let init = self.node(&fold.init)?;
        let depth = self.scopes.len();
        let accu = self.declare(&fold.accu);
        let empty = matches!(&range, Node::Const(Val::List(list)) if list.len() == 0);
        let never = matches!(&fold.condition.kind, ExprKind::Literal(Literal::Bool(false)));
        if empty && never {
            let result = self.node(&fold.result)?;
            self.scopes.truncate(depth);
            return Ok(Node::Bind(Box::new((accu, init, result))));
        }
        let var = self.declare(&fold.var);
        let var2 = fold.var2.as_ref().map(|var2| self.declare(var2));
        let condition = match self.node(&fold.condition)? {
            Node::Const(Val::Bool(true)) => None,
            condition => Some(condition),
        };
        let step = self.node(&fold.step)?;
        self.scopes.truncate(depth + 1);
        let result = self.node(&fold.result)?;
        self.scopes.truncate(depth);
        let slots = (accu, var, var2);
        Ok(Node::Fold(Box::new(Loop { range, slots, init, condition, step, result })))
    }

    fn declare(&mut self, name: &Arc<str>) -> usize {
        let slot = self.scopes.len();
        self.scopes.push((name.clone(), slot));
        self.slots = self.slots.max(slot + 1);
        slot
    }
}

fn is_accumulator(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Ident(name) if &**name == ACCUMULATOR)
}

/// What can be known before the program runs.
fn folded(
    function: &'static Function,
    overload: &str,
    nodes: &mut Vec<Node>,
) -> Result<Option<Node>, String> {
    let conversion = matches!(
        function.name,
        "bool"
            | "bytes"
            | "double"
            | "duration"
            | "dyn"
            | "int"
            | "string"
            | "timestamp"
            | "uint"
            | "type"
    );
    if conversion && let [Node::Const(value)] = nodes.as_slice() {
        return match (function.code)(function.name, std::slice::from_ref(value)) {
            Ok(value) => Ok(Some(Node::Const(value))),
            Err(Fault::Error(error)) => Err(error.into()),
            Err(Fault::Cost) => Ok(None),
        };
    }
    if overload == "in_list"
        && let [_, Node::Const(Val::List(list))] = nodes.as_slice()
    {
        let items = list.items().unwrap_or_default();
        if items.is_empty() {
            return Ok(Some(Node::Const(Val::Bool(false))));
        }
        let primitive = |value: &Val<'_>| {
            matches!(
                value,
                Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::Str(_)
            )
        };
        if items.iter().all(primitive) {
            let value = nodes.swap_remove(0);
            let mut buckets = Buckets::default();
            items.iter().for_each(|item| buckets.push(hash(item)));
            return Ok(Some(Node::InSet(Box::new((value, (items, buckets))))));
        }
    }
    Ok(None)
}

fn constant(literal: &Literal) -> Val<'static> {
    match literal {
        Literal::Null => Val::Null,
        Literal::Bool(value) => Val::Bool(*value),
        Literal::Int(number) => Val::Int(*number),
        Literal::Uint(number) => Val::Uint(*number),
        Literal::Double(number) => Val::Double(*number),
        Literal::Str(text) => Val::Str(Text::Shared(text.clone())),
        Literal::Bytes(bytes) => Val::Bytes(bytes.clone()),
    }
}

/// Checks constant arguments that must be well formed; returns the wrong ones.
pub fn literals(ast: &Ast) -> Vec<super::source::Issue> {
    let mut issues = Vec::new();
    ast.root.walk(&mut |expr| {
        let ExprKind::Call { function, args, .. } = &expr.kind else { return };
        let Some(arg) = args.first() else { return };
        let ExprKind::Literal(literal) = &arg.kind else { return };
        let bad = match &**function {
            "duration" | "timestamp" => {
                let code = library::code(function);
                code(function, &[constant(literal)]).is_err()
            }
            "matches" => {
                matches!(literal, Literal::Str(source) if pattern::compile(source).is_err())
            }
            _ => false,
        };
        if bad {
            let text = format!("invalid {function} argument");
            issues.push(super::source::Issue::new(arg.at, text));
        }
    });
    issues
}
