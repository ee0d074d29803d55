//! The names of a folder's files and their purpose, shared by reader and writer.

/// The format's id, in the manifest and in foreign records.
pub const FORMAT: &str = "huggingface";

/// The file that makes a folder a model.
pub const CONFIG: &str = "config.json";

/// The file that makes a folder an adapter of a model.
pub const ADAPTER: &str = "adapter_config.json";

/// The file that says how to generate.
pub const GENERATION: &str = "generation_config.json";

/// The file that holds the chat template alone.
pub const CHAT_TEMPLATE: &str = "chat_template.jinja";

/// The JSON objects whose members are typed metadata, in the order of their records.
pub const OBJECTS: [&str; 9] = [
    CONFIG,
    ADAPTER,
    GENERATION,
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
];

/// The tokenizers' own files, which are carried as they are, in the order of their records.
pub const TOKENIZERS: [&str; 7] = [
    "tokenizer.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
];

/// The longest JSON object that is read, in bytes. 16 MiB: the longest real ones list 100 000 labels in 3 MiB.
pub const MAX_JSON: u64 = 16 << 20;

/// The names that loaders look for, the preferred one first.
pub const WEIGHTS: [&str; 4] = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
];

/// What an adapter's weights are called, without an extension.
pub const ADAPTER_STEM: &str = "adapter_model";

/// The formats of weights files, by what their names end in.
pub const WEIGHT_FORMATS: [(&str, &str); 6] = [
    (".safetensors", "safetensors"),
    (".safetensors.index.json", "safetensors"),
    (".bin", "pytorch"),
    (".bin.index.json", "pytorch"),
    (".pt", "pytorch"),
    (".pth", "pytorch"),
];

/// What other formats say of the model, where that is kept (`--foreign keep`).
pub const CARRIED: &str = "apr_foreign.json";

/// Where sentence-transformers lists a model's modules; their folders are wholly the model's.
pub const MODULES: &str = "modules.json";

/// Endings of weights in other formats, and of what training leaves: files that are no companions.
pub const NO_COMPANIONS: [&str; 26] = [
    ".safetensors",
    ".bin",
    ".pt",
    ".pth",
    ".ckpt",
    ".h5",
    ".msgpack",
    ".ot",
    ".onnx",
    ".onnx_data",
    ".onnx.data",
    ".gguf",
    ".ggml",
    ".llamafile",
    ".tflite",
    ".pb",
    ".mlmodel",
    ".npz",
    ".npy",
    ".pkl",
    ".pickle",
    ".joblib",
    ".zip",
    ".tar",
    ".gz",
    ".index.json",
];

/// Folders that hold the same model in another format, or what training leaves.
pub const NO_COMPANION_FOLDERS: [&str; 8] =
    ["onnx", "openvino", "coreml", "original", "runs", "logs", "__pycache__", "checkpoints"];

/// The most companion files. 1000: each is held open, and processes may often open no more than 1024 files.
pub const MOST_COMPANIONS: usize = 1000;

/// How deep companions' folders are looked into.
pub const DEEPEST: usize = 8;
