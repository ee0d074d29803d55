//! A format that carries everything must be caught leaving anything out. The liar is the APR plugin under another name,
//! whose writer is handed a changed model.

use apr_host::convert::convert;
use apr_host::host::Host;
use apr_sdk::{
    Bytes, Carries, CheckedModel, Encoding, ErrorKind, LayoutRequest, LayoutSink, PartRequest, PatchSink,
    PluginDecl, Result, Sum, Writer, Written,
};
use apr_tests::{Scratch, fixtures, must, options};

fn honest() -> Box<dyn Writer> {
    (apr_plugin_apr::PLUGIN.writer)("apr").unwrap()
}

/// Does what the output's name says.
struct Liar;

impl Writer for Liar {
    fn layout(&self, model: &CheckedModel, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        let mut model = model.clone().into_inner();
        let n_tensors = model.tensors.len() as u64;
        let checked = |model| CheckedModel::new(model, &Carries::default()).unwrap();
        let file = &mut model.foreign[0].files[0];
        match request.stem.as_str() {
            "key" => drop(file.typed.remove(1)),
            "order" => file.typed.swap(0, 1),
            "verbatim" => file.verbatim = None,
            "structure" => drop(model.foreign[0].files.pop()),
            "shuffled" => {
                model.tensors.reverse();
                return honest().layout(&checked(model), request, &mut Mirrored(sink, n_tensors));
            }
            _ => {}
        }
        honest().layout(&checked(model), request, sink)
    }

    fn finish(&self, written: &Written, sink: &mut dyn PatchSink) -> Result<()> {
        honest().finish(written, sink)
    }
}

/// Gives each payload the number it had before the tensors were reversed.
struct Mirrored<'a>(&'a mut dyn LayoutSink, u64);

impl LayoutSink for Mirrored<'_> {
    fn file(&mut self, name: &str) -> Result<()> {
        self.0.file(name)
    }
    fn entry(&mut self) -> Result<()> {
        self.0.entry()
    }
    fn inline(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.inline(bytes)
    }
    fn copy(&mut self, bytes: &Bytes) -> Result<()> {
        self.0.copy(bytes)
    }
    fn payload(&mut self, tensor: u64, align: u64, encoding: Encoding) -> Result<()> {
        self.0.payload(self.1 - 1 - tensor, align, encoding)
    }
    fn pad_to(&mut self, n: u64) -> Result<()> {
        self.0.pad_to(n)
    }
    fn hole(&mut self, id: u32, len: u64) -> Result<()> {
        self.0.hole(id, len)
    }
    fn part(&mut self, part: PartRequest<'_>) -> Result<()> {
        self.0.part(part)
    }
    fn digest(&mut self, sum: Sum) -> Result<()> {
        self.0.digest(sum)
    }
    fn position(&self) -> Option<u64> {
        self.0.position()
    }
    fn fetch(&mut self, bytes: &Bytes) -> Result<Bytes> {
        self.0.fetch(bytes)
    }
    fn note(&mut self, note: &str) {
        self.0.note(note);
    }
}

fn host() -> Host {
    let lines = apr_plugin_apr::PLUGIN.manifest.lines().map(|line| match line.trim() {
        "id=apr" => "id=liar".to_owned(),
        "formats=apr" => "formats=liar".to_owned(),
        "apr.extensions=apr" => "liar.extensions=liar".to_owned(),
        line if line.starts_with("apr.magic") => String::new(),
        line => line.replacen("apr.", "liar.", usize::from(line.starts_with("apr."))),
    });
    let manifest: String = lines.map(|line| line + "\n").collect();
    let decl = PluginDecl {
        manifest: Box::leak(manifest.into_boxed_str()),
        reader: |_| (apr_plugin_apr::PLUGIN.reader)("apr"),
        writer: |_| Some(Box::new(Liar)),
        ..PluginDecl::EMPTY
    };
    let mut host = apr_tests::host();
    apr_host::plugins::add_bundled(&mut host.registry, Box::leak(Box::new(decl)));
    host
}

#[test]
fn a_carrier_of_everything_leaves_nothing_out() {
    let gguf = fixtures("gguf");
    let spelled = fixtures("safetensors").join("handmade_escapes.safetensors");
    for (lie, input) in [
        ("key", gguf.join("small.gguf")),
        ("order", gguf.join("small.gguf")),
        ("shuffled", gguf.join("small.gguf")),
        ("structure", gguf.join("split")),
        ("verbatim", spelled),
    ] {
        let (host, scratch) = (host(), Scratch::new());
        must(&host, &options(&input, &scratch.at("honest.liar")));
        let error = convert(&host, &options(&input, &scratch.at(&format!("{lie}.liar")))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Failed, "{lie}: {error}");
        assert_eq!(scratch.names(), ["honest.liar"], "{lie}");
    }
}
