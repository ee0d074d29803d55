//! A model in the form in which its architecture computes.

use super::images::{Images, Place};
use super::options::{LoadOptions, Wanted};
use super::rows::{CountedRows, HeldRows, Reading, TensorRows, matrix};
use crate::host::Host;
use apr_engine::architecture::{Decoder, Roles, in_dialect, tensor_specs};
use apr_engine::expression::PlannedTensor;
use apr_engine::open::OpenedModel;
use apr_engine::planned::PlannedModel;
use apr_engine::planned::quantization::Quantization;
use apr_engine::types::quantize::TypeChooser;
use apr_inference::program::{Built, Output, Request, TensorShape, WeightOf, build};
use apr_sdk::{Architecture, Bytes, DType, Device, Error, Mask, MatrixSpec, Pooling, Result, Rows, Weight};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

/// A model in the dialect in which its table computes.
pub(super) struct Translated<'a> {
    pub(super) host: &'a Host,
    pub(super) opened: &'a OpenedModel,
    pub(super) architecture: Architecture,
    pub(super) dialect: String,
    pub(super) tensors: Vec<PlannedTensor>,
    pub(super) by_name: HashMap<String, usize>,
    pub(super) warnings: Vec<String>,
    pub(super) notes: Vec<String>,
}

fn by_name(tensors: &[PlannedTensor]) -> HashMap<String, usize> {
    tensors.iter().enumerate().map(|(number, one)| (one.tensor.name.clone(), number)).collect()
}

impl<'a> Translated<'a> {
    pub(super) fn new(
        host: &'a Host,
        opened: &'a OpenedModel,
        rows: &str,
        arch: Option<&str>,
    ) -> Result<Translated<'a>> {
        let there = in_dialect(host, opened, rows, arch)?;
        let architecture = Architecture { id: there.architecture, config: Bytes::from(there.config) };
        Ok(Translated {
            host,
            opened,
            architecture,
            dialect: rows.to_owned(),
            by_name: by_name(&there.tensors),
            tensors: there.tensors,
            warnings: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// Gives weights the types that the user wants.
    pub(super) fn choose_types(&mut self, decoder: &Decoder, options: &LoadOptions) -> Result<()> {
        let host = self.host;
        let opened = self.opened;
        if let Some(recipe) = &options.quantize {
            // Recipes count layers, and know nothing of those that are not computed.
            let all = decoder.layers.iter().map(|layer| &layer.roles).chain([&decoder.roles]);
            let used: HashSet<&str> = all.flat_map(Roles::all).map(|(_, name, _)| name).collect();
            let mut tensors = std::mem::take(&mut self.tensors);
            tensors.retain(|one| used.contains(one.tensor.name.as_str()));
            let mut rest = opened.model.clone();
            rest.architecture = Some(self.architecture.clone());
            rest.dialect.clone_from(&self.dialect);
            let mut planned = PlannedModel::new(rest, tensors);
            let specs = tensor_specs(host, planned.model(), Some(&self.architecture.id))?;
            let target = host.registry.format(&opened.format)?;
            let chooser = TypeChooser { engine: host, target, writer: None, specs: &specs };
            let wishes = Quantization {
                recipe: Some(recipe.clone()),
                allow_requantize: true,
                ..Quantization::default()
            };
            let choice = chooser.apply(&wishes, &mut planned)?;
            self.warnings.extend(choice.warnings);
            self.notes.extend(choice.notes);
            self.tensors = planned.into_tensors();
            self.by_name = by_name(&self.tensors);
        }
        if options.as_floats {
            for one in self.tensors.iter_mut().filter(|one| one.tensor.dtype.is_block()) {
                one.retype(DType::F32, &host.registry);
            }
        }
        Ok(())
    }

    pub(super) fn find(&self, name: &str) -> Result<&PlannedTensor> {
        let number = self.by_name.get(name).copied();
        number.map(|number| &self.tensors[number]).ok_or_else(|| {
            Error::plugin("a program refers to a tensor that is not in the model").tensor(name)
        })
    }

    /// The elements of a small tensor.
    fn floats(&self, name: &str) -> Result<Vec<f32>> {
        /// Elements: factors of a rotation and gains, never a matrix.
        const MOST: u64 = 1 << 20;
        let planned = self.find(name)?;
        let elements = apr_sdk::checked_elements(&planned.tensor.shape)?;
        if elements > MOST {
            let message = format!("{elements} elements are too many for a table of RoPE factors");
            return Err(Error::unsupported(message).tensor(name));
        }
        let mut floats = planned.clone();
        floats.retype(DType::F32, &self.host.registry);
        let rows = TensorRows::new(self.host, self.opened, &floats)?;
        let mut bytes = vec![0; usize::try_from(elements * 4).unwrap_or(0)];
        rows.read(0, &mut bytes)?;
        let (elements, _) = bytes.as_chunks::<4>();
        Ok(elements.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }

    pub(super) fn build(&self, decoder: &Decoder, options: &LoadOptions, context: u32) -> Result<Built> {
        let output = match self.meant(decoder, options.wanted) {
            Wanted::Logits | Wanted::Any => Output::Logits,
            Wanted::Embedding => {
                Output::Hidden { pooling: decoder.output.pooling.unwrap_or(Pooling::MEAN), normalize: true }
            }
            Wanted::Hidden => Output::Hidden { pooling: Pooling::OUTPUTS, normalize: false },
        };
        build(&Request {
            decoder,
            tensors: &|name| {
                let tensor = &self.find(name).ok()?.tensor;
                Some(TensorShape { dtype: tensor.dtype, shape: tensor.shape.clone() })
            },
            floats: &|name| self.floats(name),
            cache: options.cache,
            output,
            context,
            taps: options.taps,
        })
    }

    /// The purpose that a model can serve, where the user left that to it.
    pub(super) fn meant(&self, decoder: &Decoder, wanted: Wanted) -> Wanted {
        let has_head = decoder.roles.name("output").is_some_and(|name| self.find(name).is_ok());
        // What reads a whole text at once and has no output of its own makes vectors.
        let is_encoder = !has_head && decoder.layers.iter().any(|layer| layer.attention.mask == Mask::FULL);
        match wanted {
            Wanted::Any if is_encoder => Wanted::Hidden,
            Wanted::Any => Wanted::Logits,
            stated => stated,
        }
    }

    /// The matrix of each weight that a program names.
    pub(super) fn matrices(&self, built: &Built) -> Result<Vec<MatrixSpec>> {
        let mut matrices = Vec::with_capacity(built.weights.len());
        for weight in &built.weights {
            matrices.push(match weight {
                WeightOf::Tensor(name) => matrix(&self.find(name)?.tensor)?,
                WeightOf::Literal { columns, .. } => MatrixSpec::new(DType::F32, 1, u64::from(*columns))?,
            });
        }
        Ok(matrices)
    }

    /// Has a device prepare all weights, on all threads; says whether they were kept from last time.
    pub(super) fn prepare(
        &self,
        built: &Built,
        specs: &[MatrixSpec],
        device: &dyn Device,
        mut images: Images,
    ) -> Result<(Vec<Weight>, bool, crate::storage::mapping::Watch)> {
        // The largest first, so that threads end together.
        let mut order: Vec<usize> = (0..specs.len()).collect();
        order.sort_by_key(|number| std::cmp::Reverse(specs[*number].bytes()));
        let weights: Vec<Mutex<Option<Weight>>> = specs.iter().map(|_| Mutex::new(None)).collect();
        let total = specs.iter().fold(0u64, |all, spec| all.saturating_add(spec.bytes()));
        let reading = Reading::new(self.host.progress.as_ref(), total);
        self.host.crew.run(order.len(), &|_, at| {
            let number = order[at];
            let mut place = Place { images: &images, number };
            let weight = match images.ready {
                true => device.adopt(&specs[number], images.take(number)?)?,
                false => {
                    self.prepare_one(&built.weights[number], &specs[number], device, &mut place, &reading)?
                }
            };
            *weights[number].lock().unwrap_or_else(PoisonError::into_inner) = Some(weight);
            Ok(())
        })?;
        let kept = images.ready;
        // Images of a model that changed meanwhile are those of no model.
        self.opened.files.refuse_changed()?;
        images.finish(self.host.crew.as_ref())?;
        let weights =
            weights.into_iter().filter_map(|w| w.into_inner().unwrap_or_else(PoisonError::into_inner));
        Ok((weights.collect(), kept, images.watch()))
    }

    fn prepare_one(
        &self,
        of: &WeightOf,
        spec: &MatrixSpec,
        device: &dyn Device,
        place: &mut Place<'_>,
        reading: &Reading<'_>,
    ) -> Result<Weight> {
        match of {
            WeightOf::Tensor(name) => {
                let rows = TensorRows::new(self.host, self.opened, self.find(name)?)?;
                let rows = CountedRows { rows: &rows, reading, name };
                device.prepare(spec, &rows, place).map_err(|error| error.tensor(name))
            }
            WeightOf::Literal { values, .. } => device.prepare(spec, &HeldRows::vector(values), place),
        }
    }
}
