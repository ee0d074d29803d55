//! What a model's makers say of it: the JSON object that [`crate::Model::model_card`] holds.
//!
//! | key | value |
//! | --- | --- |
//! | `name`, `author`, `version`, `organization`, `finetune`, `basename`, `description`, `quantized_by`, `size_label` | text |
//! | `ids` | array of text, the most telling first: `ORG/NAME` or `NAME`, by which it is known: what its configuration calls it, the name of its folder |
//! | `license`, `license_name`, `license_link` | text |
//! | `url`, `doi`, `uuid`, `repo_url` | text |
//! | `source` | an object with `url`, `doi`, `uuid`, `repo_url` of what it was made from |
//! | `base_models`, `datasets` | arrays of objects with `name`, `author`, `version`, `organization`, `description`, `url`, `doi`, `uuid`, `repo_url`, or only `id`: `ORG/NAME` or an address, as the source says it |
//! | `tags`, `languages` | arrays of text |
//! | `sampling` | an object: `top_k`, `top_p`, `min_p`, `temp`, ... as numbers |
//!
//! Every key may be absent. Readers give what their files say, and nothing that they had to guess.
