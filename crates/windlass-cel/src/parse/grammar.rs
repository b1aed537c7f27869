//! The rules of the grammar.

use std::sync::Arc;

use super::{DEPTH_MAX, Maker, NONE, Parsed, Parser};
use crate::ast::{Expr, ExprKind, Literal};
use crate::escape::RESERVED;
use crate::source::{Issue, NOWHERE};
use crate::token::{Kind, Set};
use crate::{literal, macros};

const LITERAL: Set = Set::of(&[
    Kind::Minus,
    Kind::True,
    Kind::False,
    Kind::Null,
    Kind::Float,
    Kind::Int,
    Kind::Uint,
    Kind::Str,
    Kind::Bytes,
]);
const PRIMARY: Set =
    Set::of(&[Kind::OpenBracket, Kind::OpenBrace, Kind::OpenParen, Kind::Dot, Kind::Ident])
        .and(LITERAL);
const START: Set = PRIMARY.and(Set::of(&[Kind::Not]));
const RELATION: Set = Set::of(&[
    Kind::Equals,
    Kind::NotEquals,
    Kind::In,
    Kind::Less,
    Kind::LessEquals,
    Kind::GreaterEquals,
    Kind::Greater,
]);
const PRODUCT: Set = Set::of(&[Kind::Star, Kind::Slash, Kind::Percent]);
const SUM: Set = Set::of(&[Kind::Plus, Kind::Minus]);
const OPERATORS: Set =
    RELATION.and(PRODUCT).and(SUM).and(Set::of(&[Kind::And, Kind::Or, Kind::Question]));
const SUFFIX: Set = Set::of(&[Kind::Dot, Kind::OpenBracket]);
const NAME: Set = Set::of(&[Kind::Ident, Kind::QuotedIdent]);

impl Parser<'_> {
    pub(super) fn expr(&mut self) -> Parsed {
        if self.nested >= DEPTH_MAX || self.dead {
            if !self.dead {
                let text = format!("expression recursion limit exceeded: {DEPTH_MAX}");
                self.issues.push(Issue::new(NOWHERE, text));
            }
            self.die();
            return self.hole();
        }
        self.nested += 1;
        let out = self.conditional();
        self.nested -= 1;
        out
    }

    fn conditional(&mut self) -> Parsed {
        let (condition, depth) = self.within(OPERATORS, true, |p| p.logic(Kind::Or));
        let Some(op) = self.take_if(Kind::Question) else { return (condition, depth) };
        let follow = OPERATORS.and(Set::of(&[Kind::Colon]));
        let (yes, yes_depth) = self.within(follow, false, |p| p.logic(Kind::Or));
        if !self.expect(Kind::Colon, START, false) {
            self.recover(1);
            return self.hole();
        }
        let (no, no_depth) = self.expr();
        let depth = self.deeper(&[depth, yes_depth, no_depth]);
        (self.maker.call(op.at, "_?_:_", vec![condition, yes, no]), depth)
    }

    /// A chain of `||` or `&&`, as a balanced tree.
    fn logic(&mut self, kind: Kind) -> Parsed {
        let (first, mut depth) = self.operand_of(kind);
        if self.la(0) != kind {
            return (first, depth);
        }
        let mut terms = vec![Some(first)];
        let mut ops = Vec::new();
        while let Some(op) = self.take_if(kind) {
            let (term, term_depth) = self.operand_of(kind);
            depth = depth.max(term_depth);
            terms.push(Some(term));
            ops.push(op.at);
        }
        let name = if kind == Kind::Or { "_||_" } else { "_&&_" };
        (balance(&mut self.maker, name, &mut terms, &ops), depth)
    }

    fn operand_of(&mut self, kind: Kind) -> Parsed {
        match kind {
            Kind::Or => self.logic(Kind::And),
            _ => self.relation(),
        }
    }

    fn relation(&mut self) -> Parsed {
        let (mut left, mut depth) = self.calc(1);
        while RELATION.has(self.la(0)) && !self.dead {
            let op = self.take();
            let (right, right_depth) = self.calc(1);
            depth = self.deeper(&[depth, right_depth]);
            left = self.maker.call(op.at, operator(op.kind), vec![left, right]);
        }
        (left, depth)
    }

    fn calc(&mut self, least: u8) -> Parsed {
        let (mut left, mut depth) = self.unary();
        loop {
            let level = match self.la(0) {
                kind if PRODUCT.has(kind) => 2,
                kind if SUM.has(kind) => 1,
                _ => 0,
            };
            if level < least || self.dead {
                return (left, depth);
            }
            let op = self.take();
            let (right, right_depth) = self.calc(level + 1);
            depth = self.deeper(&[depth, right_depth]);
            left = self.maker.call(op.at, operator(op.kind), vec![left, right]);
        }
    }

    fn unary(&mut self) -> Parsed {
        if !self.sync(START) {
            self.recover(2);
            return self.hole();
        }
        let (kind, name) = match self.la(0) {
            Kind::Not => (Kind::Not, "!_"),
            Kind::Minus if !matches!(self.la(1), Kind::Int | Kind::Float) => (Kind::Minus, "-_"),
            _ => return self.member(),
        };
        let at = self.token(0).at;
        let mut odd = false;
        while self.la(0) == kind {
            if kind == Kind::Minus && !PRIMARY.has(self.la(1)) {
                self.stuck(1);
                self.recover(2);
                return self.hole();
            }
            self.take();
            odd = !odd;
        }
        let (operand, depth) = self.member();
        match odd {
            true => (self.maker.call(at, name, vec![operand]), depth),
            false => (operand, depth),
        }
    }

    fn member(&mut self) -> Parsed {
        let (mut expr, mut depth) = self.within(SUFFIX, true, Self::primary);
        while SUFFIX.has(self.la(0)) && !self.dead {
            let next = match self.la(0) {
                Kind::Dot => self.dotted(expr, depth),
                _ => self.index(expr, depth),
            };
            match next {
                Ok(next) => (expr, depth) = next,
                Err(()) => {
                    self.recover(3);
                    return self.hole();
                }
            }
        }
        (expr, depth)
    }

    fn dotted(&mut self, operand: Expr, depth: u32) -> Result<Parsed, ()> {
        if self.la(1) == Kind::Ident && self.la(2) == Kind::OpenParen {
            self.take();
            let name = self.take();
            let open = self.take();
            let (args, args_depth) = self.args()?;
            if !self.expect(Kind::CloseParen, SUFFIX, true) {
                return Err(());
            }
            let depth = self.deeper(&[depth, args_depth]);
            let name = self.text[name.start..name.end].to_owned();
            let call = macros::member(&mut self.maker, open.at, &name, operand, args);
            return Ok((call, depth));
        }
        if !matches!(self.la(1), Kind::Question | Kind::Ident | Kind::QuotedIdent) {
            self.stuck(1);
            return Err(());
        }
        let op = self.take();
        let optional = self.take_if(Kind::Question).is_some();
        let field = self.name()?;
        let depth = self.deeper(&[depth]);
        let at = self.tokens[self.pos.saturating_sub(1)].at;
        Ok((
            match optional {
                true => {
                    let field = self.maker.expr(at, ExprKind::Literal(Literal::Str(field)));
                    self.maker.call(op.at, "_?._", vec![operand, field])
                }
                false => {
                    let operand = Box::new(operand);
                    self.maker.expr(op.at, ExprKind::Select { operand, field, test: false })
                }
            },
            depth,
        ))
    }

    /// The name of a field.
    fn name(&mut self) -> Result<Arc<str>, ()> {
        if !NAME.has(self.la(0)) {
            self.stuck(0);
            return Err(());
        }
        let token = self.take();
        if token.kind == Kind::QuotedIdent {
            self.maker.issues.push(Issue::new(token.at, "unsupported syntax: '`'"));
        }
        Ok(self.text_of(token).into())
    }

    fn index(&mut self, operand: Expr, depth: u32) -> Result<Parsed, ()> {
        let op = self.take();
        if !self.sync(START.and(Set::of(&[Kind::Question]))) {
            return Err(());
        }
        let name = match self.take_if(Kind::Question) {
            Some(_) => "_[?_]",
            None => "_[_]",
        };
        let close = Set::of(&[Kind::CloseBracket]);
        let (index, index_depth) = self.within(close, false, Self::expr);
        if !self.expect(Kind::CloseBracket, SUFFIX, true) {
            return Err(());
        }
        let depth = self.deeper(&[depth, index_depth]);
        Ok((self.maker.call(op.at, name, vec![operand, index]), depth))
    }

    /// Arguments up to the closing parenthesis, which is not taken.
    fn args(&mut self) -> Result<(Vec<Expr>, u32), ()> {
        let close = Set::of(&[Kind::CloseParen]);
        if !self.sync(START.and(close)) {
            return Err(());
        }
        let (mut args, mut depth) = (Vec::new(), 0);
        if self.la(0) == Kind::CloseParen {
            return Ok((args, depth));
        }
        self.follow.push((close, false));
        loop {
            let (arg, arg_depth) = self.within(Set::of(&[Kind::Comma]), true, Self::expr);
            depth = depth.max(arg_depth);
            args.push(arg);
            if self.dead || self.take_if(Kind::Comma).is_none() {
                break;
            }
        }
        self.follow.pop();
        Ok((args, depth))
    }

    fn primary(&mut self) -> Parsed {
        let parsed = match self.sync(PRIMARY) {
            false => Err(()),
            true => match self.la(0) {
                Kind::Ident | Kind::Dot => self.named(),
                Kind::OpenParen => self.nested(),
                Kind::OpenBracket => self.list(),
                Kind::OpenBrace => self.map(),
                _ => self.literal(),
            },
        };
        parsed.unwrap_or_else(|()| {
            self.recover(4);
            self.hole()
        })
    }

    fn named(&mut self) -> Result<Parsed, ()> {
        let dot = usize::from(self.la(0) == Kind::Dot);
        if self.la(dot) != Kind::Ident {
            self.stuck(1);
            return Err(());
        }
        let mut end = dot + 1;
        while self.la(end) == Kind::Dot && self.la(end + 1) == Kind::Ident {
            end += 2;
        }
        if self.la(end) == Kind::OpenBrace {
            return self.message(end);
        }
        let at = self.token(0).at;
        if dot == 1 {
            self.take();
        }
        let token = self.take();
        let id = self.text_of(token).to_owned();
        let name = if dot == 1 { format!(".{id}") } else { id.clone() };
        let open = self.take_if(Kind::OpenParen);
        let parsed = match open {
            Some(open) => {
                let (args, depth) = self.args()?;
                if !self.expect(Kind::CloseParen, NONE, true) {
                    return Err(());
                }
                (Some((open, args)), depth)
            }
            None => (None, 0),
        };
        if RESERVED.contains(&id.as_str()) {
            return Ok((self.maker.error(at, format!("reserved identifier: {id}")), parsed.1));
        }
        Ok(match parsed {
            (Some((open, args)), depth) => {
                (macros::global(&mut self.maker, open.at, &name, args), depth)
            }
            (None, depth) => (self.maker.expr(token.at, ExprKind::Ident(name.into())), depth),
        })
    }

    fn nested(&mut self) -> Result<Parsed, ()> {
        self.take();
        let parsed = self.within(Set::of(&[Kind::CloseParen]), false, Self::expr);
        if !self.expect(Kind::CloseParen, NONE, true) {
            return Err(());
        }
        Ok(parsed)
    }

    fn list(&mut self) -> Result<Parsed, ()> {
        let close = Set::of(&[Kind::Comma, Kind::CloseBracket]);
        let first = START.and(Set::of(&[Kind::Question]));
        let at = self.take().at;
        if !self.sync(first.and(close)) {
            return Err(());
        }
        let (mut items, mut depth) = (Vec::new(), 0);
        if first.has(self.la(0)) {
            self.follow.push((close, false));
            loop {
                let optional = self.take_if(Kind::Question).is_some();
                let (item, item_depth) = self.within(Set::of(&[Kind::Comma]), true, Self::expr);
                depth = depth.max(item_depth);
                items.push((item, optional));
                if self.dead || self.la(0) != Kind::Comma || !first.has(self.la(1)) {
                    break;
                }
                self.take();
            }
            self.follow.pop();
        }
        self.close(close, Kind::CloseBracket)?;
        Ok((self.maker.expr(at, ExprKind::List(items)), depth))
    }

    /// An optional last comma, and the closing token.
    fn close(&mut self, either: Set, kind: Kind) -> Result<(), ()> {
        if !self.sync(either) {
            return Err(());
        }
        self.take_if(Kind::Comma);
        if self.expect(kind, NONE, true) { Ok(()) } else { Err(()) }
    }

    fn map(&mut self) -> Result<Parsed, ()> {
        let close = Set::of(&[Kind::Comma, Kind::CloseBrace]);
        let first = START.and(Set::of(&[Kind::Question]));
        let at = self.take().at;
        if !self.sync(first.and(close)) {
            return Err(());
        }
        let (mut entries, mut depth) = (Vec::new(), 0);
        if first.has(self.la(0)) {
            self.follow.push((close, false));
            loop {
                let optional = self.take_if(Kind::Question).is_some();
                let (key, key_depth) = self.within(Set::of(&[Kind::Colon]), false, Self::expr);
                if !self.expect(Kind::Colon, START, false) {
                    self.recover(5);
                    break;
                }
                let (value, value_depth) = self.within(Set::of(&[Kind::Comma]), true, Self::expr);
                depth = depth.max(key_depth).max(value_depth);
                entries.push((key, value, optional));
                if self.dead || self.la(0) != Kind::Comma || !first.has(self.la(1)) {
                    break;
                }
                self.take();
            }
            self.follow.pop();
        }
        self.close(close, Kind::CloseBrace)?;
        Ok((self.maker.expr(at, ExprKind::Map(entries)), depth))
    }

    fn message(&mut self, brace: usize) -> Result<Parsed, ()> {
        let mut name = String::new();
        for _ in 0..brace {
            let token = self.take();
            name.push_str(&self.text[token.start..token.end]);
        }
        let close = Set::of(&[Kind::Comma, Kind::CloseBrace]);
        let first = NAME.and(Set::of(&[Kind::Question]));
        let at = self.take().at;
        if !self.sync(first.and(close)) {
            return Err(());
        }
        let (mut fields, mut depth) = (Vec::new(), 0);
        if first.has(self.la(0)) {
            self.follow.push((close, false));
            loop {
                let optional = self.take_if(Kind::Question).is_some();
                let field = self.name();
                if field.is_err() || !self.expect(Kind::Colon, START, false) {
                    self.recover(6);
                    break;
                }
                let (value, value_depth) = self.within(Set::of(&[Kind::Comma]), true, Self::expr);
                depth = depth.max(value_depth);
                fields.push((field.unwrap_or_default(), value, optional));
                if self.dead || self.la(0) != Kind::Comma || !first.has(self.la(1)) {
                    break;
                }
                self.take();
            }
            self.follow.pop();
        }
        self.close(close, Kind::CloseBrace)?;
        Ok((self.maker.expr(at, ExprKind::Struct(name.into(), fields)), depth))
    }

    fn literal(&mut self) -> Result<Parsed, ()> {
        let at = self.token(0).at;
        let minus = self.la(0) == Kind::Minus;
        if minus && !matches!(self.la(1), Kind::Int | Kind::Float) {
            self.stuck(1);
            return Err(());
        }
        if minus {
            self.take();
        }
        let token = self.take();
        let text = &self.text[token.start..token.end];
        Ok(match literal::value(token.kind, text, minus) {
            Ok(value) => (self.maker.expr(at, ExprKind::Literal(value)), 0),
            Err(error) => (self.maker.error(at, error), 0),
        })
    }
}

fn balance(maker: &mut Maker, name: &str, terms: &mut [Option<Expr>], ops: &[u32]) -> Expr {
    if let [term] = terms {
        return term.take().unwrap_or_else(|| maker.expr(0, ExprKind::Literal(Literal::Null)));
    }
    let mid = ops.len() / 2;
    let (left, right) = terms.split_at_mut(mid + 1);
    let left = balance(maker, name, left, &ops[..mid]);
    let right = balance(maker, name, right, &ops[mid + 1..]);
    maker.call(ops[mid], name, vec![left, right])
}

fn operator(kind: Kind) -> &'static str {
    match kind {
        Kind::Equals => "_==_",
        Kind::NotEquals => "_!=_",
        Kind::In => "@in",
        Kind::Less => "_<_",
        Kind::LessEquals => "_<=_",
        Kind::GreaterEquals => "_>=_",
        Kind::Greater => "_>_",
        Kind::Plus => "_+_",
        Kind::Minus => "_-_",
        Kind::Star => "_*_",
        Kind::Slash => "_/_",
        _ => "_%_",
    }
}
