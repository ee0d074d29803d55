//! The file that is written again and again while sums are collected.

use super::Args;
use crate::cli::context::Context;
use apr_engine::open::OpenedModel;
use apr_engine::types::quantize::{read_sums, sums_file};
use apr_host::destination::output_file::OutputFile;
use apr_host::host::Host;
use apr_inference::importance::{merge, rescale};
use apr_sdk::{Error, ImportanceSums, Result, TensorSums, escape};
use std::path::{Path, PathBuf};

/// An importance matrix on disk, and what was in it before.
pub struct SumsSoFar<'a> {
    host: &'a Host,
    path: PathBuf,
    form: Option<&'a str>,
    /// True if a file that exists may be replaced.
    force: bool,
    /// True if the file itself is continued.
    resumes: bool,
    /// What the file begins with: files that are added, or the file itself.
    pub before: ImportanceSums,
    /// Bytes that were written last.
    pub bytes: Option<usize>,
}

impl<'a> SumsSoFar<'a> {
    /// Reads what is added, and refuses to write over what is read.
    ///
    /// # Errors
    /// As [`OutputFile::check`] and [`read_sums`].
    pub fn new(
        args: &'a Args,
        host: &'a Host,
        opened: Option<&OpenedModel>,
        texts: &[PathBuf],
        context: &Context,
    ) -> Result<SumsSoFar<'a>> {
        let path = args.output()?.clone();
        let mut inputs = context.inputs(&host.registry);
        opened.into_iter().for_each(|opened| inputs.add_model(opened));
        texts.iter().chain(&args.in_file).for_each(|path| inputs.add(path));
        let force = args.force || args.resume;
        OutputFile::new(&path, "importance matrix", force).check(&inputs)?;
        let before =
            if args.resume && path.exists() { read_sums(host, &path)? } else { ImportanceSums::default() };
        Ok(SumsSoFar {
            host,
            path,
            form: args.output_format.as_deref(),
            force,
            resumes: args.resume,
            before,
            bytes: None,
        })
    }

    /// Adds earlier files to what the file begins with. One that does not say how long its chunks are has those of the file
    /// before, or `chunk_size`.
    ///
    /// # Errors
    /// As [`read_sums`] and [`merge`]; InvalidArgument for names of another dialect.
    pub fn add_files(&mut self, paths: &[PathBuf], chunk_size: u32) -> Result<()> {
        for path in paths {
            let mut sums = read_sums(self.host, path)?;
            if self.before.chunk_size == 0 {
                self.before.chunk_size = if sums.chunk_size > 0 { sums.chunk_size } else { chunk_size };
            }
            rescale(&mut sums, self.before.chunk_size);
            let named = |error: Error| error.in_file(path.display().to_string());
            if !self.before.dialect.is_empty() && self.before.dialect != sums.dialect {
                let message =
                    format!("its tensors are named in another way, `{}`", escape(&sums.dialect, 40));
                return Err(named(Error::invalid_argument(message)));
            }
            self.before.dialect = sums.dialect;
            self.before.datasets.extend(sums.datasets);
            merge(&mut self.before.tensors, sums.tensors).map_err(named)?;
        }
        Ok(())
    }

    /// Windows of these texts that the file has already.
    ///
    /// # Errors
    /// InvalidArgument if the file is of other texts or other windows.
    pub fn done(&mut self, texts: &[String], window: u32) -> Result<usize> {
        rescale(&mut self.before, window);
        let shown = self.path.display().to_string();
        let has = &self.before.datasets;
        if !self.before.tensors.is_empty() && self.before.chunk_size != window {
            let message =
                format!("it was collected over windows of {} tokens, not {window}", self.before.chunk_size);
            let hint = format!("pass --context {}, or --force to begin again", self.before.chunk_size);
            return Err(Error::invalid_argument(message).in_file(shown).hint(hint));
        }
        if texts.get(..has.len()).is_none_or(|first| first != has.as_slice()) {
            let message = format!("it was collected over other texts: {}", escape(&has.join(", "), 200));
            return Err(Error::invalid_argument(message).in_file(shown).hint(
                "pass the same texts in the same order, or --force instead of --resume to begin again",
            ));
        }
        usize::try_from(self.before.chunks).map_err(|_| Error::limit("too many windows"))
    }

    /// Refuses a form or names that no plugin writes, before anything is computed.
    ///
    /// # Errors
    /// As [`sums_file`].
    pub fn check_form(&self, dialect: &str) -> Result<()> {
        let mut smallest = ImportanceSums::default();
        dialect.clone_into(&mut smallest.dialect);
        smallest.chunk_size = 1;
        smallest.tensors = vec![TensorSums { name: "weight".to_owned(), sums: vec![1.0], counts: vec![1] }];
        sums_file(self.host, &smallest, &self.name(), self.form).map(|_| ())
    }

    fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Writes the file with these sums added to what it begins with.
    ///
    /// # Errors
    /// As [`merge`], [`sums_file`] and [`OutputFile::write`].
    pub fn write(
        &mut self,
        dialect: &str,
        tensors: Vec<TensorSums>,
        datasets: &[String],
        chunk_size: u32,
    ) -> Result<ImportanceSums> {
        let mut sums = self.before.clone();
        if self.resumes && !sums.tensors.is_empty() {
            let has = |all: &[TensorSums], name: &str| all.iter().any(|tensor| tensor.name == name);
            let missing = sums.tensors.iter().find(|tensor| !has(&tensors, &tensor.name));
            let new = tensors.iter().find(|tensor| !has(&sums.tensors, &tensor.name));
            if let Some(tensor) = missing.or(new) {
                let message = "it was collected over another model: only one of both has this tensor";
                return Err(Error::invalid_argument(message)
                    .in_file(self.path.display().to_string())
                    .tensor(&tensor.name)
                    .hint("pass the model that the file was begun with, or --force instead of --resume"));
            }
        }
        merge(&mut sums.tensors, tensors).map_err(|error| error.in_file(self.path.display().to_string()))?;
        dialect.clone_into(&mut sums.dialect);
        for dataset in datasets {
            sums.datasets.push(dataset.clone());
        }
        sums.chunk_size = chunk_size;
        // As llama-imatrix counts.
        let most = sums.tensors.iter().flat_map(|tensor| &tensor.counts).max().copied().unwrap_or(0);
        sums.chunks = u32::try_from(most / u64::from(chunk_size.max(1))).unwrap_or(u32::MAX);
        let bytes = sums_file(self.host, &sums, &self.name(), self.form)?;
        OutputFile::new(&self.path, "importance matrix", self.force).write(&bytes)?;
        self.bytes = Some(bytes.len());
        // From here on the file is our own.
        self.force = true;
        Ok(sums)
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
