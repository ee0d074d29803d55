//! The format's own library beside the reader: every fixture, and headers that one of them refuses. Where the two
//! disagree, the difference is listed with its reason.

use crate::fixture::{bytes, file, open, single_files};
use apr_sdk::{Extent, Model, Payload};
use safetensors::SafeTensors;

/// A tensor as either of the two sees it.
#[derive(Debug, PartialEq)]
struct Seen {
    name: String,
    shape: Vec<u64>,
    data: Vec<u8>,
}

fn by_the_library(bytes: &[u8]) -> Result<Vec<Seen>, String> {
    let tensors = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let mut seen: Vec<Seen> = tensors
        .iter()
        .map(|(name, view)| Seen {
            name: name.to_owned(),
            shape: view.shape().iter().map(|&size| size as u64).collect(),
            data: view.data().to_vec(),
        })
        .collect();
    seen.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(seen)
}

fn by_the_reader(bytes: &[u8]) -> Result<Vec<Seen>, String> {
    let (_, Model { tensors, .. }, _) = open(bytes).map_err(|error| error.message().to_owned())?;
    let mut seen: Vec<Seen> = tensors
        .into_iter()
        .map(|tensor| {
            let Payload::Extent { extent: Extent { offset, len, .. }, .. } = tensor.payload else {
                panic!("{} is no extent", tensor.name)
            };
            let data = bytes[offset as usize..][..len as usize].to_vec();
            Seen { name: tensor.name.clone(), shape: tensor.shape.clone(), data }
        })
        .collect();
    seen.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(seen)
}

const U8: &str = r#""dtype":"U8","shape":[2],"data_offsets":[0,2]"#;

/// Headers with two bytes of data, by what is odd about them.
fn odd() -> Vec<(&'static str, String)> {
    let entry = |fields: &str| format!("{{\"a\":{{{fields}}}}}");
    vec![
        ("nothing", entry(U8)),
        ("no header", String::new()),
        ("a list", "[]".into()),
        ("a blank before it", format!(" {}", entry(U8))),
        ("blanks behind it", format!("{}   ", entry(U8))),
        ("zeros behind it", format!("{}\0\0", entry(U8))),
        ("a second object", format!("{}{{}}", entry(U8))),
        ("a tensor twice", format!("{{\"a\":{{{U8}}},\"a\":{{{U8}}}}}")),
        ("a field twice", entry(&format!("{U8},\"shape\":[2]"))),
        ("an unknown field", entry(&format!("{U8},\"more\":1"))),
        ("an unknown dtype", entry(&U8.replace("U8", "F12"))),
        ("a negative size", entry(&U8.replace("[2]", "[-2]"))),
        ("a size of 2.0", entry(&U8.replace("[2]", "[2.0]"))),
        ("no shape", entry("\"dtype\":\"U8\",\"data_offsets\":[0,2]")),
        ("three offsets", entry(&U8.replace("[0,2]", "[0,2,2]"))),
        ("a size that disagrees", entry(&U8.replace("[2]", "[1]"))),
        ("offsets that go back", entry(&U8.replace("[0,2]", "[2,0]"))),
        ("offsets beyond the end", entry(&U8.replace("[2]", "[3]").replace("[0,2]", "[0,3]"))),
        ("bytes behind the last tensor", entry(&U8.replace("[2]", "[1]").replace("[0,2]", "[0,1]"))),
        ("bytes before the first tensor", entry(&U8.replace("[2]", "[1]").replace("[0,2]", "[1,2]"))),
        (
            "tensors that overlap",
            format!("{{\"a\":{{{U8}}},\"b\":{{{}}}}}", U8.replace("[2]", "[1]").replace("[0,2]", "[1,2]")),
        ),
        ("two tensors over the same bytes", format!("{{\"a\":{{{U8}}},\"b\":{{{U8}}}}}")),
        ("metadata that is a number", format!("{{\"__metadata__\":1,\"a\":{{{U8}}}}}")),
        ("metadata that is null", format!("{{\"__metadata__\":null,\"a\":{{{U8}}}}}")),
        ("metadata with a number", format!("{{\"__metadata__\":{{\"k\":1}},\"a\":{{{U8}}}}}")),
        ("a key of metadata twice", format!("{{\"__metadata__\":{{\"k\":\"\",\"k\":\"\"}},\"a\":{{{U8}}}}}")),
        ("half an escape", format!("{{\"\\ud800\":{{{U8}}}}}")),
    ]
}

/// What only the library takes, and why the reader does not. The reader takes nothing that the library refuses.
const DIFFERENCES: &[(&str, &str)] = &[
    // "Duplicate keys are disallowed": the library takes the last one.
    ("a tensor twice", "library"),
    ("a key of metadata twice", "library"),
];

#[test]
fn the_formats_own_library_sees_the_same_tensors_and_refuses_the_same_files() {
    let fixtures = [single_files(false), single_files(true)].concat();
    let fixtures = fixtures.into_iter().map(|name| (bytes(&name), name));
    let odd = odd().into_iter().map(|(what, header)| (file(&header, &[7, 9]), what.to_owned()));
    let mut differences = Vec::new();
    for (bytes, what) in fixtures.chain(odd) {
        let takes = match (by_the_library(&bytes), by_the_reader(&bytes)) {
            (Ok(library), Ok(reader)) => {
                assert_eq!(library, reader, "{what}");
                continue;
            }
            (Err(_), Err(_)) => continue,
            (Ok(_), Err(_)) => "library",
            (Err(_), Ok(_)) => "reader",
        };
        differences.push((what, takes));
    }
    let differences: Vec<_> = differences.iter().map(|(what, takes)| (&**what, *takes)).collect();
    assert_eq!(differences, DIFFERENCES);
}
