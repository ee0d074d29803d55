//! Opens an existing folder as it will be, before anything in it is touched: other files there may be opened
//! together with the new ones, or instead of them.

use super::Destination;
use super::stale_files::{has_model, is_empty};
use crate::host::Host;
use crate::storage::model_folder::ModelFolder;
use crate::storage::overlay::Overlay;
use crate::storage::staged::StagedFile;
use crate::storage::staging::Staging;
use crate::storage::target::Target;
use apr_engine::convert::LaidOut;
use apr_engine::layout::headers;
use apr_engine::open::{OpenOptions, OpenedModel, open_entry};
use apr_engine::place::Backing;
use apr_engine::verify::compare_tensors;
use apr_sdk::{Error, ErrorKind, Result, escape};
use std::collections::{BTreeSet, HashMap, HashSet};
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
        let said = [
            ("already in the folder, and kept".to_owned(), &self.kept),
            (
                format!("{removed} the folder, since they would be opened with the new files"),
                &self.in_the_way,
            ),
            (format!("{removed} the folder, together with the model they belong to"), &self.replaced),
            ("in the folder, but not part of the new model".to_owned(), &self.besides),
        ];
        let said = said.into_iter().filter(|(_, names)| !names.is_empty());
        said.map(|(what, names)| format!("{what}: {}", list(names))).collect()
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
    let (target, layout) = (&destination.target, &laid_out.layout);
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
    let (target, laid_out) = (view.target, view.laid_out);
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
            let message = "the input would be opened with the new files, or instead of them";
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
    let error = Error::io("too many files of the folder would be opened with the new ones");
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
    let file = |file: &Arc<StagedFile>| (file.published.clone(), Arc::clone(file) as Arc<dyn Backing>);
    staging.files.iter().map(file).collect()
}

/// A file in the folder that is not part of the output.
pub(super) struct Other {
    pub(super) name: String,
    pub(super) identity: Option<(u64, u64)>,
    /// True if the model merely has it as a companion.
    is_companion: bool,
}

impl Other {
    /// Returns whether it may stay when the model changes: nothing is opened by it, and it may be somebody's work.
    fn stays(&self) -> bool {
        is_for_people(&self.name) || (self.is_companion && !is_setting(&self.name))
    }

    /// Returns whether the model is incomplete without it.
    pub(super) fn is_of_model(&self) -> bool {
        !is_for_people(&self.name) && !self.is_companion
    }
}

/// The model that was opened, and those of its files that are not part of the output.
struct Seen {
    opened: OpenedModel,
    others: Vec<Other>,
}

impl Seen {
    /// Names of the files that are not part of the output.
    fn names(&self) -> Vec<String> {
        self.others.iter().map(|other| other.name.clone()).collect()
    }
}

pub(super) struct View<'a> {
    pub(super) host: &'a Host,
    pub(super) laid_out: &'a LaidOut<'a>,
    pub(super) target: &'a Target,
    /// True if the user named the folder as the output.
    pub(super) is_folder: bool,
    /// True if the files replace those they are made from.
    in_place: bool,
    files: Vec<(PathBuf, Arc<dyn Backing>)>,
    /// The folder for the files.
    pub(super) folder: PathBuf,
    /// The output's files by device and inode.
    ours: HashMap<(u64, u64), usize>,
    pub(super) inputs: Vec<(u64, u64)>,
}

impl<'a> View<'a> {
    /// A view of the future folder with the output's files, each with its final path.
    fn new(
        host: &'a Host,
        laid_out: &'a LaidOut<'a>,
        destination: &'a Destination,
        files: Vec<(PathBuf, Arc<dyn Backing>)>,
    ) -> View<'a> {
        let Destination { target, is_folder, in_place, .. } = destination;
        let identity = |number: usize| Some((files[number].1.identity()?, number));
        let ours = (0..files.len()).filter_map(identity).collect();
        let folder = if target.folder { &target.path } else { target.parent() }.to_owned();
        let inputs = if *in_place { Vec::new() } else { laid_out.source.files.all() };
        let inputs = inputs.iter().filter_map(|file| file.identity()).collect();
        View {
            host,
            laid_out,
            target,
            is_folder: *is_folder,
            in_place: *in_place,
            files,
            folder,
            ours,
            inputs,
        }
    }

    pub(super) fn overlay(&self) -> Overlay {
        let target = self.target;
        let inside = |(published, backing): &(PathBuf, Arc<dyn Backing>)| {
            let name = published.strip_prefix(&self.folder).ok()?.to_str()?.to_owned();
            Some((name, Arc::clone(backing)))
        };
        let staged = self.files.iter().filter_map(inside).collect();
        let suffixes = [".apr-part", ".apr-lock", ".apr-journal", ".apr-old", ".apr-record"];
        let hidden = suffixes.map(|suffix| target.hidden(suffix)).into_iter().collect();
        Overlay { folder: self.folder.clone(), staged, hidden }
    }

    /// Opens a path in the future folder.
    pub(super) fn open(&self, path: &Path, overlay: Overlay, bare: bool) -> Result<OpenedModel> {
        let entry = ModelFolder::locate(path, Some(Arc::new(overlay)))?;
        open_entry(self.host, &entry, path, &OpenOptions { bare, ..OpenOptions::default() })
    }

    /// Opens a path as a user would.
    fn see(&self, path: &Path, overlay: &Overlay) -> Result<Seen> {
        let opened = self.open(path, overlay.clone(), false).map_err(|error| self.cannot_open(error))?;
        let others = self.others(&opened);
        Ok(Seen { opened, others })
    }

    /// Returns whether a file is one of the inputs.
    pub(super) fn reads(&self, other: &Other) -> bool {
        other.identity.is_some_and(|identity| self.inputs.contains(&identity))
    }

    /// The consequences of a single-file output for its folder.
    fn of_one(&self, is_whole: bool) -> Outlook {
        let goes_alone = !self.target.folder || self.target.is_within();
        // Replacing its own source changes nothing for the folder.
        let warnings = if goes_alone && !self.in_place { self.becomes_another(is_whole) } else { None };
        Outlook { warnings: warnings.into_iter().collect(), ..Outlook::default() }
    }

    /// The opened files that are not part of the output.
    pub(super) fn others(&self, opened: &OpenedModel) -> Vec<Other> {
        let others = opened.files.all().into_iter().filter(|file| !file.is_folder());
        let others =
            others.filter(|file| !file.identity().is_some_and(|identity| self.ours.contains_key(&identity)));
        let companions: HashSet<&str> = opened.model.assets.iter().map(|asset| asset.name.as_str()).collect();
        let others = others.map(|file| Other {
            name: file.name.clone(),
            identity: file.identity(),
            is_companion: companions.contains(file.name.as_str()),
        });
        others.collect()
    }

    fn cannot_open(&self, error: Error) -> Error {
        if error.kind() == ErrorKind::Cancelled {
            return error;
        }
        let target = self.target;
        let file =
            error.file().map_or_else(|| target.show(&target.path), |file| target.show(Path::new(file)));
        let message = format!("with the new files, the folder cannot be opened: {}", error.message());
        let hint = "move what is there elsewhere, or choose another folder; nothing was written";
        Error::io(message).in_file(file).hint(hint)
    }

    /// Fails unless what was opened is the planned model, all of it in the output's files.
    fn compare(&self, opened: &OpenedModel) -> Result<()> {
        let files = opened.files.all();
        let places: Vec<_> = files.iter().map(|file| self.ours.get(&file.identity()?).copied()).collect();
        compare_tensors(&self.laid_out.model, opened, &self.laid_out.layout, &places)
    }

    /// The consequences of the folder, which the user named as the output, for the new model with entry file
    /// `entry`: a warning if it holds several models, as before; the inner error if it would open as the
    /// previous model, or not at all any more.
    fn stands(&self, overlay: &Overlay, entry: &Path) -> Result<Result<Option<String>>> {
        let folder = &self.target.path;
        let file = self.target.show(entry);
        let way_out = format!("choose another folder, or name the file: {file}");
        match self.see(folder, overlay) {
            Ok(seen) if seen.others.is_empty() => return Ok(Ok(None)),
            Ok(seen) => return Ok(Err(self.refusal(&seen.names(), &way_out))),
            Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
            Err(_) => {}
        }
        let before = Overlay { staged: Default::default(), ..overlay.clone() };
        match self.see(folder, &before) {
            Ok(seen) => {
                let what = "with the new files, the folder would no longer open: it holds another model";
                return Ok(Err(self.refused(what, &seen.names(), &way_out)));
            }
            Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
            Err(_) => {}
        }
        let folder = escape(&self.target.show(folder), 400);
        Ok(Ok(Some(format!(
            "with its other files, the folder `{folder}` does not open as a model: open `{}` instead",
            escape(&file, 400)
        ))))
    }

    fn refusal(&self, others: &[String], way_out: &str) -> Error {
        let what = "the folder has files that would be opened with the new ones, or instead of them";
        self.refused(what, others, way_out)
    }

    fn refused(&self, what: &str, others: &[String], way_out: &str) -> Error {
        let message = format!("{what}: {}", list(others));
        let target = self.target;
        let error = Error::io(message).code("E007").in_file(target.show(&target.path));
        error.hint(format!("{way_out}; nothing was written"))
    }
}

/// Files that people read and programs do not: they may stay when the model changes.
fn is_for_people(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name).to_lowercase();
    let stem = name.split('.').next().unwrap_or_default();
    name.ends_with(".md") || ["readme", "license", "licence", "notice", "copying"].contains(&stem)
}

/// Settings and templates, which programs that open the folder use.
fn is_setting(name: &str) -> bool {
    let name = name.to_lowercase();
    [".json", ".jinja"].iter().any(|end| name.ends_with(end))
}

/// The first few names of a list, sorted.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 10;
    let sorted: BTreeSet<&String> = names.iter().collect();
    let shown: Vec<_> = sorted.iter().take(SHOWN).map(|name| format!("`{}`", escape(name, 120))).collect();
    match sorted.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stay_and_templates_go() {
        for name in ["README.md", "LICENSE", "licence.txt", "docs/usage.MD", "NOTICE"] {
            assert!(is_for_people(name), "{name}");
        }
        for name in ["chat_template.jinja", "merges.txt", "config.json", "modeling.py", "readme_config.json"]
        {
            assert!(!is_for_people(name), "{name}");
        }
    }
}
