//! The makers' description of a model: the JSON object in [`crate::Model::model_card`].
//!
//! | key | value |
//! | --- | --- |
//! | `name`, `author`, `version`, `organization`, `finetune`, `basename`, `description`, `quantized_by`, `size_label` | text |
//! | `ids` | array of text, most specific first: names the model is known by, `ORG/NAME` or `NAME`, such as the one in its configuration or the name of its folder |
//! | `license`, `license_name`, `license_link` | text |
//! | `url`, `doi`, `uuid`, `repo_url` | text |
//! | `source` | an object with `url`, `doi`, `uuid`, `repo_url` of the model it was made from |
//! | `base_models`, `datasets` | arrays of objects with `name`, `author`, `version`, `organization`, `description`, `url`, `doi`, `uuid`, `repo_url`; or with `id` alone: `ORG/NAME` or an address, as the source has it |
//! | `tags`, `languages` | arrays of text |
//! | `sampling` | an object of numbers: `top_k`, `top_p`, `min_p`, `temp`, ... |
//!
//! Every key is optional. Readers report what the files say, and never guess.
