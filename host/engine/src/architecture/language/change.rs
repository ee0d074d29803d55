//! What a dialect does to values besides moving them.

use crate::expression::Map;
use apr_sdk::{Error, Result};

/// A function of each value, then a constant that is added.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Change {
    /// The function.
    pub map: Option<Map>,
    /// The constant.
    pub add: f64,
}

impl Change {
    /// Adds a constant.
    pub fn adds(add: f64) -> Change {
        Change { map: None, add }
    }

    /// Applies a function.
    pub fn maps(map: Map) -> Change {
        Change { map: Some(map), add: 0.0 }
    }

    /// Whether values stay as they are.
    pub fn is_none(&self) -> bool {
        self.map.is_none() && self.add == 0.0
    }

    /// This, and then another.
    ///
    /// # Errors
    /// Unsupported for a function of what was changed already.
    pub fn then(self, next: Change) -> Result<Change> {
        match (self.is_none(), next.map) {
            (true, _) => Ok(next),
            (false, None) => Ok(Change { add: self.add + next.add, ..self }),
            (false, Some(_)) => {
                Err(Error::unsupported("the table applies more than one function to the values"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_add_up_and_functions_come_first() {
        let one = Change::adds(1.0);
        assert!(one.then(Change::adds(-1.0)).unwrap().is_none());
        let both = Change::maps(Map::NegExp).then(one).unwrap();
        assert_eq!((both.map, both.add), (Some(Map::NegExp), 1.0));
        one.then(Change::maps(Map::NegExp)).unwrap_err();
    }
}
