//! Parses expressions.

use super::{Function, Logic, Node, Operator, Scalar};
use apr_sdk::{Error, Result, escape};

/// Nesting of an expression: a table may come from any folder, and recursion must end.
const DEEPEST: usize = 32;

/// Whether a word before a parenthesis is a function.
fn is_function(word: &str) -> bool {
    ["if", "defined", "dim", "each", "where", "first"].contains(&word)
        || Function::named(word).is_some()
        || Operator::named(word).is_some()
}

/// Whether a character may be in a name.
fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.'
}

/// Reads an expression from left to right.
pub(super) struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// Whether this is inside of an `each`, whose items cannot be lists of this kind: their number would multiply.
    in_each: bool,
}

impl<'a> Parser<'a> {
    /// The nodes of a whole text.
    ///
    /// # Errors
    /// InvalidArgument, with the position.
    pub(super) fn parse(text: &'a str) -> Result<Node> {
        let mut parser = Parser { text, at: 0, depth: 0, in_each: false };
        let root = parser.whole()?;
        parser.space();
        match parser.at < text.len() {
            true => Err(parser.wrong("an operator")),
            false => Ok(root),
        }
    }

    fn wrong(&self, wanted: &str) -> Error {
        let text = escape(self.text, 200);
        Error::invalid_argument(format!("expression `{text}`, character {}: expected {wanted}", self.at))
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

    fn sees(&mut self, token: &str) -> bool {
        self.space();
        self.text[self.at..].starts_with(token)
    }

    fn needs(&mut self, token: &str) -> Result<()> {
        if self.takes(token) { Ok(()) } else { Err(self.wrong(&format!("`{token}`"))) }
    }

    /// Takes a word that nothing of a name follows.
    fn takes_word(&mut self, word: &str) -> bool {
        self.space();
        let rest = &self.text[self.at..];
        let takes = rest.strip_prefix(word).is_some_and(|behind| !behind.starts_with(is_of_name));
        if takes {
            self.at += word.len();
        }
        takes
    }

    /// An expression with everything that may be in one.
    fn whole(&mut self) -> Result<Node> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Error::invalid_argument("the expression is nested too deeply"));
        }
        let mut left = self.all_of()?;
        while self.takes_word("or") {
            left = Node::Logic(Logic::Or, Box::new(left), Box::new(self.all_of()?));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn all_of(&mut self) -> Result<Node> {
        let mut left = self.condition()?;
        while self.takes_word("and") {
            left = Node::Logic(Logic::And, Box::new(left), Box::new(self.condition()?));
        }
        Ok(left)
    }

    fn condition(&mut self) -> Result<Node> {
        let is_not = self.takes_word("not");
        let inside = self.comparison()?;
        Ok(if is_not { Node::Not(Box::new(inside)) } else { inside })
    }

    fn comparison(&mut self) -> Result<Node> {
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
        Ok(match found {
            Some((_, operator)) => Node::Binary(operator, Box::new(left), Box::new(self.sum()?)),
            None => left,
        })
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
                () if self.takes("//") => Operator::DivideDown,
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
            node = Node::Item(Box::new(node), Box::new(self.whole()?));
            self.needs("]")?;
        }
        Ok(node)
    }

    fn atom(&mut self) -> Result<Node> {
        if self.takes("(") {
            let inside = self.whole()?;
            self.needs(")")?;
            return Ok(inside);
        }
        if self.takes("[") {
            let items = if self.takes("]") { Vec::new() } else { self.items("]")? };
            return Ok(Node::List(items));
        }
        if self.takes("-") {
            let zero = Node::Constant(Scalar::Int(0));
            self.depth += 1;
            if self.depth > DEEPEST {
                return Err(Error::invalid_argument("the expression is nested too deeply"));
            }
            let of = self.item()?;
            self.depth -= 1;
            return Ok(Node::Binary(Operator::Subtract, Box::new(zero), Box::new(of)));
        }
        if self.takes("\"") {
            return Ok(Node::Constant(Scalar::Text(self.quoted()?)));
        }
        self.space();
        let rest = &self.text[self.at..];
        if rest.starts_with(|c: char| c.is_ascii_digit()) {
            return self.number();
        }
        let word = &rest[..rest.find(|c| !is_of_name(c)).unwrap_or(rest.len())];
        if word.is_empty() {
            return Err(self.wrong("a name or a number"));
        }
        self.at += word.len();
        match word {
            "true" | "false" => Ok(Node::Constant(Scalar::Bool(word == "true"))),
            _ if is_function(word) && self.takes("(") => self.call(word),
            name => Ok(Node::Name(name.to_owned())),
        }
    }

    /// Expressions between commas, up to what closes them; at least one.
    fn items(&mut self, end: &str) -> Result<Vec<Node>> {
        let mut items = vec![self.whole()?];
        while self.takes(",") {
            items.push(self.whole()?);
        }
        self.needs(end)?;
        Ok(items)
    }

    fn call(&mut self, function: &str) -> Result<Node> {
        let node = match function {
            "defined" => match self.whole()? {
                Node::Name(name) => Node::Defined(name),
                _ => return Err(self.wrong("a name")),
            },
            "dim" => {
                self.needs("\"")?;
                let tensor = self.quoted()?;
                self.needs(",")?;
                match self.whole()? {
                    Node::Constant(Scalar::Int(axis)) => {
                        Node::Dimension(tensor, usize::try_from(axis).unwrap_or(usize::MAX))
                    }
                    _ => return Err(self.wrong("an axis number")),
                }
            }
            "first" => return Ok(Node::First(self.items(")")?)),
            "each" | "where" => {
                let Node::Name(variable) = self.whole()? else { return Err(self.wrong("a name")) };
                self.needs(",")?;
                let n = Box::new(self.whole()?);
                self.needs(",")?;
                if std::mem::replace(&mut self.in_each, true) {
                    return Err(Error::invalid_argument("`each` and `where` cannot be nested"));
                }
                let of = Box::new(self.whole()?);
                self.in_each = false;
                match function {
                    "each" => Node::Each(variable, n, of),
                    _ => Node::Where(variable, n, of),
                }
            }
            "if" => {
                let condition = Box::new(self.whole()?);
                self.needs(",")?;
                let then = Box::new(self.whole()?);
                self.needs(",")?;
                Node::If(condition, then, Box::new(self.whole()?))
            }
            other => {
                let first = Box::new(self.whole()?);
                match (Function::named(other), Operator::named(other)) {
                    (Some(function), _) => Node::Unary(function, first),
                    (None, Some(Operator::Max)) if !self.sees(",") => Node::Unary(Function::Largest, first),
                    (None, Some(Operator::Min)) if !self.sees(",") => Node::Unary(Function::Smallest, first),
                    (None, Some(operator)) => {
                        self.needs(",")?;
                        Node::Binary(operator, first, Box::new(self.whole()?))
                    }
                    (None, None) => return Err(self.wrong("a function")),
                }
            }
        };
        self.needs(")")?;
        Ok(node)
    }

    fn quoted(&mut self) -> Result<String> {
        let rest = &self.text[self.at..];
        let end = rest.find('"').ok_or_else(|| self.wrong("a closing quote"))?;
        self.at += end + 1;
        Ok(rest[..end].to_owned())
    }

    fn number(&mut self) -> Result<Node> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.');
        let word = &rest[..end.unwrap_or(rest.len())];
        self.at += word.len();
        let int = word.parse().ok().map(Scalar::Int);
        let value = int.or_else(|| word.parse().ok().map(Scalar::Float));
        value.map(Node::Constant).ok_or_else(|| self.wrong("a number"))
    }
}
