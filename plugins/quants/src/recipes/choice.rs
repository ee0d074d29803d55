//! The choice of a type, tensor by tensor.

use super::category::{Category, layer};
use super::model::Model;
use super::table::{Family, Mixture, Rule, When};
use super::wishes::Wishes;
use apr_sdk::{DType, Error, Result, TensorFacts};

/// Chooses types; tensors come in llama-quantize's order.
pub struct Choice<'a> {
    mixture: &'a Mixture,
    wishes: &'a Wishes,
    model: &'a Model,
    /// Whether the embedding is the output matrix too.
    tied: bool,
    /// How many tensors of values there are.
    values: i64,
    /// How many tensors of a category went through the rules so far.
    value: i64,
    down: i64,
    gate: i64,
    up: i64,
}

/// A type, and why it is not the one that was meant.
pub type Chosen = (DType, Option<String>);

impl<'a> Choice<'a> {
    /// For tensors of these categories.
    pub fn new(
        mixture: &'a Mixture,
        wishes: &'a Wishes,
        model: &'a Model,
        categories: impl Iterator<Item = Category> + Clone,
    ) -> Choice<'a> {
        let tied = categories.clone().all(|category| category != Category::Output);
        let values = categories.filter(|&category| category == Category::Value).count();
        let values = i64::try_from(values).unwrap_or(i64::MAX);
        Choice { mixture, wishes, model, tied, values, value: 0, down: 0, gate: 0, up: 0 }
    }

    /// The type of the next tensor that is quantized.
    ///
    /// # Errors
    /// InvalidArgument for a wish that its shape does not allow; Unsupported where its layer is not to be known, or its
    /// shape allows no type at all.
    pub fn of(&mut self, name: &str, category: Category, tensor: &TensorFacts) -> Result<Chosen> {
        let columns = tensor.shape.last().copied().unwrap_or(1);
        let wishes = self.wishes;
        let by_pattern = wishes.for_name(name);
        // The large table of embeddings per layer is one too, unless a pattern names it.
        let is_named = name == "per_layer_token_embd.weight" && by_pattern.is_some();
        match category {
            Category::Embedding if !is_named && wishes.embedding.is_some() => {
                return exactly("token-embedding-type", wishes.embedding, columns);
            }
            Category::Output if wishes.output.is_some() => {
                return exactly("output-tensor-type", wishes.output, columns);
            }
            _ => {}
        }
        let base = self.mixture.base;
        if !base.is_block() {
            return Ok((base, None));
        }
        let plain = wishes.pure || self.mixture.family == Family::Plain;
        let meant = match by_pattern {
            Some(dtype) => dtype,
            None if plain => base,
            None => self.by_rules(name, category, tensor, columns)?,
        };
        fitting(meant, columns)
    }

    /// What the mixture says (`llama_tensor_get_type_impl`).
    fn by_rules(
        &mut self,
        name: &str,
        category: Category,
        tensor: &TensorFacts,
        columns: u64,
    ) -> Result<DType> {
        let (mixture, model) = (self.mixture, self.model);
        let mixture_low = mixture.family == Family::Low;
        let precious = ["attn_q_a", "attn_q_b", "nextn.eh_proj"];
        if model.architecture == "glm5-next" && precious.iter().any(|part| name.contains(part)) {
            return Ok(DType::Q8_0);
        }
        if category == Category::Output || (self.tied && category == Category::Embedding) {
            return Ok(match self.wishes.output {
                Some(dtype) => dtype,
                None if model.architecture == "falcon" || !is_whole(mixture.base, columns) => DType::Q8_0,
                None => mixture.output,
            });
        }
        if mixture.family == Family::Experts {
            // In this architecture other matrices are stacked too.
            let may = model.architecture != "bailingmoe3"
                || matches!(category, Category::Up | Category::Gate | Category::Down);
            let stacked = tensor.shape.iter().rev().nth(2).is_some_and(|&n| n > 1);
            return Ok(if stacked && may { mixture.base } else { DType::Q8_0 });
        }
        let eight = model.experts == 8 && !mixture_low;
        Ok(match category {
            Category::Embedding => mixture.embedding,
            Category::Value => {
                let index = next(&mut self.value);
                let by_rule = self.first_of(mixture.value, index, self.values);
                let gains = matches!(by_rule, DType::Q3_K | DType::Q4_K) && model.is_seventy;
                match by_rule {
                    _ if eight => DType::Q8_0,
                    _ if gains && !mixture_low => DType::Q5_K,
                    other => other,
                }
            }
            Category::Key if eight => DType::Q8_0,
            Category::Key => self.first_of(mixture.key, 0, 0),
            Category::Query => self.first_of(mixture.query, 0, 0),
            Category::Attention => self.first_of(mixture.attention, 0, 0),
            Category::Down => {
                let running = next(&mut self.down);
                let index = self.layer_of(name, running)?;
                self.first_of(mixture.down, index, model.layers)
            }
            Category::Gate => {
                let running = next(&mut self.gate);
                let index = self.layer_of(name, running)?;
                self.first_of(mixture.up, index, model.layers)
            }
            Category::Up => {
                let running = next(&mut self.up);
                let index = self.layer_of(name, running)?;
                self.first_of(mixture.up, index, model.layers)
            }
            Category::Output | Category::Other => mixture.base,
        })
    }

    /// Which of its kind a tensor is: counted, but where there are experts, taken from its name.
    fn layer_of(&self, name: &str, running: i64) -> Result<i64> {
        if self.model.experts <= 1 || self.mixture.family == Family::Low {
            return Ok(running);
        }
        layer(name).filter(|layer| (0..self.model.layers).contains(layer)).ok_or_else(|| {
            let message =
                format!("its layer, one of {}, cannot be determined from its name", self.model.layers);
            Error::unsupported(message)
                .hint("set its type with --tensor-type, or the type of all tensors with --pure")
        })
    }

    fn first_of(&self, rules: &[Rule], index: i64, all: i64) -> DType {
        let found = rules.iter().find(|(all_of, _)| all_of.iter().all(|&when| self.holds(when, index, all)));
        found.map_or(self.mixture.base, |(_, dtype)| *dtype)
    }

    fn holds(&self, when: When, index: i64, all: i64) -> bool {
        let model = self.model;
        let (eighth, seven_eighths) = (all / 8, all.saturating_mul(7) / 8);
        match when {
            When::Shared => model.sharing >= 4,
            When::FourExperts => model.experts >= 4,
            When::EightExperts => model.experts == 8,
            When::Falcon => model.architecture == "falcon",
            When::NotFalcon => model.architecture != "falcon",
            When::Importance => model.has_importance,
            When::NoImportance => !model.has_importance,
            When::First(n) => index < n,
            When::Eighth => index < eighth,
            When::Sixteenth => index < all / 16,
            When::Middle => index >= eighth && index < seven_eighths,
            When::MoreBits => index < eighth || index >= seven_eighths || (index - eighth) % 3 == 2,
        }
    }
}

fn next(counter: &mut i64) -> i64 {
    *counter += 1;
    *counter - 1
}

fn is_whole(dtype: DType, columns: u64) -> bool {
    columns.is_multiple_of(dtype.info().map_or(1, |info| u64::from(info.block_elements)))
}

/// What the user asked for, or nothing.
fn exactly(option: &str, wish: Option<DType>, columns: u64) -> Result<Chosen> {
    match wish {
        Some(dtype) if is_whole(dtype, columns) => Ok((dtype, None)),
        _ => {
            let name = wish.map_or("it", DType::name);
            let message =
                format!("--{option}: rows of {columns} are not a multiple of the block size of {name}");
            Err(Error::invalid_argument(message).hint("choose a type with smaller blocks, such as F16"))
        }
    }
}

/// The type, or the one of smaller blocks that stands for it (`tensor_type_fallback`).
fn fitting(meant: DType, columns: u64) -> Result<Chosen> {
    if is_whole(meant, columns) {
        return Ok((meant, None));
    }
    let small = match meant {
        DType::IQ1_S | DType::IQ1_M | DType::IQ2_XXS | DType::IQ2_XS | DType::IQ2_S => DType::IQ4_NL,
        DType::IQ3_XXS | DType::IQ3_S | DType::IQ4_XS => DType::IQ4_NL,
        DType::Q2_0 | DType::Q2_K | DType::Q3_K | DType::TQ1_0 | DType::TQ2_0 => DType::Q4_0,
        DType::Q4_K => DType::Q5_0,
        DType::Q5_K => DType::Q5_1,
        DType::Q6_K => DType::Q8_0,
        other if other.info().is_some_and(|info| info.block_elements > 32) => {
            let message = format!(
                "rows of {columns} are not a multiple of the block size of {other}, and there is no \
                 substitute for it"
            );
            return Err(Error::unsupported(message).hint("set another type for it with --tensor-type"));
        }
        other => other,
    };
    let dtype = if is_whole(small, columns) { small } else { DType::F16 };
    let size = meant.info().map_or(1, |info| info.block_elements);
    let note =
        format!("{dtype} instead of {meant}: rows of {columns} are not a multiple of the block size {size}");
    Ok((dtype, Some(note)))
}
