//! The parameters of macros and of called blocks.

use super::Parser;
use crate::template::source::tokens::Kind;
use std::ops::Range;

/// A variable that no template has.
const MISSING: &str = "apr_missing";

/// A parameter of a macro, with the places of its default's tokens.
struct Parameter<'s> {
    name: &'s str,
    default: Option<Range<usize>>,
}

impl<'s> Parser<'s> {
    /// The parameters of a macro, and tags that set those whose defaults name parameters. Jinja knows the ones before,
    /// and no other; the library looks for all of them outside the macro.
    pub(super) fn parameters(&mut self) -> Option<(String, String)> {
        self.take("(")?;
        let mut all: Vec<Parameter<'s>> = Vec::new();
        let mut made = Vec::new();
        while !self.skip(")") {
            let name = self.next().filter(|name| name.kind == Kind::Name)?.text;
            let mut default = None;
            let mut expression = None;
            if self.skip("=") {
                let start = self.at;
                expression = Some(self.condition()?);
                default = Some(start..self.at);
            }
            all.push(Parameter { name, default });
            made.push(expression);
            if !self.skip(",") && !self.is(")") {
                return None;
            }
        }
        let mut head = Vec::new();
        let mut body = String::new();
        for (n, (parameter, expression)) in all.iter().zip(made).enumerate() {
            let name = parameter.name;
            let moved = parameter.default.clone().and_then(|range| self.moved(range, &all[..n], &all[n..]));
            head.push(match (moved, expression) {
                (Some(moved), _) => {
                    let moved = moved?;
                    body.push_str(&format!(
                        "%}}{{% set {name} = ({moved}) if {name} is undefined else {name} "
                    ));
                    format!("{name}={MISSING}")
                }
                (None, Some(expression)) => format!("{name}={expression}"),
                (None, None) => name.to_owned(),
            });
        }
        Some((head.join(", "), body))
    }

    /// A default that names parameters, for the macro's body; `None` for one that names none.
    fn moved(
        &self,
        range: Range<usize>,
        known: &[Parameter<'s>],
        unknown: &[Parameter<'s>],
    ) -> Option<Option<String>> {
        let mut names = false;
        let mut tokens = self.tokens[range.clone()].to_vec();
        for (at, token) in range.zip(&mut tokens) {
            let before = at.checked_sub(1).map(|at| self.tokens[at].text);
            let after = self.tokens.get(at + 1).map(|next| next.text);
            let is_variable = token.kind == Kind::Name
                && !before.is_some_and(|before| [".", "|", "is"].contains(&before))
                && after != Some("=");
            if !is_variable {
                continue;
            }
            let is_unknown = unknown.iter().any(|parameter| parameter.name == token.text);
            names |= is_unknown || known.iter().any(|parameter| parameter.name == token.text);
            if is_unknown {
                token.text = MISSING;
            }
        }
        names.then(|| Parser { tokens, at: 0, depth: 0 }.condition())
    }
}
