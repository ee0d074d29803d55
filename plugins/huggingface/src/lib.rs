//! Hugging Face model folders: weights in another format, and the files that describe them.
//!
//! ```text
//! FOLDER/
//!   config.json                    {"architectures": [...], "model_type": "llama", "hidden_size": 2048, ...}
//!   generation_config.json, tokenizer_config.json, special_tokens_map.json, ...      JSON objects, one record each
//!   tokenizer.json | tokenizer.model | vocab.json + merges.txt | vocab.txt           the tokenizer, in its own formats
//!   model.safetensors | model.safetensors.index.json + model-00001-of-0000N.safetensors | pytorch_model.bin | ...
//!   adapter_config.json            {"peft_type": "LORA", ...} in place of config.json, beside adapter_model.safetensors
//!   README.md, LICENSE, chat_template.jinja, 1_Pooling/config.json, ...              everything else
//! ```

#![forbid(unsafe_code)]

mod card;
mod carried;
mod companions;
mod config_json;
mod front_matter;
mod generation;
mod json;
mod layout;
mod made;
mod pooling;
mod reader;
mod scan;
mod sentences;
mod stated;
mod text;
pub mod tokenizer;
mod weights;
mod writer;

apr_sdk::export_plugin! {
    id: huggingface,
    manifest: "
        formats=huggingface
        huggingface.name=Hugging Face folder
        huggingface.roles=read write
        huggingface.aliases=hf
        huggingface.folder=yes
        huggingface.claims=config.json adapter_config.json
        huggingface.parts=safetensors pytorch
        huggingface.dialect=requires hf
        huggingface.dtypes=*
        huggingface.max_dims=8
        huggingface.assets=yes
        huggingface.metadata=str bool i64 f64 arr
        huggingface.tokenizer=core
        huggingface.foreign=keep
        huggingface.adapters=adapter_config.json
        huggingface.tokenizer_keys=tokenizer_config.json:tokenizer_class tokenizer_config.json:bos_token* tokenizer_config.json:eos_token* tokenizer_config.json:unk_token* tokenizer_config.json:sep_token* tokenizer_config.json:pad_token* tokenizer_config.json:cls_token* tokenizer_config.json:mask_token* tokenizer_config.json:added_tokens_decoder* tokenizer_config.json:added_tokens.* tokenizer_config.json:additional_special_tokens* tokenizer_config.json:extra_special_tokens* tokenizer_config.json:add_bos_token tokenizer_config.json:add_eos_token tokenizer_config.json:add_prefix_space tokenizer_config.json:chat_template* tokenizer_config.json:clean_up_tokenization_spaces tokenizer_config.json:do_lower_case tokenizer_config.json:strip_accents tokenizer_config.json:tokenize_chinese_chars tokenizer_config.json:split_special_tokens tokenizer_config.json:spaces_between_special_tokens tokenizer_config.json:legacy tokenizer_config.json:sp_model_kwargs* tokenizer_config.json:use_default_system_prompt tokenizer_config.json:errors tokenizer_config.json:from_slow tokenizer_config.json:name_or_path tokenizer_config.json:special_tokens_map_file tokenizer_config.json:tokenizer_file tokenizer_config.json:trim_offsets tokenizer_config.json:is_local tokenizer_config.json:backend tokenizer_config.json:transformers_version special_tokens_map.json:* added_tokens.json:* chat_template.jinja:* additional_chat_templates/*:*
        huggingface.card_keys=generation_config.json:do_sample generation_config.json:temperature generation_config.json:top_k generation_config.json:top_p generation_config.json:min_p generation_config.json:repetition_penalty generation_config.json:bos_token_id generation_config.json:eos_token_id generation_config.json:pad_token_id generation_config.json:transformers_version generation_config.json:_from_model_config
        huggingface.file_keys=tokenizer_config.json:chat_template:str tokenizer_config.json:add_bos_token:bool tokenizer_config.json:add_eos_token:bool tokenizer_config.json:add_prefix_space:bool tokenizer_config.json:clean_up_tokenization_spaces:bool tokenizer_config.json:model_max_length:i64 tokenizer_config.json:padding_side:str tokenizer_config.json:tokenizer_class:str generation_config.json:do_sample:bool generation_config.json:temperature:f64 generation_config.json:top_k:i64 generation_config.json:top_p:f64 generation_config.json:min_p:f64 generation_config.json:repetition_penalty:f64 generation_config.json:max_new_tokens:i64
        huggingface.key_texts=chat_template:chat_template.jinja
        huggingface.type_keys=dtype torch_dtype
        huggingface.type_names=F64:float64 F32:float32 F16:float16 BF16:bfloat16
        huggingface.option.no-card=write flag - Do not add a README.md if the source has none
        huggingface.report.scan=List the Python code that the model's files refer to
        huggingface.option.weights=write choice:safetensors,pytorch safetensors Format of the weight files
    ",
    reader: |_| Some(Box::new(reader::HuggingFace)),
    writer: |_| Some(Box::new(writer::HuggingFace)),
}
