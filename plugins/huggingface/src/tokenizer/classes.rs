//! The classes of transformers as data: classes.json, which tests/tokenizers/classes.py reads out of the library.

use super::recipe::Recipe;
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The special tokens of a class, by purpose.
pub type Named = HashMap<String, String>;

struct Classes {
    tokens: HashMap<String, Named>,
    of_models: HashMap<String, String>,
    recipes: HashMap<String, Json>,
    aliases: HashMap<String, String>,
    in_python: Vec<String>,
    overruled: Vec<String>,
}

static CLASSES: LazyLock<Classes> = LazyLock::new(|| {
    let mut all: Json = serde_json::from_str(include_str!("classes.json")).unwrap_or_default();
    let mut taken = |key: &str| all.get_mut(key).map(Json::take).unwrap_or_default();
    Classes {
        tokens: serde_json::from_value(taken("classes")).unwrap_or_default(),
        of_models: serde_json::from_value(taken("models")).unwrap_or_default(),
        recipes: serde_json::from_value(taken("recipes")).unwrap_or_default(),
        aliases: serde_json::from_value(taken("aliases")).unwrap_or_default(),
        in_python: serde_json::from_value(taken("in_python")).unwrap_or_default(),
        overruled: serde_json::from_value(taken("overruled")).unwrap_or_default(),
    }
});

/// The special tokens that a class has where nothing states them, if it is known.
pub fn tokens(class: &str) -> Option<&'static Named> {
    CLASSES.tokens.get(class)
}

/// The class of a type of models.
pub fn of_model(model_type: &str) -> Option<&'static str> {
    CLASSES.of_models.get(model_type).map(String::as_str)
}

/// Returns whether version 5 of the library goes by the type of models, whatever class its files name.
pub fn is_overruled(model_type: &str) -> bool {
    CLASSES.overruled.iter().any(|known| known == model_type)
}

/// What version 5 of the library makes of a class's vocabulary.
pub fn recipe(class: &str) -> Option<Recipe> {
    let class = CLASSES.aliases.get(class).map_or(class, String::as_str);
    CLASSES.recipes.get_key_value(class).map(|(class, made)| Recipe::new(class, made))
}

/// Returns whether the library runs a class in Python, where no tokenizer.json says all that it does.
pub fn runs_in_python(class: &str) -> bool {
    CLASSES.in_python.iter().any(|known| known == class)
}
