//! Parses manifests. No line is trusted: the text comes from a file that has not been loaded yet.

use crate::manifest::{
    Carries, DialectRule, FileKey, ForeignCarrier, FormatManifest, Magic, Manifest, NameRule, WideActivations,
};
use crate::{BlockType, DType, Error, OptionKind, OptionSpec, Result, ValueType, escape};
use std::cell::Cell;

/// Bytes of a manifest's text. 1 MiB: a plugin with a hundred formats needs a twentieth of it.
const LONGEST: usize = 1 << 20;
/// Block types that a plugin may bring. 127: an `.apr` file numbers no more.
const MOST_BLOCK_TYPES: usize = 127;

impl Manifest {
    /// Parses a manifest (see [`crate::manifest`] for the keys). Unknown keys are recorded, not refused, so
    /// that newer plugins may declare more.
    ///
    /// # Errors
    /// Plugin for a line without `=`, a duplicate key, a bad id, or a value its key does not allow.
    pub fn parse(text: &str) -> Result<Manifest> {
        if text.len() > LONGEST {
            return Err(Error::plugin(format!(
                "the manifest has {} bytes, more than the limit of {LONGEST}",
                text.len()
            )));
        }
        let lines = Lines::new(text)?;
        let mut manifest = Manifest {
            id: lines.required("id")?.to_owned(),
            version: lines.required("version")?.to_owned(),
            license: lines.get("license").unwrap_or_default().to_owned(),
            quantizers: lines.words("quantizers"),
            block_types: Vec::new(),
            architectures: lines.words("architectures"),
            kernels: lines.words("kernels"),
            kernel_options: Vec::new(),
            formats: Vec::new(),
            unknown: Vec::new(),
        };
        check_id("plugin id", &manifest.id)?;
        for id in &manifest.quantizers {
            check_id("quantizer id", id)?;
            manifest.block_types.extend(lines.block_types(id)?);
        }
        check_block_types(&manifest.block_types)?;
        for id in &manifest.kernels {
            let options = lines.options(id, true)?;
            manifest.kernel_options.extend(options.into_iter().map(|option| (id.clone(), option)));
        }
        for id in lines.words("formats") {
            check_id("format id", &id)?;
            if manifest.formats.iter().any(|f| f.id == id) {
                return Err(Error::plugin(format!("the manifest has a duplicate format `{id}`")));
            }
            manifest.formats.push(lines.format(id, &manifest.block_types)?);
        }
        manifest.unknown = lines.unread();
        Ok(manifest)
    }
}

fn check_id(what: &str, id: &str) -> Result<()> {
    let fits = id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if !id.is_empty() && id.len() <= 64 && fits {
        return Ok(());
    }
    let shown = escape(id, 64);
    Err(Error::plugin(format!("the manifest's {what} `{shown}` must be 1 to 64 of a-z, 0-9 and _")))
}

fn check_block_types(all: &[BlockType]) -> Result<()> {
    if all.len() > MOST_BLOCK_TYPES {
        let message =
            format!("the manifest has {} block types, more than the limit of {MOST_BLOCK_TYPES}", all.len());
        return Err(Error::plugin(message));
    }
    let is_duplicate = |at: usize, name: &str| all[..at].iter().any(|earlier| earlier.name() == name);
    match all.iter().enumerate().find(|(at, block)| is_duplicate(*at, block.name())) {
        Some((_, twice)) => {
            Err(Error::plugin(format!("the manifest has a duplicate block type `{}`", twice.name())))
        }
        None => Ok(()),
    }
}

/// The `key=value` lines in order, each marked once it has been asked for.
struct Lines<'a>(Vec<Line<'a>>);

struct Line<'a> {
    key: &'a str,
    value: &'a str,
    read: Cell<bool>,
}

impl<'a> Line<'a> {
    fn read(&self) -> &'a str {
        self.read.set(true);
        self.value
    }
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Result<Lines<'a>> {
        let mut lines = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let Some((key, value)) = line.split_once('=') else {
                return Err(Error::plugin(format!(
                    "the line `{}` of the manifest has no `=`",
                    escape(line, 80)
                )));
            };
            lines.push(Line { key: key.trim(), value: value.trim(), read: Cell::new(false) });
        }
        let mut keys: Vec<_> = lines.iter().map(|line| line.key).collect();
        keys.sort_unstable();
        match keys.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => {
                Err(Error::plugin(format!("the manifest has a duplicate key `{}`", escape(pair[0], 80))))
            }
            None => Ok(Lines(lines)),
        }
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find(|line| line.key == key).map(Line::read)
    }

    /// The keys that nothing asked for.
    fn unread(&self) -> Vec<String> {
        self.0.iter().filter(|line| !line.read.get()).map(|line| line.key.to_owned()).collect()
    }

    fn required(&self, key: &str) -> Result<&'a str> {
        self.get(key)
            .filter(|v| !v.is_empty())
            .ok_or_else(|| Error::plugin(format!("the manifest has no `{key}`")))
    }

    fn words(&self, key: &str) -> Vec<String> {
        self.get(key).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    }

    /// Parses a list of `A:B` words.
    fn pairs(&self, key: &str) -> Result<Vec<(String, String)>> {
        let words = self.words(key);
        let pairs = words.iter().map(|word| word.split_once(':').map(|(a, b)| (a.to_owned(), b.to_owned())));
        let pairs: Option<_> = pairs.collect();
        pairs.ok_or_else(|| Error::plugin(format!("the manifest's `{key}` has a word without `:`")))
    }

    fn typed_keys(&self, key: &str) -> Result<Vec<(String, String)>> {
        let words = self.words(key);
        let pairs = words.iter().map(|word| match word.rsplit_once(':') {
            Some((name, kind)) if !name.is_empty() && !kind.is_empty() => {
                Ok((name.to_owned(), kind.to_owned()))
            }
            _ => Err(bad(key, word)),
        });
        pairs.collect()
    }

    fn file_keys(&self, key: &str) -> Result<Vec<FileKey>> {
        let keys = self.typed_keys(key)?.into_iter().map(|(name, kind)| match name.split_once(':') {
            Some((file, name)) if !file.is_empty() && !name.is_empty() => {
                Ok(FileKey { file: file.to_owned(), name: name.to_owned(), kind })
            }
            _ => Err(bad(key, &name)),
        });
        keys.collect()
    }

    fn block_types(&self, id: &str) -> Result<Vec<BlockType>> {
        let prefix = format!("{id}.dtype.");
        let rows = self.under(&prefix).map(|(name, sizes)| {
            let block = BlockType::parse(name, sizes);
            block.map_err(|why| Error::plugin(format!("the manifest's {}", why.message())))
        });
        rows.collect()
    }

    fn format(&self, id: String, brought: &[BlockType]) -> Result<FormatManifest> {
        let key = |name: &str| format!("{id}.{name}");
        let roles = self.words(&key("roles"));
        if let Some(odd) = roles.iter().find(|role| *role != "read" && *role != "write") {
            return Err(bad(&key("roles"), odd));
        }
        let magic = self
            .words(&key("magic"))
            .iter()
            .map(|word| parse_magic(&key("magic"), word))
            .collect::<Result<_>>()?;
        Ok(FormatManifest {
            name: self.get(&key("name")).unwrap_or(&id).to_owned(),
            reads: roles.iter().any(|role| role == "read"),
            writes: roles.iter().any(|role| role == "write"),
            magic,
            extensions: self.words(&key("extensions")),
            claims: self.words(&key("claims")),
            parts: self.words(&key("parts")),
            folder: self.yes(&key("folder"), false)?,
            aliases: self.words(&key("aliases")),
            dialect: self.dialect(&key("dialect"))?,
            carries: self.carries(&id, brought)?,
            bookkeeping: self.words(&key("bookkeeping")),
            tokenizer_keys: self.words(&key("tokenizer_keys")),
            card_keys: self.words(&key("card_keys")),
            type_keys: self.words(&key("type_keys")),
            type_names: self.pairs(&key("type_names"))?,
            wide_activations: self.wide_activations(&key("wide_activations"))?,
            described_weights: self.get(&key("described_weights")).map(str::to_owned),
            computation: self.computation(&key("computation"))?,
            adapters: self.words(&key("adapters")),
            keys: self.typed_keys(&key("keys"))?,
            file_keys: self.file_keys(&key("file_keys"))?,
            key_texts: self.pairs(&key("key_texts"))?,
            options: self.options(&id, false)?,
            reports: self
                .under(&key("report."))
                .map(|(name, help)| (name.to_owned(), help.to_owned()))
                .collect(),
            id,
        })
    }

    fn computation(&self, key: &str) -> Result<Option<(String, String)>> {
        match &self.words(key)[..] {
            [] => Ok(None),
            [held, report] => Ok(Some((held.clone(), report.clone()))),
            words => Err(bad(key, &words.join(" "))),
        }
    }

    fn dialect(&self, key: &str) -> Result<DialectRule> {
        let words = self.words(key);
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] | ["any"] => Ok(DialectRule::Any),
            ["always", id] => Ok(DialectRule::Always(id.to_owned())),
            ["requires", id] => Ok(DialectRule::Requires(id.to_owned())),
            ["prefers", id] => Ok(DialectRule::Prefers(id.to_owned())),
            _ => Err(bad(key, &words.join(" "))),
        }
    }

    fn wide_activations(&self, key: &str) -> Result<Option<WideActivations>> {
        let words = self.words(key);
        match &words[..] {
            [] => Ok(None),
            [dtype, names, flags] if names != flags => {
                let dtype = DType::from_name(dtype).ok_or_else(|| bad(key, dtype))?;
                Ok(Some(WideActivations { dtype, names: names.clone(), flags: flags.clone() }))
            }
            _ => Err(bad(key, &words.join(" "))),
        }
    }

    fn carries(&self, id: &str, brought: &[BlockType]) -> Result<Carries> {
        // What other plugins bring depends on which are loaded.
        let is_dtype = |name: &str| {
            DType::ALL.iter().any(|row| row.name == name) || brought.iter().any(|block| block.name() == name)
        };
        let key = |name: &str| format!("{id}.{name}");
        let standard = Carries::default();
        let tokenizer = [("yes", (true, false)), ("core", (false, true)), ("no", (false, false))];
        let (tokenizer, tokenizer_core) = self.one_of(&key("tokenizer"), &tokenizer, (false, false))?;
        Ok(Carries {
            one_tensor: self.yes(&key("one_tensor"), false)?,
            row_scales: self.yes(&key("row_scales"), false)?,
            dtypes: self.list(&key("dtypes"), is_dtype)?.unwrap_or(None),
            max_dims: self.number(&key("max_dims"), standard.max_dims)?,
            max_name_bytes: self.number(&key("max_name_bytes"), standard.max_name_bytes)?,
            names: self.one_of(
                &key("names"),
                &[("any", NameRule::Any), ("no-nul", NameRule::NoNul), ("no-control", NameRule::NoControl)],
                standard.names,
            )?,
            zero_size: self.yes(&key("zero_size"), true)?,
            scalars: self.yes(&key("scalars"), true)?,
            shared_storage: self.yes(&key("shared_storage"), false)?,
            metadata: match self.get(&key("metadata")) {
                None | Some("none") => standard.metadata,
                Some(_) => {
                    self.list(&key("metadata"), |name| ValueType::from_name(name).is_some())?.unwrap_or(None)
                }
            },
            tokenizer,
            tokenizer_core,
            token_rows: self.yes(&key("token_rows"), false)?,
            assets: self.yes(&key("assets"), false)?,
            graph: self.yes(&key("graph"), false)?,
            foreign: self.one_of(
                &key("foreign"),
                &[
                    ("none", ForeignCarrier::None),
                    ("keep", ForeignCarrier::Keep),
                    ("lost", ForeignCarrier::Lost),
                    ("all", ForeignCarrier::All),
                ],
                standard.foreign,
            )?,
        })
    }

    /// The words of a list: `Some(None)` for `*`, `None` if the key is absent.
    fn list(&self, key: &str, known: impl Fn(&str) -> bool) -> Result<Option<Option<Vec<String>>>> {
        if self.get(key).is_none() {
            return Ok(None);
        }
        let words = self.words(key);
        if words == ["*"] {
            return Ok(Some(None));
        }
        match words.iter().find(|word| !known(word)) {
            Some(odd) => Err(bad(key, odd)),
            None => Ok(Some(Some(words))),
        }
    }

    fn number(&self, key: &str, standard: usize) -> Result<usize> {
        self.get(key).map_or(Ok(standard), |value| value.parse().map_err(|_| bad(key, value)))
    }

    fn yes(&self, key: &str, standard: bool) -> Result<bool> {
        self.one_of(key, &[("yes", true), ("no", false)], standard)
    }

    fn one_of<T: Copy>(&self, key: &str, words: &[(&str, T)], standard: T) -> Result<T> {
        let Some(value) = self.get(key) else { return Ok(standard) };
        words.iter().find(|(word, _)| *word == value).map(|(_, v)| *v).ok_or_else(|| bad(key, value))
    }

    fn under(&self, prefix: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().filter_map(move |line| line.key.strip_prefix(prefix).map(|name| (name, line.read())))
    }

    fn options(&self, id: &str, of_kernel: bool) -> Result<Vec<OptionSpec>> {
        let prefix = format!("{id}.option.");
        self.under(&prefix).map(|(name, value)| parse_option(id, name, value, of_kernel)).collect()
    }
}

fn bad(key: &str, value: &str) -> Error {
    Error::plugin(format!("the manifest's `{}` cannot be `{}`", escape(key, 80), escape(value, 80)))
}

fn parse_magic(key: &str, word: &str) -> Result<Magic> {
    magic(word).ok_or_else(|| bad(key, word))
}

fn magic(word: &str) -> Option<Magic> {
    let (offset, digits) = word.split_once(':')?;
    if digits.is_empty() || !digits.is_ascii() {
        return None;
    }
    let mut bytes = Vec::new();
    let mut rest = digits;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('-') {
            bytes.push(None);
            rest = after;
        } else {
            bytes.push(Some(u8::from_str_radix(rest.get(..2)?, 16).ok()?));
            rest = &rest[2..];
        }
    }
    Some(Magic { offset: offset.parse().ok()?, bytes })
}

fn parse_option(id: &str, name: &str, value: &str, of_kernel: bool) -> Result<OptionSpec> {
    option(name, value, of_kernel).ok_or_else(|| bad(&format!("{id}.option.{name}"), value))
}

fn option(name: &str, value: &str, of_kernel: bool) -> Option<OptionSpec> {
    let mut words = value.splitn(4, ' ');
    let when = words.next()?;
    let kind = words.next()?;
    let default = words.next()?;
    let kind = match kind.split_once(':') {
        None if kind == "flag" => OptionKind::Flag,
        None if kind == "integer" => OptionKind::Integer,
        None if kind == "text" => OptionKind::Text,
        None if kind == "refuse" && when == "read" => OptionKind::Refuse,
        Some(("choice", words)) => OptionKind::Choice(words.split(',').map(str::to_owned).collect()),
        _ => return None,
    };
    let spec = OptionSpec {
        name: name.to_owned(),
        read: matches!(when, "read" | "both"),
        write: matches!(when, "write" | "both"),
        kind,
        default: if default == "-" { String::new() } else { default.to_owned() },
        help: words.next().unwrap_or_default().to_owned(),
    };
    let default_fits = spec.default.is_empty() || spec.accepts(&spec.default);
    let when_fits = if of_kernel { when == "open" } else { spec.read || spec.write };
    (when_fits && default_fits && !name.is_empty()).then_some(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "id=toy\nversion=1\nlicense=MIT\nformats=toy\n";

    #[test]
    fn reads_every_key() {
        let manifest = Manifest::parse(&format!(
            "{HEAD}toy.name=Toy format\ntoy.roles=read write\ntoy.magic=0:544f-31 4:ff\ntoy.extensions=toy ty\n\
             toy.dtypes=F32 Q4_K\ntoy.max_dims=4\ntoy.names=no-nul\ntoy.metadata=str\ntoy.foreign=lost\ntoy.bookkeeping=size cut\ntoy.keys=name:str of:it:[u8]\n\
             toy.file_keys=a.json:of:it:[u8]\ntoy.key_texts=of:it.txt\n\
             toy.dialect=prefers hf\ntoy.option.order=read choice:big,little big Which order\ntoy.report.scan=What it calls\n\
             toy.parts=a b\ntoy.folder=yes\ntoy.aliases=ty\ntoy.wide_activations=Q4_K of.name of.flag\n\
             toy.described_weights=of names\ntoy.computation=of.graph nodes\n\
             toy.adapters=adapter.json kind=adapter\n"
        ))
        .unwrap();
        let format = &manifest.formats[0];
        assert_eq!(manifest.kinds(), ["reader", "writer"]);
        assert!(format.magic[0].matches(b"TO?1") && !format.magic[0].matches(b"TO?2"));
        assert!(format.carries.dtype("Q4_K") && !format.carries.dtype("F16"));
        assert_eq!((format.carries.max_dims, format.carries.names), (4, NameRule::NoNul));
        assert_eq!(format.options[0].kind, OptionKind::Choice(vec!["big".into(), "little".into()]));
        assert_eq!(format.dialect, DialectRule::Prefers("hf".into()));
        assert_eq!(format.bookkeeping, ["size", "cut"]);
        let keys =
            [("name", "str"), ("of:it", "[u8]")].map(|(name, kind)| (name.to_owned(), kind.to_owned()));
        assert_eq!(format.keys, keys);
        let key = FileKey { file: "a.json".to_owned(), name: "of:it".to_owned(), kind: "[u8]".to_owned() };
        assert_eq!(format.file_keys, [key]);
        assert_eq!(format.key_texts, [("of".to_owned(), "it.txt".to_owned())]);
        assert_eq!((&format.parts[..], format.folder), (&["a".to_owned(), "b".to_owned()][..], true));
        assert_eq!(format.aliases, ["ty"]);
        let wide = WideActivations { dtype: DType::Q4_K, names: "of.name".into(), flags: "of.flag".into() };
        assert_eq!(format.wide_activations, Some(wide));
        assert_eq!(format.described_weights.as_deref(), Some("of names"));
        assert_eq!(format.computation, Some(("of.graph".to_owned(), "nodes".to_owned())));
        assert_eq!(format.adapters, ["adapter.json", "kind=adapter"]);
        assert_eq!(format.reports, [("scan".to_owned(), "What it calls".to_owned())]);
        assert_eq!(manifest.unknown, [""; 0]);
    }

    #[test]
    fn block_types_are_rows_of_the_plugins_own() {
        let head = "id=a\nversion=1\nquantizers=q r\n";
        let rows = "q.dtype.NB4=32 18 0:f16\nr.dtype.WIDE=64 130 0:f32\nformats=f\nf.roles=write\nf.dtypes=F32 NB4\n";
        let manifest = Manifest::parse(&format!("{head}{rows}")).unwrap();
        let names: Vec<_> = manifest.block_types.iter().map(|block| (block.name(), block.bytes())).collect();
        assert_eq!(names, [("NB4", 18), ("WIDE", 130)]);
        assert!(manifest.formats[0].carries.dtype("NB4") && manifest.unknown.is_empty());
        for (rows, why) in [
            ("q.dtype.NB4=32 18 0:f16\nr.dtype.NB4=32 18 0:f16", "duplicate block type `NB4`"),
            ("q.dtype.Q4_K=256 144", "`Q4_K`: the name is that of a built-in type"),
            ("q.dtype.NB4=32 99999999", "32 elements take 1 to 512 bytes, not 99999999"),
            ("formats=f\nf.roles=write\nf.dtypes=NB4", "`f.dtypes` cannot be `NB4`"),
        ] {
            let error = Manifest::parse(&format!("{head}{rows}\n")).unwrap_err();
            assert!(error.message().contains(why), "{rows}: {error}");
        }
        let rows: String = (0..128).map(|n| format!("q.dtype.X{n}=32 18\n")).collect();
        Manifest::parse(&format!("{head}{rows}")).unwrap_err();
    }

    #[test]
    fn a_computation_is_a_key_and_a_report() {
        for wrong in ["of.graph", "of.graph nodes more"] {
            Manifest::parse(&format!("{HEAD}toy.roles=read\ntoy.computation={wrong}\n")).unwrap_err();
        }
    }

    #[test]
    fn keys_that_nobody_knows_are_noted() {
        let text =
            format!("{HEAD}toy.roles=read\ntoy.colour=red\ntoy.report.scan=What\nother.name=Other\nkind=x\n");
        assert_eq!(Manifest::parse(&text).unwrap().unknown, ["toy.colour", "other.name", "kind"]);
    }

    #[test]
    fn refuses_what_a_key_does_not_allow() {
        for line in [
            "toy.roles=reed",
            "toy.magic=x:00",
            "toy.magic=0:0",
            "toy.dtypes=F33",
            "toy.max_dims=x",
            "toy.names=odd",
            "toy.dialect=wants x",
            "toy.option.a=read",
            "toy.option.a=read choice:x y help",
            "toy.option.a=write refuse - help",
            "toy.metadata=u99",
            "no equals sign",
            "id=again",
            "toy.zero_size=maybe",
            "toy.one_tensor=2",
            "toy.wide_activations=F33 a b",
            "toy.wide_activations=Q4_K a",
            "toy.wide_activations=Q4_K a a",
        ] {
            assert!(Manifest::parse(&format!("{HEAD}{line}\n")).is_err(), "{line}");
        }
        for text in ["", "id=\nversion=1", "id=UP\nversion=1", "id=a\n", "id=a\nversion=1\nformats=a a"] {
            assert!(Manifest::parse(text).is_err(), "{text}");
        }
    }
}
