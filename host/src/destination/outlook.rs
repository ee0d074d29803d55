//! Opens an existing folder as it will be, before anything in it is touched: other files there may be opened
//! together with the new ones, or instead of them.

use super::Destination;
use super::stale_files::{has_model, is_empty};
use super::view::{View, list};
use crate::host::Host;
use crate::storage::overlay::Overlay;
use crate::storage::staging::Staging;
use apr_engine::convert::LaidOut;
use apr_engine::layout::headers;
use apr_engine::place::Backing;
use apr_sdk::{Error, ErrorKind, Result, escape};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The consequences of publishing into an existing folder for its other files.
#[derive(Clone, Debug, Default)]
pub struct Outlook {
    /// Files that must go, because they would be opened together with the new ones.
    in_the_way: Vec<String>,
    /// Files that go with the model they belonged to.
    replaced: Vec<String>,
    /// Files that are opened together with the new ones, and stay.
    kept: Vec<String>,
    /// Files that look like weights but do not belong to the new model.
    besides: Vec<String>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

impl Outlook {
    /// The files to remove.
    pub fn removing(&self) -> Vec<String> {
        self.replaced.iter().chain(&self.in_the_way).cloned().collect()
    }

    /// Notes for the user; `is_done` tells whether this has happened or is only planned.
    pub fn notes(&self, is_done: bool) -> Vec<String> {
        let removed = if is_done { "removed from" } else { "would be removed from" };
        let notes = [
            ("already in the folder and kept".to_owned(), &self.kept),
            (
                format!("{removed} the folder, since they would be opened together with the new files"),
                &self.in_the_way,
            ),
            (format!("{removed} the folder, together with the model they belong to"), &self.replaced),
            ("in the folder, but not part of the new model".to_owned(), &self.besides),
        ];
        let notes = notes.into_iter().filter(|(_, names)| !names.is_empty());
        notes.map(|(what, names)| format!("{what}: {}", list(names))).collect()
    }
}

/// Number of times that opening may reveal further files that must go.
const MOST_ROUNDS: usize = 16;

/// Opens the folder as it will be. It must be the planned model, and nothing else.
///
/// # Errors
/// Io, E007, naming the files that would be opened as well, unless `--force` removes them; any error from
/// opening; Cancelled.
pub fn outlook(
    host: &Host,
    laid_out: &LaidOut<'_>,
    destination: &Destination,
    staging: &Staging,
) -> Result<Outlook> {
    let view = View::new(host, laid_out, destination, staged(staging));
    if staging.files.len() == 1 {
        return Ok(view.of_one(true));
    }
    judge(&view, destination.force)?
}

/// Like [`outlook`], for a plan: opens as much as headers alone allow, and writes nothing, not even beside
/// the output.
///
/// # Errors
/// Io, E007, as [`outlook`].
pub fn foretell(host: &Host, laid_out: &LaidOut<'_>, destination: &Destination) -> Result<Outlook> {
    let target = &destination.target;
    let layout = &laid_out.layout;
    let alone = layout.files.len() == 1;
    let folder = if target.folder { &target.path } else { target.parent() };
    // Most outputs go where there is nothing to check.
    let is_free = if alone { !has_model(host, folder) } else { !target.is_within() || is_empty(folder) };
    if is_free {
        return Ok(Outlook::default());
    }
    let files = target.finals(layout).into_iter().zip(headers(&layout.files)).collect();
    let view = View::new(host, laid_out, destination, files);
    if alone {
        return Ok(view.of_one(false));
    }
    match judge(&view, destination.force) {
        Ok(judged) => judged,
        Err(_) => host.check_cancelled().map(|()| Outlook::default()),
    }
}

/// The outlook for the folder: the inner error refuses existing files, the outer one means that it could not be opened.
fn judge(view: &View<'_>, force: bool) -> Result<Result<Outlook>> {
    let target = view.target;
    let laid_out = view.laid_out;
    let format = laid_out.output.format;
    if !target.is_within() || !format.manifest.reads {
        return Ok(Ok(Outlook::default()));
    }
    let mut overlay = view.overlay();
    let mut outlook = Outlook::default();
    let entry = target.path.join(&laid_out.layout.files[laid_out.layout.entry].name);
    if force {
        let path = if format.manifest.folder { &target.path } else { &entry };
        outlook.replaced = view.replaced(path, !format.manifest.folder);
        overlay.hidden.extend(outlook.replaced.iter().cloned());
    }
    if !format.manifest.folder {
        // The files are a complete model, beside which other models may exist.
        let seen = view.see(&entry, &overlay)?;
        if !seen.others.is_empty() {
            return Ok(Err(view.refusal(&seen.names(), "choose another folder")));
        }
        view.compare(&seen.opened)?;
        // A user who named the folder will open the folder.
        let stands = if view.is_folder { view.stands(&overlay, &entry)? } else { Ok(None) };
        return Ok(stands.map(|warning| {
            outlook.warnings.extend(warning);
            outlook
        }));
    }
    for _ in 0..MOST_ROUNDS {
        let seen = view.see(&target.path, &overlay)?;
        let (stay, go): (Vec<_>, Vec<_>) = seen.others.iter().partition(|other| other.stays());
        if go.is_empty() {
            view.compare(&seen.opened)?;
            outlook.kept = stay.into_iter().map(|other| other.name.clone()).collect();
            outlook.besides = view.besides(&overlay, &outlook.kept);
            return Ok(Ok(outlook));
        }
        if let Some(input) = go.iter().find(|other| view.reads(other)) {
            let message = "the input would be opened together with the new files, or instead of them";
            let error = Error::io(message).code("E007").in_file(target.show(&target.path.join(&input.name)));
            return Ok(Err(error.hint("choose another folder; nothing was written")));
        }
        if !force {
            let names: Vec<_> = go.iter().map(|other| other.name.clone()).collect();
            return Ok(Err(view.refusal(&names, "choose another folder, or pass --force to remove them")));
        }
        for other in go {
            overlay.hidden.insert(other.name.clone());
            outlook.in_the_way.push(other.name.clone());
        }
    }
    let error = Error::io("too many files in the folder would be opened together with the new ones");
    Ok(Err(error.in_file(target.show(&target.path)).hint("choose another folder")))
}

/// Like [`outlook`], before any weights are written, as far as headers alone allow: a refusal comes before
/// hours of work.
///
/// # Errors
/// Io, E007, as [`outlook`].
pub fn foresee(
    host: &Host,
    laid_out: &LaidOut<'_>,
    destination: &Destination,
    staging: &Staging,
) -> Result<()> {
    if staging.files.len() == 1 {
        return Ok(());
    }
    match judge(&View::new(host, laid_out, destination, staged(staging)), destination.force) {
        Ok(Err(refusal)) => Err(refusal),
        // What a header needs may come last.
        _ => host.check_cancelled(),
    }
}

/// The staged files, with their final paths.
fn staged(staging: &Staging) -> Vec<(PathBuf, Arc<dyn Backing>)> {
    let mut files: Vec<(PathBuf, Arc<dyn Backing>)> = Vec::with_capacity(staging.files.len());
    for file in &staging.files {
        files.push((file.published.clone(), Arc::clone(file) as _));
    }
    files
}

impl View<'_> {
    /// The consequences of a single-file output for its folder.
    fn of_one(&self, is_whole: bool) -> Outlook {
        let goes_alone = !self.target.folder || self.target.is_within();
        // Replacing its own source changes nothing for the folder.
        let warnings = if goes_alone && !self.in_place { self.becomes_another(is_whole) } else { None };
        Outlook { warnings: warnings.into_iter().collect(), ..Outlook::default() }
    }

    /// The consequences of the folder, which the user named as the output, for the new model with entry file
    /// `entry`: a warning if it holds several models, as before; the inner error if it would open as the
    /// previous model, or not at all any more.
    fn stands(&self, overlay: &Overlay, entry: &Path) -> Result<Result<Option<String>>> {
        let folder = &self.target.path;
        let file = self.target.show(entry);
        let way_out = format!("choose another folder, or specify the file: {file}");
        match self.see(folder, overlay) {
            Ok(seen) if seen.others.is_empty() => return Ok(Ok(None)),
            Ok(seen) => return Ok(Err(self.refusal(&seen.names(), &way_out))),
            Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
            Err(_) => {}
        }
        let before = Overlay { staged: Default::default(), ..overlay.clone() };
        match self.see(folder, &before) {
            Ok(seen) => {
                let what = "the folder contains another model, and would no longer open with the new files";
                return Ok(Err(self.refused(what, &seen.names(), &way_out)));
            }
            Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
            Err(_) => {}
        }
        let folder = escape(&self.target.show(folder), 400);
        Ok(Ok(Some(format!(
            "the folder `{folder}` does not open as a model because of its other files: open `{}` instead",
            escape(&file, 400)
        ))))
    }
}
