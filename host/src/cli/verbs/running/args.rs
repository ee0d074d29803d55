//! The flags of every verb that runs a model.

use crate::cli::folders::{cache_home, process_env};
use apr_engine::hints;
use apr_host::running::{Backend, LoadOptions, Suggested, Wanted};
use apr_inference::sampling::{Sampler, Settings};
use apr_sdk::{DType, Error, Options, Result, escape};
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
    /// Set an option of the backend, such as level=avx2; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = crate::cli::flags::open_args::parse_pair)]
    backend_option: Vec<(String, String)>,
    /// Compute on the CPU, even if other devices are available
    #[arg(long)]
    no_gpu: bool,
    /// Maximum number of tokens of prompt and answer together
    #[arg(long, short_alias = 'c', alias = "ctx-size", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    context: Option<u32>,
    /// Type of the KV cache
    #[arg(long, value_name = "TYPE", default_value = "f16", aliases = ["ctk", "cache-type-k"])]
    cache_type: CacheType,
    /// Quantize the weights to RECIPE while loading, as `apr convert` does
    #[arg(long, value_name = "RECIPE")]
    quantize: Option<String>,
    /// Architecture of the model, instead of the one it states
    #[arg(long, value_name = "ID")]
    arch: Option<String>,
    /// Save the prepared weights under apr/images in the cache folder, and memory-map them next time
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
        let mut options = Options::new();
        self.backend_option.iter().for_each(|(name, value)| options.set(name, value));
        Ok(LoadOptions {
            options,
            arch: self.arch.clone(),
            backend: match self.backend.as_str() {
                "auto" if self.no_gpu => Backend::Host,
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

/// The folder of prepared weights.
fn images_folder() -> Result<PathBuf> {
    let cache = cache_home(&process_env).map(|cache| cache.join("apr").join("images"));
    cache.ok_or_else(|| {
        Error::invalid_argument("`--cache-image` found no folder for prepared weights")
            .hint("set XDG_CACHE_HOME or HOME to an absolute path")
    })
}

/// How tokens are chosen; the defaults and the order of the steps are llama.cpp's.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Options of the answer")]
pub struct SamplingArgs {
    /// Randomness of the answer; 0 always takes the most probable token [default: the model's, else 0.8]
    #[arg(long, alias = "temp", value_name = "T", allow_negative_numbers = true)]
    temperature: Option<f32>,
    /// Choose among the K most probable tokens; 0 for all [default: the model's, else 40]
    #[arg(long, value_name = "K")]
    top_k: Option<u32>,
    /// Choose among the fewest most probable tokens whose probabilities sum to at least P; 1 for all [default: the model's, else 0.95]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    top_p: Option<f32>,
    /// Choose among tokens at least P times as probable as the most probable one; 0 for all [default: the model's, else 0.05]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    min_p: Option<f32>,
    /// Make tokens that occurred among the last --repeat-last-n less likely; 1 for no change [default: the model's, else 1]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    repeat_penalty: Option<f32>,
    /// Number of recent tokens that --repeat-penalty considers [default: the model's, else 64]
    #[arg(long, value_name = "N")]
    repeat_last_n: Option<usize>,
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
    stop: Vec<String>,
    /// End the answer after N tokens; -1 for no limit [default: the model's, else when the context is full]
    #[arg(short = 'n', long, aliases = ["n-predict", "predict"], value_name = "N", value_parser = parse_count, allow_negative_numbers = true)]
    max_tokens: Option<Count>,
}

/// # Errors
/// A sentence saying what is wrong.
fn parse_stop(text: &str) -> std::result::Result<String, String> {
    if text.is_empty() { Err("an empty string always matches".to_owned()) } else { Ok(text.to_owned()) }
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
        _ => text.parse().map(Count::AtMost).map_err(|_| format!("invalid number of tokens `{text}`")),
    }
}

/// Temperature above which an answer is noise.
const HOT: f32 = 2.0;

impl SamplingArgs {
    /// Rejects invalid settings before anything is loaded.
    ///
    /// # Errors
    /// InvalidArgument, naming the setting.
    pub fn check(&self) -> Result<()> {
        Sampler::new(self.settings(&Suggested::default())).map(|_| ())
    }

    /// The sampler for a model that knows so many tokens: each setting comes from the user, else from the model, else from
    /// llama.cpp's defaults. A seed that was not given is drawn. `warn` is told of the model's suggestions that are not followed.
    ///
    /// # Errors
    /// As [`SamplingArgs::check`].
    pub fn sampler(&self, suggested: &Suggested, vocabulary: u32, warn: &dyn Fn(&str)) -> Result<Sampler> {
        let settings = self.settings(suggested);
        let sampler = Sampler::new(settings).or_else(|error| {
            let sampler = Sampler::new(self.settings(&Suggested::default()))?;
            let why = error.message();
            warn(&format!("ignoring the model's suggested sampling settings: {why}"));
            Ok::<_, Error>(sampler)
        })?;
        let temperature = sampler.settings().temperature;
        if temperature > HOT {
            let message = format!(
                "the temperature of {temperature} makes nearly every token as likely as any other: values up to {HOT} \
                 are usual"
            );
            warn(&hints::HOT.told(&message));
        }
        if !suggested.not_followed.is_empty() {
            let all: Vec<_> =
                suggested.not_followed.iter().map(|one| format!("`{}`", escape(one, 80))).collect();
            warn(&format!(
                "the answer differs from what the model's settings specify, since these are not supported: {}",
                all.join(", ")
            ));
        }
        if let Err(error) = suggested.processors.check(vocabulary) {
            warn(&format!("ignoring the model's restrictions on its answers: {}", error.message()));
            return Ok(sampler);
        }
        Ok(sampler.with_processors(suggested.processors.clone()))
    }

    fn settings(&self, suggested: &Suggested) -> Settings {
        let standard = Settings::default();
        Settings {
            temperature: self.temperature.or(suggested.temperature).unwrap_or(standard.temperature),
            top_k: self.top_k.or(suggested.top_k).unwrap_or(standard.top_k),
            top_p: self.top_p.or(suggested.top_p).unwrap_or(standard.top_p),
            min_p: self.min_p.or(suggested.min_p).unwrap_or(standard.min_p),
            repeat_penalty: self
                .repeat_penalty
                .or(suggested.repeat_penalty)
                .unwrap_or(standard.repeat_penalty),
            repeat_last: self.repeat_last_n.or(suggested.repeat_last).unwrap_or(standard.repeat_last),
            seed: self.seed.unwrap_or_else(random_seed),
        }
    }

    /// Tokens of an answer at most, as the user says.
    pub fn max_tokens(&self) -> Option<u32> {
        match self.max_tokens {
            Some(Count::AtMost(n)) => Some(n),
            Some(Count::NoBound) | None => None,
        }
    }

    /// The bound of an answer to a prompt of so many tokens: the user's, else the model's.
    pub fn bound(&self, suggested: &Suggested, prompt: usize) -> Bound {
        if self.max_tokens.is_some() {
            return Bound { most: self.max_tokens(), setting: None };
        }
        let prompt = u32::try_from(prompt).unwrap_or(u32::MAX);
        // No text is as short as a longer prompt: transformers refuses that, which helps nobody here.
        let of_text = suggested.max_length.and_then(|most| most.checked_sub(prompt)).filter(|left| *left > 0);
        match suggested.max_new_tokens {
            Some(most) => Bound { most: Some(most), setting: Some("max_new_tokens") },
            None => Bound { most: of_text, setting: of_text.map(|_| "max_length") },
        }
    }

    /// The strings that end an answer: the user's and the model's.
    pub fn stops(&self, suggested: &Suggested) -> Vec<String> {
        self.stop.iter().chain(&suggested.stops).cloned().collect()
    }
}

/// Tokens of an answer at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Their number; `None` for as many as the context has room for.
    pub most: Option<u32>,
    /// The model's setting that says so, unless it is the user.
    pub setting: Option<&'static str>,
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
    use apr_inference::sampling::Processors;

    fn args(temperature: Option<f32>) -> SamplingArgs {
        SamplingArgs {
            temperature,
            top_k: None,
            top_p: None,
            min_p: None,
            repeat_penalty: None,
            repeat_last_n: None,
            seed: Some(1),
            stop: Vec::new(),
            max_tokens: None,
        }
    }

    #[test]
    fn the_user_comes_before_the_model_and_the_model_before_the_default() {
        let warned = std::cell::Cell::new(0);
        let warn = |_: &str| warned.set(warned.get() + 1);
        let model = Suggested { temperature: Some(0.5), top_k: Some(7), ..Suggested::default() };
        let settings = *args(Some(0.25)).sampler(&model, 8, &warn).unwrap().settings();
        assert_eq!((settings.temperature, settings.top_k, settings.top_p), (0.25, 7, 0.95));
        assert_eq!(args(None).sampler(&model, 8, &warn).unwrap().settings().temperature, 0.5);
        assert_eq!(warned.get(), 0);
        let odd = Suggested { temperature: Some(-1.0), top_k: Some(7), ..Suggested::default() };
        assert_eq!(args(None).sampler(&odd, 8, &warn).unwrap().settings().top_k, 40);
        assert_eq!(warned.get(), 1);
        let processors = Processors { forced_first: Some(8), ..Processors::default() };
        let beyond =
            Suggested { processors, not_followed: vec!["num_beams = 4".to_owned()], ..model.clone() };
        assert_eq!(args(None).sampler(&beyond, 8, &warn).unwrap().settings().top_k, 7);
        assert_eq!(warned.get(), 3);
        assert!(args(Some(-1.0)).check().is_err() && args(Some(-1.0)).sampler(&model, 8, &warn).is_err());
    }

    fn with(max_tokens: Option<Count>) -> SamplingArgs {
        SamplingArgs { max_tokens, ..args(None) }
    }

    #[test]
    fn the_models_bound_counts_unless_the_user_has_one() {
        let model = Suggested { max_length: Some(10), ..Suggested::default() };
        assert_eq!(with(None).bound(&model, 7), Bound { most: Some(3), setting: Some("max_length") });
        assert_eq!(with(None).bound(&model, 10), Bound { most: None, setting: None });
        assert_eq!(with(Some(Count::NoBound)).bound(&model, 7), Bound { most: None, setting: None });
        assert_eq!(with(Some(Count::AtMost(5))).bound(&model, 7), Bound { most: Some(5), setting: None });
        let both = Suggested { max_new_tokens: Some(4), ..model };
        assert_eq!(with(None).bound(&both, 7), Bound { most: Some(4), setting: Some("max_new_tokens") });
    }

    #[test]
    fn minus_one_is_no_bound() {
        assert_eq!(parse_count("-1"), Ok(Count::NoBound));
        assert_eq!(parse_count("7"), Ok(Count::AtMost(7)));
        assert!(parse_count("-2").is_err() && parse_count("x").is_err());
    }
}
