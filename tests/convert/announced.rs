//! What announces packed weights, many times over: a configuration is read once.

use crate::packed::{case, to, write};
use apr_sdk::DType as T;
use apr_tests::{Scratch, host, must};
use serde_json::{Map, Value as Json, json};

/// So many that reading the configuration for each would take minutes.
const PLACES: usize = 10_000;

#[test]
fn a_configuration_that_announces_in_many_places_is_read_once() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let mut places = Map::new();
    for number in 0..PLACES {
        let said = json!({"quant_method": format!("method-{number}"), "bits": 4});
        places.insert(format!("part_{number:05}"), json!({ "quantization_config": said }));
    }
    let folder = scratch.at("many");
    write(
        &folder,
        &case("many", "", Json::Object(places), |out, inner| vec![(".weight", T::I8, vec![out, inner])]),
    );
    let done = must(&host, &to("safetensors", &folder, &scratch.at("copy.safetensors")));
    assert!(
        done.notes.iter().any(|note| note.contains("packed as `method-0` (`part_00000.quantization_config`")),
        "{:?}",
        done.notes
    );
}
