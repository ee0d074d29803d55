//! The tokenizer, in a form that belongs to no format: what [`crate::Model::tokenizer`] holds as JSON.
