//! The report `scan`: the Python that a folder's JSON files name, which other programs import, or run once they are told
//! to trust the folder.

use crate::layout::{CONFIG, FORMAT, MODULES, OBJECTS};
use crate::{json, reader};
use apr_sdk::{ErrorKind, FileId, Limits, Report, Result, Source, escape, strict_json};
use serde_json::{Value as Json, json};

/// Files that name code without being a record of their own.
const FURTHER: [&str; 3] = [MODULES, "config_sentence_transformers.json", "sentence_bert_config.json"];

/// A function that is run in place of the model's own `generate`, if it is there.
const GENERATE: &str = "custom_generate/generate.py";

/// Names that the report lists. 10,000: no model has more, a file may.
const LISTED: usize = 10_000;

/// Characters that are kept of a key, a name or a module's path.
const KEPT: usize = 200;

/// Where names of code stand: inside of the value of this key (`*`: anywhere), under this key (`*`: under any).
const ROWS: [(&str, &str, Kind); 9] = [
    ("auto_map", "*", Kind::Class),
    ("custom_pipelines", "impl", Kind::Class),
    ("custom_generate", "*", Kind::Repository),
    ("attn_implementation", "*", Kind::Kernel),
    ("experts_implementation", "*", Kind::Kernel),
    ("auto_mapping", "parent_library", Kind::Library),
    ("activation_function", "*", Kind::Function),
    ("activation_fn", "*", Kind::Function),
    ("sbert_ce_default_activation_function", "*", Kind::Function),
];

/// Those of a list of modules, whose other keys are paths.
const MODULE_ROWS: [(&str, &str, Kind); 1] = [("*", "type", Kind::Module)];

/// The kinds of text that name code.
#[derive(Clone, Copy)]
enum Kind {
    /// `MODULE.CLASS` or `REPOSITORY--MODULE.CLASS`.
    Class,
    /// A class of sentence-transformers, of the folder, or of an installed package.
    Module,
    /// A package of which the class of the model is one; the usual one is transformers.
    Library,
    /// A function of an installed package, the usual one torch; text without a `.` is the library's own word for one.
    Function,
    /// A repository of which [`GENERATE`] is run.
    Repository,
    /// A repository of compiled functions; text without a `/` is a function of the library's own.
    Kernel,
}

/// Where the code that a name stands for is taken from.
enum Origin {
    Folder,
    Missing,
    Repository(String),
    Installed,
}

impl Origin {
    fn word(&self) -> &'static str {
        match self {
            Origin::Folder => "folder",
            Origin::Missing => "missing",
            Origin::Repository(_) => "repository",
            Origin::Installed => "installed",
        }
    }

    fn text(&self, module: &str) -> String {
        let module = escape(module, 200);
        match self {
            Origin::Folder => format!("runs {module} from the folder"),
            Origin::Missing => format!("runs {module}, which is not in the folder"),
            Origin::Repository(name) => {
                format!("runs {module}, fetched from the repository {}", escape(name, 200))
            }
            Origin::Installed => format!("imports {module} from an installed package"),
        }
    }

    /// The word for it in reports: code that comes with the model is worse than a name of what is there already.
    fn verdict(&self) -> &'static str {
        if matches!(self, Origin::Installed) { "unknown" } else { "dangerous" }
    }
}

/// A name of code.
struct Named {
    file: String,
    key: String,
    name: String,
    module: String,
    origin: Origin,
}

/// Returns whether the file of this name may name code.
pub fn concerns(name: &str) -> bool {
    OBJECTS.contains(&name) || FURTHER.contains(&name)
}

/// The report of one file, or of all files of a folder that may name code.
///
/// # Errors
/// Any error from the source.
pub fn report(source: &dyn Source, limits: &Limits) -> Result<Report> {
    let mut scan = Scan { source, named: Vec::new(), is_cut: false, problems: Vec::new() };
    if source.is_folder() {
        for name in source.entries()?.iter().filter(|name| concerns(name)) {
            scan.file(source.sibling(name)?, limits)?;
        }
    } else {
        scan.file(0, limits)?;
    }
    Ok(scan.report())
}

struct Scan<'a> {
    source: &'a dyn Source,
    named: Vec<Named>,
    /// True if there may be more names.
    is_cut: bool,
    problems: Vec<String>,
}

impl Scan<'_> {
    fn file(&mut self, file: FileId, limits: &Limits) -> Result<()> {
        let name = self.source.name(file);
        let own = name.rsplit('/').next().unwrap_or(&name);
        let read = reader::contents(self.source, file, limits);
        match read.and_then(|bytes| json::parse(strict_json::text(&bytes)?)) {
            Ok(tree) => {
                let rows = if own == MODULES { &MODULE_ROWS[..] } else { &ROWS[..] };
                self.walk(&Place { file: &name, rows }, &mut Vec::new(), &tree);
            }
            Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Cancelled) => return Err(error),
            Err(error) => {
                let at = error.offset().map(|at| format!(" at {at}")).unwrap_or_default();
                self.problems.push(format!("{}{at}: {}", escape(&name, 120), error.message()));
            }
        }
        if own == CONFIG && self.holds(GENERATE) {
            self.named.push(Named {
                file: name.clone(),
                key: String::new(),
                name: "generate".to_owned(),
                module: GENERATE.to_owned(),
                origin: Origin::Folder,
            });
        }
        Ok(())
    }

    fn walk(&mut self, place: &Place<'_>, keys: &mut Vec<String>, value: &Json) {
        match value {
            Json::Object(map) => {
                for (key, value) in map {
                    keys.push(shortened(key));
                    self.walk(place, keys, value);
                    keys.pop();
                }
            }
            Json::Array(items) => {
                for (n, value) in items.iter().enumerate() {
                    keys.push(n.to_string());
                    self.walk(place, keys, value);
                    keys.pop();
                }
            }
            // Enough is known: looking for the modules of a million names takes long.
            Json::String(_) if self.named.len() >= LISTED => self.is_cut = true,
            Json::String(text) => {
                if let Some((module, origin)) = place.kind(keys).and_then(|kind| self.resolved(kind, text)) {
                    self.named.push(Named {
                        file: place.file.to_owned(),
                        key: shortened(&keys.join(".")),
                        name: shortened(text),
                        module: shortened(&module),
                        origin,
                    });
                }
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }

    /// The module that a text names, and where it is taken from; `None` for what belongs to the library itself.
    fn resolved(&self, kind: Kind, text: &str) -> Option<(String, Origin)> {
        let is_of = |package: &str| {
            text.strip_prefix(package).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        match kind {
            Kind::Class => Some(self.class(text)),
            Kind::Module if is_of("sentence_transformers") => None,
            Kind::Module if text.contains("--") || text.matches('.').count() == 1 => Some(self.class(text)),
            Kind::Library if is_of("transformers") => None,
            Kind::Function if is_of("torch") || !text.contains('.') => None,
            Kind::Module | Kind::Library | Kind::Function => Some((text.to_owned(), Origin::Installed)),
            Kind::Repository => Some((GENERATE.to_owned(), Origin::Repository(shortened(text)))),
            Kind::Kernel => {
                text.contains('/').then(|| ("its kernel".to_owned(), Origin::Repository(shortened(text))))
            }
        }
    }

    fn class(&self, text: &str) -> (String, Origin) {
        let (repository, class) = match text.split_once("--") {
            Some((repository, class)) => (Some(repository), class),
            None => (None, text),
        };
        let module = format!("{}.py", class.rsplit_once('.').map_or(class, |(module, _)| module));
        let origin = match repository {
            Some(name) => Origin::Repository(shortened(name)),
            None if self.holds(&module) => Origin::Folder,
            None => Origin::Missing,
        };
        (module, origin)
    }

    fn holds(&self, path: &str) -> bool {
        self.source.sibling(path).is_ok()
    }

    fn report(&self) -> Report {
        let runs = self.named.iter().any(|named| named.origin.verdict() == "dangerous");
        let passed = self.named.is_empty() && self.problems.is_empty();
        let (verdict, why) = match (runs || self.is_cut, self.named.len(), passed) {
            (true, ..) => ("dangerous", "loading it elsewhere with trust_remote_code=True would run code"),
            (false, 1.., _) => {
                ("unknown", "loading it elsewhere would import names that do not belong to models")
            }
            (false, 0, true) => ("safe", "it does not refer to any code"),
            (false, 0, false) => {
                ("broken", "no reference to code was found, but not everything could be read")
            }
        };
        let mut lines: Vec<_> = self.problems.iter().map(|problem| format!("the file: {problem}")).collect();
        lines.extend(self.named.iter().map(Named::text));
        lines.extend(self.is_cut.then(|| format!("only the first {LISTED} are listed")));
        lines.push(format!("verdict: {verdict}: {why}"));
        let json = json!({
            "schema": format!("{FORMAT}.scan/1"),
            "verdict": verdict,
            "problem": self.problems.first(),
            "names_are_whole": !self.is_cut,
            "names": self.named.iter().map(Named::json).collect::<Vec<_>>(),
        });
        Report { text: lines.join("\n"), json: json.to_string(), passed }
    }
}

impl Named {
    fn text(&self) -> String {
        let place = if self.key.is_empty() { &self.file } else { &self.key };
        let (place, name) = (escape(place, 120), escape(&self.name, 200));
        let what = self.origin.text(&self.module);
        format!("{:9}  {place}: {name}: {what}", self.origin.verdict())
    }

    fn json(&self) -> Json {
        let repository = match &self.origin {
            Origin::Repository(name) => Some(name),
            Origin::Folder | Origin::Missing | Origin::Installed => None,
        };
        json!({
            "file": self.file,
            "key": self.key,
            "name": self.name,
            "module": self.module,
            "origin": self.origin.word(),
            "repository": repository,
            "verdict": self.origin.verdict(),
        })
    }
}

/// The beginning of a text.
fn shortened(text: &str) -> String {
    text.chars().take(KEPT).collect()
}

/// A file that is looked through, and where in it names stand.
struct Place<'a> {
    file: &'a str,
    rows: &'a [(&'static str, &'static str, Kind)],
}

impl Place<'_> {
    fn kind(&self, keys: &[String]) -> Option<Kind> {
        // A list's items have numbers for keys: the name is that of the list.
        let is_number = |key: &&String| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit());
        let last = keys.iter().rev().find(|key| !is_number(key));
        let row = self.rows.iter().find(|(under, key, _)| {
            let inside = *under == "*" || keys.iter().any(|outer| outer == under);
            inside && (*key == "*" || last.is_some_and(|last| last == key))
        });
        row.map(|(.., kind)| *kind)
    }
}
