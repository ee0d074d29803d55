//! The expressions of architecture tables: integers and floats, configuration names, `+ - * / %` (integer
//! division must be exact; `%` gives its remainder), comparisons, `min(a, b)`, `max(a, b)`, `floor(x)`,
//! `sqrt(x)`, `ln(x)`, `if(condition, a, b)`, `defined(name)` and `dim("tensor", axis)`.

use apr_sdk::{Error, Result, escape};
use std::fmt;

/// A value of the canonical configuration.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// A 64-bit integer.
    Int(i64),
    /// A 64-bit float.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// A string.
    Text(String),
    /// A list of values.
    List(Vec<Scalar>),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Int(n) => write!(f, "{n}"),
            Scalar::Float(x) => write!(f, "{x}"),
            Scalar::Bool(b) => write!(f, "{b}"),
            Scalar::Text(text) => write!(f, "\"{}\"", escape(text, 200)),
            Scalar::List(items) => {
                let items: Vec<String> = items.iter().take(8).map(Scalar::to_string).collect();
                write!(f, "[{}]", items.join(", "))
            }
        }
    }
}

/// What an expression can refer to.
pub trait Scope {
    /// The value of a name, if known.
    ///
    /// # Errors
    /// Any error from evaluating the name's default.
    fn value(&self, name: &str) -> Result<Option<Scalar>>;

    /// Whether a name was stated, ignoring defaults.
    fn stated(&self, name: &str) -> bool;

    /// A dimension of a tensor, by its canonical name.
    fn dimension(&self, _tensor: &str, _axis: usize) -> Option<u64> {
        None
    }
}

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    text: String,
    root: Node,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Constant(Scalar),
    Name(String),
    Defined(String),
    Dimension(String, usize),
    Unary(Function, Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
    If(Box<Node>, Box<Node>, Box<Node>),
    /// `x[i]`.
    Item(Box<Node>, Box<Node>),
}

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Floor,
    SquareRoot,
    Logarithm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
    Min,
    Max,
}

/// Nesting of an expression: a table may come from any folder, and recursion must end.
const DEEPEST: usize = 32;
/// Bytes of an expression: each operator in a chain is a level of recursion too.
const LONGEST: usize = 2000;

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    /// InvalidArgument, with the position.
    pub fn parse(text: &str) -> Result<Expression> {
        if text.len() > LONGEST {
            return Err(Error::invalid_argument(format!(
                "the expression `{}` has {} bytes, at most {LONGEST} are allowed",
                escape(text, 80),
                text.len()
            ))
            .hint("give parts of it names, as defaults of the configuration"));
        }
        let mut parser = Parser { text, at: 0, depth: 0 };
        let root = parser.comparison()?;
        parser.space();
        if parser.at < text.len() {
            return Err(parser.wrong("an operator"));
        }
        Ok(Expression { text: text.to_owned(), root })
    }

    /// The name, if the expression is a single name: then it can be read backwards.
    pub fn name(&self) -> Option<&str> {
        match &self.root {
            Node::Name(name) => Some(name),
            _ => None,
        }
    }

    /// The value in `scope`; `None` if a name in it has no value.
    ///
    /// # Errors
    /// InvalidArgument for operands of the wrong kind, inexact division, or overflow.
    pub fn value(&self, scope: &dyn Scope) -> Result<Option<Scalar>> {
        evaluate(&self.root, scope)
            .map_err(|e| Error::invalid_argument(format!("`{}`: {}", escape(&self.text, 200), e.message())))
    }

    /// The value as a size.
    ///
    /// # Errors
    /// As [`Expression::value`]; InvalidArgument for an unknown or negative value, or anything but an
    /// integer.
    pub fn size(&self, scope: &dyn Scope) -> Result<u64> {
        let text = escape(&self.text, 200);
        match self.value(scope)? {
            Some(Scalar::Int(n)) => u64::try_from(n)
                .map_err(|_| Error::invalid_argument(format!("`{text}` is {n}, which is not a size"))),
            Some(other) => Err(Error::invalid_argument(format!("`{text}` is {other}, which is not a size"))),
            None => Err(Error::invalid_argument(format!("`{text}` needs {}", self.missing(scope)))),
        }
    }

    /// Whether it is true; an unknown value counts as false.
    ///
    /// # Errors
    /// As [`Expression::value`].
    pub fn holds(&self, scope: &dyn Scope) -> Result<bool> {
        Ok(match self.value(scope)? {
            Some(Scalar::Bool(truth)) => truth,
            Some(Scalar::Int(n)) => n != 0,
            _ => false,
        })
    }

    /// The names of the configuration and of places that it uses, including those in `defined`.
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        collect_names(&self.root, true, &mut names);
        names
    }

    /// The names that have no value, in words.
    fn missing(&self, scope: &dyn Scope) -> String {
        let mut names = Vec::new();
        collect_names(&self.root, false, &mut names);
        names.retain(|name| !matches!(scope.value(name), Ok(Some(_))));
        names.dedup();
        let names: Vec<String> = names.iter().map(|n| format!("`{}`", escape(n, 80))).collect();
        format!("{}, which the configuration does not state", names.join(" and "))
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn collect_names(node: &Node, defined_too: bool, into: &mut Vec<String>) {
    match node {
        Node::Name(name) => into.push(name.clone()),
        Node::Defined(name) if defined_too => into.push(name.clone()),
        Node::Binary(_, a, b) | Node::Item(a, b) => {
            collect_names(a, defined_too, into);
            collect_names(b, defined_too, into);
        }
        Node::Unary(_, a) => collect_names(a, defined_too, into),
        Node::If(a, b, c) => [a, b, c].iter().for_each(|n| collect_names(n, defined_too, into)),
        Node::Constant(_) | Node::Defined(_) | Node::Dimension(..) => {}
    }
}

fn evaluate(node: &Node, scope: &dyn Scope) -> Result<Option<Scalar>> {
    Ok(match node {
        Node::Constant(value) => Some(value.clone()),
        Node::Name(name) => scope.value(name)?,
        Node::Defined(name) => Some(Scalar::Bool(scope.stated(name))),
        Node::Dimension(tensor, axis) => {
            scope.dimension(tensor, *axis).and_then(|n| i64::try_from(n).ok()).map(Scalar::Int)
        }
        Node::If(condition, then, otherwise) => match evaluate(condition, scope)? {
            Some(Scalar::Bool(true)) => evaluate(then, scope)?,
            Some(Scalar::Int(n)) if n != 0 => evaluate(then, scope)?,
            _ => evaluate(otherwise, scope)?,
        },
        Node::Item(list, at) => match (evaluate(list, scope)?, evaluate(at, scope)?) {
            (Some(Scalar::List(items)), Some(Scalar::Int(n))) => {
                usize::try_from(n).ok().and_then(|n| items.get(n).cloned())
            }
            // A value that is the same for every layer may stand for a list.
            (Some(other), Some(Scalar::Int(_))) => Some(other),
            _ => None,
        },
        Node::Unary(function, a) => match evaluate(a, scope)? {
            Some(a) => Some(unary(*function, &a)?),
            None => None,
        },
        Node::Binary(operator, a, b) => match (evaluate(a, scope)?, evaluate(b, scope)?) {
            (Some(a), Some(b)) => Some(binary(*operator, &a, &b)?),
            _ => None,
        },
    })
}

fn unary(function: Function, a: &Scalar) -> Result<Scalar> {
    let x = float(a).ok_or_else(|| Error::invalid_argument(format!("{a} is not a number")))?;
    let value = match function {
        Function::Floor => x.floor(),
        Function::SquareRoot => x.sqrt(),
        Function::Logarithm => x.ln(),
    };
    match value.is_finite() {
        true => Ok(Scalar::Float(value)),
        false => Err(Error::invalid_argument(format!("{a} has no such value"))),
    }
}

fn binary(operator: Operator, a: &Scalar, b: &Scalar) -> Result<Scalar> {
    use Operator::{
        Add, AtLeast, AtMost, Divide, Equal, Greater, Less, Max, Min, Multiply, Remainder, Subtract, Unequal,
    };
    match operator {
        Equal => return Ok(Scalar::Bool(same(a, b))),
        Unequal => return Ok(Scalar::Bool(!same(a, b))),
        _ => {}
    }
    if let (Scalar::Int(a), Scalar::Int(b)) = (a, b) {
        let overflow = || Error::invalid_argument("the numbers are too large");
        return Ok(match operator {
            Add => Scalar::Int(a.checked_add(*b).ok_or_else(overflow)?),
            Subtract => Scalar::Int(a.checked_sub(*b).ok_or_else(overflow)?),
            Multiply => Scalar::Int(a.checked_mul(*b).ok_or_else(overflow)?),
            Divide => match (a.checked_rem(*b), a.checked_div(*b)) {
                (Some(0), Some(n)) => Scalar::Int(n),
                _ => return Err(Error::invalid_argument(format!("{a} is not a multiple of {b}"))),
            },
            Remainder => Scalar::Int(
                a.checked_rem_euclid(*b)
                    .ok_or_else(|| Error::invalid_argument(format!("{a} has no remainder by {b}")))?,
            ),
            Min => Scalar::Int(*a.min(b)),
            Max => Scalar::Int(*a.max(b)),
            Less => Scalar::Bool(a < b),
            AtMost => Scalar::Bool(a <= b),
            Greater => Scalar::Bool(a > b),
            _ => Scalar::Bool(a >= b),
        });
    }
    let (Some(x), Some(y)) = (float(a), float(b)) else {
        return Err(Error::invalid_argument(format!("{a} and {b} are not both numbers")));
    };
    Ok(match operator {
        Add => Scalar::Float(x + y),
        Subtract => Scalar::Float(x - y),
        Multiply => Scalar::Float(x * y),
        Divide => Scalar::Float(x / y),
        Remainder => return Err(Error::invalid_argument(format!("{a} and {b} are not both integers"))),
        Min => Scalar::Float(x.min(y)),
        Max => Scalar::Float(x.max(y)),
        Less => Scalar::Bool(x < y),
        AtMost => Scalar::Bool(x <= y),
        Greater => Scalar::Bool(x > y),
        AtLeast | Equal | Unequal => Scalar::Bool(x >= y),
    })
}

/// Whether two values are equal; `64` and `64.0` are.
pub fn same(a: &Scalar, b: &Scalar) -> bool {
    match (float(a), float(b), a, b) {
        (Some(x), Some(y), ..) => x.total_cmp(&y).is_eq(),
        (.., Scalar::List(a), Scalar::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        _ => a == b,
    }
}

/// The number as a float; exact for integers up to 2^53.
#[allow(clippy::cast_precision_loss, reason = "sizes and counts are far below 2^53")]
fn float(value: &Scalar) -> Option<f64> {
    match value {
        Scalar::Int(n) => Some(*n as f64),
        Scalar::Float(x) => Some(*x),
        _ => None,
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn wrong(&self, wanted: &str) -> Error {
        let text = escape(self.text, 200);
        Error::invalid_argument(format!("expression `{text}`, character {}: {wanted} is missing", self.at))
    }

    fn space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn takes(&mut self, token: &str) -> bool {
        self.space();
        let takes = self.text[self.at..].starts_with(token);
        if takes {
            self.at += token.len();
        }
        takes
    }

    fn needs(&mut self, token: &str) -> Result<()> {
        if self.takes(token) { Ok(()) } else { Err(self.wrong(&format!("`{token}`"))) }
    }

    fn comparison(&mut self) -> Result<Node> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Error::invalid_argument("the expression is nested too deeply"));
        }
        let left = self.sum()?;
        let operators = [
            ("==", Operator::Equal),
            ("!=", Operator::Unequal),
            ("<=", Operator::AtMost),
            (">=", Operator::AtLeast),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        let found = operators.into_iter().find(|(token, _)| self.takes(token));
        let node = match found {
            Some((_, operator)) => Node::Binary(operator, Box::new(left), Box::new(self.sum()?)),
            None => left,
        };
        self.depth -= 1;
        Ok(node)
    }

    fn sum(&mut self) -> Result<Node> {
        let mut left = self.product()?;
        loop {
            let operator = match () {
                () if self.takes("+") => Operator::Add,
                () if self.takes("-") => Operator::Subtract,
                () => return Ok(left),
            };
            left = Node::Binary(operator, Box::new(left), Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Node> {
        let mut left = self.item()?;
        loop {
            let operator = match () {
                () if self.takes("*") => Operator::Multiply,
                () if self.takes("/") => Operator::Divide,
                () if self.takes("%") => Operator::Remainder,
                () => return Ok(left),
            };
            left = Node::Binary(operator, Box::new(left), Box::new(self.item()?));
        }
    }

    fn item(&mut self) -> Result<Node> {
        let mut node = self.atom()?;
        while self.takes("[") {
            node = Node::Item(Box::new(node), Box::new(self.comparison()?));
            self.needs("]")?;
        }
        Ok(node)
    }

    fn atom(&mut self) -> Result<Node> {
        if self.takes("(") {
            let inside = self.comparison()?;
            self.needs(")")?;
            return Ok(inside);
        }
        if self.takes("\"") {
            return Ok(Node::Constant(Scalar::Text(self.quoted()?)));
        }
        self.space();
        let rest = &self.text[self.at..];
        if rest.starts_with(|c: char| c.is_ascii_digit()) {
            return self.number();
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let word = &rest[..rest.find(|c| !fits(c)).unwrap_or(rest.len())];
        if word.is_empty() {
            return Err(self.wrong("a name or a number"));
        }
        self.at += word.len();
        match word {
            "true" | "false" => Ok(Node::Constant(Scalar::Bool(word == "true"))),
            "min" | "max" | "if" | "defined" | "dim" | "floor" | "sqrt" | "ln" if self.takes("(") => {
                self.call(word)
            }
            name => Ok(Node::Name(name.to_owned())),
        }
    }

    fn call(&mut self, function: &str) -> Result<Node> {
        let node = match function {
            "defined" => match self.comparison()? {
                Node::Name(name) => Node::Defined(name),
                _ => return Err(self.wrong("a name")),
            },
            "dim" => {
                self.needs("\"")?;
                let tensor = self.quoted()?;
                self.needs(",")?;
                match self.comparison()? {
                    Node::Constant(Scalar::Int(axis)) => {
                        Node::Dimension(tensor, usize::try_from(axis).unwrap_or(usize::MAX))
                    }
                    _ => return Err(self.wrong("the number of an axis")),
                }
            }
            "floor" => Node::Unary(Function::Floor, Box::new(self.comparison()?)),
            "sqrt" => Node::Unary(Function::SquareRoot, Box::new(self.comparison()?)),
            "ln" => Node::Unary(Function::Logarithm, Box::new(self.comparison()?)),
            _ => {
                let first = self.comparison()?;
                self.needs(",")?;
                let second = self.comparison()?;
                match function {
                    "if" => {
                        self.needs(",")?;
                        Node::If(Box::new(first), Box::new(second), Box::new(self.comparison()?))
                    }
                    "min" => Node::Binary(Operator::Min, Box::new(first), Box::new(second)),
                    _ => Node::Binary(Operator::Max, Box::new(first), Box::new(second)),
                }
            }
        };
        self.needs(")")?;
        Ok(node)
    }

    fn quoted(&mut self) -> Result<String> {
        let rest = &self.text[self.at..];
        let end = rest.find('"').ok_or_else(|| self.wrong("the closing quote"))?;
        self.at += end + 1;
        Ok(rest[..end].to_owned())
    }

    fn number(&mut self) -> Result<Node> {
        let rest = &self.text[self.at..];
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '.';
        let word = &rest[..rest.find(|c| !fits(c)).unwrap_or(rest.len())];
        self.at += word.len();
        let int = word.parse().ok().map(Scalar::Int);
        let value = int.or_else(|| word.parse().ok().map(Scalar::Float));
        value.map(Node::Constant).ok_or_else(|| self.wrong("a number"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(&'static [(&'static str, Scalar)]);

    impl Scope for Fixed {
        fn value(&self, name: &str) -> Result<Option<Scalar>> {
            Ok(self.0.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone()))
        }
        fn stated(&self, name: &str) -> bool {
            self.0.iter().any(|(n, _)| *n == name)
        }
        fn dimension(&self, tensor: &str, axis: usize) -> Option<u64> {
            (tensor == "embed.weight").then_some([320, 64][axis])
        }
    }

    const SCOPE: Fixed = Fixed(&[
        ("heads", Scalar::Int(8)),
        ("hidden", Scalar::Int(64)),
        ("scale", Scalar::Float(0.5)),
        ("rope.type", Scalar::Bool(true)),
    ]);

    #[test]
    fn values() {
        for (text, want) in [
            ("hidden / heads", Scalar::Int(8)),
            ("(hidden + 2 * heads) - 1", Scalar::Int(79)),
            ("2 + 3 * 4 - 1", Scalar::Int(13)),
            ("scale * 4", Scalar::Float(2.0)),
            ("0.1 * heads", Scalar::Float(0.8)),
            ("max(heads, hidden)", Scalar::Int(64)),
            ("min(heads, 3)", Scalar::Int(3)),
            ("if(heads == 8, hidden, 1)", Scalar::Int(64)),
            ("if(defined(absent), absent, heads)", Scalar::Int(8)),
            ("if(rope.type, 1, 2)", Scalar::Int(1)),
            ("heads >= 8", Scalar::Bool(true)),
            ("heads < 8", Scalar::Bool(false)),
            ("\"a b\"", Scalar::Text("a b".into())),
            ("dim(\"embed.weight\", 0)", Scalar::Int(320)),
            ("heads[3]", Scalar::Int(8)),
            ("floor(scale * 7)", Scalar::Float(3.0)),
            ("sqrt(hidden) + ln(1)", Scalar::Float(8.0)),
            ("(hidden + 1) % 6 == 5", Scalar::Bool(true)),
        ] {
            assert_eq!(Expression::parse(text).unwrap().value(&SCOPE).unwrap(), Some(want), "{text}");
        }
        assert_eq!(Expression::parse("absent + 1").unwrap().value(&SCOPE).unwrap(), None);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, want) in [
            ("hidden / 7", "64 is not a multiple of 7"),
            ("hidden / 0", "64 is not a multiple of 0"),
            ("hidden % 0", "64 has no remainder by 0"),
            ("hidden % 2.0", "not both integers"),
            ("\"x\" + 1", "not both numbers"),
            ("floor(\"x\")", "is not a number"),
            ("ln(0 - heads)", "no such value"),
            ("9223372036854775807 + 1", "too large"),
        ] {
            let error = Expression::parse(text).unwrap().value(&SCOPE).unwrap_err();
            assert!(error.message().contains(want), "{text}: {}", error.message());
        }
        for text in
            ["", "1 +", "(1", "min(1)", "if(1, 2)", "defined(1)", "dim(x, 1)", "\"x", "1 2", "1..2", "*"]
        {
            Expression::parse(text).unwrap_err();
        }
        for term in ["(", "1+", "1*", "min(1,", "x[", "a["] {
            for n in [30, 300, 900, 200_000] {
                Expression::parse(&term.repeat(n)).unwrap_err();
            }
        }
        let error = Expression::parse(&["1"; 200_000].join("+")).unwrap_err();
        assert!(error.message().contains("399999 bytes"), "{}", error.message());
        let longest = Expression::parse(&["1"; 1000].join("+")).unwrap();
        assert_eq!(longest.value(&SCOPE).unwrap(), Some(Scalar::Int(1000)));
        let error = Expression::parse("absent * other").unwrap().size(&SCOPE).unwrap_err();
        assert!(error.message().contains("`absent` and `other`"), "{}", error.message());
    }
}
