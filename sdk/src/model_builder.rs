//! Builds a [`Model`] from what a reader pushes and checks it; the only way to get one.

use crate::name_set::NameSet;
use crate::{
    Architecture, Asset, Bytes, Checksum, Coding, Error, Extent, Fact, FileId, ForeignFile, Limits, Model,
    ModelSink, Part, PartDecl, Payload, Result, Tensor, TensorDecl, Value, checked_payload_len,
};
use std::collections::HashSet;

/// Collects a model, push by push, under [`Limits`]. The host drives readers with it; so may a plugin's
/// tests.
pub struct ModelBuilder<'a> {
    model: Model,
    names: NameSet,
    keys: NameSet,
    mapped: HashSet<String>,
    open_file: Option<(usize, usize)>,
    limits: &'a Limits,
    file_len: &'a dyn Fn(FileId) -> Result<u64>,
}

impl<'a> ModelBuilder<'a> {
    /// A builder for a model of `format`. `file_len` returns a file's length, to bounds-check extents.
    pub fn new(
        format: &str,
        limits: &'a Limits,
        file_len: &'a dyn Fn(FileId) -> Result<u64>,
    ) -> ModelBuilder<'a> {
        let model = Model { format: format.to_owned(), dialect: "none".to_owned(), ..Model::default() };
        ModelBuilder {
            model,
            names: NameSet::default(),
            keys: NameSet::default(),
            mapped: HashSet::new(),
            open_file: None,
            limits,
            file_len,
        }
    }

    /// Returns the finished, checked model.
    pub fn finish(self) -> Model {
        self.model
    }

    fn inside(&self, extent: Extent) -> Result<()> {
        let len = (self.file_len)(extent.file)?;
        match extent.end() {
            Some(end) if end <= len => Ok(()),
            Some(end) => Err(Error::malformed(format!(
                "its data ends at byte {end}, {} bytes past the end of the file ({len} bytes)",
                end - len
            ))
            .at(extent.offset)
            .hint("get the file again: it is truncated or corrupt")),
            None => Err(Error::malformed("its data ends past 2^64").at(extent.offset)),
        }
    }

    fn bytes(&self, bytes: &Bytes) -> Result<()> {
        match bytes {
            Bytes::Inline(held) => self.limits.budget.charge(held.len() as u64),
            Bytes::Extent(extent) => self.inside(*extent),
        }
    }

    fn name_len(&self, what: &str, name: &str) -> Result<()> {
        if name.len() as u64 <= self.limits.name_bytes {
            return Ok(());
        }
        Err(Error::limit(format!(
            "a {what} has {} bytes, more than the limit of {}",
            name.len(),
            self.limits.name_bytes
        )))
    }

    fn payload(&self, tensor: &TensorDecl<'_>, need: u64) -> Result<()> {
        if let Payload::Blocks { codec } = &tensor.payload {
            let told = codec.options.iter().map(|(name, value)| (name.len() + value.len()) as u64 + 48).sum();
            self.limits.budget.charge(told)?;
        }
        let Payload::Extent { extent, view } = &tensor.payload else { return Ok(()) };
        self.inside(*extent)?;
        match view {
            Some(view) if !view.strides.is_empty() => view_fits(tensor, view, extent.len),
            Some(view) if view.start != 0 => {
                Err(Error::malformed("a view that starts inside its extent requires strides")
                    .at(extent.offset))
            }
            _ if extent.len == need => Ok(()),
            _ => Err(Error::malformed(format!(
                "{} {:?} requires {need} bytes, but its extent in the file has {}",
                tensor.dtype, tensor.shape, extent.len
            ))
            .at(extent.offset)),
        }
    }

    /// Checks a tensor against the limits, and charges for it.
    fn check_tensor(&self, tensor: &TensorDecl<'_>) -> Result<()> {
        self.name_len("tensor name", tensor.name)?;
        if tensor.shape.len() > self.limits.dims {
            let message = format!(
                "it has {} dimensions, more than the limit of {}",
                tensor.shape.len(),
                self.limits.dims
            );
            return Err(Error::unsupported(message));
        }
        let need = checked_payload_len(tensor.dtype, tensor.shape)?;
        self.payload(tensor, need)?;
        // The name, the shape, and the records themselves.
        self.limits.budget.charge(tensor.name.len() as u64 + 8 * tensor.shape.len() as u64 + 200)
    }

    /// The file that metadata is being pushed for: indices of its foreign record and of the file in it.
    fn open_file(&self) -> Result<(usize, usize)> {
        self.open_file.ok_or_else(|| Error::plugin("foreign metadata before `foreign_file`"))
    }
}

/// Names the metadata key that an error is about.
fn of_key(key: &str, error: &Error) -> Error {
    let key = crate::escape(key, 120);
    Error::new(error.kind(), format!("metadata key `{key}`: {}", error.message()))
}

fn is_inside(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Checks that every element a strided view reaches lies within an extent of `len` bytes.
fn view_fits(tensor: &TensorDecl<'_>, view: &crate::View, len: u64) -> Result<()> {
    let TensorDecl { dtype, shape, .. } = tensor;
    let info = dtype.require()?;
    if view.strides.len() != shape.len() || info.block_elements != 1 {
        let message = format!("a view of {} strides for {dtype} {shape:?}", view.strides.len());
        return Err(Error::malformed(message));
    }
    if tensor.shape.contains(&0) {
        return Ok(());
    }
    let last = tensor.shape.iter().zip(&view.strides).try_fold(view.start, |at, (&size, &stride)| {
        (size - 1).checked_mul(stride).and_then(|far| at.checked_add(far))
    });
    let end = last.and_then(|at| at.checked_add(1)).and_then(|n| n.checked_mul(u64::from(info.block_bytes)));
    match end {
        Some(end) if end <= len => Ok(()),
        _ => Err(Error::malformed(format!("a view of {dtype} {shape:?} extends past its {len} bytes"))),
    }
}

impl ModelSink for ModelBuilder<'_> {
    fn tensor(&mut self, tensor: TensorDecl<'_>) -> Result<()> {
        if self.model.tensors.len() as u64 >= self.limits.tensors {
            return Err(Error::limit(format!("the model has more than {} tensors", self.limits.tensors)));
        }
        self.check_tensor(&tensor).map_err(|e| e.tensor(tensor.name))?;
        let earlier = &self.model.tensors;
        if !self.names.insert(tensor.name, |n| earlier[n].name.as_str()) {
            // The tensor's data is not at fault: the reader adds the offset of the name.
            return Err(Error::malformed("duplicate tensor name").tensor(tensor.name));
        }
        self.model.tensors.push(Tensor {
            name: tensor.name.to_owned(),
            dtype: tensor.dtype,
            shape: tensor.shape.to_vec(),
            payload: tensor.payload,
        });
        Ok(())
    }

    fn foreign_file(&mut self, format: &str, name: &str, n_tensors: u64) -> Result<()> {
        self.name_len("file name", name)?;
        // A single-file model has no file name of its own.
        if !name.is_empty() {
            crate::check_file_name("file name", name)?;
        }
        self.limits.budget.charge(name.len() as u64 + 100)?;
        self.keys = NameSet::default();
        let foreign = self.model.foreign_mut(format);
        if foreign.files.len() as u64 >= u64::from(self.limits.files) {
            return Err(Error::limit(format!("the model has more than {} files", self.limits.files)));
        }
        foreign.files.push(ForeignFile { name: name.to_owned(), n_tensors, ..ForeignFile::default() });
        let file = foreign.files.len() - 1;
        let at = self.model.foreign.iter().position(|f| f.format == format).unwrap_or_default();
        self.open_file = Some((at, file));
        Ok(())
    }

    fn foreign(&mut self, key: &str, value: Value) -> Result<()> {
        self.name_len("metadata key", key)?;
        self.bytes(&value.bytes).and_then(|()| value.check()).map_err(|e| of_key(key, &e))?;
        self.limits.budget.charge(2 * key.len() as u64 + 120)?;
        let limit = self.limits.metadata_keys;
        let (foreign, file) = self.open_file()?;
        let file = &mut self.model.foreign[foreign].files[file];
        let earlier = &file.typed;
        if !self.keys.insert(key, |n| earlier[n].0.as_str()) {
            return Err(of_key(key, &Error::malformed("duplicate key")));
        }
        if file.typed.len() as u64 >= limit {
            return Err(Error::limit(format!("a file has more than {limit} metadata keys")));
        }
        file.typed.push((key.to_owned(), value));
        Ok(())
    }

    fn verbatim(&mut self, bytes: Bytes) -> Result<()> {
        self.bytes(&bytes)?;
        let (foreign, file) = self.open_file()?;
        self.model.foreign[foreign].files[file].verbatim = Some(bytes);
        Ok(())
    }

    fn asset(&mut self, name: &str, bytes: Bytes) -> Result<()> {
        self.name_len("asset name", name)?;
        self.bytes(&bytes)?;
        self.limits.budget.charge(name.len() as u64 + 100)?;
        crate::check_file_name("asset name", name)?;
        if self.model.assets.iter().any(|asset| asset.name == name) {
            return Err(Error::malformed(format!("duplicate asset `{}`", crate::escape(name, 120))));
        }
        let mut assets = self.model.assets.iter();
        if let Some(other) = assets.find(|one| is_inside(name, &one.name) || is_inside(&one.name, name)) {
            let name = crate::escape(name, 120);
            let other = crate::escape(&other.name, 120);
            return Err(Error::malformed(format!(
                "the assets `{other}` and `{name}` conflict: one is a folder that contains the other"
            )));
        }
        if self.model.assets.len() as u64 >= u64::from(self.limits.files) {
            return Err(Error::limit(format!("the model has more than {} assets", self.limits.files)));
        }
        self.model.assets.push(Asset { name: name.to_owned(), bytes });
        Ok(())
    }

    fn part(&mut self, part: PartDecl<'_>) -> Result<()> {
        if self.model.parts.len() as u64 >= u64::from(self.limits.files) {
            return Err(Error::limit(format!("the model has more than {} parts", self.limits.files)));
        }
        if let Some((offset, len)) = part.range {
            self.inside(Extent::new(part.file, offset, len))?;
        }
        self.model.parts.push(Part {
            file: part.file,
            range: part.range,
            format: part.format.to_owned(),
            options: part.options,
            expected: None,
        });
        Ok(())
    }

    fn mapped(&mut self, part: u32, name: &str) -> Result<()> {
        self.name_len("tensor name", name)?;
        self.limits.budget.charge(2 * name.len() as u64 + 100)?;
        if !self.mapped.insert(name.to_owned()) {
            return Err(Error::malformed("the index maps it more than once").tensor(name));
        }
        let part = self
            .model
            .parts
            .get_mut(part as usize)
            .ok_or_else(|| Error::plugin("a tensor belongs to an unknown part"))?;
        part.expected.get_or_insert_default().push(name.to_owned());
        Ok(())
    }

    fn fact(&mut self, fact: Fact<'_>) -> Result<()> {
        match fact {
            Fact::Dialect(dialect) => self.model.dialect = dialect.to_owned(),
            Fact::Architecture(id, config) => {
                self.bytes(&config)?;
                self.model.architecture = Some(Architecture { id: id.to_owned(), config });
            }
            Fact::Tokenizer(json) => {
                self.bytes(&json)?;
                self.model.tokenizer = Some(json);
            }
            Fact::ModelCard(json) => {
                self.bytes(&json)?;
                self.model.model_card = Some(json);
            }
            Fact::Recipe(name) => self.model.recipe = Some(name.to_owned()),
            Fact::Provenance(json) => {
                self.bytes(&json)?;
                self.model.provenance = Some(json);
            }
            Fact::Derived(json) => {
                self.bytes(&json)?;
                self.model.derived = Some(json);
            }
            Fact::Checksum(checksum) => {
                self.inside(checksum.covers)?;
                self.bytes(&checksum.stored)?;
                let sum = checksum.sum;
                let len = checksum.stored.len();
                let want = sum
                    .width()
                    .ok_or_else(|| Error::unsupported(format!("checksum of unknown kind {sum}")))?;
                let tensors = self.model.tensors.len() as u64;
                if matches!(checksum.coding, Coding::Streamed(tensor) if tensor >= tensors) {
                    return Err(Error::plugin("a checksum refers to a tensor that does not exist"));
                }
                if len != want {
                    return Err(Error::malformed(format!("a {sum} has {len} bytes, expected {want}")));
                }
                self.limits.budget.charge(size_of::<Checksum>() as u64)?;
                self.model.checksums.push(checksum);
            }
            Fact::Older(version) => {
                self.limits.budget.charge(version.len() as u64)?;
                self.model.older = Some(version.to_owned());
            }
            Fact::Note(note) => {
                self.limits.budget.charge(note.len() as u64 + 24)?;
                self.model.notes.push(note.to_owned());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Codec, DType, Digest, DigestForm, Endian, ErrorKind, Options, Sum, View};

    fn with_builder(check: impl FnOnce(&mut ModelBuilder<'_>)) -> Model {
        let limits = Limits::default();
        let mut builder = ModelBuilder::new("toy", &limits, &|_| Ok(100));
        check(&mut builder);
        builder.finish()
    }

    #[test]
    fn rejects_tensor_outside_file_second_name_and_wrong_size() {
        let model = with_builder(|b| {
            b.tensor(TensorDecl::plain("a", DType::F32, &[2], Extent::new(0, 92, 8))).unwrap();
            for (name, shape, extent) in [
                ("b", [2], Extent::new(0, 93, 8)),
                ("b", [2], Extent::new(0, u64::MAX, 8)),
                ("b", [3], Extent::new(0, 0, 8)),
                ("a", [2], Extent::new(0, 0, 8)),
            ] {
                let error = b.tensor(TensorDecl::plain(name, DType::F32, &shape, extent)).unwrap_err();
                assert_eq!(error.tensor_name(), Some(name));
            }
            assert!(b.tensor(TensorDecl::plain("c", DType::U8, &[0; 9], Extent::default())).is_err());
        });
        assert_eq!(model.tensors.len(), 1);
    }

    fn push_view(b: &mut ModelBuilder<'_>, strides: &[u64], start: u64) -> Result<()> {
        let view = Some(View { strides: strides.to_vec(), start, endian: Endian::Little });
        let payload = Payload::Extent { extent: Extent::new(0, 0, 24), view };
        let name = format!("{strides:?}{start}");
        b.tensor(TensorDecl { name: &name, dtype: DType::F32, shape: &[2, 3], payload })
    }

    #[test]
    fn views_may_not_reach_past_their_extent() {
        with_builder(|b| {
            push_view(b, &[1, 2], 0).unwrap();
            assert!(push_view(b, &[1, 2], 1).is_err());
            assert!(push_view(b, &[1, u64::MAX], 0).is_err());
            assert!(push_view(b, &[1], 0).is_err());
            push_view(b, &[], 0).unwrap();
            assert!(push_view(b, &[], 1).is_err());
        });
    }

    #[test]
    fn keeps_foreign_order_and_rejects_second_key() {
        let model = with_builder(|b| {
            assert!(b.foreign("early", Value::from_u8(1)).is_err());
            b.foreign_file("toy", "", 0).unwrap();
            b.foreign("z", Value::from_u8(1)).unwrap();
            b.foreign("a", Value::from_u8(2)).unwrap();
            assert!(b.foreign("z", Value::from_u8(3)).is_err());
        });
        let keys: Vec<_> = model.foreign[0].files[0].typed.iter().map(|(k, _)| k.as_str()).collect();
        assert_eq!(keys, ["z", "a"]);
    }

    #[test]
    fn what_a_codec_is_told_is_charged() {
        let limits = Limits { budget: crate::Budget::new(3000), ..Limits::default() };
        let mut builder = ModelBuilder::new("toy", &limits, &|_| Ok(100));
        let pushed = [("a", 10), ("b", 5000)].map(|(name, len)| {
            let codec = Codec { number: 0, options: Options::new().with("d", "x".repeat(len)) };
            let payload = Payload::Blocks { codec };
            builder.tensor(TensorDecl { name, dtype: DType::U8, shape: &[1], payload }).map_err(|e| e.kind())
        });
        assert_eq!(pushed, [Ok(()), Err(ErrorKind::LimitExceeded)]);
    }

    fn push_sum(b: &mut ModelBuilder<'_>, covered: u64, stored: Bytes, sum: Sum) -> Result<()> {
        b.fact(Fact::Checksum(Checksum::raw(Extent::new(0, 0, covered), stored, sum)))
    }

    #[test]
    fn rejects_checksums_outside_the_file_or_of_another_width() {
        with_builder(|b| {
            push_sum(b, 96, Extent::new(0, 96, 4).into(), Sum::CRC32).unwrap();
            push_sum(b, 100, "0badcafe".into(), Sum::CRC32_HEX).unwrap();
            assert!(push_sum(b, 101, "0badcafe".into(), Sum::CRC32_HEX).is_err());
            assert!(push_sum(b, 96, Extent::new(0, 97, 4).into(), Sum::CRC32).is_err());
            assert!(push_sum(b, 100, "badcafe".into(), Sum::CRC32_HEX).is_err());
            let of_nothing = Checksum::raw(Extent::new(0, 0, 9), "0badcafe".into(), Sum::CRC32_HEX);
            let of_nothing = Checksum { coding: Coding::Streamed(0), ..of_nothing };
            assert!(b.fact(Fact::Checksum(of_nothing)).is_err());
            let stored: &[u8] = &[0; 32];
            push_sum(b, 9, stored.into(), Sum::new(Digest::Sha256, DigestForm::Bytes)).unwrap();
            let masked = Sum::new(Digest::Sha256, DigestForm::Masked);
            let error = push_sum(b, 9, stored.into(), masked).unwrap_err();
            assert_eq!(
                (error.kind(), error.message()),
                (ErrorKind::Unsupported, "checksum of unknown kind SHA-256 (masked)")
            );
        });
    }

    #[test]
    fn rejects_asset_names_that_leave_the_folder() {
        with_builder(|b| {
            for name in ["", "/a", "../a", "a/../b", "a//b", "a\\b", "./a", "a\u{1b}[31m"] {
                assert!(b.asset(name, Bytes::default()).is_err(), "{name}");
            }
            b.asset("a/b.txt", Bytes::default()).unwrap();
            for name in ["a", "a/b.txt/c"] {
                assert!(b.asset(name, Bytes::default()).unwrap_err().message().contains("folder"), "{name}");
            }
        });
    }
}
