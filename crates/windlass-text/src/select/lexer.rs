//! Tokens of label selectors.

/// A token and the text it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) text: String,
}

/// The kinds of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Close,
    Comma,
    Not,
    DoubleEquals,
    End,
    Equals,
    Error,
    Greater,
    Identifier,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
}

/// All tokens of a text; the last one is [`Kind::End`].
pub(super) fn tokens(text: &str) -> Vec<Token> {
    // A NUL byte ends the text, as in the original lexer.
    let mut rest = text.split('\0').next().unwrap_or_default();
    let mut out = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let Some(first) = rest.chars().next() else {
            out.push(Token { kind: Kind::End, text: String::new() });
            return out;
        };
        let (token, length) = if is_special(first) { symbol(rest) } else { word(rest) };
        out.push(token);
        rest = &rest[length..];
    }
}

fn word(rest: &str) -> (Token, usize) {
    let ends = |c: char| is_special(c) || matches!(c, ' ' | '\t' | '\r' | '\n');
    let length = rest.find(ends).unwrap_or(rest.len());
    let text = rest[..length].to_owned();
    (Token { kind: kind_of(&text).unwrap_or(Kind::Identifier), text }, length)
}

/// The longest operator, growing by one symbol at a time.
fn symbol(rest: &str) -> (Token, usize) {
    let run = rest.find(|c: char| !is_special(c)).unwrap_or(rest.len());
    let mut best = None;
    for length in 1..=run {
        match kind_of(&rest[..length]) {
            Some(kind) => best = Some((kind, length)),
            None if best.is_some() => break,
            None => {}
        }
    }
    match best {
        Some((kind, length)) => (Token { kind, text: rest[..length].to_owned() }, length),
        None => {
            let text = format!("error expected: keyword found '{}'", &rest[..run]);
            (Token { kind: Kind::Error, text }, run)
        }
    }
}

fn is_special(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn kind_of(text: &str) -> Option<Kind> {
    Some(match text {
        ")" => Kind::Close,
        "," => Kind::Comma,
        "!" => Kind::Not,
        "==" => Kind::DoubleEquals,
        "=" => Kind::Equals,
        ">" => Kind::Greater,
        "in" => Kind::In,
        "<" => Kind::Less,
        "!=" => Kind::NotEquals,
        "notin" => Kind::NotIn,
        "(" => Kind::Open,
        _ => return None,
    })
}
