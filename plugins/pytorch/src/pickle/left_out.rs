//! Objects of unknown classes that programs save along with their tensors (settings, enums, functions).
//! Nothing in them is imported or called. Each is recorded with its name and constituents, so that a tensor
//! in it is not lost unnoticed; the model is read without it, and a note says so.

use super::machine::Machine;
use super::value::{Arena, Id, Node};
use crate::scan::names::{Verdict, judge};
use apr_sdk::{Limits, Result};

/// A value of an unknown class, which the model leaves out.
#[derive(Clone, Debug, Default)]
pub struct LeftOut {
    /// Its class, or the function that made it: `module.name`.
    pub name: super::value::Span,
    /// Where the pickle names it.
    pub at: u64,
    /// What it was made of.
    pub parts: Vec<Id>,
}

/// What such a record costs.
const COST: u64 = 64;

/// Whether values of `module.name` may be left out. What runs code or reaches out of a process is refused whole, since it
/// says what the file is for; so is what is no name, which only an attack has. `__main__` is the program that saved the
/// file: its own classes are the settings of many checkpoints.
pub fn may_be(module: &str, name: &str) -> bool {
    let is_name = |word: &str| {
        let begins = word.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_');
        begins && word.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    let are_names = module.split('.').chain(name.split('.')).all(is_name);
    // Dots lead to a class inside a class; what else they lead to, a module's imports say, or an object's own machinery.
    let are_nested = name.rsplit_once('.').is_none_or(|(outer, _)| {
        let is_class = |word: &str| word.chars().next().is_some_and(char::is_uppercase);
        outer.split('.').all(is_class) && !name.split('.').any(|word| word.starts_with("__"))
    });
    are_names && are_nested && (judge(module, name) == Verdict::Unknown || module == "__main__")
}

impl Machine<'_, '_, '_> {
    /// A name that nothing is known of.
    pub(super) fn unknown(&mut self, at: u64, module: &str, name: &str) -> Result<Node> {
        self.charge(COST)?;
        let name = self.store(format!("{module}.{name}").as_bytes())?;
        Ok(Node::LeftOut(Box::new(LeftOut { name, at, parts: Vec::new() })))
    }

    /// What calling `callee` with `parts` makes, if nothing is known of `callee`.
    pub(super) fn made_by_unknown(&mut self, callee: Id, parts: &[Id]) -> Result<Option<Id>> {
        let Node::LeftOut(class) = self.arena.node(callee) else { return Ok(None) };
        let (name, at) = (class.name, class.at);
        self.charge(COST + 8 * parts.len() as u64)?;
        let parts = [&[callee], parts].concat();
        self.make(Node::LeftOut(Box::new(LeftOut { name, at, parts }))).map(Some)
    }

    /// Adds to what a value was made of, if it is one of these; whether it is.
    pub(super) fn add_to_unknown(&mut self, to: Id, parts: &[Id]) -> Result<bool> {
        self.charge(8 * parts.len() as u64)?;
        Ok(match self.arena.nodes.get_mut(to as usize) {
            Some(Node::LeftOut(value)) => {
                value.parts.extend_from_slice(parts);
                true
            }
            _ => false,
        })
    }
}

/// Looks for tensors in values that are left out. Each value is looked at once for all of them.
#[derive(Default)]
pub struct Inside {
    seen: Vec<bool>,
}

impl Inside {
    /// Whether a tensor or a storage lies in value `id` that lies in none looked at before.
    ///
    /// # Errors
    /// LimitExceeded.
    pub fn holds_tensor(&mut self, arena: &Arena, id: Id, limits: &Limits) -> Result<bool> {
        if self.seen.is_empty() {
            limits.budget.charge(arena.nodes.len() as u64)?;
            self.seen = vec![false; arena.nodes.len()];
        }
        let mut open = vec![id];
        let mut holds = false;
        while let Some(id) = open.pop() {
            let Some(seen @ false) = self.seen.get_mut(id as usize) else { continue };
            *seen = true;
            let before = open.len();
            match arena.node(id) {
                Node::Tensor(_) | Node::Storage(_) => holds = true,
                Node::List(items) | Node::Set(items) => open.extend(items),
                Node::Tuple(items) => open.extend(items.iter()),
                Node::Dict(dict) => {
                    open.extend(dict.entries.iter().flat_map(|(key, value)| [key, value]));
                    open.extend(dict.attributes);
                }
                Node::LeftOut(value) => open.extend(&value.parts),
                _ => {}
            }
            limits.budget.charge(4 * (open.len() - before) as u64)?;
        }
        Ok(holds)
    }
}

#[cfg(test)]
mod tests {
    use super::may_be;

    #[test]
    fn only_plain_names_of_harmless_modules_are_left_out() {
        for (module, name) in [("omegaconf.dictconfig", "DictConfig"), ("__main__", "Config"), ("añb", "C.D")]
        {
            assert!(may_be(module, name), "{module}.{name}");
        }
        for (module, name) in [
            ("os", "system"),
            ("os\r", "system"),
            ("builtins", "eval"),
            ("functools", "partial"),
            ("torch.hub", "load"),
            ("collections", "OrderedDict "),
            ("", ""),
            ("a..b", "c"),
            ("a", "b c"),
            ("1a", "b"),
            ("__main__.os", "system"),
            ("__torch__", "Net"),
            ("collections", "abc.sys.modules.__class__"),
            ("torch._utils", "sys.modules"),
            ("collections", "OrderedDict.__init__"),
        ] {
            assert!(!may_be(module, name), "{module}.{name}");
        }
    }
}
