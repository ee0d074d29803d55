//! Reads the headers of an array file, or of all arrays in an archive, into a model.

use crate::array::{Array, Place};
use crate::layout::{FOREIGN, LONGEST_FOREIGN, MAGIC, NPY, NPZ, SUFFIX};
use crate::rearranged;
use crate::scan;
use crate::writer;
use apr_sdk::carried_metadata::Carried;
use apr_sdk::manifest::name_after_file;
use apr_sdk::{
    Bytes, DType, Error, ErrorKind, Extent, Fact, LayoutSink, Limits, Look, ModelSink, OpenModel, Options,
    Reader, Report, Result, Score, Source, Stream, escape,
};
use apr_zip::{Archive, HoleNumbers, Laid, Skeleton, is_zip};
use std::collections::HashMap;

/// The reader of both formats.
pub struct Numpy {
    archive: bool,
}

impl Numpy {
    /// The reader of this format.
    pub fn new(format: &str) -> Option<Numpy> {
        [NPY, NPZ].contains(&format).then(|| Numpy { archive: format == NPZ })
    }
}

/// How the first entry's name ends, where it is an array.
fn begins_with_an_array(look: &Look<'_>) -> bool {
    let len = look.head.get(26..28).map_or(0, |raw| usize::from(raw[0]) + 256 * usize::from(raw[1]));
    let name = look.head.get(30..).and_then(|rest| rest.get(..len)).unwrap_or_default();
    name.ends_with(SUFFIX.as_bytes())
}

impl Reader for Numpy {
    fn probe(&self, look: &Look<'_>) -> Score {
        if look.is_folder {
            return Score::NO;
        }
        if !self.archive {
            let known = look.head.get(6..8).is_some_and(|v| crate::layout::VERSIONS.iter().any(|k| k == v));
            return match (look.head_is(&MAGIC), known) {
                (false, _) => Score::NO,
                (true, false) => Score::MAGIC,
                (true, true) => Score::MAGIC_AND_VERSION,
            };
        }
        // ZIP's magic says little: an archive is one of arrays if it begins with one, or is named so.
        let named = look.name.ends_with(".npz");
        match (is_zip(look), begins_with_an_array(look)) {
            (true, true) => Score::MAGIC,
            // An archive of nothing is a directory of nothing.
            (true, false) if named && (look.head_is(b"PK\x03\x04") || look.head_is(b"PK\x05\x06")) => {
                Score::STRUCTURE
            }
            (true, false) if named => Score::EXTENSION,
            _ => Score::NO,
        }
    }

    fn open(&self, source: &dyn Source, limits: &Limits, options: &Options) -> Result<Box<dyn OpenModel>> {
        let opened = if self.archive {
            Arrays::of_archive(source, limits, options)
        } else {
            Arrays::of_file(source, limits, options)
        };
        let opened = opened.map_err(|e| e.in_file(source.name(0)))?;
        Ok(Box::new(opened))
    }

    fn report(&self, id: &str, source: &dyn Source, limits: &Limits, options: &Options) -> Result<Report> {
        match id {
            "scan" => scan::report(self.archive, source, limits, options),
            _ => Err(Error::unsupported(format!("unknown report `{}`", escape(id, 80)))),
        }
    }
}

/// The arrays of a file or an archive.
pub struct Arrays {
    format: &'static str,
    arrays: Vec<Array>,
    notes: Vec<String>,
    /// What other formats said.
    carried: Carried,
    /// The archive, if it is one.
    archive: Option<Archive>,
    /// The file without its elements, unless the writer would lay it out like that anyway.
    skeleton: Option<Skeleton>,
}

impl Arrays {
    fn new(format: &'static str) -> Arrays {
        let carried = Carried::default();
        Arrays { format, arrays: Vec::new(), notes: Vec::new(), carried, archive: None, skeleton: None }
    }

    /// The one array of a file.
    ///
    /// # Errors
    /// Any error from reading its header.
    pub fn of_file(source: &dyn Source, limits: &Limits, options: &Options) -> Result<Arrays> {
        let file = source.name(0);
        let name = match name_after_file(&file, NPY) {
            // What numpy.savez calls an array that nobody named.
            "" => "arr_0",
            name => name,
        };
        let whole = Extent::new(0, 0, source.len(0)?);
        let mut opened = Arrays::new(NPY);
        opened.arrays.push(Array::stored(source, name.to_owned(), whole, limits, options)?);
        opened.keep(source, None, limits)?;
        Ok(opened)
    }

    /// The arrays of an archive.
    ///
    /// # Errors
    /// Any error from [`Archive::open`] and reading headers.
    pub fn of_archive(source: &dyn Source, limits: &Limits, options: &Options) -> Result<Arrays> {
        let archive = Archive::open(source, 0, limits)?;
        let mut opened = Arrays::new(NPZ);
        for entry in archive.entries() {
            limits.budget.charge((entry.name.len() + size_of::<Array>() + 64) as u64)?;
            let found = Array::of_entry(source, entry, limits, options);
            let name = entry.name.strip_suffix(SUFFIX).unwrap_or(&entry.name);
            match found.map_err(|e| e.at(entry.data.offset).tensor(name))? {
                Some(array) if opened.takes(&array, source, limits)? => {}
                Some(array) => opened.arrays.push(array),
                None => opened
                    .notes
                    .push(format!("`{}` is not an array and is left out", escape(&entry.name, 120))),
            }
        }
        opened.keep(source, Some(&archive), limits)?;
        opened.archive = Some(archive);
        Ok(opened)
    }

    /// Whether an array is what a model says in other formats' words, and not one of its tensors.
    fn takes(&mut self, array: &Array, source: &dyn Source, limits: &Limits) -> Result<bool> {
        let (header, len) = (&array.header, array.header.payload_len);
        let bytes = header.dtype == DType::U8 && header.shape.len() == 1;
        if array.name != FOREIGN || !bytes || len > LONGEST_FOREIGN || self.carried != Carried::default() {
            return Ok(false);
        }
        let text = array.elements(source, limits)?;
        match Carried::parse(&text, NPZ, &[], limits) {
            Ok(carried) => self.carried = carried,
            Err(error) if error.kind() == ErrorKind::Malformed => {}
            Err(error) => return Err(error),
        }
        Ok(self.carried != Carried::default())
    }

    /// The arrays, in the archive's order.
    pub fn arrays(&self) -> &[Array] {
        &self.arrays
    }

    /// What other formats said.
    pub fn carried(&self) -> &Carried {
        &self.carried
    }

    /// Keeps the file's own form, if it is one that the writer can repeat but would not make.
    fn keep(&mut self, source: &dyn Source, archive: Option<&Archive>, limits: &Limits) -> Result<()> {
        let extents: Option<Vec<_>> = self.arrays.iter().map(Array::plain).collect();
        let Some(extents) = extents else {
            let deflated = self.arrays.iter().any(|array| matches!(array.place, Place::Deflated(_)));
            let why = if deflated { "deflated" } else { "column-major or big-endian" };
            self.notes
                .push(format!("arrays are {why}: rewriting the file keeps their values, but not its bytes"));
            return Ok(());
        };
        let Some(skeleton) = Skeleton::take(source, 0, &extents, limits)? else { return Ok(()) };
        let lens: Vec<_> = extents.iter().map(|extent| extent.len).collect();
        let mut laid = Laid::new(lens.clone());
        let planned = self.arrays.iter().map(|array| writer::Planned {
            name: &array.name,
            dtype: array.header.dtype,
            shape: &array.header.shape,
        });
        // What the writer refuses, it would not make.
        let done = match archive {
            Some(_) => writer::archive(&mut laid, "", planned, self.carried.text()?.as_deref()),
            None => writer::file(&mut laid, "", planned),
        };
        if done.is_ok() && laid.is(&skeleton) {
            return Ok(());
        }
        // Tried out here, so that the writer meets no form that it cannot repeat.
        let (mut laid, numbers) = (Laid::new(lens), Vec::from_iter(0..extents.len() as u64));
        laid.file("")?;
        let repeats = skeleton.lay_out(&mut laid, archive, &numbers, &mut HoleNumbers::default())?;
        self.skeleton = repeats.then_some(skeleton);
        Ok(())
    }
}

impl OpenModel for Arrays {
    fn describe(&self, _: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        self.notes.iter().try_for_each(|note| sink.fact(Fact::Note(note)))?;
        let native: Vec<_> = self.arrays.iter().filter(|array| array.header.native).collect();
        if let Some(first) = native.first() {
            sink.fact(Fact::Note(&format!(
                "{} arrays, starting with `{}`, do not state their byte order: little-endian is assumed",
                native.len(),
                escape(&first.name, 120)
            )))?;
        }
        sink.foreign_file(self.format, "", self.arrays.len() as u64)?;
        if let Some(skeleton) = &self.skeleton {
            sink.verbatim(Bytes::from(skeleton.to_bytes()))?;
        }
        self.carried.describe(sink)?;
        self.arrays.iter().try_for_each(|array| sink.tensor(array.decl()))?;
        let Some(archive) = &self.archive else { return Ok(()) };
        // Each is read whole for its array, whatever the order of its elements.
        let deflated = self.arrays.iter().zip(0u64..).filter_map(|(array, number)| match &array.place {
            Place::Deflated(entry) => Some((entry.header, number)),
            Place::Stored(_) => None,
        });
        let streams: HashMap<u64, u64> = deflated.collect();
        archive.checksums(sink, &|entry| streams.get(&entry.header).copied())
    }

    fn covered(&self, checksum: u64) -> Result<Box<dyn Stream>> {
        let archive = self.archive.as_ref();
        archive.ok_or_else(|| Error::unsupported("the file is not an archive"))?.covered(checksum)
    }

    fn stream(&self, tensor: u64) -> Result<Box<dyn Stream>> {
        let array = usize::try_from(tensor).ok().and_then(|n| self.arrays.get(n));
        match array.map(|array| (&array.place, &array.header)) {
            Some((Place::Deflated(entry), header)) => Ok(rearranged::stream(entry, header)),
            _ => Err(Error::unsupported("the tensor is not deflated")),
        }
    }
}
