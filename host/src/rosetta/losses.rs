//! The pairs of formats that the available plugins support, and what each pair loses according to the
//! manifests.

use apr_engine::registry::{Format, Registry};
use apr_sdk::manifest::{Carries, ForeignCarrier, NameRule};
use apr_sdk::{DType, FormatManifest};
use serde::Serialize;

/// The supported pairs. Keys of `apr.rosetta.list/1`.
#[derive(Clone, Debug, Serialize)]
pub struct Pairs {
    /// Every available format.
    pub formats: Vec<Role>,
    /// Every ordered pair of a readable format and another, writable one.
    pub pairs: Vec<Pair>,
}

/// A format, and which side of a conversion it can be.
#[derive(Clone, Debug, Serialize)]
pub struct Role {
    /// The format's id.
    pub id: String,
    /// True if it can be the source.
    pub reads: bool,
    /// True if it can be the target.
    pub writes: bool,
}

/// A source, a target, and what the source can hold but the target cannot.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    /// The id of the source format.
    pub from: String,
    /// The id of the target format.
    pub to: String,
    /// Models refused before anything is written.
    pub refuses: Refusals,
    /// Losses although the conversion succeeds.
    pub loses: Vec<String>,
}

/// Refusals of a target.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Refusals {
    /// Models with any number of tensors but one.
    pub several_tensors: bool,
    /// Dtypes, by name.
    pub dtypes: Vec<String>,
    /// The most dimensions, if the source can have more.
    pub max_dims: Option<usize>,
    /// The longest name in bytes, if the source can have longer ones.
    pub max_name_bytes: Option<usize>,
    /// Characters in names.
    pub names: Option<&'static str>,
    /// Tensors without elements.
    pub zero_size: bool,
    /// Tensors without dimensions.
    pub scalars: bool,
}

/// Every pair that the registry supports.
pub fn pairs(registry: &Registry) -> Pairs {
    let formats = registry.formats();
    let roles = formats.iter().map(|f| &f.manifest);
    Pairs {
        formats: roles.map(|m| Role { id: m.id.clone(), reads: m.reads, writes: m.writes }).collect(),
        pairs: formats
            .iter()
            .flat_map(|from| formats.iter().map(move |to| (from, to)))
            .filter(|(from, to)| is_pair(from, to))
            .map(|(from, to)| pair(&from.manifest, &to.manifest))
            .collect(),
    }
}

/// Returns whether a model can be converted from one format to the other.
pub fn is_pair(from: &Format, to: &Format) -> bool {
    from.id() != to.id() && from.manifest.reads && to.manifest.writes
}

fn pair(from: &FormatManifest, to: &FormatManifest) -> Pair {
    Pair {
        from: from.id.clone(),
        to: to.id.clone(),
        refuses: refusals(&from.carries, &to.carries),
        loses: losses(&from.carries, &to.carries),
    }
}

fn refusals(from: &Carries, to: &Carries) -> Refusals {
    let dtypes = DType::ALL.iter().map(|row| row.name).filter(|name| from.dtype(name) && !to.dtype(name));
    Refusals {
        several_tensors: to.one_tensor && !from.one_tensor,
        dtypes: dtypes.map(str::to_owned).collect(),
        max_dims: (to.max_dims < from.max_dims).then_some(to.max_dims),
        max_name_bytes: (to.max_name_bytes < from.max_name_bytes).then_some(to.max_name_bytes),
        names: match (from.names, to.names) {
            (NameRule::Any, NameRule::NoNul) => Some("NUL"),
            (NameRule::Any | NameRule::NoNul, NameRule::NoControl) => Some("control characters"),
            _ => None,
        },
        zero_size: from.zero_size && !to.zero_size,
        scalars: from.scalars && !to.scalars,
    }
}

fn losses(from: &Carries, to: &Carries) -> Vec<String> {
    let mut lost = Vec::new();
    let others = matches!(from.foreign, ForeignCarrier::Lost | ForeignCarrier::All);
    if from.has_metadata() || others {
        match to.foreign {
            ForeignCarrier::None => lost.push("metadata".to_owned()),
            ForeignCarrier::Keep => lost.push("metadata unless --foreign keep".to_owned()),
            _ => {}
        }
    }
    if to.one_tensor && !from.one_tensor {
        lost.push("the tensor's name".to_owned());
    }
    for (held, kept, what) in [
        (from.tokenizer, to.tokenizer, "tokenizer"),
        (from.assets, to.assets, "companion files"),
        (from.graph, to.graph, "graph"),
        (from.shared_storage, to.shared_storage, "shared storage"),
    ] {
        if held && !kept {
            lost.push(what.to_owned());
        }
    }
    lost
}

impl Refusals {
    /// The refusals in words, shortest first; empty if everything is accepted.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.several_tensors {
            words.push("all but one tensor".to_owned());
        }
        if let Some(most) = self.max_dims {
            words.push(format!("more than {most} dimensions"));
        }
        if let Some(most) = self.max_name_bytes {
            words.push(format!("names longer than {most} bytes"));
        }
        words.extend(self.names.map(|what| format!("{what} in names")));
        if self.zero_size {
            words.push("tensors without elements".to_owned());
        }
        if self.scalars {
            words.push("tensors without dimensions".to_owned());
        }
        match &self.dtypes[..] {
            [] => {}
            few if few.len() <= 4 => words.push(few.join(", ")),
            many => words.push(format!("{} dtypes ({}, ...)", many.len(), many[..3].join(", "))),
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::Manifest;

    fn format(id: &str, lines: &str) -> FormatManifest {
        let text =
            format!("id=t\nversion=1\nlicense=MIT\nformats={id}\n{}", lines.replace("X.", &format!("{id}.")));
        Manifest::parse(&text).unwrap().formats.remove(0)
    }

    #[test]
    fn a_pair_refuses_and_loses_what_only_the_source_has() {
        let rich = format("rich", "X.dtypes=*\nX.metadata=*\nX.tokenizer=yes\nX.assets=yes\nX.foreign=all\n");
        let poor = format(
            "poor",
            "X.dtypes=F32\nX.max_dims=4\nX.max_name_bytes=9\nX.names=no-nul\nX.zero_size=no\nX.scalars=no\n\
             X.one_tensor=yes\n",
        );
        let there = pair(&rich, &poor);
        assert_eq!(there.refuses.dtypes.len(), DType::ALL.len() - 1);
        assert_eq!((there.refuses.max_dims, there.refuses.max_name_bytes), (Some(4), Some(9)));
        assert_eq!(there.refuses.words().len(), 7);
        assert_eq!(there.loses, ["metadata", "the tensor's name", "tokenizer", "companion files"]);
        let back = pair(&poor, &rich);
        assert!(back.refuses.words().is_empty() && back.loses.is_empty(), "{back:?}");
    }
}
