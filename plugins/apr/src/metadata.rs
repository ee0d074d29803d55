//! The metadata section: what a model says beyond its tensors, and its JSON text in canonical order.

use crate::dtypes::Numbers;
use crate::entries;
use crate::layout::{HIDDEN, VERSION_TEXT};
use crate::render::{Fetch, Origin, Rendered, raw_json};
use apr_sdk::{Asset, Bytes, Foreign, Result};
use serde_json::{Value as Json, json};

/// The model type if there is no architecture.
pub const NO_ARCHITECTURE: &str = "tensors";
/// The configuration if there is no architecture.
pub const NO_CONFIG: &str = "{}";
/// The prefix of keys with other formats' metadata.
pub const FOREIGN: &str = "foreign.";
/// The keys that this plugin understands, besides those under [`FOREIGN`].
pub const KNOWN: &[&str] = &[
    "apr_version",
    "model_type",
    "architecture",
    "dialect",
    "recipe",
    "dtypes",
    "block_types",
    "tokenizer",
    "model_card",
    "assets",
    "order",
    "provenance",
];

/// The contents of the metadata section. JSON that is only carried stays text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// The architecture's id, or [`NO_ARCHITECTURE`].
    pub model_type: String,
    /// The canonical configuration, as JSON.
    pub architecture: Bytes,
    /// The dialect of tensor names and keys.
    pub dialect: String,
    /// The name of the quantization recipe.
    pub recipe: Option<String>,
    /// The dtypes that the file itself assigns numbers to.
    pub dtypes: Numbers,
    /// The tokenizer as JSON, in the file or in a hidden tensor.
    pub tokenizer: Option<Bytes>,
    /// What the model's makers say about it.
    pub model_card: Option<Bytes>,
    /// Companion files.
    pub assets: Vec<Asset>,
    /// Other formats' metadata.
    pub foreign: Vec<Foreign>,
    /// The names of tensors that share an offset, in model order, as a JSON array.
    pub order: Option<Bytes>,
    /// Other programs' keys, with the text of their values.
    pub unknown: Vec<(String, Bytes)>,
    /// The provenance record.
    pub provenance: Option<Bytes>,
}

/// The name of the hidden tensor in a reference `{"at": "__apr__/…"}`.
pub fn place(text: &str) -> Option<String> {
    // Checked before parsing: carried JSON may be long.
    let inside = text.strip_prefix('{')?.trim_start();
    if !inside.starts_with("\"at\"") {
        return None;
    }
    let entries = entries::parse("place", text, 1).ok()?;
    let name: String = serde_json::from_str(entries.first()?.1.get()).ok()?;
    name.starts_with(HIDDEN).then_some(name)
}

impl Metadata {
    /// Whether there is an architecture.
    pub fn has_architecture(&self) -> bool {
        self.model_type != NO_ARCHITECTURE || self.architecture.inline() != Some(NO_CONFIG.as_bytes())
    }

    /// Renders the section. Without a provenance record, one is created from `origin`, if given.
    ///
    /// # Errors
    /// Any error from reading; Malformed for values whose bytes do not match their type.
    pub fn render(&self, origin: Option<Origin<'_>>, fetch: Fetch<'_>) -> Result<Rendered> {
        let mut out = Rendered::default();
        out.entry("apr_version", &Json::from(VERSION_TEXT).to_string());
        out.entry("model_type", &Json::from(self.model_type.as_str()).to_string());
        let architecture = out.carried(&self.architecture, fetch)?;
        out.entry("architecture", &architecture);
        out.entry("dialect", &Json::from(self.dialect.as_str()).to_string());
        if let Some(recipe) = &self.recipe {
            out.entry("recipe", &Json::from(recipe.as_str()).to_string());
        }
        if !self.dtypes.named.is_empty() {
            let names = self.dtypes.named.iter().map(|of| (of.number.to_string(), json!(of.name)));
            out.entry("dtypes", &Json::Object(names.collect()).to_string());
        }
        let mut blocks = self.dtypes.named.iter().filter_map(|named| named.block.as_ref()).peekable();
        if blocks.peek().is_some() {
            let sizes = blocks.map(|block| (block.name().to_owned(), json!(block.to_string())));
            out.entry("block_types", &Json::Object(sizes.collect()).to_string());
        }
        if let Some(tokenizer) = &self.tokenizer {
            let tokenizer = out.carried(tokenizer, fetch)?;
            out.entry("tokenizer", &tokenizer);
        }
        if let Some(card) = &self.model_card {
            let card = out.carried(card, fetch)?;
            out.entry("model_card", &card);
        }
        if !self.assets.is_empty() {
            out.assets(&self.assets, fetch)?;
        }
        for foreign in &self.foreign {
            out.foreign(foreign, fetch)?;
        }
        if let Some(order) = &self.order {
            let order = out.carried(order, fetch)?;
            out.entry("order", &order);
        }
        for (key, value) in &self.unknown {
            let value = fetch(value)?;
            out.entry(key, raw_json(key, value.inline().unwrap_or_default())?);
        }
        match (&self.provenance, origin) {
            (Some(provenance), _) => {
                let held = fetch(provenance)?;
                out.entry("provenance", raw_json("provenance", held.inline().unwrap_or_default())?);
            }
            (None, Some(origin)) => out.provenance(origin)?,
            (None, None) => {}
        }
        out.text("}");
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtypes::Named;
    use crate::parse::Parser;
    use crate::render::Piece;
    use apr_sdk::{BlockType, Error, ForeignFile, Limits, Value, json};

    fn held(bytes: &Bytes) -> Result<Bytes> {
        Ok(bytes.clone())
    }

    fn metadata() -> Metadata {
        let file = |name: &str, typed| ForeignFile {
            name: name.to_owned(),
            n_tensors: 2,
            typed,
            verbatim: Some(Bytes::from([0xff, 0].as_slice())),
        };
        let typed = vec![
            ("z".to_owned(), Value::from_u64(u64::MAX)),
            ("long".to_owned(), Value::from_string("x".repeat(70_000))),
            ("a\"\n".to_owned(), Value::from_f32(f32::NAN)),
        ];
        Metadata {
            model_type: "whisper".to_owned(),
            architecture: Bytes::from(r#"{"n": 1e400}"#),
            dialect: "hf".to_owned(),
            recipe: Some("Q4_K_M".to_owned()),
            dtypes: Numbers {
                named: vec![
                    Named { number: 128, name: "X".to_owned(), block: None },
                    Named {
                        number: 130,
                        name: "NB4".to_owned(),
                        block: BlockType::parse("NB4", "32 18 0:f16").ok(),
                    },
                ],
            },
            tokenizer: Some(Bytes::from(" [1]")),
            model_card: Some(Bytes::from(r#"{"name":"é"}"#)),
            assets: vec![Asset { name: "README.md".to_owned(), bytes: Bytes::from("é") }],
            foreign: vec![Foreign {
                format: "toy".to_owned(),
                files: vec![file("", typed), file("b", vec![])],
            }],
            order: Some(Bytes::from(r#"["a"]"#)),
            unknown: vec![("vocab".to_owned(), Bytes::from(r#"[ "x" ]"#))],
            provenance: Some(Bytes::from("{}")),
        }
    }

    fn text(rendered: &Rendered) -> String {
        let pieces = rendered.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::InputCrc(n) => format!("{n:08x}"),
        });
        pieces.collect()
    }

    #[test]
    fn comes_back_from_its_text() {
        let written = metadata();
        let rendered = written.render(None, &mut held).unwrap();
        let text = text(&rendered);
        let mut resolve = |name: &str| {
            let found = rendered.hidden.iter().find(|(hidden, _)| hidden == name);
            found.map(|(_, bytes)| bytes.clone()).ok_or_else(|| Error::malformed("no such tensor"))
        };
        let limits = Limits::default();
        let read = Parser::new(&text, 0, &limits, &mut resolve).metadata().unwrap();
        assert_eq!(read, written);
        let names: Vec<_> =
            rendered.hidden.iter().map(|(name, bytes)| (name.as_str(), bytes.len())).collect();
        assert_eq!(names, [("__apr__/0", 4), ("__apr__/1", 70_008)]);
        assert!(rendered.is(&text) && read.render(None, &mut held).unwrap() == rendered);
    }

    #[test]
    fn foreign_metadata_has_the_form_of_the_sdk() {
        let mut metadata = metadata();
        metadata.foreign[0].files[0].typed.remove(1);
        let foreign = &metadata.foreign[0];
        let mut out = Rendered::default();
        out.foreign(foreign, &mut held).unwrap();
        let sdk = json::foreign_to_json(foreign, true, &mut |_| Ok(None), &mut held).unwrap();
        assert_eq!(text(&out), format!("{{\"foreign.toy\":{sdk}"));
    }

    #[test]
    fn provenance_names_neither_path_nor_time() {
        let versions = [("apr".to_owned(), "0.1.0".to_owned())];
        let more = r#"{"options":{"arch":"none"}}"#;
        let origin = Origin { versions: &versions, inputs: &[7, 8], source: &[], more };
        let metadata = Metadata { provenance: None, ..metadata() };
        let text = text(&metadata.render(Some(origin), &mut held).unwrap());
        let expected = r#""provenance":{"versions":{"apr":"0.1.0"},"inputs":[{"bytes":7,"crc32":"00000000"},{"bytes":8,"crc32":"00000001"}],"options":{"arch":"none"}}}"#;
        assert!(text.ends_with(expected), "{text}");
    }
}
