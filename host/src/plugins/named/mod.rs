//! Adds a plugin's name to its errors and guards its calls, so that both a bundled plugin that panics and a
//! loaded one that breaks its contract cause an error that names them.

mod kernels;
mod schemes;

use super::running::{Running, within};
use apr_abi::guard::{Faults, Guarded, guard, install_hook, panicked, plugin};
use apr_engine::registry::Provider;
use apr_sdk::{
    Assignment, BlockAt, BlockSink, CheckedModel, Codec, DType, DTypeChoice, Error, ErrorKind,
    ImportanceSink, ImportanceSums, Kernel, LayoutRequest, LayoutSink, Limits, Look, ModelFacts, ModelSink,
    OpenModel, Options, PatchSink, Quantizer, Reader, RecipeDecl, Record, Report, Result, Schemes, Score,
    Source, Stream, TensorFacts, Writer, Written,
};
use std::sync::{Arc, Mutex, PoisonError};

/// The plugin that created an object.
struct Owner {
    /// The plugin's name in messages.
    whose: &'static str,
    faults: Arc<Faults>,
}

impl Owner {
    /// Runs plugin code, naming the plugin in errors.
    fn call<T>(&self, doing: &'static str, f: impl FnOnce() -> Result<T>) -> Result<T> {
        plugin(doing, || self.within(doing, f)).map_err(|error| self.name(error))
    }

    /// Runs plugin code, so that a crash can name the plugin.
    fn within<T>(&self, doing: &'static str, f: impl FnOnce() -> T) -> T {
        within(Running { whose: self.whose, doing }, f)
    }

    /// Checks that a count returned by a plugin fits the room it was given.
    fn checked(&self, filled: usize, room: usize) -> Result<usize> {
        if filled <= room {
            return Ok(filled);
        }
        let message = format!("claims to have written {filled} bytes to a buffer of {room}");
        Err(self.name(Error::plugin(message).code("E_PLUGIN")))
    }

    /// Adds the plugin's name to an error that is the plugin's fault and has no name yet.
    #[cold]
    fn name(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::Plugin || error.message().starts_with("plugin `") {
            return error;
        }
        let whose = self.whose;
        let colon = if error.explicit_code() == Some("E_PLUGIN") { "" } else { ":" };
        let message = format!("{whose}{colon} {}", error.message());
        error.with_message(message).code("E_PLUGIN")
    }
}

/// The name of a plugin in messages. Stored forever, without duplicates: a signal handler cannot check
/// lifetimes.
fn whose(id: &str, version: &str) -> &'static str {
    static TEXTS: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let text = format!("plugin `{}` {}", apr_sdk::escape(id, 80), apr_sdk::escape(version, 40));
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = texts.iter().find(|known| **known == text) {
        return known;
    }
    let text: &'static str = Box::leak(text.into_boxed_str());
    texts.push(text);
    text
}

/// An object of a plugin, with its owner.
struct Owned<T: ?Sized> {
    object: Guarded<T>,
    owner: Arc<Owner>,
}

impl<T: ?Sized> Owned<T> {
    fn new(object: Box<T>, dropping: &'static str, owner: &Arc<Owner>) -> Owned<T> {
        let object = Guarded::new(object, dropping, Some(Arc::clone(&owner.faults)));
        Owned { object, owner: Arc::clone(owner) }
    }
}

/// A provider whose objects name the plugin in their errors.
pub(crate) struct Named<P> {
    provider: P,
    owner: Arc<Owner>,
}

impl<P: Provider> Named<P> {
    /// Names the objects of `provider` after plugin `id`.
    pub(crate) fn new(provider: P, id: &str, version: &str) -> Named<P> {
        install_hook();
        let owner = Owner { whose: whose(id, version), faults: Arc::default() };
        Named { provider, owner: Arc::new(owner) }
    }
}

impl<P: Provider> Provider for Named<P> {
    fn reader(&self, format: &str) -> Result<Box<dyn Reader>> {
        let reader = self.owner.call("creating its reader", || self.provider.reader(format))?;
        Ok(Box::new(Owned::new(reader, "dropping its reader", &self.owner)))
    }

    fn writer(&self, format: &str) -> Result<Box<dyn Writer>> {
        let writer = self.owner.call("creating its writer", || self.provider.writer(format))?;
        Ok(Box::new(Owned::new(writer, "dropping its writer", &self.owner)))
    }

    fn quantizer(&self) -> Result<Box<dyn Quantizer>> {
        let quantizer = self.owner.call("creating its quantizer", || self.provider.quantizer())?;
        Ok(Box::new(Owned::new(quantizer, "dropping its quantizer", &self.owner)))
    }

    fn kernel(&self) -> Result<Box<dyn Kernel>> {
        let kernel = self.owner.call("creating its compute backend", || self.provider.kernel())?;
        Ok(Box::new(Owned::new(kernel, "dropping its compute backend", &self.owner)))
    }

    fn architecture(&self, id: &str) -> Result<String> {
        self.owner.call("providing an architecture table", || self.provider.architecture(id))
    }

    fn load(&self) -> Result<()> {
        self.owner.within("being loaded", || self.provider.load())
    }

    fn faults(&self) -> Vec<Error> {
        let ours = self.owner.faults.take().into_iter().map(|fault| Error::plugin(fault).code("E_PLUGIN"));
        ours.chain(self.provider.faults()).map(|error| self.owner.name(error)).collect()
    }
}

impl Reader for Owned<dyn Reader> {
    fn probe(&self, look: &Look<'_>) -> Score {
        // "Not mine" is not an error, so neither is a panic: it is recorded, and the next format is asked.
        let score = guard(|| self.owner.within("probing", || self.object.probe(look)));
        score.unwrap_or_else(|panic| {
            self.owner.faults.note(panicked("probing", &panic).message());
            Score::NO
        })
    }

    fn open(&self, source: &dyn Source, limits: &Limits, options: &Options) -> Result<Box<dyn OpenModel>> {
        let model = self.owner.call("opening", || self.object.open(source, limits, options))?;
        Ok(Box::new(Owned::new(model, "dropping an open model", &self.owner)))
    }

    fn report(&self, id: &str, source: &dyn Source, limits: &Limits, options: &Options) -> Result<Report> {
        self.owner.call("creating a report", || self.object.report(id, source, limits, options))
    }
}

impl OpenModel for Owned<dyn OpenModel> {
    fn describe(&self, source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        self.owner.call("describing a model", || self.object.describe(source, sink))
    }

    fn blocks(&self, source: &dyn Source, tensor: u64, sink: &mut dyn BlockSink) -> Result<()> {
        self.owner.call("listing blocks", || self.object.blocks(source, tensor, sink))
    }

    fn decode(&self, codec: &Codec, at: BlockAt, stored: &[u8], out: &mut [u8]) -> Result<()> {
        self.owner.call("decoding a block", || self.object.decode(codec, at, stored, out))
    }

    fn stream(&self, tensor: u64) -> Result<Box<dyn Stream>> {
        let stream = self.owner.call("starting a stream", || self.object.stream(tensor))?;
        Ok(Box::new(Owned::new(stream, "dropping a stream", &self.owner)))
    }

    fn tokenizer(&self, source: &dyn Source) -> Result<Option<Vec<u8>>> {
        self.owner.call("parsing a tokenizer", || self.object.tokenizer(source))
    }

    fn covered(&self, checksum: u64) -> Result<Box<dyn Stream>> {
        let stream = self.owner.call("starting a stream", || self.object.covered(checksum))?;
        Ok(Box::new(Owned::new(stream, "dropping a stream", &self.owner)))
    }
}

impl Stream for Owned<dyn Stream> {
    fn read(&mut self, source: &dyn Source, out: &mut [u8]) -> Result<usize> {
        let room = out.len();
        let object = &mut self.object;
        let filled = self.owner.call("reading a stream", || object.read(source, out))?;
        self.owner.checked(filled, room)
    }
}

impl Writer for Owned<dyn Writer> {
    fn layout(&self, model: &CheckedModel, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        self.owner.call("laying out the output", || self.object.layout(model, request, sink))
    }

    fn finish(&self, written: &Written, sink: &mut dyn PatchSink) -> Result<()> {
        self.owner.call("finishing the output", || self.object.finish(written, sink))
    }

    fn dtypes(&self, tensors: &[TensorFacts], wanted: Option<DType>) -> Result<Vec<DTypeChoice>> {
        let chosen = self.owner.call("choosing dtypes", || self.object.dtypes(tensors, wanted))?;
        if chosen.len() != tensors.len() {
            let message = format!("chose {} dtypes for {} tensors", chosen.len(), tensors.len());
            return Err(self.owner.name(Error::plugin(message)));
        }
        Ok(chosen)
    }

    fn encoded_bound(&self, codec: &Codec, raw_len: u64) -> Result<u64> {
        self.owner.call("bounding a block", || self.object.encoded_bound(codec, raw_len))
    }

    fn encode(&self, codec: &Codec, at: BlockAt, raw: &[u8], out: &mut [u8]) -> Result<usize> {
        let room = out.len();
        let filled = self.owner.call("encoding a block", || self.object.encode(codec, at, raw, out))?;
        self.owner.checked(filled, room)
    }
}

impl Quantizer for Owned<dyn Quantizer> {
    fn dtypes(&self) -> Result<Vec<DType>> {
        self.owner.call("listing its types", || self.object.dtypes())
    }

    fn decode(&self, dtype: DType, blocks: &[u8], row_len: u64, out: &mut [f32]) -> Result<()> {
        self.owner.call("decoding rows", || self.object.decode(dtype, blocks, row_len, out))
    }

    fn encode(
        &self,
        dtype: DType,
        rows: &[f32],
        row_len: u64,
        importance: Option<&[f32]>,
        out: &mut [u8],
    ) -> Result<()> {
        self.owner.call("encoding rows", || self.object.encode(dtype, rows, row_len, importance, out))
    }

    fn repacks(&self) -> Result<Vec<(DType, DType)>> {
        self.owner.call("listing its repackings", || self.object.repacks())
    }

    fn repack(&self, from: DType, to: DType, blocks: &[u8], out: &mut [u8]) -> Result<()> {
        self.owner.call("repacking blocks", || self.object.repack(from, to, blocks, out))
    }

    fn recipes(&self) -> Result<Vec<RecipeDecl>> {
        self.owner.call("listing its recipes", || self.object.recipes())
    }

    fn assign(
        &self,
        recipe: &str,
        tensors: &[TensorFacts],
        model: &ModelFacts,
        options: &Options,
    ) -> Result<Vec<Assignment>> {
        let assigned =
            self.owner.call("choosing types", || self.object.assign(recipe, tensors, model, options))?;
        if assigned.len() != tensors.len() {
            let message = format!("chose {} types for {} tensors", assigned.len(), tensors.len());
            return Err(self.owner.name(Error::plugin(message).code("E_PLUGIN")));
        }
        Ok(assigned)
    }

    fn records(&self, recipe: &str) -> Result<Vec<Record>> {
        self.owner.call("recording a recipe", || self.object.records(recipe))
    }

    fn importance(&self, source: &dyn Source, sink: &mut dyn ImportanceSink) -> Result<()> {
        self.owner.call("reading an importance matrix", || self.object.importance(source, sink))
    }

    fn importance_sums(&self, source: &dyn Source) -> Result<ImportanceSums> {
        self.owner.call("reading an importance matrix", || self.object.importance_sums(source))
    }

    fn importance_file(&self, sums: &ImportanceSums, file: &str, form: Option<&str>) -> Result<Vec<u8>> {
        self.owner.call("writing an importance matrix", || self.object.importance_file(sums, file, form))
    }

    fn schemes(&self) -> Option<&dyn Schemes> {
        self.object.schemes().is_some().then_some(self)
    }
}
