//! Sends a whole model to a writer: the host pushes it, the plugin's side rebuilds it. Once complete, it is
//! checked as [`apr_sdk::CheckedModel`]. Where the payload lies is left out: writers are not told.

use super::error::result;
use super::model_sink::{
    bytes_from_wire, bytes_to_wire, checksum_from_wire, codec_options, push_checksum, tensor_from_wire,
    tensor_to_wire,
};
use crate::guard::{host_wire, plugin_wire};
use crate::wire::{
    CodingNumber, DigestNumber, FactNumber, FormNumber, ModelRef, ModelSinkMut, PayloadNumber, R, WireBytes,
    WireExtent, WireModel, WireModel_TO, WireModelSink, WireModelSink_TO, WirePart, WireTensor, pairs,
};
use abi_stable::erased_types::TD_Opaque;
use abi_stable::sabi_types::{RMut, RRef};
use abi_stable::std_types::{RSlice, RStr};
use apr_sdk::{
    Architecture, Asset, Bytes, Error, ForeignFile, Limits, Model, ModelBuilder, Part, Result, Tensor, Value,
    ValueType,
};

/// Puts the host's model on the wire.
pub struct ToWireModel<'a>(pub &'a Model);

impl ToWireModel<'_> {
    /// The wire object to lend.
    pub fn object(&self) -> ModelRef<'_> {
        WireModel_TO::from_ptr(RRef::new(self), TD_Opaque)
    }

    fn push_facts(&self, sink: &mut ModelSinkMut<'_>) -> Result<()> {
        let model = self.0;
        let none = Bytes::default();
        let mut fact =
            |number, text: &str, bytes: &Bytes| result(sink.fact(number, text.into(), bytes_to_wire(bytes)));
        fact(FactNumber::FORMAT, &model.format, &none)?;
        fact(FactNumber::DIALECT, &model.dialect, &none)?;
        if let Some(architecture) = &model.architecture {
            fact(FactNumber::ARCHITECTURE, &architecture.id, &architecture.config)?;
        }
        if let Some(tokenizer) = &model.tokenizer {
            fact(FactNumber::TOKENIZER, "", tokenizer)?;
        }
        if let Some(card) = &model.model_card {
            fact(FactNumber::MODEL_CARD, "", card)?;
        }
        if let Some(recipe) = &model.recipe {
            fact(FactNumber::RECIPE, recipe, &none)?;
        }
        if let Some(older) = &model.older {
            fact(FactNumber::OLDER, older, &none)?;
        }
        if let Some(provenance) = &model.provenance {
            fact(FactNumber::PROVENANCE, "", provenance)?;
        }
        model.notes.iter().try_for_each(|note| fact(FactNumber::NOTE, note, &none))?;
        model.checksums.iter().try_for_each(|checksum| push_checksum(sink, checksum))
    }

    fn push_foreign(&self, sink: &mut ModelSinkMut<'_>) -> Result<()> {
        for foreign in &self.0.foreign {
            let format = RStr::from(foreign.format.as_str());
            if foreign.files.is_empty() {
                result(sink.fact(FactNumber::EMPTY_FOREIGN, format, bytes_to_wire(&Bytes::default())))?;
            }
            for file in &foreign.files {
                result(sink.foreign_file(format, file.name.as_str().into(), file.n_tensors))?;
                for (key, value) in &file.typed {
                    let bytes = bytes_to_wire(&value.bytes);
                    result(sink.foreign(key.as_str().into(), value.kind.0, bytes))?;
                }
                if let Some(verbatim) = &file.verbatim {
                    result(sink.verbatim(bytes_to_wire(verbatim)))?;
                }
            }
        }
        Ok(())
    }

    fn push_parts(&self, sink: &mut ModelSinkMut<'_>) -> Result<()> {
        for (number, part) in self.0.parts.iter().enumerate() {
            let options = pairs::from_options(&part.options);
            let (offset, len) = part.range.unwrap_or_default();
            result(sink.part(WirePart {
                format: part.format.as_str().into(),
                options: options.as_slice().into(),
                offset,
                len,
                file: part.file,
                has_range: u32::from(part.range.is_some()),
                detail: RSlice::EMPTY,
            }))?;
            let number = u32::try_from(number).map_err(|_| Error::limit("the model has 2^32 parts"))?;
            for name in part.expected.iter().flatten() {
                result(sink.mapped(number, name.as_str().into()))?;
            }
        }
        Ok(())
    }
}

impl WireModel for ToWireModel<'_> {
    fn push(&self, sink: &mut ModelSinkMut<'_>) -> R<()> {
        host_wire("handing over the model", || {
            self.push_facts(sink)?;
            self.0.tensors.iter().try_for_each(|tensor| {
                let Tensor { name, dtype, shape, payload, .. } = tensor;
                let options = codec_options(payload);
                result(sink.tensor(tensor_to_wire(name, *dtype, shape, payload, &options)?))
            })?;
            self.push_foreign(sink)?;
            for asset in &self.0.assets {
                result(sink.asset(asset.name.as_str().into(), bytes_to_wire(&asset.bytes)))?;
            }
            self.push_parts(sink)
        })
    }
}

/// Rebuilds the model that the host lends.
///
/// # Errors
/// Any error from pushing.
pub fn from_wire(wire: &ModelRef<'_>) -> Result<Model> {
    let limits = Limits::default();
    let mut rebuild =
        Rebuild { model: ModelBuilder::new("", &limits, &|_| Ok(u64::MAX)).finish(), open_file: None };
    result(wire.push(&mut WireModelSink_TO::from_ptr(RMut::new(&mut rebuild), TD_Opaque)))?;
    Ok(rebuild.model)
}

/// Collects the pieces of a model as they arrive.
struct Rebuild {
    model: Model,
    open_file: Option<(usize, usize)>,
}

impl Rebuild {
    fn open_file(&mut self) -> Result<&mut ForeignFile> {
        let file = self
            .open_file
            .and_then(|(foreign, file)| self.model.foreign.get_mut(foreign)?.files.get_mut(file));
        file.ok_or_else(|| Error::plugin("foreign metadata came before its file"))
    }

    fn take_fact(&mut self, fact: FactNumber, text: &str, bytes: Bytes) {
        let model = &mut self.model;
        match fact {
            FactNumber::FORMAT => model.format = text.to_owned(),
            FactNumber::DIALECT => model.dialect = text.to_owned(),
            FactNumber::ARCHITECTURE => {
                model.architecture = Some(Architecture { id: text.to_owned(), config: bytes });
            }
            FactNumber::TOKENIZER => model.tokenizer = Some(bytes),
            FactNumber::MODEL_CARD => model.model_card = Some(bytes),
            FactNumber::RECIPE => model.recipe = Some(text.to_owned()),
            FactNumber::OLDER => model.older = Some(text.to_owned()),
            FactNumber::PROVENANCE => model.provenance = Some(bytes),
            FactNumber::NOTE => model.notes.push(text.to_owned()),
            FactNumber::EMPTY_FOREIGN => {
                model.foreign_mut(text);
            }
            // A fact that only a newer host knows: ignore it.
            _ => {}
        }
    }
}

impl WireModelSink for Rebuild {
    fn tensor(&mut self, tensor: WireTensor<'_>) -> R<()> {
        plugin_wire("taking a tensor", || {
            // A writer reads no payload, so it need not know the kind, which a newer host may have added.
            let decl = tensor_from_wire(&WireTensor { payload: PayloadNumber::SEQUENTIAL, ..tensor })?;
            self.model.tensors.push(apr_sdk::Tensor {
                name: decl.name.to_owned(),
                dtype: decl.dtype,
                shape: decl.shape.to_vec(),
                payload: decl.payload,
            });
            Ok(())
        })
    }

    fn foreign_file(&mut self, format: RStr<'_>, name: RStr<'_>, n_tensors: u64) -> R<()> {
        plugin_wire("taking metadata", || {
            let files = &mut self.model.foreign_mut(format.as_str()).files;
            files.push(ForeignFile { name: name.into(), n_tensors, ..ForeignFile::default() });
            let file = files.len() - 1;
            let foreign = self.model.foreign.iter().position(|f| f.format == format.as_str());
            self.open_file = foreign.map(|foreign| (foreign, file));
            Ok(())
        })
    }

    fn foreign(&mut self, key: RStr<'_>, kind: u32, bytes: WireBytes<'_>) -> R<()> {
        plugin_wire("taking metadata", || {
            let value = Value { kind: ValueType(kind), bytes: bytes_from_wire(&bytes) };
            self.open_file()?.typed.push((key.into(), value));
            Ok(())
        })
    }

    fn verbatim(&mut self, bytes: WireBytes<'_>) -> R<()> {
        plugin_wire("taking metadata", || {
            self.open_file()?.verbatim = Some(bytes_from_wire(&bytes));
            Ok(())
        })
    }

    fn asset(&mut self, name: RStr<'_>, bytes: WireBytes<'_>) -> R<()> {
        plugin_wire("taking an asset", || {
            self.model.assets.push(Asset { name: name.into(), bytes: bytes_from_wire(&bytes) });
            Ok(())
        })
    }

    fn part(&mut self, part: WirePart<'_>) -> R<()> {
        plugin_wire("taking a part", || {
            self.model.parts.push(Part {
                file: part.file,
                range: (part.has_range == 1).then_some((part.offset, part.len)),
                format: part.format.into(),
                options: pairs::to_options(part.options.as_slice())?,
                expected: None,
            });
            Ok(())
        })
    }

    fn mapped(&mut self, part: u32, name: RStr<'_>) -> R<()> {
        plugin_wire("taking a part", || {
            let part = usize::try_from(part).ok().and_then(|n| self.model.parts.get_mut(n));
            let part = part.ok_or_else(|| Error::plugin("a tensor belongs to a part that does not exist"))?;
            part.expected.get_or_insert_default().push(name.into());
            Ok(())
        })
    }

    fn checksum(
        &mut self,
        covers: WireExtent,
        stored: WireBytes<'_>,
        digest: DigestNumber,
        form: FormNumber,
        coding: CodingNumber,
        tensor: u64,
    ) -> R<()> {
        plugin_wire("taking a checksum", || {
            // Likewise skip a checksum that only a newer host can read.
            let checksum = checksum_from_wire(&covers, &stored, digest, form, coding, tensor);
            self.model.checksums.extend(checksum.ok());
            Ok(())
        })
    }

    fn fact(&mut self, fact: FactNumber, text: RStr<'_>, bytes: WireBytes<'_>) -> R<()> {
        plugin_wire("taking a fact", || {
            self.take_fact(fact, text.as_str(), bytes_from_wire(&bytes));
            Ok(())
        })
    }
}
