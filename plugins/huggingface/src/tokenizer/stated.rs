//! What a folder states of its special tokens, together with what the class of its tokenizer has where the folder says nothing.

use super::recipe::{Reads, Recipe};
use super::{added, classes};
use apr_sdk::escape;
use apr_sdk::tokenizer::{Around, Kind, Parts, Spelling, post_processor, steps};
use serde_json::{Map, Value as Json};

/// What to do about a folder that leaves too much to the class of its tokenizer.
pub const SAVE: &str = "load the tokenizer with transformers and save it, which writes tokenizer.json";

/// The key of a configuration's list of added tokens.
pub const DECODER: &str = "added_tokens_decoder";

/// What the purposes of special tokens are called.
pub const NAMES: [&str; 7] = ["bos", "eos", "unk", "sep", "pad", "cls", "mask"];

/// The class of a folder's tokenizer, without `Fast`: the one that a file names, or that its type of models has. Empty if neither
/// is known.
pub fn class(said: Option<&Json>, config: Option<&Json>) -> String {
    let text = |json: Option<&Json>, key: &str| json?.get(key)?.as_str().map(str::to_owned);
    let of_model = || classes::of_model(&text(config, "model_type")?).map(str::to_owned);
    let named = text(said, "tokenizer_class").or_else(|| text(config, "tokenizer_class")).or_else(of_model);
    named.map(|class| class.trim_end_matches("Fast").to_owned()).unwrap_or_default()
}

/// As [`class`], where there is no tokenizer.json: files of some types of models name another class than reads them.
pub fn class_of_files(said: Option<&Json>, config: Option<&Json>) -> String {
    class_of_model(config).map_or_else(|| class(said, config), str::to_owned)
}

/// The class of a type of models by which version 5 of the library goes, whatever class files name.
fn class_of_model(config: Option<&Json>) -> Option<&'static str> {
    let model_type = config?.get("model_type")?.as_str().filter(|known| classes::is_overruled(known))?;
    classes::of_model(model_type).filter(|own| classes::recipe(own).is_some())
}

/// The text of a token, which may stand in an object.
pub fn text(entry: &Json) -> Option<&str> {
    entry.as_str().or_else(|| entry.get("content")?.as_str())
}

/// The configuration with what else decides on tokens: `special_tokens_map.json` and `added_tokens.json`, which count where the
/// configuration does not list added tokens, and the class, where nothing is said: what the vocabulary has of its tokens, or all of
/// them with the class's `recipe`.
pub fn whole(
    said: Option<&Json>,
    [map, more, config]: [Option<&Json>; 3],
    class: &str,
    recipe: Option<Recipe>,
    parts: &mut Parts,
) -> Option<Json> {
    // Where nothing says the class, it is that of the recipe.
    let class = recipe.filter(|_| class.is_empty()).map_or(class, |recipe| recipe.class());
    let mut whole = said.and_then(Json::as_object).cloned().unwrap_or_default();
    let listed = whole.contains_key(DECODER);
    let of_pieces = recipe.is_some_and(|recipe| recipe.reads() == Reads::Pieces);
    let own = whole.clone();
    let mapped = map.and_then(Json::as_object).filter(|_| !listed).into_iter().flatten();
    // What the model defines takes the place of such a list, as does a list in the configuration.
    let is_listed = of_pieces || lists_tokens(&own);
    let counts = |key: &str| added::names_tokens(key) && !(is_listed && key == added::ADDITIONAL);
    for (key, value) in mapped.filter(|(key, value)| counts(key) && !value.is_null()) {
        let mut value = value.clone();
        if let (Some(Json::Array(known)), Json::Array(new)) = (whole.get(key), &mut value)
            && key == added::EXTRA
        {
            new.retain(|token| !known.contains(token));
            new.splice(0..0, known.iter().cloned());
        }
        whole.insert(key.clone(), value);
    }
    if let Some(more) = more.and_then(Json::as_object).filter(|_| !listed) {
        let listed = added::listed(parts, more, &whole, &own);
        if !listed.is_empty() {
            whole.insert(DECODER.to_owned(), Json::Object(listed));
        }
    }
    let of_five = match recipe {
        Some(_) => class_of_five(class, config, parts),
        None => class_in_five(class, config, parts).unwrap_or_default(),
    };
    parts.chat_variables = Some(added::variables(&whole, of_five));
    let known = classes::tokens(class);
    for (name, text) in NAMES.iter().filter_map(|name| Some((name, known?.get(*name)?))) {
        let key = format!("{name}_token");
        if !whole.contains_key(&key) && (recipe.is_some() || parts.each().any(|(_, token)| token == text)) {
            whole.insert(key, text.as_str().into());
        }
    }
    recipe.into_iter().for_each(|recipe| complete(&mut whole, recipe, lists_tokens(&own)));
    (said.is_some() || recipe.is_some() || !whole.is_empty()).then_some(Json::Object(whole))
}

/// The class of the tokenizer that version 5 of the library makes. Empty for its class without defaults.
fn class_of_five<'c>(class: &'c str, config: Option<&'c Json>, parts: &Parts) -> &'c str {
    // Such a file under this name is read as it is.
    let of_bytes = class == "LlamaTokenizer" && parts.spelling == Spelling::Bytes;
    match class_of_model(config) {
        _ if of_bytes => "",
        Some(own) => own,
        None if classes::recipe(class).is_some() || classes::runs_in_python(class) => class,
        None => "",
    }
}

/// As [`class_of_five`], for a folder with a `tokenizer.json`, by which version 5 of the library goes without a class where the types of
/// models and of the tokenizer do not belong together.
pub fn class_in_five<'c>(class: &'c str, config: Option<&'c Json>, parts: &Parts) -> Option<&'c str> {
    let found = class_of_five(class, config, parts);
    (!found.is_empty() && !is_passed_over(config, class)).then_some(found)
}

/// Returns whether a configuration lists further special tokens, or none: such a list takes the place of those of the class and of
/// SentencePiece's model.
pub fn lists_tokens(own: &Map<String, Json>) -> bool {
    own.get(added::EXTRA).is_some_and(|extra| !extra.is_object())
        || own.get(added::ADDITIONAL).is_some_and(|listed| !listed.is_null())
}

/// Adds to a configuration the flags that a class gives to special tokens of which it says the text alone, and the tokens that the class
/// adds of its own, unless others are `listed`.
fn complete(whole: &mut Map<String, Json>, recipe: Recipe, is_listed: bool) {
    let listed = whole.get(DECODER).and_then(Json::as_object);
    let listed: Vec<String> =
        listed.into_iter().flatten().filter_map(|(_, token)| text(token)).map(str::to_owned).collect();
    for name in NAMES {
        if let (Some(flags), Some(Json::String(own))) =
            (recipe.flags(name), whole.get(&format!("{name}_token")))
            && !listed.contains(own)
        {
            let mut entry = flags.clone();
            entry.insert("content".to_owned(), own.as_str().into());
            entry.insert("special".to_owned(), true.into());
            whole.insert(format!("{name}_token"), Json::Object(entry));
        }
    }
    if recipe.is_plain() {
        added::make_plain(whole);
    }
    let listed = if is_listed { Vec::new() } else { recipe.further(&Json::Object(whole.clone())) };
    let named = recipe.named().map(|(_, text)| text.to_owned());
    let further: Vec<Json> = listed.into_iter().chain(named).map(Json::from).collect();
    if further.is_empty() {
        return;
    }
    let is_list =
        |key: &&str| whole.get(*key).and_then(Json::as_array).is_some_and(|items| !items.is_empty());
    let key = [added::EXTRA, added::ADDITIONAL].into_iter().find(is_list).unwrap_or(added::ADDITIONAL);
    let Some(items) = whole.entry(key).or_insert_with(|| Json::Array(Vec::new())).as_array_mut() else {
        return;
    };
    let known: Vec<String> = items.iter().filter_map(text).map(str::to_owned).collect();
    let is_new = |token: &Json| text(token).is_some_and(|text| known.iter().all(|known| known != text));
    items.extend(further.into_iter().filter(is_new));
}

/// Classes for which version 4 of the library goes by the flags for the tokens around a text, whatever tokenizer.json says, and
/// what it takes them for where they are not stated.
const BY_FLAGS: [(&str, [bool; 2]); 5] = [
    ("LlamaTokenizer", [true, false]),
    ("CodeLlamaTokenizer", [true, false]),
    ("GemmaTokenizer", [true, false]),
    ("CohereTokenizer", [true, false]),
    ("GPTNeoXTokenizer", [false, false]),
];

/// Notes where versions of the library go by the class of a tokenizer rather than by its tokenizer.json, and the two differ. This
/// plugin goes by tokenizer.json.
pub fn note(parts: &mut Parts, said: &Json, config: Option<&Json>, class: &str) {
    let flag = |key: &str| said.get(key).and_then(Json::as_bool);
    if let Some((_, usual)) = BY_FLAGS.iter().find(|(name, _)| *name == class) {
        let text = |name: &str| {
            let entry = said.get(format!("{name}_token"))?;
            entry.as_str().or_else(|| entry.get("content")?.as_str())
        };
        let by_flags = [("bos", usual[0]), ("eos", usual[1])].map(|(name, usual)| {
            let is_added = flag(&format!("add_{name}_token")).unwrap_or(usual);
            is_added.then(|| text(name).unwrap_or("a token that is not in the vocabulary"))
        });
        let puts = puts(parts.post_processor.as_ref());
        if puts.each_ref().map(Option::as_deref) != by_flags {
            let shown = |sides: [Option<&str>; 2]| match sides {
                [None, None] => "nothing".to_owned(),
                [Some(first), Some(last)] => format!("`{}` and `{}`", escape(first, 40), escape(last, 40)),
                [Some(first), None] => format!("`{}` before", escape(first, 40)),
                [None, Some(last)] => format!("`{}` after", escape(last, 40)),
            };
            let (own, other) = (shown(puts.each_ref().map(Option::as_deref)), shown(by_flags));
            parts.notes.push(format!(
                "around a text, tokenizer.json adds {own}, but the class `{class}` with the flags of \
                 tokenizer_config.json adds {other}: transformers 4 uses the flags, transformers 5 and apr \
                 use tokenizer.json"
            ));
        }
    }
    let Some(own) =
        classes::recipe(class).filter(|_| parts.kind == Kind::Bpe && !is_passed_over(config, class))
    else {
        return;
    };
    // Such a file under this name is read as it is.
    if parts.spelling == Spelling::Bytes && class == "LlamaTokenizer" {
        return;
    }
    let pairs = [("normalizer", &parts.normalizer), ("pre_tokenizer", &parts.pre_tokenizer)];
    let is_other = |(key, step): &(&str, &Option<Json>)| {
        plain(step.as_ref()) != plain(own.step(key, said, None).as_ref())
    };
    let others = pairs.into_iter().filter(is_other);
    let others: Vec<String> = others.map(|(key, _)| format!("`{key}`")).collect();
    if !others.is_empty() {
        let others = others.join(" and ");
        parts.notes.push(format!(
            "tokenizer.json differs in {others} from the class `{class}`: transformers 5 uses the class, \
             transformers 4 and apr use tokenizer.json"
        ));
    }
}

/// Whether version 5 of the library does not ask the class that a file names: the type of models has none, or another.
fn is_passed_over(config: Option<&Json>, class: &str) -> bool {
    let of_model = config.and_then(|config| classes::of_model(config.get("model_type")?.as_str()?));
    of_model.is_some_and(|of_model| of_model != class && classes::tokens(of_model).is_none())
}

/// The steps without what has no effect on which tokens there are, or is set by a flag.
fn plain(step: Option<&Json>) -> Vec<Json> {
    let mut all: Vec<Json> = steps(step).into_iter().cloned().collect();
    for step in all.iter_mut().filter_map(Json::as_object_mut) {
        ["add_prefix_space", "trim_offsets"].iter().for_each(|key| drop(step.remove(*key)));
    }
    all
}

/// The token that a post-processor puts before one text, and the one behind it.
pub fn puts(step: Option<&Json>) -> [Option<String>; 2] {
    let around = steps(step).into_iter().find_map(|step| {
        let text = |key: &str| Some(step.get(key)?.get(0)?.as_str()?.to_owned());
        if let (Some(first), Some(last)) = (text("cls"), text("sep")) {
            return Some([Some(first), Some(last)]);
        }
        let single = step.get("single").and_then(Json::as_array)?;
        let text = |entry: Option<&Json>| entry?.pointer("/SpecialToken/id")?.as_str().map(str::to_owned);
        Some([single.first(), single.last()].map(text))
    });
    around.unwrap_or_default()
}

/// What is put around a text by a model of SentencePiece, where no tokenizer.json says it: what flags state, and what is usual
/// without them.
/// `is_anew` if they say that spaces are put as later versions do.
pub fn around(parts: &mut Parts, class: &str, is_anew: bool) {
    let id = |name: &str, other: &str| parts.special_id(name).or_else(|| parts.special_id(other));
    let is_merged = parts.kind == Kind::Bpe || reads_pieces(class);
    let usual = if is_merged { [true, false] } else { [false, true] };
    let adds = |name: &str, usual: bool| parts.adds(name).unwrap_or(usual);
    let around = Around {
        bos: id("bos", "cls").filter(|_| adds("bos", usual[0])),
        eos: id("eos", "sep").filter(|_| adds("eos", usual[1])),
        sep: None,
    };
    if is_merged {
        note_pieces(parts, class, is_anew);
    }
    parts.post_processor = post_processor(parts, around);
}

/// Whether a class, as Llama's, reads SentencePiece's model as that is.
pub fn reads_pieces(class: &str) -> bool {
    classes::recipe(class).is_some_and(|recipe| recipe.reads() == Reads::SentencePiece)
}

/// Notes where version 5 of the library reads a lone model of pieces that are merged otherwise than SentencePiece does.
fn note_pieces(parts: &mut Parts, class: &str, is_anew: bool) {
    let shown = match class {
        "" => "a tokenizer without a class".to_owned(),
        class => format!("the class `{}`", escape(class, 60)),
    };
    if !reads_pieces(class) {
        parts.notes.push(format!(
            "SentencePiece's model is followed for {shown} as SentencePiece and llama.cpp do: version 5 of transformers puts neither a \
             space nor a token before a text there"
        ));
        return;
    }
    let by_five = class == "CodeLlamaTokenizer";
    if parts.adds("bos").is_none() && !by_five {
        parts.notes.push(format!(
            "nothing says whether a token is put before a text: version 4 of transformers, llama.cpp and apr put one for \
             {shown}, version 5 of transformers none where there is no tokenizer.json"
        ));
    }
    if is_anew && parts.remove_extra_whitespaces == Some(true) {
        parts.notes.push(format!(
            "SentencePiece's model removes extra spaces, and `legacy` is false for {shown}: the library keeps a space at the start of a \
             text and behind special tokens, which is removed here"
        ));
    }
    if !is_anew && parts.add_space_prefix != Some(false) && class != "GemmaTokenizer" {
        parts.notes.push(format!(
            "`legacy` is not false for {shown}: version 4 of transformers, llama.cpp and apr put a space before a text that \
             begins with one and behind special tokens too, version 5 of transformers does not"
        ));
    }
}
