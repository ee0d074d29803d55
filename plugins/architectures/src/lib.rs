//! Architectures as data: one table each in `tables/`, with the names of tensors and configuration keys, and
//! the order of rows, in each dialect (`canonical`, `hf`, `gguf`). The host's engine interprets them; the
//! README describes their form. A table in a plugin folder (`NAME.toml`) works without any code.

#![forbid(unsafe_code)]

mod tables;

apr_sdk::export_plugin! {
    id: architectures,
    manifest: "
        architectures=bert bloom command-r decoder deepseek2 falcon gemma gemma2 gemma3 gpt-neox gpt2 jina-bert-v2 llama mistral mixtral mpt nomic-bert olmo2 phi2 phi3 qwen2-moe qwen2 qwen3-moe qwen3 roberta stablelm starcoder2 t5 whisper
    ",
    name_mapper: || Some(Box::new(tables::Tables)),
}
