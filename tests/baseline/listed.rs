//! The list of outcomes, `digests.txt`: written, read and compared.

use apr_tests::root;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// Outcomes by flag set, in the order of the flag sets.
pub type Cells = Vec<(String, String)>;

/// Outcomes by what a line begins with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listed(BTreeMap<String, Cells>);

/// What a line begins with.
pub fn head(input: &str, target: &str) -> String {
    format!("{input} > {target}")
}

impl Listed {
    /// How many lines.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes up the outcomes of an input and a format.
    pub fn insert(&mut self, input: &str, target: &str, cells: Cells) {
        self.0.insert(head(input, target), cells);
    }

    /// The list that is checked in.
    pub fn read() -> Listed {
        Listed::parse(&fs::read_to_string(path()).unwrap_or_default())
    }

    /// Those of its lines that begin with what has this part.
    pub fn only(mut self, part: &str) -> Listed {
        self.0.retain(|head, _| head.contains(part));
        self
    }

    /// Checks this one in.
    pub fn write(&self) {
        fs::write(path(), self.text()).unwrap();
    }

    fn text(&self) -> String {
        let mut text = String::from(
            "# INPUT > FORMAT: FLAG SETS=OUTCOME. Written by `BLESS=1 cargo test -p apr-tests --test baseline`; its main.rs says what\n\
             # is digested, its flags.rs what the flag sets are.\n",
        );
        for (head, cells) in &self.0 {
            let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
            for (set, cell) in cells {
                match groups.iter_mut().find(|(outcome, _)| outcome == cell) {
                    Some((_, sets)) => sets.push(set),
                    None => groups.push((cell, vec![set])),
                }
            }
            let groups: Vec<_> =
                groups.iter().map(|(cell, sets)| format!("{}={cell}", sets.join(","))).collect();
            text.push_str(&format!("{head}: {}\n", groups.join(" ")));
        }
        text
    }

    fn parse(text: &str) -> Listed {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let cells = |groups: &str| {
            let groups = groups.split_whitespace().filter_map(|group| group.split_once('='));
            groups
                .flat_map(|(sets, cell)| sets.split(',').map(|set| (set.to_owned(), cell.to_owned())))
                .collect()
        };
        let lines = lines.filter_map(|line| line.split_once(": "));
        Listed(lines.map(|(head, groups)| (head.to_owned(), cells(groups))).collect())
    }

    /// How `found` differs from this list, a line for each input and format.
    pub fn differences(&self, found: &Listed) -> Vec<String> {
        let heads: BTreeSet<&String> = self.0.keys().chain(found.0.keys()).collect();
        let line = |head: &String| match (self.0.get(head), found.0.get(head)) {
            (Some(_), None) => Some(format!("{head}: listed, and not tried any more")),
            (None, Some(_)) => Some(format!("{head}: not listed")),
            (old, new) => difference(old?, new?).map(|what| format!("{head}: {what}")),
        };
        heads.into_iter().filter_map(line).collect()
    }
}

/// What is different, and with which flag sets.
fn difference(old: &Cells, new: &Cells) -> Option<String> {
    let of = |cells: &Cells, set: &str| cells.iter().find(|(s, _)| s == set).map(|(_, cell)| cell.clone());
    let sets: Vec<&String> = new.iter().map(|(set, _)| set).chain(old.iter().map(|(set, _)| set)).collect();
    let mut whats: Vec<(String, Vec<&str>)> = Vec::new();
    for set in sets {
        let what = match (of(old, set), of(new, set)) {
            (Some(old), Some(new)) if old == new => continue,
            (Some(old), Some(new)) => what_differs(&old, &new),
            (Some(_), None) => "not tried any more".to_owned(),
            (None, _) => "not listed".to_owned(),
        };
        match whats.iter_mut().find(|(known, _)| *known == what) {
            Some((_, sets)) if sets.contains(&set.as_str()) => {}
            Some((_, sets)) => sets.push(set),
            None => whats.push((what, vec![set])),
        }
    }
    let whats: Vec<_> = whats.iter().map(|(what, sets)| format!("{what} ({})", sets.join(", "))).collect();
    (!whats.is_empty()).then(|| whats.join("; "))
}

fn what_differs(old: &str, new: &str) -> String {
    let given = |cell: &str| cell.rsplit_once('.').map_or(cell, |(given, _)| given).to_owned();
    let (old, new) = (given(old), given(new));
    match (old.strip_prefix('!'), new.strip_prefix('!')) {
        _ if old == new => "other words".to_owned(),
        (None, None) => "other bytes".to_owned(),
        (None, Some(new)) => format!("refused now as {new}"),
        (Some(old), None) => format!("written now, was refused as {old}"),
        (Some(old), Some(new)) => format!("refused as {new}, was {old}"),
    }
}

fn path() -> PathBuf {
    root().join("tests/baseline/digests.txt")
}

#[test]
fn a_list_is_read_as_it_was_written_and_differences_are_told_apart() {
    let cells = |cells: &[(&str, &str)]| -> Cells {
        cells.iter().map(|(set, cell)| ((*set).to_owned(), (*cell).to_owned())).collect()
    };
    let (mut old, mut new) = (Listed::default(), Listed::default());
    old.insert(
        "a",
        "x",
        cells(&[("plain", "11.1"), ("f16", "11.1"), ("keep", "!Malformed:E002.1"), ("shards", "22.1")]),
    );
    old.insert("b", "x", cells(&[("plain", "11.1")]));
    new.insert(
        "a",
        "x",
        cells(&[
            ("plain", "12.1"),
            ("f16", "11.2"),
            ("keep", "33.1"),
            ("shards", "!Failed.1"),
            ("set", "1.1"),
        ]),
    );
    new.insert("c", "x", cells(&[("plain", "11.1")]));
    assert_eq!(Listed::parse(&new.text()).differences(&new), Vec::<String>::new());
    assert_eq!(
        old.differences(&new),
        [
            "a > x: other bytes (plain); other words (f16); written now, was refused as Malformed:E002 (keep); refused now as Failed (shards); not listed (set)",
            "b > x: listed, and not tried any more",
            "c > x: not listed",
        ]
    );
}
