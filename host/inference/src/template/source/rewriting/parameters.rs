//! The parameters of macros and of called blocks.

use super::Parser;
use crate::template::source::tokens::{Kind, tokens};
use std::ops::Range;

/// A variable that no template has.
const MISSING: &str = "apr_missing";

/// Arguments that a macro takes beyond its parameters, where it asks for them: the library's has as many as it has parameters.
const MOST: usize = 16;

/// What a macro or a called block takes beyond its parameters, because it asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beyond {
    /// It asks for `varargs`.
    by_place: bool,
    /// It asks for `kwargs`. None is taken, so they are always empty.
    by_name: bool,
}

impl Beyond {
    /// What a tag asks for.
    pub fn asked_in(inner: &str) -> Beyond {
        // Most templates ask for neither.
        if !inner.contains("args") {
            return Beyond::default();
        }
        let tokens = tokens(inner).unwrap_or_default();
        let has = |name: &str| {
            tokens.iter().enumerate().any(|(at, token)| {
                let before = at.checked_sub(1).map(|at| tokens[at].text);
                token.kind == Kind::Name && token.text == name && ![Some("."), Some("|")].contains(&before)
            })
        };
        Beyond { by_place: has("varargs"), by_name: has("kwargs") }
    }

    /// Adds what something in it asks for.
    pub fn add(&mut self, other: Beyond) {
        self.by_place |= other.by_place;
        self.by_name |= other.by_name;
    }

    /// Parameters and tags of a block that has none.
    pub(super) fn without_parameters(self) -> (String, String) {
        let (mut head, mut body) = (Vec::new(), String::new());
        self.put(&mut head, &mut body, &[]);
        (head.join(", "), body)
    }

    /// Adds parameters for what is taken beyond `known` ones, and tags that set the names by which it is asked for.
    fn put(self, head: &mut Vec<String>, body: &mut String, known: &[Parameter<'_>]) {
        let is_own = |name: &str| known.iter().any(|parameter| parameter.name == name);
        if self.by_place && !is_own("varargs") {
            let names: Vec<String> = (0..MOST).map(|n| format!("apr_beyond_{n}")).collect();
            head.extend(names.iter().map(|name| format!("{name}={MISSING}")));
            body.push_str(&format!("%}}{{% set varargs = apr_given({}) ", names.join(", ")));
        }
        if self.by_name && !is_own("kwargs") {
            body.push_str("%}{% set kwargs = {} ");
        }
    }
}

/// A parameter of a macro, with the places of its default's tokens.
struct Parameter<'s> {
    name: &'s str,
    default: Option<Range<usize>>,
}

impl<'s> Parser<'s> {
    /// The parameters of a macro, and tags that set those whose defaults name parameters. Jinja knows the ones before,
    /// and no other; the library looks for all of them outside the macro.
    pub(super) fn parameters(&mut self, beyond: Beyond) -> Option<(String, String)> {
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
        beyond.put(&mut head, &mut body, &all);
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
