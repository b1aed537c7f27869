//! Checks types and resolves names.
//!
//! **Invariant:** after a check without issues, every node has a type, and every call and name has
//! a reference.

use std::sync::Arc;

use super::ast::{Ast, Expr, ExprKind, Fold, Literal};
use super::decl::Decl;
use super::functions::{self, Function, Overload, type_named};
use super::message;
use super::source::Issue;
use super::types::{Bindings, Type, most_general};

/// A name that an expression can use, and what it denotes.
#[derive(Clone, Debug)]
pub struct Variable {
    /// The name.
    pub name: String,
    /// What its values look like.
    pub decl: Arc<Decl>,
}

/// What a name or call resolved to.
#[derive(Clone, Debug)]
pub enum Reference {
    /// The variable at this place of the declarations.
    Variable(usize),
    /// A variable of a loop.
    Local,
    /// A type.
    Type(Type),
    /// A function; the target of the call is an argument only if the flag is set.
    Call(&'static Function, Vec<&'static Overload>, bool),
}

/// The results of a check, by the ids of nodes.
#[derive(Debug)]
pub struct Checked {
    /// The types.
    pub types: Vec<Type>,
    /// The references.
    pub references: Vec<Option<Reference>>,
}

// === impl Checked ===

impl Checked {
    /// Returns the type of a node.
    pub fn ty(&self, expr: &Expr) -> &Type {
        &self.types[expr.id as usize]
    }

    /// Returns the reference of a node.
    pub fn reference(&self, expr: &Expr) -> Option<&Reference> {
        self.references[expr.id as usize].as_ref()
    }
}

/// Checks an expression against declarations; with `patches`, it may make messages.
pub fn check(ast: &Ast, variables: &[Variable], patches: bool) -> Result<Checked, Vec<Issue>> {
    let mut checker = Checker {
        variables,
        patches,
        types: vec![Type::Error; ast.ids as usize],
        references: vec![None; ast.ids as usize],
        bindings: Bindings::default(),
        scopes: Vec::new(),
        issues: Vec::new(),
    };
    checker.check(&ast.root);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let bindings = checker.bindings;
    let types = checker.types.iter().map(|ty| bindings.resolve(ty, true)).collect();
    Ok(Checked { types, references: checker.references })
}

struct Checker<'a> {
    variables: &'a [Variable],
    patches: bool,
    types: Vec<Type>,
    references: Vec<Option<Reference>>,
    bindings: Bindings,
    scopes: Vec<(Arc<str>, Type)>,
    issues: Vec<Issue>,
}

impl Checker<'_> {
    fn issue(&mut self, at: u32, text: String) {
        self.issues.push(Issue::new(at, text));
    }

    fn mismatch(&mut self, at: u32, expected: &Type, found: &Type) {
        self.issue(at, format!("expected type '{expected}' but found '{found}'"));
    }

    fn undeclared(&mut self, at: u32, name: &str) {
        let name = name.trim_start_matches('.');
        self.issue(at, format!("undeclared reference to '{name}' (in container '')"));
    }

    fn set(&mut self, expr: &Expr, ty: Type) {
        self.types[expr.id as usize] = ty;
    }

    fn ty(&self, expr: &Expr) -> Type {
        self.types[expr.id as usize].clone()
    }

    fn refer(&mut self, expr: &Expr, reference: Reference) {
        self.references[expr.id as usize] = Some(reference);
    }

    fn lookup(&self, name: &str) -> Option<(Type, Reference)> {
        let global = name.strip_prefix('.');
        if global.is_none()
            && let Some((_, ty)) = self.scopes.iter().rev().find(|(local, _)| **local == *name)
        {
            return Some((ty.clone(), Reference::Local));
        }
        let name = global.unwrap_or(name);
        if let Some(index) = self.variables.iter().position(|variable| variable.name == name) {
            return Some((self.variables[index].decl.ty(), Reference::Variable(index)));
        }
        let message = || Type::Message(name.into());
        let made = || (self.patches && message::is_type(name)).then(message);
        let ty = type_named(name).or_else(made)?;
        Some((Type::Type(Some(Arc::new(ty.clone()))), Reference::Type(ty)))
    }

    fn check(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Literal(literal) => {
                let ty = match literal {
                    Literal::Null => Type::Null,
                    Literal::Bool(_) => Type::Bool,
                    Literal::Int(_) => Type::Int,
                    Literal::Uint(_) => Type::Uint,
                    Literal::Double(_) => Type::Double,
                    Literal::Str(_) => Type::String,
                    Literal::Bytes(_) => Type::Bytes,
                };
                self.set(expr, ty);
            }
            ExprKind::Ident(name) => match self.lookup(name) {
                Some((ty, reference)) => {
                    self.set(expr, ty);
                    self.refer(expr, reference);
                }
                None => self.undeclared(expr.at, name),
            },
            ExprKind::Select { operand, field, test } => {
                self.select(expr, operand, field, *test);
            }
            ExprKind::Call { target, function, args } => {
                self.call(expr, target.as_deref(), function, args);
            }
            ExprKind::List(items) => self.list(expr, items),
            ExprKind::Map(entries) => self.map(expr, entries),
            ExprKind::Struct(name, fields) => self.message(expr, name, fields),
            ExprKind::Fold(fold) => self.fold(expr, fold),
        }
    }

    fn select(&mut self, expr: &Expr, operand: &Expr, field: &str, test: bool) {
        if !test
            && let Some(name) = expr.qualified_name()
            && let Some((ty, reference)) = self.lookup(&name)
        {
            self.set(expr, ty);
            return self.refer(expr, reference);
        }
        let ty = self.field_type(expr, operand, field, false);
        let ty = if test { Type::Bool } else { self.bindings.resolve(&ty, false) };
        self.set(expr, ty);
    }

    fn field_type(&mut self, expr: &Expr, operand: &Expr, field: &str, optional: bool) -> Type {
        self.check(operand);
        let operand = self.bindings.resolve(&self.ty(operand), false);
        let (target, wrapped) = match &operand {
            Type::Optional(of) => ((**of).clone(), true),
            other => (other.clone(), false),
        };
        let found = match &target {
            Type::Map(both) => both.1.clone(),
            Type::Object(object) => match object.fields.get(field) {
                Some(field) => field.decl.ty(),
                None => {
                    self.issue(expr.at, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Message(name) => match message::field_type(name, field) {
                Some(ty) => ty,
                None => {
                    self.issue(expr.at, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Named(name, false) => {
                self.issue(expr.at, format!("unexpected failed resolution of '{name}'"));
                Type::Error
            }
            Type::Param(_) => {
                self.bindings.assignable(&Type::Dyn, &target);
                Type::Dyn
            }
            wild if wild.is_wild() => Type::Dyn,
            other => {
                self.issue(expr.at, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        if wrapped || optional { found.optional() } else { found }
    }

    fn call(&mut self, expr: &Expr, target: Option<&Expr>, name: &str, args: &[Expr]) {
        if name == "_?._"
            && let [operand, field] = args
            && let ExprKind::Literal(Literal::Str(field)) = &field.kind
        {
            let ty = self.field_type(expr, operand, field, true);
            let ty = self.bindings.resolve(&ty, false);
            self.set(expr, ty);
            if let Some(function) = functions::find(name) {
                let overloads = function.overloads.iter().collect();
                self.refer(expr, Reference::Call(function, overloads, false));
            }
            return;
        }
        args.iter().for_each(|arg| self.check(arg));
        let Some(target) = target else {
            match self.function(name.trim_start_matches('.')) {
                Some(function) => self.resolve(expr, function, None, args),
                None => self.undeclared(expr.at, name),
            }
            return;
        };
        if let Some(prefix) = target.qualified_name() {
            let full = format!("{}.{name}", prefix.trim_start_matches('.'));
            if let Some(function) = self.function(&full) {
                return self.resolve(expr, function, None, args);
            }
        }
        self.check(target);
        match functions::find(name) {
            Some(function) => self.resolve(expr, function, Some(target), args),
            None => self.undeclared(expr.at, name),
        }
    }

    fn resolve(
        &mut self,
        expr: &Expr,
        function: &'static Function,
        target: Option<&Expr>,
        args: &[Expr],
    ) {
        let given: Vec<Type> = target.into_iter().chain(args).map(|arg| self.ty(arg)).collect();
        if matches!(function.name, "_&&_" | "_||_") {
            let before = self.issues.len();
            for (arg, ty) in args.iter().zip(&given) {
                if !self.bindings.assignable(ty, &Type::Bool) {
                    self.mismatch(arg.at, &Type::Bool, ty);
                }
            }
            if self.issues.len() == before {
                self.set(expr, Type::Bool);
                let overloads = function.overloads.iter().collect();
                self.refer(expr, Reference::Call(function, overloads, false));
            }
            return;
        }
        let mut result: Option<Type> = None;
        let mut matching = Vec::new();
        for overload in &function.overloads {
            if overload.member != target.is_some() || overload.args.len() != given.len() {
                continue;
            }
            let Some(found) = self.matches(overload, &given) else { continue };
            matching.push(overload);
            result = Some(match result {
                None => found,
                Some(result) if result.is_dyn() || found.same(&result) => result,
                Some(_) => Type::Dyn,
            });
        }
        match result {
            Some(ty) => {
                self.set(expr, ty);
                self.refer(expr, Reference::Call(function, matching, target.is_some()));
            }
            None => self.no_overload(expr, function, target.is_some(), &given),
        }
    }

    /// The result type, if the arguments fit the overload.
    fn matches(&mut self, overload: &Overload, given: &[Type]) -> Option<Type> {
        if overload.params.is_empty() {
            let given: Vec<&Type> = given.iter().collect();
            let wanted: Vec<&Type> = overload.args.iter().collect();
            return self.bindings.assign_all(&given, &wanted).then(|| overload.result.clone());
        }
        let fresh: Vec<(u32, Type)> =
            overload.params.iter().map(|param| (*param, self.bindings.fresh())).collect();
        let wanted: Vec<Type> = overload.args.iter().map(|arg| instantiate(arg, &fresh)).collect();
        let given: Vec<&Type> = given.iter().collect();
        let wanted: Vec<&Type> = wanted.iter().collect();
        let fits = self.bindings.assign_all(&given, &wanted);
        fits.then(|| self.bindings.resolve(&instantiate(&overload.result, &fresh), false))
    }

    fn no_overload(&mut self, expr: &Expr, function: &Function, member: bool, given: &[Type]) {
        let mut shown: Vec<String> =
            given.iter().map(|ty| self.bindings.resolve(ty, true).to_string()).collect();
        let target = match member && !shown.is_empty() {
            true => format!("{}.", shown.remove(0)),
            false => String::new(),
        };
        let signature = format!("{target}({})", shown.join(", "));
        let name = function.name;
        let text = format!("found no matching overload for '{name}' applied to '{signature}'");
        self.issue(expr.at, text);
    }

    /// The type of an optional item: what is inside.
    fn unwrapped(&mut self, expr: &Expr, optional: bool) -> Type {
        self.check(expr);
        let ty = self.ty(expr);
        match ty {
            Type::Optional(of) if optional => (*of).clone(),
            ty if optional && !ty.is_dyn() => {
                self.mismatch(expr.at, &ty.clone().optional(), &ty);
                ty
            }
            ty => ty,
        }
    }

    fn join(&mut self, expr: &Expr, before: Option<Type>, next: Type) -> Type {
        let Some(before) = before else { return next };
        if self.bindings.assignable(&before, &next) {
            return most_general(&before, &next);
        }
        self.mismatch(expr.at, &before, &next);
        Type::Error
    }

    fn list(&mut self, expr: &Expr, items: &[(Expr, bool)]) {
        let mut of = None;
        for (item, optional) in items {
            let ty = self.unwrapped(item, *optional);
            of = Some(self.join(item, of, ty));
        }
        let of = of.unwrap_or_else(|| self.bindings.fresh());
        self.set(expr, of.list());
    }

    fn map(&mut self, expr: &Expr, entries: &[(Expr, Expr, bool)]) {
        let (mut keys, mut values) = (None, None);
        for (key, value, optional) in entries {
            self.check(key);
            let ty = self.ty(key);
            keys = Some(self.join(key, keys, ty));
            let ty = self.unwrapped(value, *optional);
            values = Some(self.join(value, values, ty));
        }
        let key = keys.unwrap_or_else(|| self.bindings.fresh());
        let value = values.unwrap_or_else(|| self.bindings.fresh());
        self.set(expr, Type::map(key, value));
    }

    fn message(&mut self, expr: &Expr, name: &str, fields: &[(Arc<str>, Expr, bool)]) {
        match self.lookup(name) {
            None => return self.undeclared(expr.at, name),
            Some((_, Reference::Type(Type::Message(name)))) => {
                return self.make(expr, name, fields);
            }
            Some((Type::Type(_), Reference::Type(of))) => {
                self.issue(expr.at, format!("'{}' is not a message type", of.runtime_name()));
            }
            Some((ty, _)) => {
                self.issue(expr.at, format!("'{}' is not a type", ty.runtime_name()));
            }
        }
        fields.iter().for_each(|(_, value, _)| self.check(value));
    }

    fn make(&mut self, expr: &Expr, name: Arc<str>, fields: &[(Arc<str>, Expr, bool)]) {
        for (field, value, optional) in fields {
            let found = self.unwrapped(value, *optional);
            match message::field_type(&name, field) {
                Some(wanted) if self.bindings.assignable(&wanted, &found) => {}
                Some(wanted) => {
                    let text = format!(
                        "expected type of field '{field}' is '{wanted}' but provided type is \
                         '{found}'"
                    );
                    self.issue(value.at, text);
                }
                None => self.issue(value.at, format!("undefined field '{field}'")),
            }
        }
        self.set(expr, Type::Message(name));
    }

    fn function(&self, name: &str) -> Option<&'static Function> {
        functions::find(name).filter(|_| self.patches || !name.starts_with("jsonpatch."))
    }

    fn fold(&mut self, expr: &Expr, fold: &Fold) {
        self.check(&fold.range);
        self.check(&fold.init);
        let range = self.bindings.resolve(&self.ty(&fold.range), false);
        let accu = self.ty(&fold.init);
        let depth = self.scopes.len();
        self.scopes.push((fold.accu.clone(), accu.clone()));
        let two = fold.var2.is_some();
        let (first, second) = match &range {
            Type::List(item) if two => (Type::Int, (**item).clone()),
            Type::List(item) => ((**item).clone(), Type::Error),
            Type::Map(both) => (both.0.clone(), both.1.clone()),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.bindings.assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let text = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be \
                     list, map, or dynamic)"
                );
                self.issue(fold.range.at, text);
                (Type::Error, Type::Error)
            }
        };
        self.scopes.push((fold.var.clone(), first));
        if let Some(var2) = &fold.var2 {
            self.scopes.push((var2.clone(), second));
        }
        self.check(&fold.condition);
        self.assert(&fold.condition, &Type::Bool);
        self.check(&fold.step);
        self.assert(&fold.step, &accu);
        self.scopes.truncate(depth + 1);
        self.check(&fold.result);
        self.scopes.truncate(depth);
        let ty = self.bindings.resolve(&self.ty(&fold.result), false);
        self.set(expr, ty);
    }

    fn assert(&mut self, expr: &Expr, expected: &Type) {
        let found = self.ty(expr);
        if !self.bindings.assignable(expected, &found) {
            self.mismatch(expr.at, expected, &found);
        }
    }
}

fn instantiate(ty: &Type, fresh: &[(u32, Type)]) -> Type {
    match ty {
        Type::Param(param) => {
            let found = fresh.iter().find(|(letter, _)| letter == param);
            found.map_or_else(|| ty.clone(), |(_, fresh)| fresh.clone())
        }
        Type::List(item) => instantiate(item, fresh).list(),
        Type::Optional(item) => instantiate(item, fresh).optional(),
        Type::Map(both) => Type::map(instantiate(&both.0, fresh), instantiate(&both.1, fresh)),
        Type::Type(Some(of)) => Type::Type(Some(Arc::new(instantiate(of, fresh)))),
        _ => ty.clone(),
    }
}
