//! Parses expressions.
//!
//! The reference implementation uses a generated parser whose errors and recovery clients see, so
//! this one keeps the same bookkeeping by hand: what may follow each open rule, single tokens that
//! are dropped or made up, and where reading continues after an error.
//!
//! **Invariant:** no text makes it panic; nesting is bounded by [`DEPTH_MAX`], text by
//! [`CHARS_MAX`], and every round of error recovery is counted.

use super::ast::{Ast, Expr, ExprKind, Literal};
use super::source::{Issue, NOWHERE};
use super::token::{Kind, Set, Token, tokens};

mod grammar;

/// How deep expressions may nest.
pub const DEPTH_MAX: u32 = 250;

/// The longest expression, in characters.
pub const CHARS_MAX: usize = 100_000;

/// How often parsing may go on after an error.
const RECOVER_MAX: u32 = 30;

const NONE: Set = Set(0);

/// Parses a text, or returns everything that is wrong with it.
pub fn parse(text: &str) -> Result<Ast, Vec<Issue>> {
    let size = text.chars().count();
    if size > CHARS_MAX {
        let text =
            format!("expression code point size exceeds limit: size: {size}, limit {CHARS_MAX}");
        return Err(vec![Issue::new(NOWHERE, text)]);
    }
    let (tokens, lexical) = tokens(text);
    let mut parser = Parser {
        text,
        tokens,
        pos: 0,
        lexical,
        issues: Vec::new(),
        recovering: false,
        last: None,
        recoveries: 0,
        follow: Vec::new(),
        nested: 0,
        dead: false,
        maker: Maker::default(),
    };
    let (root, _) = parser.within(Set::of(&[Kind::Eof]), false, Parser::expr);
    parser.expect(Kind::Eof, NONE, true);
    let mut issues = parser.lexical;
    issues.append(&mut parser.issues);
    issues.append(&mut parser.maker.issues);
    match issues.is_empty() {
        true => Ok(Ast { root, ids: parser.maker.next }),
        false => Err(issues),
    }
}

/// Makes nodes, and keeps what is wrong with them.
#[derive(Default)]
pub struct Maker {
    next: u32,
    /// What is wrong.
    pub issues: Vec<Issue>,
}

impl Maker {
    /// Returns a node with a new id.
    pub fn expr(&mut self, at: u32, kind: ExprKind) -> Expr {
        let id = self.next;
        self.next += 1;
        Expr { id, at, kind }
    }

    /// Returns a call of a function.
    pub fn call(&mut self, at: u32, function: &str, args: Vec<Expr>) -> Expr {
        self.expr(at, ExprKind::Call { target: None, function: function.into(), args })
    }

    /// Returns an error, and a node in place of what is wrong.
    pub fn error(&mut self, at: u32, text: impl Into<String>) -> Expr {
        self.issues.push(Issue::new(at, text));
        self.expr(at, ExprKind::Literal(Literal::Null))
    }
}

/// A node and how deep the tree below it is.
type Parsed = (Expr, u32);

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    pos: usize,
    lexical: Vec<Issue>,
    issues: Vec<Issue>,
    recovering: bool,
    /// The last place of recovery, and the rules that recovered there.
    last: Option<(usize, u8)>,
    recoveries: u32,
    /// What may follow each open rule, and whether nothing may.
    follow: Vec<(Set, bool)>,
    nested: u32,
    dead: bool,
    maker: Maker,
}

impl Parser<'_> {
    fn token(&self, ahead: usize) -> Token {
        self.tokens[(self.pos + ahead).min(self.tokens.len() - 1)]
    }

    fn la(&self, ahead: usize) -> Kind {
        self.token(ahead).kind
    }

    /// Takes the current token, which was expected.
    fn take(&mut self) -> Token {
        let token = self.token(0);
        self.pos = (self.pos + 1).min(self.tokens.len() - 1);
        self.recovering = false;
        self.last = None;
        token
    }

    fn take_if(&mut self, kind: Kind) -> Option<Token> {
        (self.la(0) == kind).then(|| self.take())
    }

    fn text_of(&self, token: Token) -> &str {
        &self.text[token.start..token.end]
    }

    fn within<T>(&mut self, follow: Set, nullable: bool, rule: impl FnOnce(&mut Self) -> T) -> T {
        self.follow.push((follow, nullable));
        let out = rule(self);
        self.follow.pop();
        out
    }

    fn report(&mut self, at: u32, text: String) {
        if !self.recovering && !self.dead {
            self.issues.push(Issue::new(at, format!("Syntax error: {text}")));
        }
        self.recovering = true;
    }

    fn shown(&self, token: Token) -> String {
        match token.kind {
            Kind::Eof => "'<EOF>'".to_owned(),
            _ => format!("'{}'", escaped(self.text_of(token))),
        }
    }

    fn unwanted(&mut self, expecting: Set) {
        let token = self.token(0);
        let text = format!("extraneous input {} expecting {}", self.shown(token), expecting.show());
        self.report(token.at, text);
    }

    fn mismatched(&mut self, expecting: Set) {
        let token = self.token(0);
        let text = format!("mismatched input {} expecting {}", self.shown(token), expecting.show());
        self.report(token.at, text);
    }

    /// Reports that the tokens from the current one up to `ahead` begin nothing known.
    fn stuck(&mut self, ahead: usize) {
        let (first, last) = (self.token(0), self.token(ahead));
        let input = match first.kind {
            Kind::Eof => "'<EOF>'".to_owned(),
            _ => format!("'{}'", escaped(&self.text[first.start..last.end])),
        };
        self.report(last.at, format!("no viable alternative at input {input}"));
    }

    /// Makes sure that a token of the set comes next, dropping one that is too much.
    fn sync(&mut self, set: Set) -> bool {
        if set.has(self.la(0)) {
            return true;
        }
        if self.recovering {
            return false;
        }
        if set.has(self.la(1)) && self.la(0) != Kind::Eof {
            self.unwanted(set);
            self.take();
            return true;
        }
        self.mismatched(set);
        false
    }

    /// Takes a token of the kind, dropping one that is too much or making up one that misses.
    fn expect(&mut self, kind: Kind, after: Set, nullable: bool) -> bool {
        if self.la(0) == kind {
            self.take();
            return true;
        }
        if self.la(1) == kind && self.la(0) != Kind::Eof {
            self.unwanted(Set::of(&[kind]));
            self.take();
            self.take();
            return true;
        }
        let mut next = after;
        for (follow, more) in self.follow.iter().rev().take(if nullable { usize::MAX } else { 0 }) {
            next = next.and(*follow);
            if !more {
                break;
            }
        }
        if next.has(self.la(0)) && kind != Kind::Eof {
            let token = self.token(0);
            let text = format!("missing {} at {}", Set::of(&[kind]).show(), self.shown(token));
            self.report(token.at, text);
            return true;
        }
        self.mismatched(Set::of(&[kind]));
        false
    }

    /// Skips to where an open rule can go on.
    fn recover(&mut self, rule: u8) {
        self.recoveries += 1;
        if self.recoveries > RECOVER_MAX {
            return self.die();
        }
        if self.last == Some((self.pos, rule)) {
            self.pos = (self.pos + 1).min(self.tokens.len() - 1);
        }
        self.last = Some((self.pos, rule));
        let set = self.follow.iter().fold(NONE, |set, (follow, _)| set.and(*follow));
        while self.la(0) != Kind::Eof && !set.has(self.la(0)) {
            self.pos += 1;
        }
    }

    fn die(&mut self) {
        self.dead = true;
        self.recovering = true;
        self.pos = self.tokens.len() - 1;
    }

    fn hole(&mut self) -> Parsed {
        let at = self.token(0).at;
        (self.maker.expr(at, ExprKind::Literal(Literal::Null)), 0)
    }

    /// One level more than the deeper of the parts.
    fn deeper(&mut self, parts: &[u32]) -> u32 {
        let depth = parts.iter().copied().max().unwrap_or_default() + 1;
        if depth > DEPTH_MAX && !self.dead {
            self.issues.push(Issue::new(NOWHERE, "max recursion depth exceeded"));
            self.die();
        }
        depth
    }
}

fn escaped(text: &str) -> String {
    text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t")
}
