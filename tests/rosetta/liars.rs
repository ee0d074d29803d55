//! A matrix that cannot turn red proves nothing: formats that lie, each in its own way, and what is said of them. The liar
//! is the APR plugin under another name, whose manifest or writer was changed.

use apr_engine::registry::Registry;
use apr_host::host::Host;
use apr_host::rosetta::matrix::Matrix;
use apr_host::rosetta::{RunOptions, run};
use apr_sdk::{
    Carries, CheckedModel, Error, LayoutRequest, LayoutSink, Model, PatchSink, PluginDecl, Result, Writer,
    Written,
};
use apr_tests::names_in;

fn honest() -> Box<dyn Writer> {
    (apr_plugin_apr::PLUGIN.writer)("apr").unwrap()
}

/// What is done to a model before it is written.
type Lie = fn(&mut Model) -> Result<()>;

/// Writes a model other than the one it was given.
struct Liar(Lie);

impl Writer for Liar {
    fn layout(&self, model: &CheckedModel, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        let mut model = model.clone().into_inner();
        (self.0)(&mut model)?;
        let model =
            CheckedModel::new(model, &Carries::default()).map_err(|refusal| refusal.error("the liar"))?;
        honest().layout(&model, request, sink)
    }

    fn finish(&self, written: &Written, sink: &mut dyn PatchSink) -> Result<()> {
        honest().finish(written, sink)
    }
}

/// The matrix of SafeTensors and a liar, over the models whose name has `models` in it.
fn matrix(lines: &[(&str, &str)], writer: fn(&str) -> Option<Box<dyn Writer>>, models: &str) -> Matrix {
    let mut manifest = apr_plugin_apr::PLUGIN.manifest.replace("apr", "liar");
    for (honest, lie) in lines {
        assert!(manifest.contains(honest), "{manifest}");
        manifest = manifest.replace(honest, lie);
    }
    let decl = PluginDecl {
        manifest: Box::leak(manifest.into_boxed_str()),
        reader: |_| (apr_plugin_apr::PLUGIN.reader)("apr"),
        writer,
        ..PluginDecl::EMPTY
    };
    let mut registry = Registry::new();
    apr_host::plugins::add_bundled(&mut registry, Box::leak(Box::new(decl)));
    apr_host::plugins::add_bundled(&mut registry, &apr_plugin_safetensors::PLUGIN);
    let options = RunOptions { models: vec![models.to_owned()], ..RunOptions::default() };
    run(&Host::new(registry), &options).unwrap()
}

/// Panics unless something is red, says this, and names the commands that show it.
fn assert_red(matrix: &Matrix, says: &str) {
    assert!(!matrix.is_green() && !matrix.red.is_empty());
    let red = matrix.red.iter().find(|red| red.what.contains(says));
    let red = red.unwrap_or_else(|| panic!("nobody says `{says}`: {:#?}", matrix.red));
    assert!(
        red.commands[0].contains(&red.model) && red.commands[0].starts_with("apr rosetta run"),
        "{red:?}"
    );
}

#[test]
fn an_honest_format_under_another_name_is_green() {
    let matrix = matrix(&[], |_| Some(honest()), "F16/");
    assert!(matrix.is_green() && matrix.red.is_empty(), "{:#?}", matrix.red);
    assert_eq!(matrix.pairs.len(), 2);
}

#[test]
fn a_manifest_that_claims_too_much_is_red() {
    let refuses = |_: &str| -> Option<Box<dyn Writer>> {
        Some(Box::new(Liar(|model| {
            let odd = model.tensors.iter().any(|t| t.shape.len() == 4);
            if odd { Err(Error::unsupported("four dimensions are too many")) } else { Ok(()) }
        })))
    };
    assert_red(&matrix(&[], refuses, "F16/4d"), "four dimensions are too many");
}

#[test]
fn a_manifest_that_claims_too_little_hides_nothing() {
    // What the manifest excludes is refused, by the host; the pair shows it as such.
    let matrix = matrix(&[("liar.dtypes=*", "liar.dtypes=F32")], |_| Some(honest()), "2d");
    assert!(matrix.red.is_empty(), "{:#?}", matrix.red);
    let to = matrix.pairs.iter().find(|pair| pair.to == "liar").unwrap();
    assert!(to.not_applicable.contains_key("dtype F16") && to.arrived > 0, "{to:?}");
}

#[test]
fn what_gets_lost_on_the_way_is_red() {
    let forgets = |_: &str| -> Option<Box<dyn Writer>> {
        Some(Box::new(Liar(|model| {
            model.tokenizer = None;
            Ok(())
        })))
    };
    assert_red(&matrix(&[], forgets, "with/tokenizer"), "the tokenizer is missing");
    let drops = |_: &str| -> Option<Box<dyn Writer>> {
        Some(Box::new(Liar(|model| {
            model.foreign.clear();
            Ok(())
        })))
    };
    assert_red(&matrix(&[], drops, "metadata/str"), "not as planned");
}

#[test]
fn another_tensor_name_shape_or_type_is_red() {
    for lie in [
        (|model: &mut Model| {
            model.tensors.iter_mut().for_each(|t| t.name.push('_'));
            Ok(())
        }) as Lie,
        |model| {
            model.tensors.iter_mut().for_each(|t| t.shape.reverse());
            Ok(())
        },
        |model| {
            model
                .tensors
                .iter_mut()
                .filter(|t| t.dtype == apr_sdk::DType::F16)
                .for_each(|t| t.dtype = apr_sdk::DType::BF16);
            Ok(())
        },
    ] {
        // A function pointer cannot hold the lie: it goes through a static.
        static LIE: std::sync::Mutex<Option<Lie>> = std::sync::Mutex::new(None);
        *LIE.lock().unwrap() = Some(lie);
        let matrix =
            matrix(&[], |_| Some(Box::new(Liar(|model| LIE.lock().unwrap().unwrap()(model)))), "F16/2d");
        assert!(!matrix.red.is_empty() && !matrix.is_green());
    }
}

#[test]
fn nothing_is_left_behind() {
    let mine = format!("apr-rosetta-{}-", std::process::id());
    matrix(&[], |_| Some(honest()), "F32/2d");
    // Other tests of this process may be at work: their folders have other numbers, and are gone with them.
    let before = || -> Vec<String> {
        let memory = std::path::Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        names_in(&base).into_iter().filter(|name| name.starts_with(&mine)).collect()
    };
    let most = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !before().is_empty() {
        assert!(std::time::Instant::now() < most, "{:?}", before());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}
