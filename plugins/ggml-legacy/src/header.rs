//! Everything before the tensors, as typed values: magic, version, hyperparameters, mel filters, vocabulary.

use crate::layout::{
    GGJT, GGLA, GGMF, GGML, Kind, MAX_FILTERS, MAX_TOKENS, MAX_VOCABULARY, Program, VERSION_FACTOR,
    Vocabulary,
};
use crate::types::Generation;
use apr_sdk::{Cursor, Error, Result, Value, ValueType};

/// What magic and version say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Container {
    /// The word that the magic spells.
    pub word: &'static str,
    /// The version, where there is one.
    pub version: Option<u32>,
    /// Whether payloads are aligned.
    pub is_aligned: bool,
    /// The version of the block layouts, where magic and version say it.
    pub generation: Option<Generation>,
}

impl Container {
    /// Reads magic and version at the cursor.
    ///
    /// # Errors
    /// Malformed for another magic; Unsupported for another version.
    pub fn read(cursor: &mut Cursor<'_>) -> Result<Container> {
        let mut magic = [0; 4];
        cursor.fill(&mut magic)?;
        let (word, versions) = match magic {
            GGML => ("ggml", 0..=0),
            GGMF => ("ggmf", 1..=1),
            GGJT => ("ggjt", 1..=3),
            GGLA => ("ggla", 1..=1),
            _ => {
                let message = "the file does not start with the magic ggml, ggmf, ggjt or ggla";
                return Err(cursor.error_at(0, message));
            }
        };
        let is_aligned = magic == GGJT || magic == GGLA;
        if magic == GGML {
            return Ok(Container { word, version: None, is_aligned, generation: None });
        }
        let at = cursor.position();
        let version = cursor.u32()?;
        if !versions.contains(&version) {
            let error = Error::unsupported(format!(
                "version {version} of {word} is not supported, only {} to {}",
                versions.start(),
                versions.end()
            ));
            return Err(cursor.place(error.code("E003").hint(hint(word, version)), at));
        }
        let generation = match (magic, version) {
            (GGJT, 2) => Generation::Halves,
            (GGJT, 3) | (GGLA, _) => Generation::Today,
            _ => Generation::Pairs,
        };
        Ok(Container { word, version: Some(version), is_aligned, generation: Some(generation) })
    }

    /// What it says as keys.
    pub fn keys(&self) -> Vec<(&'static str, Value)> {
        let mut keys = vec![("magic", Value::from_string(self.word))];
        keys.extend(self.version.map(|version| ("version", Value::from_u32(version))));
        keys
    }
}

fn hint(word: &str, version: u32) -> &'static str {
    match (word, version) {
        ("ggmf", 100 | 101) => "use rwkv.cpp's own tools: its files are not supported",
        _ => "convert the original model again with a current program",
    }
}

/// The header of one program's file.
#[derive(Debug)]
pub struct Header {
    /// Its values as keys, in the file's order.
    pub keys: Vec<(&'static str, Value)>,
    /// The version of the block layouts.
    pub generation: Generation,
    hparams: Vec<(&'static str, u32)>,
}

impl Header {
    /// The value of an integer hyperparameter; 0 if it is negative or not there.
    pub fn hparam(&self, name: &str) -> u64 {
        let found = self.hparams.iter().find(|(known, _)| *known == name);
        found.map_or(0, |(_, bits)| u64::try_from(bits.cast_signed()).unwrap_or(0))
    }

    /// Reads a program's header at the cursor.
    ///
    /// # Errors
    /// Malformed, Unsupported or LimitExceeded, with the place.
    pub fn read(cursor: &mut Cursor<'_>, container: &Container, program: &Program) -> Result<Header> {
        let mut header = Header { keys: Vec::new(), generation: Generation::Pairs, hparams: Vec::new() };
        let vocabulary = match container.generation {
            Some(_) => Vocabulary::Scored,
            None => program.vocabulary,
        };
        for &(name, kind) in program.hparams {
            let at = cursor.position();
            let bits = cursor.u32()?;
            let value = match kind {
                Kind::Int => Value::from_i32(bits.cast_signed()),
                Kind::Float => Value::from_f32(f32::from_bits(bits)),
            };
            header.keys.push((name, value));
            header.hparams.push((name, bits));
            let counts = name == "n_vocab" || program.layers.iter().any(|layers| layers.count == name);
            if counts && bits.cast_signed() < 1 {
                return Err(cursor.error_at(at, format!("`{name}` is {}", bits.cast_signed())));
            }
            if name == "ftype" {
                header.generation = generation(container, bits).map_err(|e| cursor.place(e, at))?;
            }
        }
        if program.has_mel_filters {
            header.read_mel_filters(cursor)?;
        }
        header.read_vocabulary(cursor, vocabulary)?;
        Ok(header)
    }

    /// Reads the header of a LoRA adapter.
    ///
    /// # Errors
    /// Malformed if it is cut off.
    pub fn read_adapter(cursor: &mut Cursor<'_>) -> Result<Header> {
        let mut keys = Vec::new();
        for name in ["lora_r", "lora_alpha"] {
            keys.push((name, Value::from_i32(cursor.u32()?.cast_signed())));
        }
        Ok(Header { keys, generation: Generation::Today, hparams: Vec::new() })
    }

    fn read_mel_filters(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        let at = cursor.position();
        let (n_mel, n_fft) = (cursor.u32()?, cursor.u32()?);
        let count = u64::from(n_mel) * u64::from(n_fft);
        cursor.count("mel filter value count", at, count, MAX_FILTERS, 4)?;
        let items = cursor.bytes(4 * count)?;
        self.keys.push(("mel.n_mel", Value::from_u32(n_mel)));
        self.keys.push(("mel.n_fft", Value::from_u32(n_fft)));
        self.keys.push(("mel.filters", Value::from_items(ValueType::F32, count, &items)));
        Ok(())
    }

    fn read_vocabulary(&mut self, cursor: &mut Cursor<'_>, vocabulary: Vocabulary) -> Result<()> {
        let at = cursor.position();
        let n_vocab = self.hparam("n_vocab");
        let count = match vocabulary {
            Vocabulary::Plain | Vocabulary::Scored => n_vocab,
            Vocabulary::Counted | Vocabulary::Own => u64::from(cursor.u32()?),
        };
        if count > n_vocab || vocabulary == Vocabulary::Counted && count != n_vocab {
            return Err(
                cursor.error_at(at, format!("a vocabulary of {count} tokens, but `n_vocab` is {n_vocab}"))
            );
        }
        let is_scored = vocabulary == Vocabulary::Scored;
        let each = if is_scored { 8 } else { 4 };
        cursor.count("token count", at, count, MAX_TOKENS, each)?;
        let (mut tokens, mut scores) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let at = cursor.position();
            let len = u64::from(cursor.u32()?);
            if tokens.len() as u64 + 8 + len > MAX_VOCABULARY {
                let message = format!("the vocabulary exceeds {MAX_VOCABULARY} bytes");
                return Err(cursor.place(Error::limit(message), at));
            }
            // The token, and the width of its length and score among the values.
            cursor.limits().budget.charge(8 + each).map_err(|e| cursor.place(e, at))?;
            tokens.extend(len.to_le_bytes());
            tokens.extend(cursor.bytes(len)?);
            if is_scored {
                scores.extend(cursor.u32()?.to_le_bytes());
            }
        }
        self.keys.push(("tokens", Value::from_items(ValueType::STRING, count, &tokens)));
        if is_scored {
            self.keys.push(("scores", Value::from_items(ValueType::F32, count, &scores)));
        }
        Ok(())
    }
}

/// The version of the block layouts: from the container, else from the `ftype` that standalone programs write.
fn generation(container: &Container, ftype: u32) -> Result<Generation> {
    if let Some(generation) = container.generation {
        return Ok(generation);
    }
    match ftype / VERSION_FACTOR {
        0 => Ok(Generation::Pairs),
        1 => Ok(Generation::Halves),
        2 => Ok(Generation::Today),
        version => Err(Error::unsupported(format!(
            "version {version} of the block layouts (`ftype` {ftype}) is not supported, only 0 to 2"
        ))),
    }
}
