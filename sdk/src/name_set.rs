//! A set of the names in a list, storing only hashes: a model of a million tensors holds each name once.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

/// The names of list entries `0..n`, added in order. Hashes are randomly keyed, so no file can force
/// collisions; colliding names are still told apart.
#[derive(Default)]
pub(crate) struct NameSet {
    keys: RandomState,
    /// Hash of a name -> its index in the list.
    by_hash: HashMap<u64, usize, BuildHasherDefault<AsIs>>,
    /// Indices of names whose hash an earlier name already had.
    colliding: Vec<usize>,
    len: usize,
}

impl NameSet {
    /// Adds `name` as the next entry; false if an earlier entry has the same name. `earlier` returns an
    /// entry's name.
    pub(crate) fn insert<'a>(&mut self, name: &str, earlier: impl Fn(usize) -> &'a str) -> bool {
        let hash = self.keys.hash_one(name);
        self.insert_hashed(hash, name, earlier)
    }

    fn insert_hashed<'a>(&mut self, hash: u64, name: &str, earlier: impl Fn(usize) -> &'a str) -> bool {
        match self.by_hash.get(&hash) {
            None => {
                self.by_hash.insert(hash, self.len);
            }
            Some(&number) if earlier(number) == name => return false,
            Some(_) if self.colliding.iter().any(|&number| earlier(number) == name) => return false,
            Some(_) => self.colliding.push(self.len),
        }
        self.len += 1;
        true
    }
}

/// A hasher for keys that are hashes already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Only u64 keys are hashed here; anything else would still be correct, just slow.
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_same_name_is_seen_even_among_colliding_hashes() {
        let names = ["a", "b", "c"];
        let mut set = NameSet::default();
        for name in names {
            assert!(set.insert_hashed(7, name, |n| names[n]));
        }
        for name in names {
            assert!(!set.insert_hashed(7, name, |n| names[n]), "{name}");
        }
        assert!(set.insert("d", |n| names[n]) && set.len == 4);
    }
}
