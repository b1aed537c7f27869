//! Calls that are macros: they become loops and tests while parsing.

use std::sync::Arc;

use super::ast::{Expr, ExprKind, Fold, Literal};
use super::parse::Maker;

/// The name of the accumulator of loops; no expression can spell it.
pub const ACCUMULATOR: &str = "@result";

const OLD_ACCUMULATOR: &str = "__result__";
const UNUSED: &str = "#unused";

/// Returns a call without a target: `has()`, or a plain call.
pub fn global(maker: &mut Maker, at: u32, name: &str, args: Vec<Expr>) -> Expr {
    let ("has", 1) = (name, args.len()) else { return maker.call(at, name, args) };
    let Some(arg) = args.into_iter().next() else { return maker.call(at, name, Vec::new()) };
    match arg.kind {
        ExprKind::Select { operand, field, test: false } => {
            maker.expr(at, ExprKind::Select { operand, field, test: true })
        }
        _ => maker.error(arg.at, "invalid argument to has() macro"),
    }
}

/// Returns a call with a target: a macro, or a plain call.
pub fn member(maker: &mut Maker, at: u32, name: &str, target: Expr, args: Vec<Expr>) -> Expr {
    let expanded = match (name, args.len()) {
        ("all" | "exists" | "exists_one" | "existsOne", 2) => {
            quantifier(maker, at, name, target, &args, 1)
        }
        ("all" | "exists" | "exists_one" | "existsOne", 3) => {
            quantifier(maker, at, name, target, &args, 2)
        }
        ("map", 2 | 3) => map(maker, at, target, &args),
        ("filter", 2) => filter(maker, at, target, &args),
        ("transformList" | "transformMap" | "transformMapEntry", 3 | 4) => {
            transform(maker, at, name, target, &args)
        }
        ("optMap" | "optFlatMap", 2) => optional(maker, at, name, target, &args),
        ("sortBy", 2) => sort_by(maker, at, target, &args),
        _ => {
            let target = Some(Box::new(target));
            return maker.expr(at, ExprKind::Call { target, function: name.into(), args });
        }
    };
    expanded.unwrap_or_else(|(at, text)| maker.error(at, text))
}

type Expanded = Result<Expr, (u32, String)>;

/// The names of one or two loop variables.
fn variables(args: &[Expr], count: usize, wrong: &str) -> Result<Vec<Arc<str>>, (u32, String)> {
    let mut names: Vec<Arc<str>> = Vec::with_capacity(count);
    for arg in &args[..count] {
        match &arg.kind {
            ExprKind::Ident(name) => names.push(name.clone()),
            _ => return Err((arg.at, wrong.to_owned())),
        }
    }
    if let [first, second] = names.as_slice()
        && first == second
    {
        return Err((args[1].at, format!("duplicate variable name: {first}")));
    }
    for (name, arg) in names.iter().zip(args) {
        if &**name == ACCUMULATOR || &**name == OLD_ACCUMULATOR {
            return Err((arg.at, "iteration variable overwrites accumulator variable".into()));
        }
    }
    Ok(names)
}

/// Makes nodes at one place.
struct At<'a>(&'a mut Maker, u32);

impl At<'_> {
    fn accu(&mut self) -> Expr {
        self.0.expr(self.1, ExprKind::Ident(ACCUMULATOR.into()))
    }

    fn literal(&mut self, literal: Literal) -> Expr {
        self.0.expr(self.1, ExprKind::Literal(literal))
    }

    fn call(&mut self, name: &str, args: Vec<Expr>) -> Expr {
        self.0.call(self.1, name, args)
    }

    fn list(&mut self, items: Vec<Expr>) -> Expr {
        let items = items.into_iter().map(|item| (item, false)).collect();
        self.0.expr(self.1, ExprKind::List(items))
    }

    fn append(&mut self, item: Expr) -> Expr {
        let accu = self.accu();
        let list = self.list(vec![item]);
        self.call("_+_", vec![accu, list])
    }

    /// `step` where the filter holds, else the accumulator unchanged.
    fn filtered(&mut self, filter: Option<&Expr>, step: Expr) -> Expr {
        let Some(filter) = filter else { return step };
        let accu = self.accu();
        self.call("_?_:_", vec![filter.clone(), step, accu])
    }

    fn fold(&mut self, target: Expr, names: &[Arc<str>], init: Expr, step: Expr) -> Expr {
        let condition = self.literal(Literal::Bool(true));
        let result = self.accu();
        self.fold_with(target, names, init, condition, step, result)
    }

    fn fold_with(
        &mut self,
        range: Expr,
        names: &[Arc<str>],
        init: Expr,
        condition: Expr,
        step: Expr,
        result: Expr,
    ) -> Expr {
        let fold = Fold {
            range,
            var: names.first().cloned().unwrap_or_else(|| UNUSED.into()),
            var2: names.get(1).cloned(),
            accu: ACCUMULATOR.into(),
            init,
            condition,
            step,
            result,
        };
        self.0.expr(self.1, ExprKind::Fold(Box::new(fold)))
    }

    /// `result` with `name` standing for `value`.
    fn bind(&mut self, name: &Arc<str>, value: Expr, result: Expr) -> Expr {
        let fold = Fold {
            range: self.list(Vec::new()),
            var: UNUSED.into(),
            var2: None,
            accu: name.clone(),
            init: value,
            condition: self.literal(Literal::Bool(false)),
            step: self.0.expr(self.1, ExprKind::Ident(name.clone())),
            result,
        };
        self.0.expr(self.1, ExprKind::Fold(Box::new(fold)))
    }

    fn member(&mut self, name: &str, target: Expr, args: Vec<Expr>) -> Expr {
        let target = Some(Box::new(target));
        self.0.expr(self.1, ExprKind::Call { target, function: name.into(), args })
    }

    /// The same tree with ids of its own.
    fn copy(&mut self, expr: &Expr) -> Expr {
        let kind = match &expr.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => expr.kind.clone(),
            ExprKind::Select { operand, field, test } => ExprKind::Select {
                operand: Box::new(self.copy(operand)),
                field: field.clone(),
                test: *test,
            },
            ExprKind::Call { target, function, args } => ExprKind::Call {
                target: target.as_ref().map(|target| Box::new(self.copy(target))),
                function: function.clone(),
                args: args.iter().map(|arg| self.copy(arg)).collect(),
            },
            ExprKind::List(items) => {
                ExprKind::List(items.iter().map(|(item, opt)| (self.copy(item), *opt)).collect())
            }
            ExprKind::Map(entries) => ExprKind::Map(
                entries.iter().map(|(k, v, opt)| (self.copy(k), self.copy(v), *opt)).collect(),
            ),
            ExprKind::Struct(name, fields) => ExprKind::Struct(
                name.clone(),
                fields.iter().map(|(f, v, opt)| (f.clone(), self.copy(v), *opt)).collect(),
            ),
            ExprKind::Fold(fold) => ExprKind::Fold(Box::new(Fold {
                range: self.copy(&fold.range),
                var: fold.var.clone(),
                var2: fold.var2.clone(),
                accu: fold.accu.clone(),
                init: self.copy(&fold.init),
                condition: self.copy(&fold.condition),
                step: self.copy(&fold.step),
                result: self.copy(&fold.result),
            })),
        };
        self.0.expr(expr.at, kind)
    }
}

fn quantifier(
    maker: &mut Maker,
    at: u32,
    name: &str,
    target: Expr,
    args: &[Expr],
    count: usize,
) -> Expanded {
    let names = variables(args, count, "argument must be a simple name")?;
    let predicate = args[count].clone();
    let mut make = At(maker, at);
    let (init, condition, step, result);
    match name {
        "all" => {
            init = make.literal(Literal::Bool(true));
            let accu = make.accu();
            condition = make.call("@not_strictly_false", vec![accu]);
            let accu = make.accu();
            step = make.call("_&&_", vec![accu, predicate]);
            result = make.accu();
        }
        "exists" => {
            init = make.literal(Literal::Bool(false));
            let accu = make.accu();
            let not = make.call("!_", vec![accu]);
            condition = make.call("@not_strictly_false", vec![not]);
            let accu = make.accu();
            step = make.call("_||_", vec![accu, predicate]);
            result = make.accu();
        }
        _ => {
            init = make.literal(Literal::Int(0));
            condition = make.literal(Literal::Bool(true));
            let (accu, one) = (make.accu(), make.literal(Literal::Int(1)));
            let more = make.call("_+_", vec![accu, one]);
            step = make.filtered(Some(&predicate), more);
            let (accu, one) = (make.accu(), make.literal(Literal::Int(1)));
            result = make.call("_==_", vec![accu, one]);
        }
    }
    Ok(make.fold_with(target, &names, init, condition, step, result))
}

fn map(maker: &mut Maker, at: u32, target: Expr, args: &[Expr]) -> Expanded {
    let names = variables(args, 1, "argument is not an identifier")?;
    let mut make = At(maker, at);
    let init = make.list(Vec::new());
    let step = make.append(args[args.len() - 1].clone());
    let step = make.filtered((args.len() == 3).then(|| &args[1]), step);
    Ok(make.fold(target, &names, init, step))
}

fn filter(maker: &mut Maker, at: u32, target: Expr, args: &[Expr]) -> Expanded {
    let names = variables(args, 1, "argument is not an identifier")?;
    let mut make = At(maker, at);
    let init = make.list(Vec::new());
    let step = make.append(args[0].clone());
    let step = make.filtered(Some(&args[1]), step);
    Ok(make.fold(target, &names, init, step))
}

fn transform(maker: &mut Maker, at: u32, name: &str, target: Expr, args: &[Expr]) -> Expanded {
    let names = variables(args, 2, "argument must be a simple name")?;
    let mut make = At(maker, at);
    let value = args[args.len() - 1].clone();
    let (init, step) = match name {
        "transformList" => (make.list(Vec::new()), make.append(value)),
        _ => {
            let init = make.0.expr(at, ExprKind::Map(Vec::new()));
            let mut insert = vec![make.accu()];
            if name == "transformMap" {
                insert.push(make.0.expr(at, ExprKind::Ident(names[0].clone())));
            }
            insert.push(value);
            (init, make.call("cel.@mapInsert", insert))
        }
    };
    let step = make.filtered((args.len() == 4).then(|| &args[2]), step);
    Ok(make.fold(target, &names, init, step))
}

fn optional(maker: &mut Maker, at: u32, name: &str, target: Expr, args: &[Expr]) -> Expanded {
    let ExprKind::Ident(variable) = &args[0].kind else {
        let text = format!("{name}() variable name must be a simple identifier");
        return Err((args[0].at, text));
    };
    let mut make = At(maker, at);
    let again = make.copy(&target);
    let present = make.member("hasValue", target, Vec::new());
    let value = make.member("value", again, Vec::new());
    let mut some = make.bind(variable, value, args[1].clone());
    if name == "optMap" {
        some = make.call("optional.of", vec![some]);
    }
    let none = make.call("optional.none", Vec::new());
    Ok(make.call("_?_:_", vec![present, some, none]))
}

fn sort_by(maker: &mut Maker, at: u32, target: Expr, args: &[Expr]) -> Expanded {
    if matches!(target.kind, ExprKind::Literal(_) | ExprKind::Map(_) | ExprKind::Struct(..)) {
        let text = "sortBy can only be applied to a list, identifier, comprehension, call or \
                    select expression";
        return Err((target.at, text.to_owned()));
    }
    let input: Arc<str> = "@__sortBy_input__".into();
    let range = maker.expr(at, ExprKind::Ident(input.clone()));
    let keys = map(maker, at, range, args)?;
    let mut make = At(maker, at);
    let list = make.0.expr(at, ExprKind::Ident(input.clone()));
    let sorted = make.member("@sortByAssociatedKeys", list, vec![keys]);
    Ok(make.bind(&input, target, sorted))
}
