//! Converts between the SDK's model card and the `general.*` keys, in llama.cpp's order.

mod model_id;
mod read;
mod size;
mod write;

pub use read::read;
pub use size::Parameters;
pub use write::{generation, keys};

/// Texts before the lists: (name in the card, key).
const TEXTS: [(&str, &str); 16] = [
    ("name", "general.name"),
    ("author", "general.author"),
    ("version", "general.version"),
    ("organization", "general.organization"),
    ("finetune", "general.finetune"),
    ("basename", "general.basename"),
    ("description", "general.description"),
    ("quantized_by", "general.quantized_by"),
    ("size_label", "general.size_label"),
    ("license", "general.license"),
    ("license_name", "general.license.name"),
    ("license_link", "general.license.link"),
    ("url", "general.url"),
    ("doi", "general.doi"),
    ("uuid", "general.uuid"),
    ("repo_url", "general.repo_url"),
];

/// Members of `source`, under `general.source.`.
const SOURCE: [&str; 4] = ["url", "doi", "uuid", "repo_url"];

/// Members of each base model and each dataset.
const ORIGIN: [&str; 9] =
    ["name", "author", "version", "organization", "description", "url", "doi", "uuid", "repo_url"];

/// Lists of these: (name in the card, prefix of the keys).
const ORIGINS: [(&str, &str); 2] = [("base_models", "general.base_model"), ("datasets", "general.dataset")];

/// Lists of words: (name in the card, key).
const WORDS: [(&str, &str); 2] = [("tags", "general.tags"), ("languages", "general.languages")];

/// The prefix of the sampling keys.
const SAMPLING: &str = "general.sampling.";

/// Sampling names: the first is a text, integers are i32, the others f32.
const SAMPLING_NAMES: [&str; 12] = [
    "sequence",
    "top_k",
    "top_p",
    "min_p",
    "xtc_probability",
    "xtc_threshold",
    "temp",
    "penalty_last_n",
    "penalty_repeat",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
];

/// Sampling names that are integers.
const SAMPLING_WHOLE: [&str; 3] = ["top_k", "penalty_last_n", "mirostat"];

/// The key for tokens that end an answer where they are not those of the tokenizer: the format has no other place for them.
const ENDS: &str = "general.apr.eos_token_id";

/// The key that says whether tokens are drawn where the sampling keys suggest otherwise: programs draw by those whatever the model's own
/// library does.
const DRAWS: &str = "general.apr.do_sample";
