//! The byte identities that the design promises (section 3), as data: `promises.toml`. Each is tried with every fixture of
//! its format; an exception is listed with its reason, and one that is not needed any more is red.

use apr_engine::open::{OpenOptions, open};
use apr_engine::rosetta::compare::compare;
use apr_host::convert::convert;
use apr_tests::{Scratch, fixtures, host, names_in, options, root};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A promise: files of `from`, through `through`, are the same bytes again.
struct Promise {
    from: String,
    through: String,
    /// Fixtures that are not: name and reason.
    except: Vec<(String, String)>,
}

fn promises() -> Vec<Promise> {
    let text = fs::read_to_string(root().join("tests/rosetta/promises.toml")).unwrap();
    let data: Json = toml::from_str(&text).unwrap();
    let word =
        |promise: &Json, key: &str| promise[key].as_str().unwrap_or_else(|| panic!("no {key}")).to_owned();
    let promises: Vec<Promise> = data["promise"]
        .as_array()
        .unwrap()
        .iter()
        .map(|promise| Promise {
            from: word(promise, "from"),
            through: word(promise, "through"),
            except: promise["except"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, reason)| (name.clone(), reason.as_str().unwrap().to_owned()))
                .collect(),
        })
        .collect();
    assert!(promises.iter().flat_map(|p| &p.except).all(|(_, reason)| reason.len() > 10), "give the reason");
    promises
}

/// The fixtures of a format: its files, and the folders that hold one model.
fn models(format: &str) -> Vec<PathBuf> {
    let host = host();
    let extensions = &host.registry.format(format).unwrap().manifest.extensions;
    let plugin = &host.registry.plugins()[host.registry.format(format).unwrap().plugin];
    let folder = fixtures(&plugin.manifest.as_ref().unwrap().id.replace('_', "-"));
    let is_model = |path: &Path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        extensions.iter().any(|e| name.ends_with(&format!(".{e}")))
    };
    let paths = names_in(&folder).into_iter().map(|name| folder.join(name));
    let found: Vec<_> = paths
        .filter(|p| {
            if p.is_dir() {
                names_in(p).iter().any(|n| is_model(&p.join(n))) && !p.ends_with("rejects")
            } else {
                is_model(p)
            }
        })
        .collect();
    assert!(!found.is_empty(), "no fixtures of {format}");
    found
}

/// Takes a model there and back; what is not as it was, or nothing.
fn broken(promise: &Promise, input: &Path) -> Result<(), String> {
    let (host, scratch) = (host(), Scratch::in_memory());
    let extension = |id: &str| host.registry.format(id).unwrap().manifest.extensions[0].clone();
    let middle = scratch.at(&format!("m.{}", extension(&promise.through)));
    let name = input.file_name().unwrap().to_str().unwrap();
    let back = scratch.at(&if input.is_dir() { "back".to_owned() } else { name.to_owned() });
    let mut there = options(input, &middle);
    there.to = Some(promise.through.clone());
    let mut again = options(&middle, &back);
    again.to = Some(promise.from.clone());
    for hop in [&there, &again] {
        convert(&host, hop).map_err(|e| e.to_string())?;
    }
    // Whatever the bytes are: the payload is always the same.
    let (source, result) =
        (open(&host, input, &OpenOptions::default()), open(&host, &back, &OpenOptions::default()));
    let findings = compare(&host, &source.unwrap(), &result.unwrap(), None).unwrap().findings;
    assert!(findings.is_empty(), "{}: {findings:?}", input.display());
    let is_of_the_model = |name: &String| !name.contains("golden") && !name.ends_with(".py");
    let (olds, news) = if input.is_dir() {
        (names_in(input).into_iter().filter(is_of_the_model).collect(), names_in(&back))
    } else {
        (vec![String::new()], vec![String::new()])
    };
    if olds != news {
        return Err(format!("{olds:?} became {news:?}"));
    }
    let path = |base: &Path, name: &str| if name.is_empty() { base.to_owned() } else { base.join(name) };
    for name in olds {
        if fs::read(path(input, &name)).unwrap() != fs::read(path(&back, &name)).unwrap() {
            return Err(format!("{name} has other bytes"));
        }
    }
    Ok(())
}

#[test]
fn every_promise_is_kept_and_every_exception_needed() {
    let mut complaints = Vec::new();
    for promise in promises() {
        let what = format!("{} through {}", promise.from, promise.through);
        let mut unused: BTreeSet<&String> = promise.except.iter().map(|(name, _)| name).collect();
        let models = models(&promise.from);
        let mut kept = 0;
        for model in &models {
            let name = model.file_name().unwrap().to_string_lossy().into_owned();
            let excepted = unused.remove(&name);
            match (broken(&promise, model), excepted) {
                (Ok(()), false) => kept += 1,
                (Err(_), true) => {}
                (Ok(()), true) => {
                    complaints.push(format!("{what}: {name} is excepted and comes back as it was"))
                }
                (Err(why), false) => complaints.push(format!("{what}: {name}: {why}")),
            }
        }
        complaints.extend(unused.iter().map(|name| format!("{what}: no fixture is called {name}")));
        if kept == 0 {
            complaints.push(format!("{what}: no fixture is left that the promise holds for"));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn every_format_with_a_writer_is_promised_through_apr() {
    let promised: BTreeSet<(String, String)> = promises().into_iter().map(|p| (p.from, p.through)).collect();
    for format in host().registry.formats().iter().filter(|f| f.manifest.writes && f.manifest.reads) {
        // A format of parts is promised by a test of its own: its models cannot begin in memory.
        if !format.manifest.parts.is_empty() {
            continue;
        }
        let id = format.id().to_owned();
        assert!(
            id == "apr" || promised.contains(&(id.clone(), "apr".to_owned())),
            "promises.toml lacks {id}"
        );
    }
}
