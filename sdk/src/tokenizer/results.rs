//! The tokens that merges give.

use super::Parts;
use ahash::AHashMap;

/// Finds the tokens that merges give, in the order of the list: most give the one after that of the merge before, which is found
/// without a search.
pub struct Results<'p> {
    parts: &'p Parts,
    ids: &'p AHashMap<&'p str, u32>,
    prefix: &'p str,
    last: u32,
    joined: String,
}

impl<'p> Results<'p> {
    /// Those of these parts, whose texts have these ids.
    pub fn new(parts: &'p Parts, ids: &'p AHashMap<&'p str, u32>) -> Results<'p> {
        let prefix = parts.continuing_prefix.as_deref().unwrap_or("");
        Results { parts, ids, prefix, last: 0, joined: String::new() }
    }

    /// The token that the merge of two texts gives.
    pub fn of(&mut self, left: &str, right: &str) -> Option<u32> {
        let right = right.strip_prefix(self.prefix).unwrap_or(right);
        let is_result = |id: &u32| {
            let text = self.parts.token(*id).unwrap_or_default();
            text.len() == left.len() + right.len() && text.starts_with(left) && text.ends_with(right)
        };
        let near = [self.last, self.last.saturating_add(1)].into_iter().find(is_result);
        let id = match near.filter(|id| self.parts.token(*id).is_some()) {
            Some(near) => near,
            None => {
                self.joined.clear();
                self.joined.push_str(left);
                self.joined.push_str(right);
                *self.ids.get(self.joined.as_str())?
            }
        };
        self.last = id;
        Some(id)
    }
}
