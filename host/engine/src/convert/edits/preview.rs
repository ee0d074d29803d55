//! Metadata, tokenizer, model card and companions that a format's own reader finds in a layout before any of
//! it is written. So the host knows which keys an output will have, and what edited keys of a source mean,
//! without knowing any format.

use crate::layout::{Collector, Layout, OutputFile, Segment};
use crate::open::source::Views;
use crate::open::{OpenedModel, option_values};
use crate::registry::Format;
use crate::values::usize_of;
use apr_sdk::{
    Asset, Budget, Bytes, CheckedModel, Error, ErrorKind, Extent, FileId, Foreign, LayoutRequest, Limits,
    LogLevel, ModelBuilder, Result, Source,
};

/// What a reader would find in a model that is not written yet; all values are in memory.
#[derive(Debug)]
pub struct Preview {
    /// The metadata of the format itself.
    pub foreign: Foreign,
    /// The tokenizer, or why it was not understood.
    pub tokenizer: std::result::Result<Option<Bytes>, Error>,
    /// The model card.
    pub card: Option<Bytes>,
    /// Companions that the format creates from what it knows.
    pub assets: Vec<Asset>,
}

/// Lays out `model` for `request` and has the format's reader open the result; payload and holes read as
/// zeros. `name` is the model's name there.
///
/// # Errors
/// Any error from the format's writer and reader; Unsupported for a format that lacks one of them.
pub fn preview(
    registry: &crate::registry::Registry,
    source: &OpenedModel,
    model: &CheckedModel,
    format: &Format,
    request: &LayoutRequest,
    name: &str,
) -> Result<Preview> {
    let writer = format.writer()?;
    let mut collector = Collector::new(registry, source, writer.as_ref(), model, request).asked(&[], true);
    writer.layout(model, request, &mut collector)?;
    let layout = collector.finish()?;
    let limits = Limits::default();
    limits.budget.earn(source.header_bytes());
    let folder = format.manifest.folder;
    let lent =
        Lent { layout: &layout, source, name, folder, budget: &limits.budget, views: Views::default() };
    let options = option_values(format, &[], |spec| spec.read)?;
    let opened = format.reader()?.open(&lent, &limits, &options)?;
    let file_len = |file: FileId| lent.len(file);
    let mut builder = ModelBuilder::new(format.id(), &limits, &file_len);
    opened.describe(&lent, &mut builder)?;
    let mut told = builder.finish();
    let tokenizer = match opened.tokenizer(&lent) {
        Ok(json) => Ok(json.map(Bytes::from)),
        Err(error) if [ErrorKind::Unsupported, ErrorKind::Malformed].contains(&error.kind()) => Err(error),
        Err(error) => return Err(error),
    };
    // The model's own are there already, and may be long.
    told.assets.retain(|asset| model.assets.iter().all(|own| own.name != asset.name));
    for bytes in told.byte_strings_mut() {
        *bytes = lent.held(bytes)?;
    }
    let at = told.foreign.iter().position(|foreign| foreign.format == format.id());
    let foreign = at.map_or_else(|| Foreign::new(format.id()), |at| told.foreign.swap_remove(at));
    Ok(Preview { foreign, tokenizer, card: told.model_card, assets: told.assets })
}

/// A layout presented as a source.
struct Lent<'a> {
    layout: &'a Layout,
    /// The source of bytes that are copied.
    source: &'a OpenedModel,
    name: &'a str,
    folder: bool,
    budget: &'a Budget,
    views: Views,
}

impl Lent<'_> {
    fn file(&self, file: FileId) -> Result<&OutputFile> {
        let number = match (file, self.folder) {
            (0, true) => None,
            (0, false) => Some(self.layout.entry),
            (file, _) => usize::try_from(file - 1).ok(),
        };
        let found = number.and_then(|number| self.layout.files.get(number));
        found.ok_or_else(|| Error::invalid_argument(format!("file {file} does not exist")))
    }

    /// Reads the bytes into memory.
    fn held(&self, bytes: &Bytes) -> Result<Bytes> {
        let Bytes::Extent(extent) = bytes else { return Ok(bytes.clone()) };
        let len = usize::try_from(extent.len).map_err(|_| Error::limit("a value does not fit in memory"))?;
        let mut held = vec![0; len];
        self.read_at(extent.file, extent.offset, &mut held)?;
        Ok(Bytes::from(held))
    }

    /// The names below a folder; its path ends in `/` or is empty.
    fn below(&self, folder: &str) -> Vec<String> {
        let inside = self.layout.files.iter().filter_map(|file| file.name.strip_prefix(folder));
        let names = inside.map(|name| match name.split_once('/') {
            Some((folder, _)) => format!("{folder}/"),
            None => name.to_owned(),
        });
        let mut names: Vec<String> = names.collect();
        names.sort();
        names.dedup();
        names
    }
}

impl Source for Lent<'_> {
    fn name(&self, file: FileId) -> String {
        match file {
            0 => self.name.to_owned(),
            file => self.file(file).map(|file| file.name.clone()).unwrap_or_default(),
        }
    }

    fn len(&self, file: FileId) -> Result<u64> {
        Ok(self.file(file)?.len)
    }

    fn read_at(&self, file: FileId, offset: u64, out: &mut [u8]) -> Result<()> {
        let file = self.file(file)?;
        let end = offset.checked_add(out.len() as u64).filter(|end| *end <= file.len);
        let end = end.ok_or_else(|| {
            Error::malformed("unexpected end of the layout").at(offset).in_file(&*file.name)
        })?;
        out.fill(0);
        let first = file.segments.partition_point(|placed| placed.offset + placed.len <= offset);
        for placed in file.segments[first..].iter().take_while(|placed| placed.offset < end) {
            let from = placed.offset.max(offset);
            let to = (placed.offset + placed.len).min(end);
            let begin = from - placed.offset;
            let part = out.get_mut(usize_of(from - offset)..usize_of(to - offset));
            let Some(part) = part else { continue };
            match &placed.segment {
                Segment::Inline(bytes) => {
                    let bytes = bytes.get(usize_of(begin)..usize_of(begin + to - from));
                    part.copy_from_slice(bytes.unwrap_or_default());
                }
                Segment::Copy(extent) => {
                    self.source.files.read_at(extent.file, extent.offset + begin, part)?
                }
                Segment::Payload { .. } | Segment::Pad { .. } | Segment::Hole { .. } => {}
            }
        }
        Ok(())
    }

    fn view(&self, extent: Extent) -> Result<&[u8]> {
        let file = self.file(extent.file)?;
        if extent.end().is_none_or(|end| end > file.len) {
            return Err(Error::malformed("unexpected end of the layout")
                .at(extent.offset)
                .in_file(&*file.name));
        }
        self.budget.charge(extent.len)?;
        let held = self.held(&Bytes::Extent(extent))?;
        self.budget.earn(extent.len);
        self.views.keep(held.inline().unwrap_or_default().into())
    }

    fn sibling(&self, path: &str) -> Result<FileId> {
        let found = self.layout.files.iter().position(|file| file.name == path);
        let number = found.and_then(|at| FileId::try_from(at + 1).ok());
        number
            .ok_or_else(|| Error::not_found(format!("file `{}` does not exist", apr_sdk::escape(path, 200))))
    }

    fn entries(&self) -> Result<Vec<String>> {
        Ok(self.below(""))
    }

    fn entries_of(&self, folder: &str) -> Result<Vec<String>> {
        Ok(self.below(&format!("{folder}/")))
    }

    fn is_folder(&self) -> bool {
        self.folder
    }

    fn cancelled(&self) -> bool {
        self.source.files.cancelled()
    }

    fn log(&self, _level: LogLevel, _message: &str) {}
}
