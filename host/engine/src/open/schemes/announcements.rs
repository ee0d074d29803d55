//! Announcements of packed weights in a model's own configuration.

use crate::open::OpenedModel;
use apr_sdk::{
    Bytes, DERIVED, Derived, DerivedStated, Error, Foreign, ForeignFile, Model, Payload, Result, Value,
    escape, strict_json,
};
use serde_json::{Map, Value as Json};
use std::collections::{HashMap, HashSet};

/// Metadata keys that announce packed weights at any depth: names of JSON objects.
const OBJECTS: [&str; 2] = ["quantization_config", "compression_config"];

/// Keys of a file's metadata whose texts are JSON that announces packed weights.
const TEXTS: [&str; 1] = ["_quantization_metadata"];

/// A key that announces them at the top level if it has one of these members.
const TOP: (&str, [&str; 5]) =
    ("quantization", ["bits", "group_size", "mode", "quant_algo", "qformat_weight"]);

/// A member that says of weights that they are floats as they lie, which are packed while the model computes.
const LIVE: (&str, &str) = ("quantization_mode", "online");

/// Members of such an object that name the scheme, in order of preference.
const NAMES: [&str; 4] = ["quant_method", "quant_algo", "qformat_weight", "format"];

/// Companion files that announce them.
const FILES: [&str; 3] = ["hf_quant_config.json", "quantize_config.json", "quant_config.json"];

/// A place that announces packed weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The scheme, if named there.
    pub scheme: Option<String>,
    /// The file or the format that contains it.
    pub file: String,
    /// The key of the announcing object; `None` for a whole companion file.
    pub key: Option<String>,
    /// True if it is the format's own statement about derived weights, and no file.
    pub is_own: bool,
}

/// Bytes of a companion file that is read for the scheme's name. 1 MiB: a list of all of a model's layers
/// takes a tenth.
const LONGEST: u64 = 1 << 20;

/// Merges the statements of two files of a model about derived weights.
///
/// # Errors
/// Plugin for bytes that are no such statement.
pub fn both(one: &Bytes, other: &Bytes) -> Result<Bytes> {
    // Each shard may repeat what is said of the whole model.
    if one == other {
        return Ok(one.clone());
    }
    let mut one = Derived::from_json(one.inline().unwrap_or_default())?;
    let other = Derived::from_json(other.inline().unwrap_or_default())?;
    one.weights.extend(other.weights);
    let keys: HashSet<String> = one.keys.iter().cloned().collect();
    one.keys.extend(other.keys.into_iter().filter(|key| !keys.contains(key)));
    one.unused.extend(other.unused);
    one.unknown.extend(other.unknown);
    let mut known: HashMap<String, Vec<DerivedStated>> = HashMap::new();
    for stated in &one.stated {
        known.entry(stated.name.clone()).or_default().push(stated.clone());
    }
    one.stated.extend(other.stated.into_iter().filter(|stated| {
        known.get(&stated.name).is_none_or(|known| !known.iter().any(|known| is_same(known, stated)))
    }));
    Ok(one.to_json().as_bytes().into())
}

/// Returns whether two descriptions of one weight say the same: white space and the order of members say nothing.
fn is_same(one: &DerivedStated, other: &DerivedStated) -> bool {
    if one.json == other.json {
        return true;
    }
    let [one, other] = [one, other].map(|stated| serde_json::from_str::<Json>(&stated.json).ok());
    one.is_some() && one == other
}

/// Every announcement in an opened model, in model order.
pub fn announcements(source: &OpenedModel) -> Vec<Announcement> {
    let mut announced = in_keys(&source.model);
    announced.extend(own(&source.model));
    for asset in &source.model.assets {
        let name = asset.name.rsplit('/').next().unwrap_or_default();
        if FILES.contains(&name) {
            // A file that cannot be read or is not JSON counts as an announcement all the same.
            let short = asset.bytes.len() <= LONGEST;
            let held = short.then(|| source.fetch(&asset.bytes).ok()).flatten();
            let json = held.as_ref().and_then(Bytes::inline).and_then(|b| serde_json::from_slice(b).ok());
            let scheme = json.as_ref().and_then(named);
            announced.push(Announcement { scheme, file: asset.name.clone(), key: None, is_own: false });
        }
    }
    announced
}

/// The format's own statement about derived weights.
fn own(model: &Model) -> Option<Announcement> {
    let derived = Derived::from_json(model.derived.as_ref()?.inline()?).ok()?;
    let by = derived.weights.first().map(|weight| &weight.by);
    let by = by.or_else(|| derived.unknown.first().map(|unknown| &unknown.by));
    let by = by.or_else(|| derived.stated.iter().map(|stated| &stated.by).find(|by| !by.is_empty()));
    let scheme = Some(by?.clone());
    let key = Some(DERIVED.to_owned());
    Some(Announcement { scheme, file: model.format.clone(), key, is_own: true })
}

/// The announcements among a model's metadata keys.
fn in_keys(model: &Model) -> Vec<Announcement> {
    let mut announced: Vec<Announcement> = Vec::new();
    for foreign in &model.foreign {
        for file in &foreign.files {
            let shown = shown(foreign, file);
            let mut places: HashMap<&str, usize> = HashMap::new();
            let is_live = |key: &str| split(key).is_some_and(|(_, member)| member == LIVE.0);
            let live =
                file.typed.iter().filter(|(key, value)| is_live(key) && value.as_str() == Some(LIVE.1));
            let live: HashSet<&str> = live.filter_map(|(key, _)| Some(split(key)?.0)).collect();
            for (key, value) in &file.typed {
                let Some((object, member)) = split(key).filter(|_| !is_empty_object(value)) else { continue };
                if live.contains(object) {
                    continue;
                }
                let at = *places.entry(object).or_insert_with(|| {
                    let key = Some(object.to_owned());
                    announced.push(Announcement { scheme: None, file: shown.to_owned(), key, is_own: false });
                    announced.len() - 1
                });
                if announced[at].scheme.is_some() {
                    continue;
                }
                if NAMES.contains(&member) {
                    announced[at].scheme = value.as_str().map(str::to_owned);
                } else if TEXTS.contains(&object) {
                    let json = value.as_str().and_then(|text| serde_json::from_str(text).ok());
                    announced[at].scheme = json.as_ref().and_then(named);
                }
            }
        }
    }
    announced
}

/// The name of a file in messages.
fn shown<'m>(foreign: &'m Foreign, file: &'m ForeignFile) -> &'m str {
    if file.name.is_empty() { &foreign.format } else { &file.name }
}

/// The contents of announcements, as JSON.
///
/// # Errors
/// Malformed, with the file, for one that cannot be read: without it, tensors would be taken for what they look like.
pub fn jsons(announced: &[Announcement], source: &OpenedModel) -> Result<Vec<String>> {
    let objects = Objects::of(source);
    let mut jsons = Vec::with_capacity(announced.len());
    for one in announced {
        let json = one.json(source, &objects).map_err(|error| error.in_file(&one.file))?;
        let Some(json) = json else {
            let message = format!("the description of the packed weights cannot be read: {}", one.shown());
            return Err(Error::malformed(message).in_file(&one.file));
        };
        jsons.push(json);
    }
    Ok(jsons)
}

/// The names and values of an object's members; a member of an object within has a name with a dot.
type Members<'m> = Vec<(&'m str, &'m Value)>;

/// The announcing objects among a model's metadata keys.
struct Objects<'m> {
    /// The files that have any, each as JSON where it can be read.
    files: Vec<Option<Json>>,
    /// By the names of file and object, the number of the file, and the members.
    members: HashMap<(&'m str, &'m str), (usize, Members<'m>)>,
}

impl<'m> Objects<'m> {
    fn of(source: &'m OpenedModel) -> Objects<'m> {
        let mut objects = Objects { files: Vec::new(), members: HashMap::new() };
        let all = source.model.foreign.iter().flat_map(|of| of.files.iter().map(move |file| (of, file)));
        for (foreign, file) in all {
            let number = objects.files.len();
            let own: HashSet<&str> = file.typed.iter().filter_map(|(key, _)| Some(split(key)?.0)).collect();
            for (key, value) in &file.typed {
                let Some(object) = within(key, &own) else { continue };
                let place = objects.members.entry((shown(foreign, file), object));
                let (of, members) = place.or_insert_with(|| (number, Vec::new()));
                // Of two files of one name the first counts.
                if *of == number {
                    members.push((key.get(object.len() + 1..).unwrap_or_default(), value));
                }
            }
            if !own.is_empty() {
                let verbatim = file.verbatim.as_ref().and_then(|bytes| source.fetch(bytes).ok());
                let bytes = verbatim.as_ref().and_then(Bytes::inline);
                objects.files.push(bytes.and_then(|bytes| serde_json::from_slice(bytes).ok()));
            }
        }
        objects
    }

    /// The content of the object called `key` in a file.
    fn json(&self, file: &str, key: &str) -> Option<String> {
        let (file, members) = self.members.get(&(file, key))?;
        if let ([("", text)], true) = (members.as_slice(), TEXTS.contains(&key)) {
            return text.as_str().map(str::to_owned);
        }
        let whole = self.files.get(*file).and_then(Option::as_ref);
        let written = whole.and_then(|whole| key.split('.').try_fold(whole, |at, name| at.get(name)));
        Some(written.map_or_else(|| rebuilt(members).to_string(), Json::to_string))
    }
}

impl Announcement {
    /// `` `quantization_config` in config.json ``.
    pub fn shown(&self) -> String {
        if self.is_own {
            return "as stated by the model file".to_owned();
        }
        let file = escape(&self.file, 120);
        match &self.key {
            Some(key) => format!("`{}` in {file}", escape(key, 120)),
            None => file.to_string(),
        }
    }

    fn json(&self, source: &OpenedModel, objects: &Objects<'_>) -> Result<Option<String>> {
        if self.is_own {
            return source.model.derived.as_ref().map(text).transpose();
        }
        let Some(key) = &self.key else {
            let asset = source.model.assets.iter().find(|asset| asset.name == self.file);
            return asset.map(|asset| text(&source.fetch(&asset.bytes)?)).transpose();
        };
        Ok(objects.json(&self.file, key))
    }

    /// Returns whether it no longer says anything about a model in which the weights called `unpacked` were unpacked.
    pub fn is_over(&self, model: &Model, unpacked: &HashSet<String>) -> bool {
        if !self.is_own {
            return true;
        }
        let derived = model.derived.as_ref().and_then(Bytes::inline);
        let Some(derived) = derived.and_then(|json| Derived::from_json(json).ok()) else { return true };
        let stored = model.tensors.iter().filter(|tensor| !matches!(tensor.payload, Payload::Packed(_)));
        let stored: HashSet<&str> = stored.map(|tensor| tensor.name.as_str()).collect();
        let mut codes = derived
            .weights
            .iter()
            .map(|weight| &weight.codes)
            .chain(derived.unknown.iter().map(|unknown| &unknown.codes));
        // Who knows the words that weights are stated in unpacks all that are here, or refuses the model; others may be in other files.
        !codes.any(|codes| stored.contains(codes.as_str()))
            && (derived.stated.is_empty()
                || derived.stated.iter().any(|stated| unpacked.contains(&stated.name)))
    }
}

/// Takes announcements out of a model; a companion file goes as a whole.
pub fn remove(announced: &[&Announcement], model: &mut Model) {
    let mut keys: HashSet<String> = HashSet::new();
    if announced.iter().any(|announcement| announcement.is_own) {
        let derived = model.derived.take();
        let derived = derived.as_ref().and_then(Bytes::inline).and_then(|json| Derived::from_json(json).ok());
        keys.extend(derived.into_iter().flat_map(|derived| derived.keys));
    }
    let mut objects: HashSet<&str> = HashSet::new();
    let mut files: HashSet<&str> = HashSet::new();
    for announcement in announced.iter().filter(|announcement| !announcement.is_own) {
        match &announcement.key {
            Some(key) => objects.insert(key),
            None => files.insert(&announcement.file),
        };
    }
    model.assets.retain(|asset| !files.contains(asset.name.as_str()));
    for file in model.foreign.iter_mut().flat_map(|foreign| &mut foreign.files) {
        let before = file.typed.len();
        file.typed.retain(|(key, _)| !keys.contains(key) && within(key, &objects).is_none());
        if file.typed.len() < before {
            // It says more of an object than has a type, such as `null`, or is that of the codes.
            file.verbatim = None;
        }
    }
}

/// The one of these objects that a key is, or is in.
fn within<'k>(key: &'k str, objects: &HashSet<&str>) -> Option<&'k str> {
    let ends = key.match_indices('.').map(|(end, _)| end).chain([key.len()]);
    ends.map(|end| &key[..end]).find(|object| objects.contains(object))
}

/// An object made of its typed members.
fn rebuilt(members: &[(&str, &Value)]) -> Json {
    let mut whole = Map::new();
    for (rest, value) in members.iter().filter(|(rest, _)| !rest.is_empty()) {
        let mut at = &mut whole;
        let mut names = rest.split('.').peekable();
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                at.insert(name.to_owned(), json_of(value));
                break;
            }
            let inner = at.entry(name).or_insert_with(|| Json::Object(Map::new()));
            let Json::Object(inner) = inner else { break };
            at = inner;
        }
    }
    Json::Object(whole)
}

/// A typed value as JSON; a list of one string is what JSON has no type for.
fn json_of(value: &Value) -> Json {
    if value.array_head().is_some() {
        let items = value.items();
        if let [only] = items.as_slice()
            && let Some(json) = only.as_str().and_then(|text| serde_json::from_str(text).ok())
        {
            return json;
        }
        return items.iter().map(json_of).collect();
    }
    let json = value.as_bool().map(Json::from);
    let json = json.or_else(|| value.as_str().map(Json::from));
    let json = json.or_else(|| value.as_i64().map(Json::from));
    let json = json.or_else(|| value.as_u64().map(Json::from));
    json.or_else(|| value.as_f64().map(Json::from)).unwrap_or(Json::Null)
}

/// Those announcements that a model no longer has.
pub fn gone<'a>(announced: &'a [Announcement], model: &Model) -> Vec<&'a Announcement> {
    let objects: HashSet<&str> = typed(model).filter_map(|(key, _)| Some(split(key)?.0)).collect();
    let mut gone = Vec::new();
    for place in announced {
        let stays = match &place.key {
            _ if place.is_own => own_stays(model),
            None => model.assets.iter().any(|asset| asset.name == place.file),
            Some(object) => objects.contains(object.as_str()),
        };
        if !stays {
            gone.push(place);
        }
    }
    gone
}

/// The model's own announcement is told by name, and by keys of the format that it comes from.
fn own_stays(model: &Model) -> bool {
    let derived = model.derived.as_ref().and_then(Bytes::inline);
    let Some(derived) = derived.and_then(|json| Derived::from_json(json).ok()) else { return false };
    let names: HashSet<&str> = model.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let keys: HashSet<&str> = typed(model).map(|(key, _)| key.as_str()).collect();
    let codes = derived.weights.iter().map(|weight| &weight.codes);
    codes
        .chain(derived.unknown.iter().map(|unknown| &unknown.codes))
        .all(|name| names.contains(name.as_str()))
        && derived.keys.iter().all(|key| keys.contains(key.as_str()))
}

fn typed(model: &Model) -> impl Iterator<Item = &(String, Value)> {
    model.foreign.iter().flat_map(|foreign| &foreign.files).flat_map(|file| &file.typed)
}

/// The announcing object that a key is in, and the key's name within it.
fn split(key: &str) -> Option<(&str, &str)> {
    if TEXTS.contains(&key) {
        return Some((key, ""));
    }
    let (top, members) = TOP;
    if let Some(member) = key.strip_prefix(top).and_then(|rest| rest.strip_prefix('.')) {
        return members.contains(&member).then_some((top, member));
    }
    let mut begin = 0;
    for name in key.split('.') {
        let end = begin + name.len();
        if OBJECTS.contains(&name) {
            return Some((&key[..end], key.get(end + 1..).unwrap_or_default()));
        }
        begin = end + 1;
    }
    None
}

/// The scheme that a JSON object names, directly or in a nested object.
fn named(json: &Json) -> Option<String> {
    let object = json.as_object()?;
    let own = NAMES.iter().find_map(|name| object.get(*name)?.as_str().map(str::to_owned));
    own.or_else(|| object.values().find_map(|inner| inner.is_object().then(|| named(inner))?))
}

fn text(held: &Bytes) -> Result<String> {
    Ok(strict_json::text(held.inline().unwrap_or_default())?.to_owned())
}

/// Returns whether a value is an object without members, which announces nothing.
fn is_empty_object(value: &Value) -> bool {
    value.array_head().is_some_and(|(_, n)| n == 1)
        && value.items().first().and_then(Value::as_str) == Some("{}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::{DType, DerivedUnknown, DerivedWeight, Tensor};

    fn tensor(name: &str) -> Tensor {
        Tensor { name: name.to_owned(), dtype: DType::I8, shape: vec![2, 2], payload: Payload::Sequential }
    }

    fn weight(codes: &str) -> DerivedWeight {
        DerivedWeight { codes: codes.to_owned(), ..DerivedWeight::default() }
    }

    fn stated(name: &str) -> DerivedStated {
        DerivedStated { name: name.to_owned(), ..DerivedStated::default() }
    }

    #[test]
    fn what_is_said_of_weights_that_are_still_packed_stays() {
        let unknown = DerivedUnknown { codes: "left".to_owned(), ..DerivedUnknown::default() };
        let place = Announcement { scheme: None, file: String::new(), key: None, is_own: true };
        let names: HashSet<String> = [String::from("a")].into();
        for (said, want) in [
            (Derived { weights: vec![weight("q")], ..Derived::default() }, true),
            (Derived { weights: vec![weight("q"), weight("left")], ..Derived::default() }, false),
            (Derived { unknown: vec![unknown], ..Derived::default() }, false),
            // Others may be in other files.
            (Derived { stated: vec![stated("a"), stated("b")], ..Derived::default() }, true),
            (Derived { stated: vec![stated("b")], ..Derived::default() }, false),
        ] {
            let mut model = Model::default();
            model.tensors = vec![tensor("a"), tensor("left")];
            model.derived = Some(said.to_json().as_bytes().into());
            assert_eq!(place.is_over(&model, &names), want, "{said:?}");
        }
    }

    #[test]
    fn keys_announce_wherever_the_object_stands() {
        for (key, want) in [
            ("quantization_config.quant_method", Some(("quantization_config", "quant_method"))),
            ("text_config.quantization_config.bits", Some(("text_config.quantization_config", "bits"))),
            ("quantization_config", Some(("quantization_config", ""))),
            ("quantization.bits", Some(("quantization", "bits"))),
            ("quantization.note", None),
            ("general.quantization_version", None),
            ("_quantization_metadata", Some(("_quantization_metadata", ""))),
            ("a._quantization_metadata", None),
            ("my_quantization_config", None),
        ] {
            assert_eq!(split(key), want, "{key}");
        }
    }
}
