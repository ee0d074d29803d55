//! The makers' description of a model: the JSON object in [`crate::Model::model_card`].
//!
//! | key | value |
//! | --- | --- |
//! | `name`, `author`, `version`, `organization`, `finetune`, `basename`, `description`, `quantized_by`, `size_label` | text |
//! | `ids` | array of text, most specific first: names the model is known by, `ORG/NAME` or `NAME`, such as the one in its configuration |
//! | `folder` | text: the name of the folder that it was opened from, another name for it after all `ids`; no part of its content |
//! | `license`, `license_name`, `license_link` | text |
//! | `url`, `doi`, `uuid`, `repo_url` | text |
//! | `source` | an object with `url`, `doi`, `uuid`, `repo_url` of the model it was made from |
//! | `base_models`, `datasets` | arrays of objects with `name`, `author`, `version`, `organization`, `description`, `url`, `doi`, `uuid`, `repo_url`; or with `id` alone: `ORG/NAME` or an address, as the source has it |
//! | `tags`, `languages` | arrays of text |
//! | `sampling` | an object of numbers: `top_k`, `top_p`, `min_p`, `temp`, ... |
//! | `generation` | an object: what else decides an answer, see below |
//! | `embedding` | an object: how a text becomes a vector, see below |
//!
//! `generation` has transformers' names, and their meaning there:
//!
//! | key | value |
//! | --- | --- |
//! | `eos_token_id` | array of ids, each of which ends the answer, and no other does; without it, those of the tokenizer do |
//! | `do_sample` | true if tokens are drawn, false if the most probable one is taken, where `sampling` suggests the other |
//! | `repetition_penalty`, `encoder_repetition_penalty` | a number above 0, for all tokens of the text, and for those of the prompt |
//! | `sequence_bias` | array of pairs: an array of ids, and the number that is added to the logit of the last of them behind the others |
//! | `no_repeat_ngram_size`, `encoder_no_repeat_ngram_size` | the length of sequences that do not occur twice, or not as in the prompt |
//! | `bad_words_ids` | array of arrays of ids: sequences that do not occur |
//! | `min_length`, `min_new_tokens` | tokens of the whole text, and of the answer, before one that ends it |
//! | `forced_bos_token_id`, `forced_eos_token_id` | the id behind a single token, and an array of those of which one is the last |
//! | `exponential_decay_length_penalty` | a number of tokens, and the factor by which an end becomes likelier with each one behind them |
//! | `suppress_tokens`, `begin_suppress_tokens` | arrays of ids that are never chosen, or not as the first |
//! | `top_h`, `typical_p`, `epsilon_cutoff`, `eta_cutoff` | parts of 1: what is left where tokens are drawn |
//! | `max_length`, `max_new_tokens` | tokens of the whole text, and of the answer, at most |
//! | `stop_strings` | array of texts that end the answer |
//! | `temp`, `top_k`, `top_p`, `min_p` | as in `sampling`, where a file states them that other formats do not repeat |
//! | `not_followed` | array of texts: settings that change the answer and have no key here |
//!
//! `embedding`:
//!
//! | key | value |
//! | --- | --- |
//! | `prompt` | text that is put before the one that is embedded |
//! | `lower_case` | true if both are lower-cased first |
//! | `max_length` | the tokens that are read, those that the tokenizer adds included; what comes after them is cut off |
//! | `dimensions` | the elements of the vector that count, from the first on |
//! | `not_followed` | array of texts: settings that change the vector and have no key here |
//!
//! Every key is optional. Readers report what the files say, and never guess.
