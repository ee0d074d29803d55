//! A quantizer plugin that cannot be used takes no other with it, and is named wherever it might have been used.

use crate::build::ROGUE;
use crate::library::Library;
use apr_host::plugins::DiscoverOptions;
use apr_sdk::{DType, Error};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Exit code, stdout and stderr of `apr` in a home of its own.
fn apr(home: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(apr_tests::program());
    let output = command.env_clear().env("HOME", home).current_dir(home).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// The rogue, whose manifest promises a quantizer.
fn promising(library: &mut Library) {
    library.replace(b"rogue.extensions=rogue", b"quantizers=rogue_quant");
}

/// Installs the library by hand, and puts a model of one tensor beside it.
fn installed(library: &Library) -> &Path {
    library.write();
    let home = library.path.parent().unwrap();
    let plugins = home.join(".local/share/apr/plugins");
    fs::create_dir_all(&plugins).unwrap();
    fs::copy(&library.path, plugins.join(library.path.file_name().unwrap())).unwrap();
    let header = br#"{"w":{"dtype":"F32","shape":[1,256],"data_offsets":[0,1024]}}   "#;
    let values: Vec<u8> = (0..=255u8).flat_map(|n| f32::from(n).to_le_bytes()).collect();
    let whole = [&(header.len() as u64).to_le_bytes(), &header[..], &values].concat();
    fs::write(home.join("a.safetensors"), whole).unwrap();
    home
}

fn judge(library: &Library, why: &str) {
    let home = installed(library);
    let quantize = |recipe: &str, output: &str| {
        apr(home, &["convert", "a.safetensors", output, "--arch", "none", "--quantize", recipe])
    };
    // Those that can be used are used, and the other is told of once.
    let (code, told, said) = quantize("Q8_0", "b.gguf");
    assert_eq!(code, Some(0), "{told}{said}");
    assert_eq!(said.matches(why).count(), 1, "{said}");
    assert!(said.lines().any(|line| line.starts_with("warning: ") && line.contains(why)), "{said}");
    let (code, _, said) =
        apr(home, &["convert", "b.gguf", "c.safetensors", "--arch", "none", "--dequantize", "f32"]);
    assert!(code == Some(0) && said.contains(why), "{said}");
    // What only it might have done is an error that names it.
    let (code, _, said) = quantize("ROGUE_4", "d.gguf");
    let error = said.find("error").map(|at| &said[at..]).unwrap_or_default();
    assert!(code == Some(2) && error.contains(why), "{code:?} {said}");
    assert!(!home.join("d.gguf").exists());
    fs::write(home.join("matrix"), "of no known form").unwrap();
    let args =
        ["convert", "a.safetensors", "d.gguf", "--arch", "none", "--quantize", "Q4_K", "--imatrix", "matrix"];
    let (code, _, said) = apr(home, &args);
    assert!(code == Some(4) && said.contains(why), "{code:?} {said}");
    let (code, told, said) = apr(home, &["plugins", "list"]);
    assert!(code == Some(0) && told.contains(&format!("  E_PLUGIN: {why}")), "{told}{said}");
}

#[test]
fn one_that_the_plugin_promised_and_lacks_hides_no_other() {
    let mut library = Library::copy_of(&ROGUE);
    promising(&mut library);
    let why = "plugin `rogue` 0.1.0: has no quantizer, although its manifest declares one";
    judge(&library, why);
    // Where no quantizer is asked for, nothing is said of any.
    let home = library.path.parent().unwrap();
    let (code, _, said) = apr(home, &["inspect", "a.safetensors"]);
    assert!(code == Some(0) && !said.contains("quantizer"), "{said}");
    let path = library.path.to_str().unwrap();
    let (code, _, said) = apr(home, &["plugins", "install", path, "--force"]);
    assert!(code == Some(1) && said.contains(why), "{code:?} {said}");
}

#[test]
fn one_whose_library_kills_its_process_hides_no_other() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let mut library = Library::copy_of(&ROGUE);
    promising(&mut library);
    let own = library.token().to_owned();
    library.replace(own.as_bytes(), b"rogue-token-aborting");
    judge(&library, "plugin `rogue` terminated the process that loaded it: signal: 6");
}

#[test]
fn where_it_is_the_only_one_it_is_told_of_once_even_if_nobody_needs_it() {
    let mut library = Library::copy_of(&ROGUE);
    promising(&mut library);
    library.write();
    let options = DiscoverOptions { named: vec![library.path.clone()], ..DiscoverOptions::default() };
    let registry = apr_host::plugins::discover(&options);
    assert!(registry.faults().is_empty(), "it was not asked for");
    // Who does without its values asks like this.
    assert!(registry.find_quantizer(DType::Q8_0).is_none());
    let told =
        |faults: Vec<Error>| faults.iter().filter(|f| f.message().contains("has no quantizer")).count();
    assert_eq!(told(registry.faults()), 1);
    assert_eq!(told(registry.faults()), 0);
    let error = registry.quantizer_of(DType::Q8_0).err().unwrap();
    assert!(error.hint_text().unwrap().contains("plugin `rogue` 0.1.0: has no quantizer"), "{error}");
}
