//! Rewrites an expression of Jinja for the library's parser: operators, attributes, items and slices become calls of functions
//! that do what Python does (see [`crate::template::python::operators`]). All else, such as filters and tests, stays as it is.
//!
//! | Jinja | for the library |
//! | --- | --- |
//! | `a.b['c']` | `apr_get('.[', a, 'b', 'c')` |
//! | `a[1:]` | `apr_slice(a, 1, none, none)` |
//! | `a < b <= c` | `apr_compare('< <=', a, b, c)` |
//! | `a + b - c`, `a * b` | `apr_calculate('+ -', a, b, c)`, `apr_calculate('*', a, b)` |
//! | `a ~ b` | `apr_join(a, b)` |
//! | `-a` | `apr_sign('-', a)` |
//!
//! Chains are one call, so that long ones nest no deeper than short ones.

mod parameters;

pub use parameters::Beyond;

use crate::template::source::ITERATED;
use crate::template::source::tokens::{Kind, Token, meant, spelled, tokens};

/// How deep an expression may nest. 100: the library's parser stops at 150 levels, real templates at 10.
const DEEPEST: usize = 100;

/// An expression, rewritten; `None` for what is none, which the library's parser then refuses.
pub fn expression(inner: &str) -> Option<String> {
    let mut parser = Parser::new(inner)?;
    let out = parser.tuple()?;
    parser.is_at_end().then_some(out)
}

/// The inner text of a block tag, with its expressions rewritten.
/// `beyond` is what a macro or a called block takes
/// beyond its parameters.
pub fn block(inner: &str, iterated: &str, beyond: Beyond) -> Option<String> {
    let mut parser = Parser::new(inner)?;
    let word = parser.next()?.text;
    let out = match word {
        "if" | "elif" | "do" => format!(" {word} {} ", parser.tuple()?),
        "set" => {
            let targets = parser.targets(&["="])?;
            format!(" set {targets} = {} ", parser.tuple()?)
        }
        "with" => {
            let mut all = Vec::new();
            while !parser.is_at_end() {
                let target = parser.targets(&["="])?;
                all.push(format!("{target} = {}", parser.condition()?));
                if !parser.is_at_end() {
                    parser.take(",")?;
                }
            }
            format!(" with {} ", all.join(", "))
        }
        "for" => {
            let targets = parser.targets(&["in"])?;
            let mut all = vec![parser.or()?];
            while parser.skip(",") {
                all.push(parser.or()?);
            }
            let over = if all.len() == 1 { all.remove(0) } else { all.join(", ") };
            let only = if parser.skip("if") { format!(" if {}", parser.condition()?) } else { String::new() };
            let again = if parser.skip("recursive") { " recursive" } else { "" };
            format!(" for {targets} in ({over})|{iterated}{only}{again} ")
        }
        "macro" => {
            let name = parser.next().filter(|name| name.kind == Kind::Name)?.text;
            let (parameters, body) = parser.parameters(beyond)?;
            format!(" macro {name}({parameters}) {body}")
        }
        "call" => {
            let (parameters, body) =
                if parser.is("(") { parser.parameters(beyond)? } else { beyond.without_parameters() };
            let brackets = if parameters.is_empty() { parameters } else { format!("({parameters})") };
            format!(" call{brackets} {} {body}", parser.condition()?)
        }
        _ => return None,
    };
    parser.is_at_end().then_some(out)
}

struct Parser<'s> {
    tokens: Vec<Token<'s>>,
    at: usize,
    depth: usize,
}

impl<'s> Parser<'s> {
    fn new(text: &'s str) -> Option<Parser<'s>> {
        Some(Parser { tokens: tokens(text)?, at: 0, depth: 0 })
    }

    fn peek(&self) -> Option<Token<'s>> {
        self.tokens.get(self.at).copied()
    }

    fn next(&mut self) -> Option<Token<'s>> {
        let token = self.peek()?;
        self.at += 1;
        Some(token)
    }

    fn is_at_end(&self) -> bool {
        self.at == self.tokens.len()
    }

    /// Whether the next token is this sign or word.
    fn is(&self, text: &str) -> bool {
        self.peek().is_some_and(|token| token.text == text && token.kind != Kind::Text)
    }

    fn skip(&mut self, text: &str) -> bool {
        let is = self.is(text);
        self.at += usize::from(is);
        is
    }

    fn take(&mut self, text: &str) -> Option<()> {
        self.skip(text).then_some(())
    }

    /// The tokens before one of `ends`, as they are.
    fn targets(&mut self, ends: &[&str]) -> Option<String> {
        let mut all = Vec::new();
        while !ends.iter().any(|end| self.is(end)) {
            all.push(self.next()?.text);
        }
        self.at += 1;
        (!all.is_empty()).then(|| all.join(" ").replace(" . ", "."))
    }

    fn tuple(&mut self) -> Option<String> {
        let mut all = vec![self.condition()?];
        while self.skip(",") {
            if self.is_at_end() {
                return Some(format!("({},)", all.join(", ")));
            }
            all.push(self.condition()?);
        }
        Some(if all.len() == 1 { all.remove(0) } else { format!("({})", all.join(", ")) })
    }

    fn condition(&mut self) -> Option<String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let mut out = self.or()?;
        while self.skip("if") {
            let test = self.or()?;
            out = match self.skip("else") {
                true => format!("{out} if {test} else {}", self.condition()?),
                false => format!("{out} if {test}"),
            };
        }
        self.depth -= 1;
        Some(out)
    }

    fn or(&mut self) -> Option<String> {
        let mut out = self.and()?;
        while self.skip("or") {
            out = format!("{out} or {}", self.and()?);
        }
        Some(out)
    }

    fn and(&mut self) -> Option<String> {
        let mut out = self.not()?;
        while self.skip("and") {
            out = format!("{out} and {}", self.not()?);
        }
        Some(out)
    }

    fn not(&mut self) -> Option<String> {
        let mut nots = 0;
        while self.skip("not") {
            nots += 1;
        }
        Some("not ".repeat(nots) + &self.compare()?)
    }

    fn compare(&mut self) -> Option<String> {
        let mut chain = Chain::new(self.sum()?);
        while let Some(next) = self.peek().filter(|next| next.kind != Kind::Text) {
            let sign = match next.text {
                sign @ ("==" | "!=" | "<" | "<=" | ">" | ">=" | "in") => sign,
                "not" if self.tokens.get(self.at + 1).is_some_and(|next| next.text == "in") => {
                    self.at += 1;
                    "not-in"
                }
                _ => break,
            };
            self.at += 1;
            chain.push(sign, self.sum()?);
        }
        Some(chain.call("apr_compare"))
    }

    fn sum(&mut self) -> Option<String> {
        let mut chain = Chain::new(self.joined()?);
        while let Some(sign) = self.sign(&["+", "-"]) {
            chain.push(sign, self.joined()?);
        }
        Some(chain.call("apr_calculate"))
    }

    fn joined(&mut self) -> Option<String> {
        let mut all = vec![self.product()?];
        while self.sign(&["~"]).is_some() {
            all.push(self.product()?);
        }
        Some(if all.len() == 1 { all.remove(0) } else { format!("apr_join({})", all.join(", ")) })
    }

    fn product(&mut self) -> Option<String> {
        let mut chain = Chain::new(self.power()?);
        while let Some(sign) = self.sign(&["*", "/", "//", "%"]) {
            chain.push(sign, self.power()?);
        }
        Some(chain.call("apr_calculate"))
    }

    fn power(&mut self) -> Option<String> {
        let mut chain = Chain::new(self.unary(true)?);
        while let Some(sign) = self.sign(&["**"]) {
            chain.push(sign, self.unary(true)?);
        }
        Some(chain.call("apr_calculate"))
    }

    /// The next token, if it is one of these signs.
    fn sign(&mut self, signs: &[&str]) -> Option<&'s str> {
        let token = self.peek().filter(|token| token.kind == Kind::Sign && signs.contains(&token.text))?;
        self.at += 1;
        Some(token.text)
    }

    fn unary(&mut self, with_filters: bool) -> Option<String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let out = match self.sign(&["-", "+"]) {
            Some(sign) => format!("apr_sign('{sign}', {})", self.unary(false)?),
            None => self.postfix()?,
        };
        self.depth -= 1;
        if with_filters { self.filters(out) } else { Some(out) }
    }

    fn postfix(&mut self) -> Option<String> {
        let mut path = Chain::new(self.primary()?);
        loop {
            if self.is(".") {
                self.at += 1;
                let name = self.next()?;
                match name.kind {
                    // A method is called on what has it; a function of this name is a variable's.
                    Kind::Name if self.is("(") => {
                        let arguments = self.arguments()?;
                        path = Chain::new(format!("{}.{}({arguments})", path.call("apr_get"), name.text));
                    }
                    Kind::Name => path.push(".", format!("'{}'", name.text)),
                    Kind::Number if name.text.bytes().all(|b| b.is_ascii_digit()) => {
                        path.push("[", name.text.to_owned());
                    }
                    _ => return None,
                }
            } else if self.skip("[") {
                match self.subscript()? {
                    Subscript::Item(key) => path.push("[", key),
                    Subscript::Slice(bounds) => {
                        path = Chain::new(format!("apr_slice({}, {bounds})", path.call("apr_get")));
                    }
                }
            } else if self.is("(") {
                let arguments = self.arguments()?;
                let called = path.call("apr_get");
                path = Chain::new(match &*called {
                    // A loop that runs again runs over what a loop may.
                    "loop" if !arguments.is_empty() => format!("loop(({arguments})|{ITERATED})"),
                    _ => format!("{called}({arguments})"),
                });
            } else {
                break;
            }
        }
        Some(path.call("apr_get"))
    }

    fn subscript(&mut self) -> Option<Subscript> {
        let mut bounds: Vec<Option<String>> = Vec::new();
        let mut last = None;
        loop {
            if self.skip("]") {
                break;
            }
            if self.skip(":") {
                bounds.push(last.take());
            } else if self.skip(",") {
                let mut all = vec![last.take()?];
                while !self.is("]") {
                    all.push(self.condition()?);
                    if !self.skip(",") {
                        break;
                    }
                }
                self.take("]")?;
                return bounds.is_empty().then(|| Subscript::Item(format!("({},)", all.join(", "))));
            } else if last.is_some() {
                return None;
            } else {
                last = Some(self.condition()?);
            }
        }
        if bounds.is_empty() {
            return last.map(Subscript::Item);
        }
        bounds.push(last);
        bounds.resize(3.max(bounds.len()), None);
        let bounds: Vec<String> =
            bounds.into_iter().map(|bound| bound.unwrap_or_else(|| "none".to_owned())).collect();
        (bounds.len() == 3).then(|| Subscript::Slice(bounds.join(", ")))
    }

    /// The arguments of a call, between its brackets.
    fn arguments(&mut self) -> Option<String> {
        self.take("(")?;
        let mut all = Vec::new();
        while !self.skip(")") {
            let star = self.sign(&["**", "*"]).unwrap_or_default();
            let named = self.peek()?.kind == Kind::Name
                && self
                    .tokens
                    .get(self.at + 1)
                    .is_some_and(|next| next.text == "=" && next.kind == Kind::Sign);
            let mut name = String::new();
            if named {
                name = format!("{}=", self.next()?.text);
                self.at += 1;
            }
            all.push(format!("{star}{name}{}", self.condition()?));
            if !self.skip(",") && !self.is(")") {
                return None;
            }
        }
        Some(all.join(", "))
    }

    /// Filters and tests behind an expression.
    fn filters(&mut self, mut out: String) -> Option<String> {
        loop {
            if self.skip("|") {
                let name = self.dotted()?;
                let arguments = if self.is("(") { format!("({})", self.arguments()?) } else { String::new() };
                out = format!("{out}|{name}{arguments}");
            } else if self.skip("is") {
                let not = if self.skip("not") { "not " } else { "" };
                let name = self.dotted()?;
                out = format!("{out} is {not}{name}");
                let next = self.peek();
                let ends = ["else", "or", "and", "is", "if", "not", "in", "recursive"];
                if self.is("(") {
                    out = format!("{out}({})", self.arguments()?);
                } else if next.is_some_and(|next| {
                    next.kind != Kind::Sign && !(next.kind == Kind::Name && ends.contains(&next.text))
                        || next.kind == Kind::Sign && ["[", "{"].contains(&next.text)
                }) {
                    out = format!("{out}({})", self.postfix()?);
                }
            } else if self.is("(") {
                let arguments = self.arguments()?;
                out = format!("({out})({arguments})");
            } else {
                return Some(out);
            }
        }
    }

    fn dotted(&mut self) -> Option<String> {
        let mut name = self.next().filter(|name| name.kind == Kind::Name)?.text.to_owned();
        while self.skip(".") {
            name = format!("{name}.{}", self.next()?.text);
        }
        Some(name)
    }

    fn primary(&mut self) -> Option<String> {
        let token = self.next()?;
        match (token.kind, token.text) {
            (Kind::Name, "self") if !self.is(".") => Some("apr_unsupported('`self`')".to_owned()),
            (Kind::Name | Kind::Number, text) => Some(text.to_owned()),
            (Kind::Text, first) => {
                let mut all = vec![first];
                while let Some(next) = self.peek().filter(|next| next.kind == Kind::Text) {
                    all.push(next.text);
                    self.at += 1;
                }
                let texts: Option<String> = all.into_iter().map(meant).collect();
                Some(match texts {
                    Some(text) => spelled(&text),
                    None => "apr_unsupported('a string with such an escape')".to_owned(),
                })
            }
            (_, "(") => {
                if self.skip(")") {
                    return Some("()".to_owned());
                }
                let mut all = vec![self.condition()?];
                let mut is_tuple = false;
                while self.skip(",") {
                    is_tuple = true;
                    if self.is(")") {
                        break;
                    }
                    all.push(self.condition()?);
                }
                self.take(")")?;
                Some(match (is_tuple, all.len()) {
                    (true, 1) => format!("({},)", all.remove(0)),
                    _ => format!("({})", all.join(", ")),
                })
            }
            (_, "[") => {
                let mut all = Vec::new();
                while !self.skip("]") {
                    all.push(self.condition()?);
                    if !self.skip(",") && !self.is("]") {
                        return None;
                    }
                }
                Some(format!("[{}]", all.join(", ")))
            }
            (_, "{") => {
                let mut all = Vec::new();
                while !self.skip("}") {
                    let key = self.condition()?;
                    self.take(":")?;
                    all.push(format!("{key}: {}", self.condition()?));
                    if !self.skip(",") && !self.is("}") {
                        return None;
                    }
                }
                // A space, or two brackets would be the end of the tag.
                Some(format!("{{ {} }}", all.join(", ")))
            }
            _ => None,
        }
    }
}

enum Subscript {
    Item(String),
    Slice(String),
}

/// Operands, and the signs between them.
struct Chain {
    signs: Vec<&'static str>,
    operands: Vec<String>,
}

/// The signs of chains.
const SIGNS: [&str; 17] =
    ["==", "!=", "<", "<=", ">", ">=", "in", "not-in", "+", "-", "*", "/", "//", "%", "**", ".", "["];

impl Chain {
    fn new(first: String) -> Chain {
        Chain { signs: Vec::new(), operands: vec![first] }
    }

    fn push(&mut self, sign: &str, operand: String) {
        self.signs.extend(SIGNS.iter().find(|known| **known == sign));
        self.operands.push(operand);
    }

    /// The call of a function with all of it, or the only operand.
    fn call(mut self, function: &str) -> String {
        match self.signs.is_empty() {
            true => self.operands.swap_remove(0),
            false => format!("{function}('{}', {})", self.signs.join(" "), self.operands.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_become_calls() {
        for (given, expected) in [
            (" a.b['c'].0 ", "apr_get('. [ [', a, 'b', 'c', 0)"),
            ("a.b(c.d)[1:]", "apr_slice(a.b(apr_get('.', c, 'd')), 1, none, none)"),
            ("-1|abs ** 2", "apr_calculate('**', apr_sign('-', 1)|abs, 2)"),
            ("a + 'b' * 2 ~ c", "apr_calculate('+', a, apr_join(apr_calculate('*', 'b', 2), c))"),
            ("a < b not in c", "apr_compare('< not-in', a, b, c)"),
            ("not a is not defined and b", "not a is not defined and b"),
            ("a is divisibleby 3 or x", "a is divisibleby(3) or x"),
            (
                "x if y == 1.5e-3 else {'a': [1, (2,)]}",
                "x if apr_compare('==', y, 1.5e-3) else { 'a': [1, (2,)] }",
            ),
            ("f(a, b=c.d, *e)", "f(a, b=apr_get('.', c, 'd'), *e)"),
            ("1, 2", "(1, 2)"),
        ] {
            assert_eq!(expression(given).as_deref(), Some(expected), "{given}");
        }
        for given in ["", "a b", "a +", "(a", "'a", "a[", "{1}", &"(".repeat(100_000)] {
            assert_eq!(expression(given), None, "{given}");
        }
    }

    #[test]
    fn blocks_have_their_expressions_rewritten() {
        for (given, expected) in [
            (" if a.b ", " if apr_get('.', a, 'b') "),
            (
                " for a, b in c.d if e < 1 recursive ",
                " for a , b in (apr_get('.', c, 'd'))|i if apr_compare('<', e, 1) recursive ",
            ),
            ("set ns.x = ns.x + 1", " set ns.x = apr_calculate('+', apr_get('.', ns, 'x'), 1) "),
            ("for x in 1, 2", " for x in (1, 2)|i "),
            ("with a = b.c, d = 1", " with a = apr_get('.', b, 'c'), d = 1 "),
            ("macro m(a, b=c.d)", " macro m(a, b=apr_get('.', c, 'd')) "),
            (
                "macro m(a, b=a|c(a=b))",
                " macro m(a, b=apr_missing) %}{% set b = (a|c(a=apr_missing)) if b is undefined else b ",
            ),
            ("call(a) m(b.c)", " call(a) m(apr_get('.', b, 'c')) "),
        ] {
            assert_eq!(block(given, "i", Beyond::default()).as_deref(), Some(expected), "{given}");
        }
        for given in ["else", "set x", "macro m(a", "macro m(a b)", "call", "set x | upper"] {
            assert_eq!(block(given, "i", Beyond::default()), None, "{given}");
        }
    }
}
