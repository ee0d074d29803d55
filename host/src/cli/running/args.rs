//! The flags of every verb that runs a model.

use crate::cli::folders::{cache_home, process_env};
use apr_host::running::{Backend, LoadOptions, Wanted};
use apr_inference::sampling::Settings;
use apr_sdk::{DType, Error, Result};
use clap::ValueEnum;
use std::path::PathBuf;

/// How a model is loaded.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Options of the computation")]
pub struct ModelArgs {
    /// Backend to compute with: `auto`, or an id from `apr kernels list`
    #[arg(long, value_name = "ID", default_value = "auto", conflicts_with = "no_gpu")]
    backend: String,
    /// Number of the backend's device
    #[arg(long, value_name = "N", default_value_t = 0)]
    device: u32,
    /// Compute on the CPU, whatever else is there
    #[arg(long)]
    no_gpu: bool,
    /// Number of tokens that prompt and answer may have together
    #[arg(long, short_alias = 'c', alias = "ctx-size", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    context: Option<u32>,
    /// Type in which keys and values of past tokens are kept
    #[arg(long, value_name = "TYPE", default_value = "f16", aliases = ["ctk", "cache-type-k"])]
    cache_type: CacheType,
    /// Quantize the weights to TYPE while loading
    #[arg(long, value_name = "TYPE")]
    quantize: Option<String>,
    /// Architecture of the model, if it is not the one it states
    #[arg(long, value_name = "ID")]
    arch: Option<String>,
    /// Keep the prepared weights on disk, and map them the next time
    #[arg(long)]
    cache_image: bool,
}

/// A type of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CacheType {
    /// 32-bit floats
    F32,
    /// 16-bit floats
    #[value(alias = "fp16")]
    F16,
    /// 8-bit blocks
    #[value(name = "q8_0")]
    Q8_0,
}

impl ModelArgs {
    /// The same for the loader.
    ///
    /// # Errors
    /// InvalidArgument if prepared weights are to be kept and there is no folder for them.
    pub fn to_options(&self, threads: usize, wanted: Wanted) -> Result<LoadOptions> {
        Ok(LoadOptions {
            arch: self.arch.clone(),
            backend: match self.backend.as_str() {
                "auto" if self.no_gpu => Backend::Named(CPU.to_owned()),
                "auto" => Backend::Auto,
                id => Backend::Named(id.to_owned()),
            },
            device: self.device,
            threads,
            context: self.context,
            cache: match self.cache_type {
                CacheType::F32 => DType::F32,
                CacheType::F16 => DType::F16,
                CacheType::Q8_0 => DType::Q8_0,
            },
            quantize: self.quantize.clone(),
            wanted,
            keep_images: self.cache_image.then(images_folder).transpose()?,
            ..LoadOptions::default()
        })
    }
}

/// The backend that every machine has.
const CPU: &str = "cpu";

/// Where prepared weights are kept.
fn images_folder() -> Result<PathBuf> {
    let cache = cache_home(&process_env).map(|cache| cache.join("apr").join("images"));
    cache.ok_or_else(|| {
        Error::invalid_argument("`--cache-image` has no folder to keep prepared weights in")
            .hint("set XDG_CACHE_HOME or HOME to an absolute path")
    })
}

/// How tokens are chosen; the defaults and the order of the steps are llama.cpp's.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Options of the answer")]
pub struct SamplingArgs {
    /// Randomness of the answer; 0 always takes the most probable token
    #[arg(long, alias = "temp", value_name = "T", default_value_t = 0.8, allow_negative_numbers = true)]
    temperature: f32,
    /// Choose among the K most probable tokens; 0 for all
    #[arg(long, value_name = "K", default_value_t = 40)]
    top_k: u32,
    /// Choose among the most probable tokens whose probabilities sum to P; 1 for all
    #[arg(long, value_name = "P", default_value_t = 0.95, allow_negative_numbers = true)]
    top_p: f32,
    /// Choose among tokens at least P times as probable as the most probable one; 0 for all
    #[arg(long, value_name = "P", default_value_t = 0.05, allow_negative_numbers = true)]
    min_p: f32,
    /// Make tokens that occurred among the last --repeat-last-n less likely; 1 for no change
    #[arg(long, value_name = "X", default_value_t = 1.0, allow_negative_numbers = true)]
    repeat_penalty: f32,
    /// Number of tokens to which --repeat-penalty applies
    #[arg(long, value_name = "N", default_value_t = 64)]
    repeat_last_n: usize,
    /// Seed of the random numbers; the same seed gives the same answer [default: random]
    #[arg(long, short_alias = 's', value_name = "N")]
    seed: Option<u64>,
    /// End the answer before TEXT; may be repeated
    #[arg(
        long,
        short_alias = 'r',
        alias = "reverse-prompt",
        value_name = "TEXT",
        value_parser = parse_stop,
        allow_hyphen_values = true
    )]
    pub stop: Vec<String>,
    /// End the answer after N tokens [default: when the model ends it, or the context is full]
    #[arg(long, aliases = ["n-predict", "predict"], value_name = "N", value_parser = parse_count, allow_negative_numbers = true)]
    max_tokens: Option<Count>,
}

/// # Errors
/// A sentence saying what is wrong.
fn parse_stop(text: &str) -> std::result::Result<String, String> {
    if text.is_empty() { Err("an empty text is everywhere".to_owned()) } else { Ok(text.to_owned()) }
}

/// A number of tokens; llama.cpp's −1 stands for no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    AtMost(u32),
    NoBound,
}

/// # Errors
/// A sentence saying what is wrong.
fn parse_count(text: &str) -> std::result::Result<Count, String> {
    match text {
        "-1" => Ok(Count::NoBound),
        _ => text.parse().map(Count::AtMost).map_err(|_| format!("`{text}` is not a number of tokens")),
    }
}

impl SamplingArgs {
    /// The sampler's settings; a seed that was not given is drawn.
    pub fn settings(&self) -> Settings {
        Settings {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repeat_penalty: self.repeat_penalty,
            repeat_last: self.repeat_last_n,
            seed: self.seed.unwrap_or_else(random_seed),
        }
    }

    /// Tokens of an answer at most.
    pub fn max_tokens(&self) -> Option<u32> {
        match self.max_tokens {
            Some(Count::AtMost(n)) => Some(n),
            Some(Count::NoBound) | None => None,
        }
    }
}

/// A seed from the system, small enough to be typed again.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    // The standard library seeds its hashers from the system.
    RandomState::new().hash_one(std::process::id()) & 0xffff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minus_one_is_no_bound() {
        assert_eq!(parse_count("-1"), Ok(Count::NoBound));
        assert_eq!(parse_count("7"), Ok(Count::AtMost(7)));
        assert!(parse_count("-2").is_err() && parse_count("x").is_err());
    }
}
