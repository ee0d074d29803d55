//! Hugging Face model folders: weights of another format, and the files that say what they mean.
//!
//! ```text
//! FOLDER/
//!   config.json                    {"architectures": [...], "model_type": "llama", "hidden_size": 2048, ...}
//!   generation_config.json, tokenizer_config.json, special_tokens_map.json, ...      JSON objects, one record each
//!   tokenizer.json | tokenizer.model | vocab.json + merges.txt | vocab.txt           the tokenizer, in its own formats
//!   model.safetensors | model.safetensors.index.json + model-00001-of-0000N.safetensors | pytorch_model.bin | ...
//!   README.md, LICENSE, chat_template.jinja, 1_Pooling/config.json, ...              everything else
//! ```

#![forbid(unsafe_code)]

mod flat;
mod json;
mod layout;
mod reader;
pub mod tokenizer;
mod weights;

apr_sdk::export_plugin! {
    id: huggingface,
    manifest: "
        formats=huggingface
        huggingface.name=Hugging Face folder
        huggingface.roles=read
        huggingface.claims=config.json
        huggingface.dialect=requires hf
        huggingface.tokenizer=yes
        huggingface.assets=yes
        huggingface.metadata=*
    ",
    reader: |_| Some(Box::new(reader::HuggingFace)),
    writer: |_| None,
}
