//! What a model's makers say of it: the SDK's model card to and from the `general.*` keys, in llama.cpp's order.

mod model_id;
mod read;
mod size;
mod write;

pub use read::read;
pub use size::Parameters;
pub use write::keys;

/// Texts that stand before the lists: the card's name, the key.
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

/// Of `source`, under `general.source.`.
const SOURCE: [&str; 4] = ["url", "doi", "uuid", "repo_url"];

/// Of each model that it was made from, and each set of data.
const ORIGIN: [&str; 9] =
    ["name", "author", "version", "organization", "description", "url", "doi", "uuid", "repo_url"];

/// Lists of such: the card's name, what the keys begin with.
const ORIGINS: [(&str, &str); 2] = [("base_models", "general.base_model"), ("datasets", "general.dataset")];

/// Lists of words.
const WORDS: [(&str, &str); 2] = [("tags", "general.tags"), ("languages", "general.languages")];

/// What the keys of sampling begin with.
const SAMPLING: &str = "general.sampling.";

/// Names of sampling: the first is a text, whole numbers are i32, the others f32.
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

/// Names of sampling that are whole numbers.
const SAMPLING_WHOLE: [&str; 3] = ["top_k", "penalty_last_n", "mirostat"];
