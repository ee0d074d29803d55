//! Parses the header's text, a Python literal of one fixed form, byte by byte; nothing here could evaluate
//! it.

use apr_sdk::{Error, Result, escape};

/// What a header says.
#[derive(Debug, PartialEq, Eq)]
pub struct Fields<'t> {
    /// The element type, with the offset of its text.
    pub descr: (Descr<'t>, u64),
    /// Whether the elements are column-major.
    pub fortran_order: bool,
    /// The dimensions, with the offset of their text.
    pub shape: (Vec<u64>, u64),
}

/// An element type's spelling.
#[derive(Debug, PartialEq, Eq)]
pub enum Descr<'t> {
    /// A plain type descriptor, such as `<f4`.
    Simple(&'t str),
    /// Something in brackets: records, or elements that are arrays.
    Structured,
}

/// Parses a header's text, which begins at `start` of the file.
///
/// # Errors
/// Malformed, with the offset.
pub fn parse(text: &[u8], start: u64) -> Result<Fields<'_>> {
    let mut parser = Parser { text, at: 0, start };
    let (mut descr, mut fortran_order, mut shape) = (None, None, None);
    parser.need(b'{')?;
    while !parser.takes(b'}') {
        let at = parser.place();
        let key = parser.string("a key")?;
        parser.need(b':')?;
        let value_at = parser.place();
        let again = match key {
            "descr" => descr.replace((parser.descr()?, value_at)).is_some(),
            "fortran_order" => fortran_order.replace(parser.boolean()?).is_some(),
            "shape" => shape.replace((parser.shape()?, value_at)).is_some(),
            other => {
                return Err(Error::malformed(format!(
                    "unknown key `{}` in the header of an array",
                    escape(other, 80)
                ))
                .at(at));
            }
        };
        if again {
            return Err(Error::malformed(format!("duplicate key `{key}`")).at(at));
        }
        // Of what follows in brackets nothing is read: records are refused whatever they are.
        if let Some((Descr::Structured, at)) = descr {
            return Ok(Fields {
                descr: (Descr::Structured, at),
                fortran_order: false,
                shape: (Vec::new(), at),
            });
        }
        if !parser.takes(b',') {
            parser.need(b'}')?;
            break;
        }
    }
    parser.end()?;
    let missing = |key: &str| Error::malformed(format!("the header has no `{key}`")).at(start);
    Ok(Fields {
        descr: descr.ok_or_else(|| missing("descr"))?,
        fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
        shape: shape.ok_or_else(|| missing("shape"))?,
    })
}

struct Parser<'t> {
    text: &'t [u8],
    at: usize,
    start: u64,
}

impl<'t> Parser<'t> {
    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at += rest.len() - rest.trim_ascii_start().len();
        self.text.get(self.at).copied()
    }

    /// The offset of the next byte that is no white space.
    fn place(&mut self) -> u64 {
        self.peek();
        self.start + self.at as u64
    }

    fn takes(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn need(&mut self, byte: u8) -> Result<()> {
        if self.takes(byte) { Ok(()) } else { Err(self.wrong(&format!("`{}`", char::from(byte)))) }
    }

    fn wrong(&mut self, wanted: &str) -> Error {
        let at = self.place();
        let rest = String::from_utf8_lossy(self.text.get(self.at..).unwrap_or_default()).into_owned();
        let found = if rest.is_empty() { "the end".to_owned() } else { format!("`{}`", escape(&rest, 40)) };
        Error::malformed(format!("expected {wanted} in the header, found {found}")).at(at).hint(
            "save the array again with numpy.save; a header is never evaluated, so nothing was executed",
        )
    }

    /// A quoted string without escapes.
    fn string(&mut self, what: &str) -> Result<&'t str> {
        let quote = self.peek().filter(|byte| matches!(byte, b'\'' | b'"'));
        let rest = self.text.get(self.at + 1..).unwrap_or_default();
        let end = quote.and_then(|quote| rest.iter().position(|&byte| byte == quote));
        let inside = end.map(|end| &rest[..end]).filter(|inside| !inside.contains(&b'\\'));
        match inside.and_then(|inside| std::str::from_utf8(inside).ok()) {
            Some(text) => {
                self.at += text.len() + 2;
                Ok(text)
            }
            None => Err(self.wrong(&format!("{what} in quotes"))),
        }
    }

    fn descr(&mut self) -> Result<Descr<'t>> {
        match self.peek() {
            Some(b'[' | b'(') => Ok(Descr::Structured),
            _ => self.string("an element type").map(Descr::Simple),
        }
    }

    fn boolean(&mut self) -> Result<bool> {
        self.peek();
        for (word, value) in [("True", true), ("False", false)] {
            if self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes())) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.wrong("True or False"))
    }

    /// `()`, `(3,)`, `(3, 4)`, with a comma behind the last where Python allows one, and `L` behind numbers of Python 2.
    fn shape(&mut self) -> Result<Vec<u64>> {
        let mut shape = Vec::new();
        self.need(b'(')?;
        let mut comma = false;
        while !self.takes(b')') {
            if !shape.is_empty() && !comma {
                return Err(self.wrong("`,` or `)`"));
            }
            shape.push(self.dimension()?);
            comma = self.takes(b',');
        }
        if shape.len() == 1 && !comma {
            self.at -= 1;
            return Err(self.wrong("`,` after a single dimension"));
        }
        Ok(shape)
    }

    fn dimension(&mut self) -> Result<u64> {
        self.peek();
        let rest = self.text.get(self.at..).unwrap_or_default();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = std::str::from_utf8(&rest[..digits]).ok().and_then(|text| text.parse().ok());
        let number = number.ok_or_else(|| self.wrong("a dimension"))?;
        self.at += digits;
        if self.text.get(self.at) == Some(&b'L') {
            self.at += 1;
        }
        Ok(number)
    }

    fn end(&mut self) -> Result<()> {
        if self.peek().is_none() { Ok(()) } else { Err(self.wrong("nothing more")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> std::result::Result<Vec<u64>, String> {
        let text = format!("{{'descr':'|u1','fortran_order':False,'shape':{text}}}");
        parse(text.as_bytes(), 10).map(|fields| fields.shape.0).map_err(|e| e.message().to_owned())
    }

    #[test]
    fn spellings_of_shapes() {
        for (text, expected) in [
            ("()", vec![]),
            ("(3,)", vec![3]),
            ("( 3L ,4 )", vec![3, 4]),
            ("(1,2,3,)", vec![1, 2, 3]),
            ("(18446744073709551615,)", vec![u64::MAX]),
        ] {
            assert_eq!(shape(text), Ok(expected), "{text}");
        }
        for text in [
            "(3)",
            "(3 4)",
            "(,)",
            "(3,,)",
            "[3]",
            "(-1,)",
            "(0x3,)",
            "(3.0,)",
            "(3LL,)",
            "3",
            "(3,",
            "(18446744073709551616,)",
        ] {
            assert!(shape(text).is_err(), "{text}");
        }
    }

    #[test]
    fn order_quotes_and_white_space_vary() {
        let text = b" { \"shape\" : (2,),\n'descr':\">f4\" ,'fortran_order':True } \n\n";
        let fields = parse(text, 0).unwrap();
        assert_eq!(fields.descr.0, Descr::Simple(">f4"));
        assert_eq!((fields.fortran_order, fields.shape.0), (true, vec![2]));
    }
}
