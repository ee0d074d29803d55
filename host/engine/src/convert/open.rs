//! The source of a conversion, opened once with its options: the first stage.

use crate::engine::Engine;
use crate::open::{GivenOption, OpenOptions, OpenedModel, Probed, way_out};
use crate::planned::request::Request;
use crate::planned::selection::Renaming;
use apr_sdk::Result;
use std::sync::{Arc, Mutex, PoisonError};

/// The source of a conversion, opened with its options. It can serve several outputs.
#[derive(Clone)]
pub struct Opened<'e> {
    /// The opened model, shared by all outputs.
    pub source: Arc<OpenedModel>,
    /// The file or folder that it was opened from.
    pub(super) probed: Probed<'e>,
    /// The options it was opened with.
    pub(super) options: OpenOptions,
    /// The remainder of the requested renaming.
    pub(super) renaming: Renaming,
    /// True if the reader left tensors out.
    pub(super) left_by_reader: bool,
    /// The source with its packed weights understood, once an output needs them.
    unpacked: Arc<Mutex<Option<Understood>>>,
}

/// A source with its packed weights understood; `None` if no plugin knows them.
type Understood = Option<Arc<OpenedModel>>;

impl<'e> Opened<'e> {
    /// Opens the source. `look` says that payload will be read, so that reads are recorded.
    ///
    /// # Errors
    /// Any error from opening.
    pub fn new(engine: &'e Engine, request: &Request, look: bool) -> Result<Opened<'e>> {
        let mut open_options = OpenOptions {
            from: request.from.clone(),
            options: request.options.clone(),
            bare: request.bare,
            witnessed: look,
        };
        let probed = Probed::new(engine, &request.input, request.from.as_deref(), request.bare);
        let probed = probed.map_err(way_out)?;
        let mut renaming = request.renaming.clone();
        let own_prefix = own_prefix(&probed, &mut renaming);
        let left_by_reader = own_prefix.is_some();
        open_options.options.extend(own_prefix);
        let source = Arc::new(probed.open(&open_options)?);
        if look {
            source.will_read_payload()?;
        }
        let unpacked = Arc::default();
        Ok(Opened { source, probed, options: open_options, renaming, left_by_reader, unpacked })
    }

    /// The source with its packed weights in place of the tensors that they are stored in; `None` if no plugin knows
    /// them.
    ///
    /// # Errors
    /// Any error from opening; as [`OpenedModel::unpack`].
    pub(super) fn unpacked(&self, engine: &Engine) -> Result<Understood> {
        let mut held = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(understood) = &*held {
            return Ok(understood.clone());
        }
        let mut source = self.probed.open(&self.options)?;
        let understood = source.unpack(engine)?.then(|| Arc::new(source));
        *held = Some(understood.clone());
        Ok(understood)
    }
}

/// Passes `--prefix` to the reader, if the source's format has an option of that name: it may find more below
/// a path, and what is elsewhere may keep the file from opening as a whole.
fn own_prefix(probed: &Probed<'_>, renaming: &mut Renaming) -> Option<GivenOption> {
    let format = probed.format();
    if !format.manifest.options.iter().any(|option| option.name == "prefix" && option.read) {
        return None;
    }
    renaming.prefix.take().map(|prefix| (Some(format.id().to_owned()), "prefix".to_owned(), prefix))
}
