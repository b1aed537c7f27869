//! Runs programs.
//!
//! **Invariant:** every step is charged before or right after it is done, and nothing absorbs an
//! exceeded limit, so no program runs longer than its limit allows. What a charge does not cover
//! is counted by [`meter`](super::meter).

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_text::work;

use super::library::{self, show};
use super::message::Message;
use super::plan::{Access, Call, Loop, Node, Plan};
use super::value::{Fault, Map, Res, Val, fault, hash};

/// Runs a program; returns what it cost, too.
pub fn run<'a>(plan: &'a Plan, variables: &'a [Res<'a>], limit: u64) -> (Res<'a>, u64) {
    let mut machine = Machine { variables, locals: Vec::new(), cost: 0, limit };
    machine.locals.resize_with(plan.slots, || Local::Unset);
    let result = machine.eval(&plan.root);
    (result, machine.cost)
}

struct Machine<'a> {
    variables: &'a [Res<'a>],
    locals: Vec<Local<'a>>,
    cost: u64,
    limit: u64,
}

enum Local<'a> {
    Unset,
    Lazy(&'a Node),
    Value(Res<'a>),
}

impl<'a> Machine<'a> {
    fn charge(&mut self, cost: u64) -> Result<(), Fault> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit || work::is_over() { Err(Fault::Cost) } else { Ok(()) }
    }

    fn eval(&mut self, node: &'a Node) -> Res<'a> {
        work::spent(1);
        self.attribute(node, false)
    }

    /// Evaluates a step; with `free`, the base of a name is not charged.
    fn attribute(&mut self, node: &'a Node, free: bool) -> Res<'a> {
        match node {
            Node::Const(value) => Ok(value.clone()),
            Node::Variable(index) => {
                self.charge(u64::from(!free))?;
                let unknown = || fault("no such attribute(s)");
                self.variables.get(*index).map_or_else(unknown, Clone::clone)
            }
            Node::Local(slot) => {
                let value = self.local(*slot);
                self.charge(u64::from(!free))?;
                value
            }
            Node::Field(access) | Node::Index(access) => self.access(access, free),
            Node::Has(access) => self.has(access),
            Node::And(both) => self.logic(both, false),
            Node::Or(both) => self.logic(both, true),
            Node::Ternary(parts) => match self.eval(&parts.0)? {
                Val::Bool(true) => self.attribute(&parts.1, true),
                Val::Bool(false) => self.attribute(&parts.2, true),
                _ => fault("no such overload"),
            },
            Node::NotStrictlyFalse(inner) => {
                let value = self.eval(inner);
                self.charge(1)?;
                match value {
                    Ok(Val::Bool(value)) => Ok(Val::Bool(value)),
                    Err(Fault::Cost) => Err(Fault::Cost),
                    _ => Ok(Val::Bool(true)),
                }
            }
            Node::Call(call) => self.call(call),
            Node::OrElse(parts) => match (self.eval(&parts.0)?, parts.2) {
                (Val::Opt(Some(value)), true) => Ok((*value).clone()),
                (Val::Opt(None), _) => self.eval(&parts.1),
                (other, _) => Ok(other),
            },
            Node::InSet(parts) => {
                let value = self.eval(&parts.0)?;
                let (items, buckets) = &parts.1;
                let mut found = buckets.candidates(hash(&value));
                Ok(Val::Bool(found.any(|at| items[at].equals(&value))))
            }
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Message(name, fields) => self.message(name, fields),
            Node::Fold(fold) => self.fold(fold),
            Node::Bind(parts) => {
                self.locals[parts.0] = Local::Lazy(&parts.1);
                self.eval(&parts.2)
            }
            Node::Push(slot, item) => self.push(*slot, item),
            Node::Put(slot, args) => self.put(*slot, args),
        }
    }

    fn local(&mut self, slot: usize) -> Res<'a> {
        match self.locals.get(slot) {
            Some(Local::Value(value)) => value.clone(),
            Some(Local::Lazy(node)) => {
                let node = *node;
                let value = self.eval(node);
                self.locals[slot] = Local::Value(value.clone());
                value
            }
            _ => fault("no such attribute(s)"),
        }
    }

    fn access(&mut self, access: &'a Access, free: bool) -> Res<'a> {
        let relative = !access.operand.is_attribute();
        let operand = self.attribute(&access.operand, free)?;
        let (operand, optional) = match operand {
            Val::Opt(None) => return Ok(Val::Opt(None)),
            Val::Opt(Some(value)) => ((*value).clone(), true),
            other => (other, access.optional),
        };
        let key = self.attribute(&access.key, true)?;
        let found = look(&operand, &key, optional)?;
        if relative && !free {
            self.charge(1)?;
        }
        match found {
            Some(value) => {
                self.charge(1)?;
                Ok(if optional { Val::some(value) } else { value })
            }
            None => Ok(Val::Opt(None)),
        }
    }

    fn has(&mut self, access: &'a Access) -> Res<'a> {
        let operand = self.eval(&access.operand)?;
        if !access.operand.is_attribute() {
            self.charge(1)?;
        }
        let operand = match operand {
            Val::Opt(None) => return Ok(Val::Bool(false)),
            Val::Opt(Some(value)) => (*value).clone(),
            other => other,
        };
        let key = self.eval(&access.key)?;
        match operand {
            Val::Map(map) => Ok(Val::Bool(map.get(&key).is_some())),
            Val::Message(message) => {
                let set = |field: &str| message.fields.contains_key(field);
                Ok(Val::Bool(matches!(&key, Val::Str(field) if set(field))))
            }
            _ => Ok(Val::Bool(false)),
        }
    }

    /// `&&` and `||`: one deciding side absorbs an error of the other.
    fn logic(&mut self, both: &'a (Node, Node), deciding: bool) -> Res<'a> {
        let mut error = None;
        for side in [&both.0, &both.1] {
            match self.eval(side) {
                Ok(Val::Bool(value)) if value == deciding => return Ok(Val::Bool(deciding)),
                Ok(Val::Bool(_)) => {}
                Ok(_) => error = error.or(Some(Fault::Error("no such overload".into()))),
                Err(Fault::Cost) => return Err(Fault::Cost),
                Err(fault) => error = error.or(Some(fault)),
            }
        }
        error.map_or(Ok(Val::Bool(!deciding)), Err)
    }

    fn call(&mut self, call: &'a Call) -> Res<'a> {
        match call.args.as_slice() {
            [] => self.apply(call, &[]),
            [one] => {
                let one = self.eval(one)?;
                self.apply(call, &[one])
            }
            [one, two] => {
                let (one, two) = (self.eval(one), self.eval(two));
                // A limit exceeded on either side wins over an error.
                let (one, two) = match (one, two) {
                    (Err(Fault::Cost), _) | (_, Err(Fault::Cost)) => return Err(Fault::Cost),
                    (one, two) => (one?, two?),
                };
                self.apply(call, &[one, two])
            }
            many => {
                let mut args = Vec::with_capacity(many.len());
                for arg in many {
                    args.push(self.eval(arg)?);
                }
                self.apply(call, &args)
            }
        }
    }

    fn apply(&mut self, call: &'a Call, args: &[Val<'a>]) -> Res<'a> {
        let late = call.charge.needs_result();
        if !late {
            self.charge(call.charge.cost(args, None))?;
        }
        let name = call.function.name;
        let result = match &call.regex {
            Some(regex) => library::regex::apply(name, regex, args),
            None => match library::regex::compile(name, args) {
                Some((regex, cost)) => {
                    self.charge(cost)?;
                    library::regex::apply(name, &regex?, args)
                }
                None => (call.function.code)(name, args),
            },
        };
        if late && let Ok(result) = &result {
            self.charge(call.charge.cost(args, Some(result)))?;
        }
        result
    }

    fn list(&mut self, items: &'a [(Node, bool)]) -> Res<'a> {
        let mut out = Vec::with_capacity(items.len());
        for (item, optional) in items {
            match (self.eval(item)?, optional) {
                (Val::Opt(None), true) => {}
                (Val::Opt(Some(value)), true) => out.push((*value).clone()),
                (value, _) => out.push(value),
            }
        }
        self.charge(10)?;
        Ok(Val::list(out))
    }

    fn map(&mut self, entries: &'a [(Node, Node, bool)]) -> Res<'a> {
        let mut out = Vec::with_capacity(entries.len());
        for (key, value, optional) in entries {
            let key = self.eval(key)?;
            match (self.eval(value)?, optional) {
                (Val::Opt(None), true) => {}
                (Val::Opt(Some(value)), true) => out.push((key, (*value).clone())),
                (value, _) => out.push((key, value)),
            }
        }
        self.charge(30)?;
        map_of(out)
    }

    fn message(&mut self, name: &Arc<str>, fields: &'a [(Arc<str>, Node, bool)]) -> Res<'a> {
        let mut out = BTreeMap::new();
        for (field, value, optional) in fields {
            match (self.eval(value)?, optional) {
                (Val::Opt(None), true) => {}
                (Val::Opt(Some(value)), true) => drop(out.insert(field.clone(), (*value).clone())),
                (value, _) => drop(out.insert(field.clone(), value)),
            }
        }
        self.charge(40)?;
        Ok(Val::Message(Arc::new(Message { name: name.clone(), fields: out })))
    }

    fn fold(&mut self, fold: &'a Loop) -> Res<'a> {
        let range = self.eval(&fold.range)?;
        let (accu, var, var2) = fold.slots;
        let init = self.eval(&fold.init);
        if matches!(init, Err(Fault::Cost)) {
            return Err(Fault::Cost);
        }
        self.locals[accu] = Local::Value(init);
        match range {
            Val::List(list) => {
                for index in 0..list.len() {
                    let item = list.get(index).unwrap_or_else(|| fault("no such item"));
                    match var2 {
                        Some(var2) => {
                            self.locals[var] = Local::Value(Ok(Val::Int(index as i64)));
                            self.locals[var2] = Local::Value(item);
                        }
                        None => self.locals[var] = Local::Value(item),
                    }
                    if !self.round(fold, accu)? {
                        break;
                    }
                }
            }
            Val::Map(map) => {
                for key in map.keys() {
                    if let Some(var2) = var2 {
                        let value = map.get(&key).unwrap_or_else(|| missing(&key));
                        self.locals[var2] = Local::Value(value);
                    }
                    self.locals[var] = Local::Value(Ok(key));
                    if !self.round(fold, accu)? {
                        break;
                    }
                }
            }
            _ => {
                let text = "got '%s', expected iterable type";
                return fault(text.replace("%s", &range.type_name()));
            }
        }
        self.eval(&fold.result)
    }

    /// One round of a loop; false if it was the last.
    fn round(&mut self, fold: &'a Loop, accu: usize) -> Result<bool, Fault> {
        if let Some(condition) = &fold.condition {
            match self.eval(condition) {
                Ok(Val::Bool(false)) => return Ok(false),
                Err(Fault::Cost) => return Err(Fault::Cost),
                _ => {}
            }
        }
        let next = self.eval(&fold.step);
        if matches!(next, Err(Fault::Cost)) {
            return Err(Fault::Cost);
        }
        self.locals[accu] = Local::Value(next);
        Ok(true)
    }

    /// Takes the accumulator out of its place, so that it can be changed without a copy.
    fn take(&mut self, slot: usize) -> Result<Res<'a>, Fault> {
        self.charge(1)?;
        Ok(match std::mem::replace(&mut self.locals[slot], Local::Unset) {
            Local::Value(value) => value,
            _ => fault("no such attribute(s)"),
        })
    }

    fn push(&mut self, slot: usize, item: &'a Node) -> Res<'a> {
        let accu = self.take(slot)?;
        let item = self.eval(item);
        if matches!(item, Err(Fault::Cost)) {
            return Err(Fault::Cost);
        }
        let accu = accu?;
        let item = item?;
        self.charge(11)?;
        library::add_in_place(accu, item)
    }

    fn put(&mut self, slot: usize, args: &'a [Node]) -> Res<'a> {
        let accu = self.take(slot)?;
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(self.eval(arg)?);
        }
        self.charge(1)?;
        library::insert(accu?, &values)
    }
}

fn missing<'a>(key: &Val<'_>) -> Res<'a> {
    fault(format!("no such key: {}", show(key)))
}

/// What is at a key or index; what misses is an error unless it may.
fn look<'a>(operand: &Val<'a>, key: &Val<'a>, optional: bool) -> Result<Option<Val<'a>>, Fault> {
    match operand {
        Val::Map(map) => match map.get(key) {
            Some(value) => value.map(Some),
            None if optional => Ok(None),
            None => missing(key).map(Some),
        },
        Val::List(list) => {
            let index = match key {
                Val::Int(index) => *index,
                Val::Uint(index) => i64::try_from(*index).unwrap_or(-1),
                Val::Double(index) if index.fract() == 0.0 => *index as i64,
                Val::Double(_) => {
                    return fault(format!("unsupported index value {} in list", show(key)));
                }
                _ => {
                    let ty = key.type_name();
                    return fault(format!("unsupported index type '{ty}' in list"));
                }
            };
            match usize::try_from(index).ok().and_then(|index| list.get(index)) {
                Some(value) => value.map(Some),
                None if optional => Ok(None),
                None => fault(format!("index out of bounds: {index}")),
            }
        }
        Val::Message(message) => {
            let found = match key {
                Val::Str(field) => message.get(field),
                _ => None,
            };
            if found.is_some() || optional { Ok(found) } else { missing(key).map(Some) }
        }
        _ if optional => Ok(None),
        _ => missing(key).map(Some),
    }
}

/// Returns a map of entries; a key that repeats is an error.
pub fn map_of<'a>(entries: Vec<(Val<'a>, Val<'a>)>) -> Res<'a> {
    let mut out = BTreeMap::new();
    for (key, value) in entries {
        let Some(found) = key.key() else {
            return fault(format!("unsupported key type: {}", key.type_name()));
        };
        out.insert(found, (key, value));
    }
    Ok(Val::Map(Map::Owned(Arc::new(out))))
}
