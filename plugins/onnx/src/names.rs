//! Unique names for tensors in every scope. An initializer of the main graph keeps its name; any other tensor
//! is named after its path, `NODE/ATTRIBUTE` or `NODE/ATTRIBUTE/NAME`; of two equal names, the later gets
//! `#2`.

use apr_sdk::{Error, Limits, Result};
use std::collections::{HashMap, HashSet};

/// What a message adds to the names of what it holds.
pub enum Piece {
    /// Nothing.
    None,
    /// A piece of the way.
    Text(String),
    /// One that is no text, and why: a tensor that it leads to has no name.
    NoText(Error),
}

/// Collects names during the walk.
#[derive(Default)]
pub struct Names {
    way: Vec<Result<String>>,
    /// For each tensor, its wanted name, and whether it comes before those that have a way.
    wanted: Vec<(String, bool)>,
}

impl Names {
    /// Goes into a message; gives what [`Names::leave`] must be told.
    pub fn enter(&mut self, piece: Piece) -> bool {
        match piece {
            Piece::None => false,
            Piece::Text(text) => {
                self.way.push(Ok(text));
                true
            }
            Piece::NoText(error) => {
                self.way.push(Err(error));
                true
            }
        }
    }

    /// Leaves a message.
    pub fn leave(&mut self, is_named: bool) {
        if is_named {
            self.way.pop();
        }
    }

    /// Notes a tensor here, whose own name is `own`, if it has one: that of an initialiser may be empty.
    ///
    /// # Errors
    /// LimitExceeded; why a piece of the way is no text.
    pub fn add(&mut self, own: Option<&str>, limits: &Limits) -> Result<()> {
        let is_root = self.way.is_empty();
        let own = own.unwrap_or(if is_root { "initializer" } else { "" });
        let way = self.way.iter().map(|piece| piece.as_deref().map_err(Error::clone));
        let way: Vec<&str> = way.collect::<Result<_>>()?;
        let len: usize = way.iter().map(|piece| piece.len() + 1).sum();
        limits.budget.charge(2 * (len + own.len() + size_of::<(String, bool)>()) as u64)?;
        let mut name = way.join("/");
        if !name.is_empty() && !own.is_empty() {
            name.push('/');
        }
        name += own;
        self.wanted.push((name, is_root));
        Ok(())
    }

    /// The names, made unique, in the order in which they were added.
    ///
    /// # Errors
    /// LimitExceeded.
    pub fn unique(self, limits: &Limits) -> Result<Vec<String>> {
        limits.budget.charge(self.wanted.len() as u64 * 100)?;
        let mut taken: HashSet<String> = HashSet::new();
        let mut next: HashMap<String, u64> = HashMap::new();
        let mut names = vec![String::new(); self.wanted.len()];
        for first in [true, false] {
            for (slot, (wanted, is_root)) in names.iter_mut().zip(&self.wanted) {
                if *is_root != first {
                    continue;
                }
                let mut name = wanted.clone();
                while taken.contains(&name) {
                    let n = next.entry(wanted.clone()).or_insert(1);
                    *n += 1;
                    name = format!("{wanted}#{n}");
                }
                limits.budget.charge(3 * name.len() as u64)?;
                taken.insert(name.clone());
                *slot = name;
            }
        }
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initialisers_keep_their_names_and_later_doubles_are_numbered() {
        let limits = Limits::default();
        let mut names = Names::default();
        let add = |names: &mut Names, piece: Piece, own: Option<&str>| {
            let named = names.enter(piece);
            names.add(own, &limits).unwrap();
            names.leave(named);
        };
        add(&mut names, Piece::Text("a".into()), None);
        add(&mut names, Piece::None, Some("a"));
        add(&mut names, Piece::Text("a".into()), None);
        add(&mut names, Piece::None, Some("a#2"));
        add(&mut names, Piece::None, None);
        add(&mut names, Piece::None, Some(""));
        assert_eq!(names.unique(&limits).unwrap(), ["a#3", "a", "a#4", "a#2", "initializer", ""]);
    }
}
