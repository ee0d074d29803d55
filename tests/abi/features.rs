//! One library that has a format for each thing that can cross the interface. Whatever it says carries details that this
//! version does not know.

use crate::build::FEATURES;
use crate::library::{Library, discover};
use apr_engine::planned::request::VerifyMode;
use apr_host::convert::{ConvertOptions, convert};
use apr_host::host::Host;
use apr_sdk::*;
use apr_testkit::ModelFixture;
use apr_tests::{Scratch, host_with, must, options};
use std::fs;
use std::sync::LazyLock;

/// The library loaded, before ours.
static HOST: LazyLock<Host> = LazyLock::new(|| {
    let library = Library::copy_of(&FEATURES);
    host_with(discover(&library.write().path))
});

/// From a file of the format to SafeTensors.
fn reading(scratch: &Scratch, format: &str, bytes: &[u8]) -> ConvertOptions {
    let (input, output) = (scratch.at("in.bin"), scratch.at("out.safetensors"));
    fs::write(&input, bytes).unwrap();
    ConvertOptions { from: Some(format.to_owned()), force: true, ..options(&input, &output) }
}

/// From SafeTensors of one tensor of F32, 1.0 and 2.0, to the format, which nothing here reads.
fn writing(scratch: &Scratch, format: &str) -> ConvertOptions {
    let input = scratch.at("in.safetensors");
    let header = br#"{"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}} "#;
    let whole = [&(header.len() as u64).to_le_bytes(), &header[..], &PAYLOAD].concat();
    fs::write(&input, whole).unwrap();
    let (to, verify) = (Some(format.to_owned()), VerifyMode::Off);
    ConvertOptions { to, verify, ..options(&input, &scratch.at("out.bin")) }
}

const PAYLOAD: [u8; 8] = [0, 0, 0x80, 0x3f, 0, 0, 0, 0x40];

/// A fault of the plugin: named, with its panic or its own words.
fn is_fault(error: &Error, words: &str) {
    let named = error.message().starts_with("plugin `features` 0.1.0");
    assert!(named && error.message().contains(words), "{words}: {error:?}");
    assert_eq!(error.explicit_code(), Some("E_PLUGIN"), "{error:?}");
}

#[test]
fn every_kind_of_payload_is_read() {
    let scratch = Scratch::new();
    for (format, bytes, wanted) in [
        ("extent", &b"abc"[..], &b"abc"[..]),
        ("view", &[0, 1, 2, 3, 4, 5, 6, 7], &[1, 0, 5, 4, 3, 2, 7, 6]),
        // What the method was told comes back with each block.
        ("blocks", b"abcdefgh", b"defghijk"),
        ("sequential", b"bcd", b"abc"),
        ("part", b"-abc", b"abc"),
    ] {
        let options = reading(&scratch, format, bytes);
        must(&HOST, &options);
        let made = fs::read(options.output.unwrap()).unwrap();
        assert!(made.ends_with(wanted), "{format}: {made:?}");
    }
}

#[test]
fn a_crc_32_is_compared_in_each_form() {
    let scratch = Scratch::new();
    let crc = crc32fast::hash(b"abc");
    for (format, stored) in
        [("crc32", crc.to_le_bytes().to_vec()), ("crc32_hex", format!("{crc:08x}").into_bytes())]
    {
        let right = [b"abc", &stored[..]].concat();
        let converted = must(&HOST, &reading(&scratch, format, &right));
        let proved = format!("{:?}", converted.verified);
        assert!(proved.contains("1 of 1 stored checksum of the input"), "{format}: {proved}");
        let wrong = [b"abd", &stored[..]].concat();
        let error = convert(&HOST, &reading(&scratch, format, &wrong)).unwrap_err();
        assert_eq!((error.kind(), error.explicit_code()), (ErrorKind::Failed, Some("E004")), "{error:?}");
    }
}

#[test]
fn a_digest_that_nobody_computes_is_named() {
    for (format, width, name) in [("crc32c_masked", 4, "CRC-32C (masked)"), ("sha256", 32, "SHA-256")] {
        let scratch = Scratch::new();
        let options = reading(&scratch, format, &vec![0; 3 + width]);
        let error = convert(&HOST, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        assert!(error.message().ends_with(&format!("cannot compute {name}")), "{error:?}");
        assert!(error.hint_text().is_some_and(|hint| hint.contains("--verify off")), "{error:?}");
        assert_eq!(scratch.names(), ["in.bin"]);
        must(&HOST, &ConvertOptions { verify: VerifyMode::Off, ..options });
    }
    for (format, name) in [("asks_sha256", "SHA-256"), ("fills_crc32c", "CRC-32C (masked)")] {
        let scratch = Scratch::new();
        let error = convert(&HOST, &writing(&scratch, format)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        assert!(error.message().ends_with(&format!("cannot compute {name}")), "{error:?}");
        assert_eq!(scratch.names(), ["in.safetensors"]);
    }
}

#[test]
fn digests_come_as_they_were_asked_for() {
    let scratch = Scratch::new();
    let options = writing(&scratch, "digests");
    must(&HOST, &options);
    let crc = crc32fast::hash(&PAYLOAD);
    let mut wanted = [&PAYLOAD, format!("{crc:08x}").as_bytes(), &crc.to_le_bytes()].concat();
    let of_all = format!("{:08x}", crc32fast::hash(&wanted));
    wanted.extend_from_slice(of_all.as_bytes());
    assert_eq!(fs::read(options.output.unwrap()).unwrap(), wanted);
}

#[test]
fn what_a_codec_is_told_and_how_long_blocks_became_cross() {
    let model = ModelFixture::new().tensor_with("a", DType::U8, &[6], b"aaaaaa".to_vec()).tensor_with(
        "b",
        DType::U8,
        &[1],
        b"b".to_vec(),
    );
    let (built, source) = model.build().unwrap();
    let format = HOST.registry.format("encoded").unwrap();
    let (writer, carries) = (format.writer().unwrap(), &format.manifest.carries);
    let payload = |n| model.payload(n);
    let files =
        apr_testkit::write(&*writer, carries, &built, &source, &payload, &LayoutRequest::file("out.bin"))
            .unwrap();
    assert_eq!(files[0].1, b"\x007aaaa\x017aa\x007b[[6, 4], []]");
    let error = writer.encoded_bound(&3.into(), 1).unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Unsupported, "there is no method (3, None)"));
    let scratch = Scratch::new();
    let options = writing(&scratch, "encoded");
    must(&HOST, &options);
    let wanted = [b"\x007", &PAYLOAD[..4], b"\x017", &PAYLOAD[4..], b"[[6, 6]]"].concat();
    assert_eq!(fs::read(options.output.unwrap()).unwrap(), wanted);
}

#[test]
fn a_writer_that_cannot_say_its_dtypes_stops_the_conversion() {
    let scratch = Scratch::new();
    let to = |format| {
        let mut options = writing(&scratch, format);
        options.quantization.precision = Some(DType::F16);
        convert(&HOST, &options).unwrap_err()
    };
    let error = to("fails_dtypes");
    assert_eq!((error.kind(), error.message()), (ErrorKind::Unsupported, "cannot say its dtypes"));
    assert_eq!(error.hint_text(), Some("ask another"));
    is_fault(&to("panics_dtypes"), "panicked while choosing dtypes: \"dtypes panic at ");
    assert_eq!(scratch.names(), ["in.safetensors"]);
}

/// The library, whose quantizer fails as the token says.
fn failing(token: &[u8; 20]) -> Library {
    let mut library = Library::copy_of(&FEATURES);
    let own = library.token().to_owned();
    library.replace(own.as_bytes(), token).write();
    library
}

#[test]
fn a_quantizer_that_can_do_something_is_asked_for_it() {
    let library = Library::copy_of(&FEATURES);
    let registry = discover(&library.write().path);
    assert!(registry.find_quantizer(DType::Q8_1).is_some() && registry.find_quantizer(DType::Q8_0).is_none());
    assert!(registry.repacker((DType::Q8_1, DType::Q8_0)).is_some());
    assert!(registry.faults().is_empty());
}

#[test]
fn a_quantizer_that_cannot_say_what_it_can_do_is_not_used_and_named() {
    for (token, words) in [
        (b"rogue-token-dtypes00", "cannot say its dtypes"),
        (b"rogue-token-dtypes!0", "panicked while listing its types: \"dtypes panics at "),
        (b"rogue-token-repacks0", "cannot say its repacks"),
        (b"rogue-token-repacks!", "panicked while listing its repackings"),
        (b"rogue-token-recipes0", "cannot say its recipes"),
        (b"rogue-token-recipes!", "panicked while listing its recipes"),
    ] {
        let library = failing(token);
        let registry = discover(&library.path);
        assert!(registry.quantizers().is_empty() && registry.find_quantizer(DType::Q8_1).is_none());
        // `load_all` told of it already, where it lists what is refused.
        is_fault(registry.plugins()[0].state.as_ref().err().unwrap(), words);
        let error = registry.quantizer_of(DType::Q8_1).err().unwrap();
        assert!(error.hint_text().unwrap().contains(words), "{error:?}");
        // It hides no other.
        let host = host_with(registry);
        assert!(host.registry.find_quantizer(DType::Q8_1).is_some());
    }
}

#[test]
fn records_that_cannot_be_said_stop_the_conversion() {
    for (token, words) in [
        (b"rogue-token-records0", "cannot say its records"),
        (b"rogue-token-records!", "panicked while recording a recipe"),
    ] {
        let (library, scratch) = (failing(token), Scratch::new());
        let host = host_with(discover(&library.path));
        let mut options = writing(&scratch, "safetensors");
        options.output = Some(scratch.at("out.safetensors"));
        options.quantization.recipe = Some("features".to_owned());
        is_fault(&convert(&host, &options).unwrap_err(), words);
        assert_eq!(scratch.names(), ["in.safetensors"]);
    }
}
