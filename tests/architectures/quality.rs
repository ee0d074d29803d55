//! What a conversion does about values: by itself, and with `--strict`, `--relaxed`, `--force` and `--allow-nonfinite`.

use crate::altered::{altered, bf16, configure, converted};
use apr_engine::contract::{FINITE, Quality, RANGE, Severity};
use apr_host::convert::{ConvertOptions, convert};
use apr_host::host::Host;
use apr_host::plugins::DiscoverOptions;
use apr_sdk::{DType, Error, ErrorKind, LayoutRequest};
use apr_testkit::{Checkpoint, ModelFixture, SeededTensor};
use apr_tests::{Scratch, host, host_with, options};
use std::fs;
use std::path::Path;

const WEIGHT: &str = "model.layers.1.mlp.down_proj.weight";
const PLAIN: Quality = Quality { strict: false, relaxed: false, allow_nonfinite: false };

fn nan(bytes: &mut [u8]) {
    bytes[..2].copy_from_slice(&bf16([f32::NAN]));
}

fn code(error: &Error) -> &str {
    error.explicit_code().unwrap_or("no code")
}

#[test]
fn what_is_copied_is_written_with_a_warning_unless_strict() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = altered(&scratch, &Checkpoint::tiny(), WEIGHT, &nan);
    let output = scratch.at("out.apr");
    let strict = converted(&host, &folder, ("apr", &output), Quality { strict: true, ..PLAIN }).unwrap_err();
    assert_eq!(
        (strict.kind(), code(&strict), strict.tensor_name()),
        (ErrorKind::Failed, FINITE, Some(WEIGHT))
    );
    assert_eq!(scratch.names(), ["tiny"], "nothing is left");
    for wishes in [PLAIN, Quality { relaxed: true, ..PLAIN }] {
        let done = converted(&host, &folder, ("apr", &output), wishes).unwrap();
        let [finding] = &done.looked.findings[..] else { panic!("{:?}", done.looked.findings) };
        assert_eq!((finding.code, finding.severity), (FINITE, Severity::Warning));
        assert_eq!(finding.message, "1 NaN and 0 infinite of its 8192 values, expected none");
        assert_eq!(done.warnings.len(), 1, "{:?}", done.warnings);
        fs::remove_file(&output).unwrap();
    }
}

#[test]
fn what_a_cast_meets_stops_the_work_unless_it_is_allowed() {
    let (host, scratch) = (host(), Scratch::new());
    // F32 weights become F16 in GGUF.
    let mut model = Checkpoint::tiny();
    for (_, tensors) in &mut model.shards {
        tensors.iter_mut().for_each(|tensor: &mut SeededTensor| tensor.dtype = DType::F32);
    }
    let folder = altered(&scratch, &model, WEIGHT, &|bytes| {
        bytes[400..404].copy_from_slice(&1e9f32.to_le_bytes());
    });
    configure(&folder, "torch_dtype", "float32".into());
    let output = scratch.at("out.gguf");
    let error = converted(&host, &folder, ("gguf", &output), PLAIN).unwrap_err();
    assert_eq!((error.kind(), code(&error)), (ErrorKind::Failed, FINITE), "{error}");
    assert!(error.message().contains("element 100 is 1e9"), "{error}");
    assert!(!output.exists());
    for wishes in [Quality { allow_nonfinite: true, ..PLAIN }, Quality { relaxed: true, ..PLAIN }] {
        let done = converted(&host, &folder, ("gguf", &output), wishes).unwrap();
        let passed: Vec<_> = done.looked.findings.iter().map(|f| (f.code, f.severity)).collect();
        assert_eq!(passed, [(FINITE, Severity::PassedOver)]);
        assert!(done.warnings.iter().any(|warning| warning.starts_with("ignored: ")), "{:?}", done.warnings);
        fs::remove_file(&output).unwrap();
    }
}

/// A host with an architecture of its own: a llama whose last norm lies around 1.
fn ranged(scratch: &Scratch, must: bool) -> Host {
    let table = scratch.at("ranged.toml");
    let text = format!(
        r#"
        id = "ranged"
        base = "llama"
        [dialect.hf]
        detect = [{{ model_type = "ranged" }}]
        [dialect.gguf]
        arch = "ranged"
        [[tensor]]
        role = "output.norm"
        name = "model.norm.weight"
        shape = ["hidden_size"]
        gguf = "output_norm.weight"
        expected = {{ mean = [0.5, 3.0], must = {must}, source = "a test" }}
        "#
    );
    fs::write(&table, text).unwrap();
    let named = DiscoverOptions { named: vec![table], ..DiscoverOptions::default() };
    host_with(apr_host::plugins::discover(&named))
}

/// Makes a folder's model one of that architecture.
fn be_ranged(folder: &Path) {
    configure(folder, "model_type", "ranged".into());
    configure(folder, "architectures", ["RangedForCausalLM"].into_iter().collect());
}

#[test]
fn a_range_of_the_table_stops_the_work_and_can_be_passed_over() {
    for must in [true, false] {
        let scratch = Scratch::new();
        let host = ranged(&scratch, must);
        let right = altered(&scratch, &Checkpoint::tiny(), "model.norm.weight", &|_| ());
        be_ranged(&right);
        let done = converted(&host, &right, ("apr", &scratch.at("right.apr")), PLAIN).unwrap();
        assert_eq!(done.looked.findings, []);
        let eleven = |bytes: &mut [u8]| bytes.copy_from_slice(&bf16(vec![11.0; bytes.len() / 2]));
        let model = Checkpoint { name: "wrong".to_owned(), ..Checkpoint::tiny() };
        let wrong = altered(&scratch, &model, "model.norm.weight", &eleven);
        be_ranged(&wrong);
        // Every way that the model goes: to canonical names, to another dialect, and without a change of names.
        for (format, name) in [("apr", "out.apr"), ("gguf", "out.gguf"), ("safetensors", "out.safetensors")] {
            let output = scratch.at(name);
            let plain = converted(&host, &wrong, (format, &output), PLAIN);
            if must {
                let error = plain.unwrap_err();
                assert_eq!((error.kind(), code(&error)), (ErrorKind::Failed, RANGE));
                assert_eq!(error.message(), "its mean is 11.0000, outside the range 0.5 to 3 (a test)");
                assert!(error.tensor_name().is_some() && !output.exists());
            } else {
                assert_eq!(plain.unwrap().looked.findings[0].severity, Severity::Warning);
                fs::remove_file(&output).unwrap();
            }
            let relaxed = Quality { relaxed: true, ..PLAIN };
            let done = converted(&host, &wrong, (format, &output), relaxed).unwrap();
            let standing = if must { Severity::PassedOver } else { Severity::Warning };
            assert_eq!(done.looked.findings[0].severity, standing);
        }
        let forced = ConvertOptions { force: true, ..options(&wrong, &scratch.at("out.apr")) };
        let forced = ConvertOptions { arch: None, ..forced };
        assert_eq!(convert(&host, &forced).unwrap().looked.findings.len(), 1);
    }
}

#[test]
fn quantized_payloads_are_judged_by_their_scales() {
    let (host, scratch) = (host(), Scratch::new());
    let mut bytes = vec![0x11; 34 * 8];
    bytes[34 * 5..34 * 5 + 2].copy_from_slice(&0xfc00u16.to_le_bytes());
    let fixture = ModelFixture::new()
        .tensor_with("good", DType::Q8_0, &[4, 64], vec![0x11; 34 * 8])
        .tensor_with("bad", DType::Q8_0, &[4, 64], bytes)
        .tensor_with("unknown", DType::IQ1_M, &[1, 256], vec![0xff; 56])
        .tensor_with("ids", DType::I32, &[4], vec![0xff; 16]);
    let input = scratch.at("in.apr");
    let apr = host.registry.format("apr").unwrap();
    let (writer, carries) = (apr.writer().unwrap(), &apr.manifest.carries);
    let files = fixture.write(writer.as_ref(), carries, &LayoutRequest::file("in.apr")).unwrap();
    fs::write(&input, &files[0].1).unwrap();
    let done = convert(&host, &options(&input, &scratch.at("out.gguf"))).unwrap();
    let found: Vec<_> = done.looked.findings.iter().map(|f| (f.tensor.as_str(), f.code)).collect();
    assert_eq!(found, [("bad", FINITE)]);
    assert_eq!(done.looked.findings[0].message, "1 NaN or infinite scales in its 8 blocks, expected none");
    assert_eq!((done.looked.tensors, done.looked.by_scales), (2, 2));
    let left: Vec<_> = done.looked.not_looked.iter().map(|one| one.tensor.as_str()).collect();
    assert_eq!(left, ["unknown", "ids"]);
}

#[test]
fn findings_do_not_depend_on_threads() {
    let scratch = Scratch::new();
    let folder = altered(&scratch, &Checkpoint::small(), WEIGHT, &nan);
    let looked = |threads: usize| {
        let mut host = host();
        host.set_threads(threads);
        let output = scratch.at(&format!("{threads}.apr"));
        converted(&host, &folder, ("apr", &output), PLAIN).unwrap().looked
    };
    let one = looked(1);
    assert_eq!(one, looked(7));
    assert_eq!(one.findings.len(), 1);
}
