//! Every model that does not apply and every loss of our own formats is listed in `expected.toml`: one that is not listed
//! is red, and so is a listed one that now works. `BLESS=1` writes the list anew.

use apr_host::rosetta::matrix::{Matrix, Reasons};
use apr_host::rosetta::{RunOptions, run};
use apr_tests::{fixtures, host, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::LazyLock;

/// The matrix of every plugin of this repository, run once for all tests.
pub static MATRIX: LazyLock<Matrix> =
    // The one format of ours that cannot be written begins with its own fixtures.
    LazyLock::new(|| {
        let options =
            RunOptions { fixtures: Some(fixtures("ggml-legacy")), seed: 1, ..RunOptions::default() };
        run(&host(), &options).unwrap()
    });

#[test]
fn no_cell_is_red() {
    assert!(MATRIX.red.is_empty(), "{:#?}", MATRIX.red);
    assert!(MATRIX.is_green());
    for pair in &MATRIX.pairs {
        assert!(pair.no_return.is_some() || pair.arrived == pair.returned, "{pair:?}");
    }
}

/// What is compressed on its way is the same model at its end: in pairs there and back, and within chains.
#[test]
fn no_cell_is_red_where_a_format_compresses() {
    // Types of every width, with planes and without, blocks, packed ones, and what is not a type.
    let models = ["F32/", "BF16/", "F8_E4M3/", "I4/", "Q4_K/", "names/", "mixed/", "with/"];
    for method in ["lz4", "zstd", "auto"] {
        let compress = (Some("apr".to_owned()), "compress".to_owned(), method.to_owned());
        let options = RunOptions {
            models: models.map(str::to_owned).to_vec(),
            options: vec![compress],
            seed: 2,
            ..RunOptions::default()
        };
        let matrix = run(&host(), &options).unwrap();
        assert!(matrix.is_green(), "{method}: {:#?}", matrix.red);
        assert!(matrix.conversions > 2_000, "{}", matrix.conversions);
    }
}

#[test]
fn every_pair_is_tried_and_every_length_of_chain() {
    let host = host();
    let formats = host.registry.formats();
    let both = |a: &usize, b: &usize| formats[*a].manifest.reads && formats[*b].manifest.writes && a != b;
    let whole = |n: &usize| formats[*n].manifest.parts.is_empty();
    let n = (0..formats.len())
        .flat_map(|a| (0..formats.len()).map(move |b| (a, b)))
        .filter(|(a, b)| both(a, b) && whole(a) && whole(b));
    assert_eq!(MATRIX.pairs.len(), n.count());
    for pair in MATRIX.pairs.iter().filter(|pair| pair.no_return.is_none()) {
        // Of a format that holds one tensor there are fewer models.
        let one = formats.iter().any(|f| f.id() == pair.from && f.manifest.carries.one_tensor);
        let few = if one { 30 } else { 50 };
        assert!(pair.arrived > few, "{} -> {}: {}", pair.from, pair.to, pair.arrived);
    }
    assert_eq!(MATRIX.chains.iter().map(|row| row.hops).collect::<Vec<_>>(), [3, 4, 5]);
    assert!(MATRIX.chains.iter().all(|row| row.arrived > 50), "{:?}", MATRIX.chains);
}

#[test]
fn what_does_not_apply_or_is_lost_is_listed() {
    let path = root().join("tests/rosetta/expected.toml");
    let found = listed(&MATRIX);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let (old, new): (BTreeSet<_>, BTreeSet<_>) = (facts(&expected), facts(&found));
    let gone: Vec<_> = old.difference(&new).map(|line| format!("listed, and works now: {line}")).collect();
    let fresh: Vec<_> = new.difference(&old).map(|line| format!("not listed: {line}")).collect();
    let all = [gone, fresh].concat();
    assert!(all.is_empty(), "{}\n(BLESS=1 accepts it, review reads the difference)", all.join("\n"));
}

/// One fact a line, each with the table it stands in.
fn facts(text: &str) -> BTreeSet<String> {
    let mut table = String::new();
    let mut facts = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        if line.starts_with('[') {
            table = line.to_owned();
            facts.insert(table.clone());
        } else {
            facts.insert(format!("{table} {line}"));
        }
    }
    facts
}

#[test]
fn the_list_is_read_both_ways() {
    let before = facts("[a]\n\"dtype X\" = [\"X/*\"]\n");
    let after = facts("[a]\n\"dtype Y\" = [\"Y/*\"]\n");
    assert_eq!(before.difference(&after).count(), 1);
    assert_eq!(after.difference(&before).count(), 1);
}

/// The whole list. What a target refuses is left out of the pairs where the target's own table has it.
fn listed(matrix: &Matrix) -> String {
    let mut text = String::from(
        "# What the Rosetta matrix of our own formats does not do. Written by `BLESS=1 cargo test -p apr-tests --test\n\
         # rosetta`; a model that is not listed and does not work is red, and so is a listed one that works.\n\
         # `F16/*` stands for every model of that group. A chain is n/a where one of its formats is.\n",
    );
    for format in &matrix.formats {
        write!(text, "\n# Models that cannot begin in {0}; whose tensors it cannot hold are not converted to it either.\n[{0}]\n", format.id)
            .unwrap();
        reasons(&mut text, &format.not_applicable, matrix);
    }
    for pair in &matrix.pairs {
        let known = matrix.formats.iter().find(|format| format.id == pair.to).unwrap();
        let known: BTreeSet<&String> = known.not_applicable.values().flatten().collect();
        let mut own = Reasons::new();
        for (why, models) in &pair.not_applicable {
            let rest: Vec<_> = models.iter().filter(|model| !known.contains(model)).cloned().collect();
            if !rest.is_empty() {
                own.insert(why.clone(), rest);
            }
        }
        if own.is_empty() && pair.loses.is_empty() && pair.no_return.is_none() {
            continue;
        }
        write!(text, "\n[\"{} -> {}\"]\n", pair.from, pair.to).unwrap();
        reasons(&mut text, &own, matrix);
        if let Some(why) = &pair.no_return {
            writeln!(text, "no_return = {why:?}").unwrap();
        }
        if !pair.loses.is_empty() {
            writeln!(text, "loses = {:?}", pair.loses).unwrap();
        }
    }
    text
}

fn reasons(text: &mut String, reasons: &Reasons, matrix: &Matrix) {
    let group = |model: &str| model.split_once('/').unwrap_or((model, "")).0.to_owned();
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    matrix.models.iter().for_each(|model| *sizes.entry(group(model)).or_default() += 1);
    for (why, models) in reasons {
        let mut there: BTreeMap<String, usize> = BTreeMap::new();
        models.iter().for_each(|model| *there.entry(group(model)).or_default() += 1);
        let whole = |model: &str| sizes.get(&group(model)) == there.get(&group(model));
        let shown = models.iter().map(|m| if whole(m) { format!("{}/*", group(m)) } else { m.clone() });
        let shown: BTreeSet<String> = shown.collect();
        writeln!(text, "{why:?} = {:?}", shown.into_iter().collect::<Vec<_>>()).unwrap();
    }
}
