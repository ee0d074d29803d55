//! The expressions of architecture tables: integers, floats, texts and lists of configuration names, operators
//! and functions. `plugins/architectures/LANGUAGE.md` lists them with what each gives.

mod evaluate;
mod parse;

use apr_sdk::{Error, Result, escape};
use evaluate::{evaluate, float, is_true};
use parse::Parser;
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

impl Scalar {
    /// How many values it holds, its own among them.
    pub fn size(&self) -> usize {
        match self {
            Scalar::List(items) => items.iter().map(Scalar::size).sum::<usize>().saturating_add(1),
            _ => 1,
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

    /// Counts items of lists that are made: lists of lists could otherwise grow without end.
    ///
    /// # Errors
    /// LimitExceeded for more than a model could need.
    fn spend(&self, _items: usize) -> Result<()> {
        Ok(())
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
    /// `[a, b]`.
    List(Vec<Node>),
    /// `each(i, n, x)`: the values of x for i from 0 to n - 1.
    Each(String, Box<Node>, Box<Node>),
    /// `where(i, n, c)`: the numbers from 0 to n - 1 for which c holds.
    Where(String, Box<Node>, Box<Node>),
    /// `first(a, b, ...)`: the first that has a value.
    First(Vec<Node>),
    Not(Box<Node>),
    /// Both, or either: what has no value is false, and what does not matter is not looked at.
    Logic(Logic, Box<Node>, Box<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Logic {
    And,
    Or,
}

/// A function of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Floor,
    Ceiling,
    Round,
    SquareRoot,
    Logarithm,
    Exponential,
    Length,
    /// `max(x)` and `min(x)` of a list.
    Largest,
    Smallest,
}

impl Function {
    fn named(word: &str) -> Option<Function> {
        Some(match word {
            "floor" => Function::Floor,
            "ceil" => Function::Ceiling,
            "round" => Function::Round,
            "sqrt" => Function::SquareRoot,
            "ln" => Function::Logarithm,
            "exp" => Function::Exponential,
            "len" => Function::Length,
            _ => return None,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    DivideDown,
    Remainder,
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
    Min,
    Max,
    Power,
    Character,
    Contains,
    Count,
    Index,
    Join,
    Numbers,
}

impl Operator {
    /// The function of two values with this name.
    fn named(word: &str) -> Option<Operator> {
        Some(match word {
            "min" => Operator::Min,
            "max" => Operator::Max,
            "pow" => Operator::Power,
            "char" => Operator::Character,
            "contains" => Operator::Contains,
            "count" => Operator::Count,
            "index" => Operator::Index,
            "join" => Operator::Join,
            "numbers" => Operator::Numbers,
            _ => return None,
        })
    }
}

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
                "the expression `{}` has {} bytes, more than the limit of {LONGEST}",
                escape(text, 80),
                text.len()
            ))
            .hint("name parts of it as defaults of the configuration"));
        }
        Ok(Expression { text: text.to_owned(), root: Parser::parse(text)? })
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
                .map_err(|_| Error::invalid_argument(format!("`{text}` is {n}, which is not a valid size"))),
            Some(other) => {
                Err(Error::invalid_argument(format!("`{text}` is {other}, which is not a valid size")))
            }
            None => Err(Error::invalid_argument(format!("`{text}` needs {}", self.missing(scope)))),
        }
    }

    /// Whether it is true; an unknown value counts as false.
    ///
    /// # Errors
    /// As [`Expression::value`].
    pub fn holds(&self, scope: &dyn Scope) -> Result<bool> {
        Ok(is_true(self.value(scope)?.as_ref()))
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
        Node::Binary(_, a, b) | Node::Item(a, b) | Node::Logic(_, a, b) => {
            collect_names(a, defined_too, into);
            collect_names(b, defined_too, into);
        }
        Node::Unary(_, a) | Node::Not(a) => collect_names(a, defined_too, into),
        Node::List(items) | Node::First(items) => {
            items.iter().for_each(|n| collect_names(n, defined_too, into));
        }
        Node::Each(variable, n, of) | Node::Where(variable, n, of) => {
            collect_names(n, defined_too, into);
            let before = into.len();
            collect_names(of, defined_too, into);
            let inner = into.split_off(before);
            into.extend(inner.into_iter().filter(|name| name != variable));
        }
        Node::If(a, b, c) => [a, b, c].iter().for_each(|n| collect_names(n, defined_too, into)),
        Node::Constant(_) | Node::Defined(_) | Node::Dimension(..) => {}
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(&'static [(&'static str, Scalar)]);

    impl Scope for Fixed {
        fn value(&self, name: &str) -> Result<Option<Scalar>> {
            let kinds = (name == "kinds").then(kinds);
            Ok(kinds.or_else(|| self.0.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone())))
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

    fn kinds() -> Scalar {
        Scalar::List(["window", "full", "window"].map(|kind| Scalar::Text(kind.to_owned())).to_vec())
    }

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
            ("floor(scale * 7)", Scalar::Int(3)),
            ("ceil(scale * 7) + round(2.5)", Scalar::Int(6)),
            ("-7 // 2 + 7 // 2", Scalar::Int(-1)),
            ("pow(2, 3) - exp(0)", Scalar::Float(7.0)),
            ("kinds[1]", Scalar::Text("full".into())),
            ("len(kinds) + len(\"M*-\")", Scalar::Int(6)),
            ("char(\"M*-\", 1) == \"*\"", Scalar::Bool(true)),
            ("where(i, 4, i % 2 == 1)[1] + len(where(i, 4, i > 8))", Scalar::Int(3)),
            ("len(heads) + max(heads) + min(heads)", Scalar::Int(17)),
            ("join(kinds, \"-\") == \"window-full\" or join([1, 2], \",\") == \"1,2\"", Scalar::Bool(true)),
            ("numbers(\"3, 14,15\", \",\")[1] + len(numbers(\"\", \",\"))", Scalar::Int(14)),
            ("contains(kinds, \"full\") and not contains(\"M*\", \"E\")", Scalar::Bool(true)),
            ("count(kinds, \"window\") + index(kinds, \"full\") + index(kinds, 1)", Scalar::Int(6)),
            ("absent == 1 or heads == 8 and hidden == 64", Scalar::Bool(true)),
            ("first(absent, absent + 1, heads)", Scalar::Int(8)),
            ("each(i, 3, if(kinds[i] == \"full\", i, 0))[1]", Scalar::Int(1)),
            ("[heads, 2 * heads][1]", Scalar::Int(16)),
            ("max([1, 3, 2]) + min([4, 3])", Scalar::Int(6)),
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
            ("hidden % 0", "the remainder of 64 divided by 0 is undefined"),
            ("hidden % 2.0", "not both integers"),
            ("\"x\" + 1", "not both numbers"),
            ("floor(\"x\")", "is not a number"),
            ("ln(0 - heads)", "no such item"),
            ("9223372036854775807 + 1", "integer overflow"),
        ] {
            let error = Expression::parse(text).unwrap().value(&SCOPE).unwrap_err();
            assert!(error.message().contains(want), "{text}: {}", error.message());
        }
        for text in [
            "each(i, 2, each(j, 2, 1))[0]",
            "",
            "1 +",
            "(1",
            "pow(1)",
            "if(1, 2)",
            "defined(1)",
            "dim(x, 1)",
            "\"x",
            "1 2",
            "1..2",
            "*",
        ] {
            Expression::parse(text).unwrap_err();
        }
        for term in ["(", "1+", "1*", "min(1,", "x[", "a[", "[", "-", "each(i,1,", "1 and ", "not("] {
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
