//! Oniguruma's expressions as a tree: the syntax that this library calls its own, with UTF-8 and no options.
//!
//! What no other engine can be told is refused by name, and so is what Oniguruma refuses.

use super::sets::{self, Named};
use regex_syntax::hir::ClassUnicode;

/// The cause for which an expression is refused, to follow on "it has".
pub type Refusal = String;

/// Groups inside one another. 50: the engine that follows stops at 64.
const MAX_DEPTH: u32 = 50;
/// Times that something is repeated, as Oniguruma has it.
const MAX_REPEAT: u32 = 100_000;

/// A part of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// Characters, one after another; `folds` if other cases of them are meant too.
    Text {
        chars: Vec<char>,
        folds: bool,
    },
    /// One character of a set.
    Set(ClassUnicode),
    /// A place, as the other engine spells it.
    Place(&'static str),
    /// A boundary of words, or a place that is none.
    Boundary {
        is_one: bool,
    },
    /// The text of a group.
    Back(u32),
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    /// What stands behind `open`, up to its parenthesis.
    Group {
        open: &'static str,
        inner: Box<Node>,
    },
    Repeat(Box<Node>, Times),
}

/// The number of times that something is repeated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    pub least: u32,
    pub most: Option<u32>,
    pub is_lazy: bool,
    /// True if nothing is given back.
    pub keeps: bool,
}

/// The options that hold at a place.
#[derive(Clone, Copy, Default)]
pub struct Options {
    /// `i`: cases are the same.
    pub folds: bool,
    /// `m`: a dot is a line's end too.
    is_dot_all: bool,
    /// `x`: spaces and comments are passed over.
    is_extended: bool,
}

/// The tree of an expression.
///
/// # Errors
/// What it has that cannot be followed.
pub fn parse(text: &str) -> Result<Node, Refusal> {
    let mut first = Parser::new(text, false);
    let node = first.whole()?;
    // Where groups have names, those without one only group.
    if first.names.is_empty() { Ok(node) } else { Parser::new(text, true).whole() }
}

pub struct Parser {
    pub chars: Vec<char>,
    pub at: usize,
    pub options: Options,
    names: Vec<(String, u32)>,
    n_groups: u32,
    by_name_only: bool,
    pub depth: u32,
}

impl Parser {
    fn new(text: &str, by_name_only: bool) -> Parser {
        Parser {
            chars: text.chars().collect(),
            at: 0,
            options: Options::default(),
            names: Vec::new(),
            n_groups: 0,
            by_name_only,
            depth: 0,
        }
    }

    pub fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    pub fn next(&mut self) -> Option<char> {
        let next = self.peek();
        self.at += usize::from(next.is_some());
        next
    }

    /// Passes over `text` if it follows.
    pub fn take(&mut self, text: &str) -> bool {
        let n = text.chars().count();
        let follows =
            self.chars.get(self.at..self.at + n).is_some_and(|have| have.iter().copied().eq(text.chars()));
        self.at += if follows { n } else { 0 };
        follows
    }

    /// Goes one level down.
    pub fn enter(&mut self) -> Result<(), Refusal> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            Err(format!("groups nested more than {MAX_DEPTH} levels deep"))
        } else {
            Ok(())
        }
    }

    fn whole(&mut self) -> Result<Node, Refusal> {
        let node = self.choice()?;
        if self.peek().is_some() { Err("an unmatched `)`".into()) } else { Ok(node) }
    }

    /// The branches up to the end of the group.
    fn choice(&mut self) -> Result<Node, Refusal> {
        let mut branches = vec![self.branch()?];
        while self.take("|") {
            branches.push(self.branch()?);
        }
        Ok(if branches.len() == 1 { branches.remove(0) } else { Node::Choice(branches) })
    }

    fn branch(&mut self) -> Result<Node, Refusal> {
        let mut all: Vec<Node> = Vec::new();
        loop {
            self.pass_over()?;
            match self.peek() {
                None | Some('|' | ')') => break,
                Some('*' | '+' | '?') => return Err("a quantifier with nothing to repeat".into()),
                Some('{') if self.interval()?.is_some() => {
                    return Err("a quantifier with nothing to repeat".into());
                }
                _ => {}
            }
            match self.atom()? {
                Atom::One(node) => all.push(self.repeated(node)?),
                // An option holds up to the end of the group, its other branches included.
                Atom::Options(options) => {
                    let before = std::mem::replace(&mut self.options, options);
                    let rest = self.choice();
                    self.options = before;
                    all.push(rest?);
                    break;
                }
            }
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Node::Sequence(all) })
    }

    /// Passes over comments, and over spaces where they mean nothing.
    fn pass_over(&mut self) -> Result<(), Refusal> {
        loop {
            if self.take("(?#") {
                loop {
                    match self.next() {
                        None => return Err("an unterminated comment".into()),
                        Some('\\') => drop(self.next()),
                        Some(')') => break,
                        Some(_) => {}
                    }
                }
            } else if self.options.is_extended
                && matches!(self.peek(), Some(' ' | '\t' | '\n' | '\r' | '\u{c}'))
            {
                self.at += 1;
            } else if self.options.is_extended && self.take("#") {
                while self.next().is_some_and(|c| c != '\n') {}
            } else {
                return Ok(());
            }
        }
    }

    /// What follows, with its repetitions.
    fn repeated(&mut self, node: Node) -> Result<Node, Refusal> {
        let mut node = node;
        loop {
            self.pass_over()?;
            let mut times = match self.peek() {
                Some('*') => Times { least: 0, most: None, is_lazy: false, keeps: false },
                Some('+') => Times { least: 1, most: None, is_lazy: false, keeps: false },
                Some('?') => Times { least: 0, most: Some(1), is_lazy: false, keeps: false },
                Some('{') => {
                    let Some(times) = self.interval()? else { return Ok(node) };
                    node = repeat(node, times)?;
                    continue;
                }
                _ => return Ok(node),
            };
            self.at += 1;
            times.is_lazy = self.take("?");
            times.keeps = !times.is_lazy && self.take("+");
            node = repeat(node, times)?;
        }
    }

    /// The times between braces; `None`, and nothing passed over, for braces that are characters.
    fn interval(&mut self) -> Result<Option<Times>, Refusal> {
        let start = self.at;
        self.at += 1;
        let least = self.number()?;
        let has_comma = self.take(",");
        let most = if has_comma { self.number()? } else { least };
        if !self.take("}") || least.is_none() && (!has_comma || most.is_none()) {
            self.at = start;
            return Ok(None);
        }
        let low = least.unwrap_or(0);
        let mut times = Times { least: low, most, is_lazy: false, keeps: false };
        match most {
            Some(high) if has_comma && low > high => {
                times = Times { least: high, most: least, is_lazy: false, keeps: true };
            }
            // Of a fixed number, a question mark repeats it once or not at all.
            _ => times.is_lazy = has_comma && self.take("?"),
        }
        Ok(Some(times))
    }

    fn number(&mut self) -> Result<Option<u32>, Refusal> {
        let mut found = None;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
            self.at += 1;
            let number = found.unwrap_or(0u32).saturating_mul(10).saturating_add(digit);
            if number > MAX_REPEAT {
                return Err(format!("more than {MAX_REPEAT} repetitions"));
            }
            found = Some(number);
        }
        Ok(found)
    }

    fn atom(&mut self) -> Result<Atom, Refusal> {
        let node = match self.next() {
            Some('.') if self.options.is_dot_all => Node::Set(sets::all()),
            Some('.') => Node::Set(sets::no_line_end()),
            // At a text's end there is no further line.
            Some('^') => Node::Place(r"(?:\A|(?<=\n)(?!\z))"),
            Some('$') => Node::Place(r"(?=\n|\z)"),
            Some('(') => return self.group(),
            Some('[') => Node::Set(self.class()?),
            Some('\\') => self.escaped()?,
            Some(c) => self.text(c),
            None => Node::Sequence(Vec::new()),
        };
        Ok(Atom::One(node))
    }

    fn text(&self, c: char) -> Node {
        Node::Text { chars: vec![c], folds: self.options.folds }
    }

    fn group(&mut self) -> Result<Atom, Refusal> {
        self.enter()?;
        let atom = if self.take("?") { self.marked_group()? } else { self.plain_group()? };
        self.depth -= 1;
        Ok(atom)
    }

    fn plain_group(&mut self) -> Result<Atom, Refusal> {
        if self.peek() == Some('*') {
            return Err("a callout (`(*`)".into());
        }
        if self.by_name_only {
            return self.inner(None);
        }
        self.n_groups += 1;
        self.inner(Some("("))
    }

    fn marked_group(&mut self) -> Result<Atom, Refusal> {
        for (mark, open) in [("=", "(?="), ("!", "(?!"), (">", "(?>"), ("<=", "(?<="), ("<!", "(?<!")] {
            if self.take(mark) {
                return self.inner(Some(open));
            }
        }
        match self.next() {
            Some(':') => self.inner(None),
            Some(quote @ ('<' | '\'')) => {
                let name = self.name(quote)?;
                if self.names.iter().any(|(other, _)| *other == name) {
                    return Err(format!("two groups named `{name}`"));
                }
                self.n_groups += 1;
                self.names.push((name, self.n_groups));
                self.inner(Some("("))
            }
            Some('~') => Err("an absent operator (`(?~`)".into()),
            Some('(') => Err("a condition (`(?(`)".into()),
            Some('{') => Err("a callout (`(?{`)".into()),
            Some(c) => self.options(c),
            None => Err("an unclosed `(`".into()),
        }
    }

    /// Options from `c` on: for a group, or for what follows.
    fn options(&mut self, mut c: char) -> Result<Atom, Refusal> {
        let mut options = self.options;
        let mut on = true;
        loop {
            match c {
                '-' => on = false,
                'i' => options.folds = on,
                'm' => options.is_dot_all = on,
                'x' => options.is_extended = on,
                ')' => return Ok(Atom::Options(options)),
                ':' => break,
                _ => return Err(format!("the option `{c}`")),
            }
            c = self.next().ok_or("an unclosed `(`")?;
        }
        let before = std::mem::replace(&mut self.options, options);
        let inner = self.inner(None);
        self.options = before;
        inner
    }

    /// What stands in a group, up to its end.
    fn inner(&mut self, open: Option<&'static str>) -> Result<Atom, Refusal> {
        let inner = self.choice()?;
        if !self.take(")") {
            return Err("an unclosed `(`".into());
        }
        Ok(Atom::One(match open {
            Some(open) => Node::Group { open, inner: Box::new(inner) },
            None => inner,
        }))
    }

    fn name(&mut self, quote: char) -> Result<String, Refusal> {
        let end = if quote == '<' { '>' } else { quote };
        let start = self.at;
        while self.next().ok_or("an unterminated name")? != end {}
        Ok(self.chars[start..self.at - 1].iter().collect())
    }

    /// What stands behind a backslash, outside of brackets.
    fn escaped(&mut self) -> Result<Node, Refusal> {
        let c = self.next().ok_or("a trailing backslash")?;
        Ok(match c {
            'A' => Node::Place(r"\A"),
            'z' => Node::Place(r"\z"),
            'Z' => Node::Place(r"(?=\n?\z)"),
            'K' => Node::Place(r"\K"),
            'b' => Node::Boundary { is_one: true },
            'B' => Node::Boundary { is_one: false },
            'N' => Node::Set(sets::no_line_end()),
            'O' => Node::Set(sets::all()),
            'R' => {
                let pair = Node::Text { chars: vec!['\r', '\n'], folds: false };
                let inner = Box::new(Node::Choice(vec![pair, Node::Set(sets::line_ends())]));
                Node::Group { open: "(?>", inner }
            }
            'X' | 'y' | 'Y' => return Err(format!("a text segment (`\\{c}`)")),
            'G' => return Err("a search start anchor (`\\G`)".into()),
            'g' if matches!(self.peek(), Some('<' | '\'')) => {
                return Err("a subexpression call (`\\g`)".into());
            }
            'k' if matches!(self.peek(), Some('<' | '\'')) => self.back_by_name()?,
            '1'..='9' => self.back_or_number(c)?,
            'w' => Node::Set(sets::word_alone()),
            'W' => Node::Set(sets::negated(sets::word_alone())),
            'p' | 'P' if self.peek() == Some('{') => Node::Set(self.property(c == 'P', Named::Alone)?),
            _ => match self.value(c)? {
                Value::Set(set) => Node::Set(set),
                Value::Char(c) => self.text(c),
            },
        })
    }

    fn back_by_name(&mut self) -> Result<Node, Refusal> {
        let quote = self.next().unwrap_or('<');
        let name = self.name(quote)?;
        if let Some((_, number)) = self.names.iter().find(|(known, _)| *known == name) {
            return self.back(*number);
        }
        let number: i64 = name.parse().map_err(|_| format!("a reference to the unknown group `{name}`"))?;
        let number = if number < 0 { i64::from(self.n_groups) + 1 + number } else { number };
        match u32::try_from(number) {
            Ok(number) if number > 0 => self.back(number),
            _ => Err(format!("a reference to the unknown group {number}")),
        }
    }

    fn back(&self, number: u32) -> Result<Node, Refusal> {
        match self.options.folds {
            true => Err("a case-insensitive backreference".into()),
            false => Ok(Node::Back(number)),
        }
    }

    /// A reference to a group, or a number of a character in octal.
    fn back_or_number(&mut self, c: char) -> Result<Node, Refusal> {
        let start = self.at;
        self.at -= 1;
        let number = self.number().ok().flatten().unwrap_or(u32::MAX);
        if number <= 9 || number <= self.n_groups {
            if self.by_name_only {
                return Err("a numbered backreference next to named groups".into());
            }
            return self.back(number);
        }
        self.at = start;
        match self.value(c)? {
            Value::Char(c) => Ok(self.text(c)),
            Value::Set(set) => Ok(Node::Set(set)),
        }
    }
}

/// What may be repeated, or options for what follows.
enum Atom {
    One(Node),
    Options(Options),
}

/// What an escape stands for.
pub enum Value {
    Char(char),
    Set(ClassUnicode),
}

fn repeat(node: Node, times: Times) -> Result<Node, Refusal> {
    let is_place = match &node {
        Node::Place(_) | Node::Boundary { .. } => true,
        Node::Group { open, .. } => !["(", "(?>"].contains(open),
        _ => false,
    };
    if is_place {
        return Err("a repeated anchor or lookaround".into());
    }
    Ok(if times.least == 1 && times.most == Some(1) { node } else { Node::Repeat(Box::new(node), times) })
}
