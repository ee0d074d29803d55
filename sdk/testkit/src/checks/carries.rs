//! Check that the manifest's claims hold: what it says is carried is written and read back equal.

use super::base_dtype;
use crate::same::{Content, has_assets, has_metadata, same_tensors, with_content};
use crate::subject::{Subject, Verdict, guarded};
use crate::{Fixture, ModelFixture, generate, render, shape_of};
use apr_sdk::manifest::{ForeignCarrier, NameRule};
use apr_sdk::{DType, Error, ErrorKind, ForeignPolicy, Model, Packing, Reader, Result, Writer};

/// The id of a format that nobody provides.
pub(super) const STRANGER: &str = "kit_other";

/// A model, what is tried with it, and how it is asked for.
pub(super) struct Case {
    pub(super) what: String,
    pub(super) model: ModelFixture,
    pub(super) foreign: ForeignPolicy,
    /// True if the writer may say, in an error or a note, that it cannot: a format may hold a type of metadata in some
    /// of its files only.
    pub(super) may_refuse: bool,
}

impl Case {
    pub(super) fn new(what: impl Into<String>, model: ModelFixture) -> Case {
        Case { what: what.into(), model, foreign: ForeignPolicy::Default, may_refuse: false }
    }
}

pub(super) fn carries(subject: &Subject<'_>) -> Result<Verdict> {
    let Some((reader, writer)) = subject.reader.zip(subject.writer) else {
        return Verdict::skipped("the format is not both readable and writable");
    };
    let cases = cases(subject)?;
    let mut refused = 0;
    let mut kept = 0;
    for case in &cases {
        match carried_back(subject, reader, writer, case) {
            Ok(()) => kept += u64::from(case.may_refuse),
            Err(error) if case.may_refuse && error.kind() == ErrorKind::Unsupported => refused += 1,
            Err(error) => {
                return Err(Error::failed(format!("the manifest claims {}, but: {error}", case.what)));
            }
        }
    }
    if refused > 0 && kept == 0 {
        let known = known_keys(subject)?;
        if !known.iter().any(|case| carried_back(subject, reader, writer, case).is_ok()) {
            let id = subject.id();
            return Err(Error::failed(format!(
                "the manifest claims metadata, but the writer refuses all of it; if only certain keys are \
                 accepted, list them in `{id}.keys`"
            )));
        }
    }
    Verdict::passed(format!(
        "{} claims, {refused} of them explicitly refused in a model of one file",
        cases.len()
    ))
}

fn carried_back(subject: &Subject<'_>, reader: &dyn Reader, writer: &dyn Writer, case: &Case) -> Result<()> {
    let (model, source) = case.model.build()?;
    let mut request = subject.request();
    request.foreign = case.foreign;
    let payload = |index| case.model.payload(index);
    let mut rendered =
        guarded(|| render(writer, &subject.manifest.carries, &model, &source, &payload, &request))??;
    rendered.files[..=rendered.entry].rotate_right(1);
    let result = Fixture { name: case.what.clone(), files: rendered.files };
    let result_source = result.source();
    let opened = subject.open(reader, &result_source)?;
    let wanted = Content { model: &model, source: &source, payload: &payload };
    let renamed = called_alike(subject, &model, &opened.model);
    with_content(&opened, &result_source, |found| {
        same_tensors(&Content { model: &renamed, ..wanted }, found)?;
        for foreign in &model.foreign {
            let keys = foreign.files.iter().flat_map(|file| file.typed.iter().map(|(key, _)| key));
            let noted = keys.into_iter().any(|key| rendered.notes.iter().any(|note| note.contains(key)));
            // What the summary says is no silent loss.
            has_metadata(&wanted, found, &foreign.format).map_err(|e| match noted {
                true => Error::unsupported(e.message()),
                false => {
                    Error::failed(format!("{}; refuse it, or mention it in a note with the key", e.message()))
                }
            })?;
        }
        has_assets(&wanted, found)?;
        match (&model.tokenizer, &found.model.tokenizer) {
            (Some(_), None) => Err(Error::failed("the tokenizer is missing")),
            _ => Ok(()),
        }
    })
}

/// A model whose only tensor is called as in the result, where the format has no names.
pub(super) fn called_alike(subject: &Subject<'_>, wanted: &Model, found: &Model) -> Model {
    let mut wanted = wanted.clone();
    if let (true, [tensor], [there]) =
        (subject.manifest.carries.one_tensor, &mut wanted.tensors[..], &found.tensors[..])
    {
        tensor.name.clone_from(&there.name);
    }
    wanted
}

/// A model for each thing that the manifest claims.
pub(super) fn cases(subject: &Subject<'_>) -> Result<Vec<Case>> {
    let mut cases = all_cases(subject)?;
    if subject.manifest.carries.one_tensor {
        cases.iter_mut().for_each(|case| case.model.keep_one());
        cases.retain(|case| case.model.len() == 1);
    }
    Ok(cases)
}

fn all_cases(subject: &Subject<'_>) -> Result<Vec<Case>> {
    let carries = &subject.manifest.carries;
    let base = base_dtype(subject);
    let mut cases = vec![Case::new("any model", ModelFixture::new())];
    for row in DType::ALL.iter().filter(|row| carries.dtype(row.name)) {
        cases.push(Case::new(format!("dtype {}", row.name), of_dtype(row.dtype, carries.max_dims)?));
    }
    for dims in 1..=carries.max_dims.min(8) {
        let model = ModelFixture::new().tensor("t", base, &shape_of(base, dims))?;
        cases.push(Case::new(format!("{dims} dimensions"), model));
    }
    if carries.scalars {
        cases.extend(scalar(base)?);
    }
    if carries.zero_size {
        cases.push(Case::new("dimensions of size 0", zero_size(base, carries.max_dims)?));
    }
    for name in names(carries.names) {
        let name: String = name.chars().take(carries.max_name_bytes / 4).collect();
        let model = ModelFixture::new().tensor(&name, base, &shape_of(base, 1))?;
        cases.push(Case::new(format!("the name {name:?}"), model));
    }
    let long = "n".repeat(carries.max_name_bytes.min(65_535));
    let model =
        ModelFixture::new().tensor(&long, base, &shape_of(base, 1))?.tensor("t", base, &shape_of(base, 1))?;
    cases.push(Case::new(format!("a name of {} bytes", long.len()), model));
    cases.extend(metadata(subject)?);
    Ok(cases)
}

fn of_dtype(dtype: DType, max_dims: usize) -> Result<ModelFixture> {
    let model = ModelFixture::new().tensor("one", dtype, &shape_of(dtype, 1))?;
    model.tensor("two", dtype, &shape_of(dtype, max_dims.clamp(1, 2)))
}

/// A tensor without dimensions, unless the only dtypes are blocks.
pub(super) fn scalar(base: DType) -> Result<Option<Case>> {
    let single = base.info().is_some_and(|row| row.block_elements == 1 && row.packing == Packing::Row);
    if !single {
        return Ok(None);
    }
    let model = ModelFixture::new().tensor("s", base, &[])?.tensor("t", base, &[3])?;
    Ok(Some(Case::new("tensors without dimensions", model)))
}

pub(super) fn zero_size(base: DType, max_dims: usize) -> Result<ModelFixture> {
    let mut shape = shape_of(base, max_dims.clamp(1, 3));
    let full = shape.clone();
    shape[0] = 0;
    ModelFixture::new()
        .tensor("none", base, &shape)?
        .tensor("some", base, &full)?
        .tensor("last", base, &shape)
}

fn names(rule: NameRule) -> Vec<&'static str> {
    let mut names = vec!["plain", "with space", "dots.and/slashes", "q\"u'o`t\\e", "é漢🙂", "{[<%&$#"];
    if rule == NameRule::Any || rule == NameRule::NoNul {
        names.extend(["tab\tline\nreturn\r", "\u{1b}[31mred"]);
    }
    if rule == NameRule::Any {
        names.push("nul\0byte");
    }
    names
}

/// A model for each key that the manifest names: a format may take these and no others.
fn known_keys(subject: &Subject<'_>) -> Result<Vec<Case>> {
    let base = base_dtype(subject);
    let values = generate::values(|_| true);
    let mut cases = Vec::new();
    for (key, kind) in &subject.manifest.keys {
        let alike = match kind.strip_prefix('[').and_then(|kind| kind.strip_suffix(']')) {
            Some(items) => format!("kit.arr.{items}"),
            None => format!("kit.{kind}"),
        };
        let Some((_, value)) = values.iter().find(|(name, _)| *name == alike) else { continue };
        let model = ModelFixture::new().tensor("t", base, &shape_of(base, 1))?;
        let model = model.foreign(subject.id(), key, value.clone());
        cases.push(Case::new(format!("the key `{key}`"), model));
    }
    Ok(cases)
}

fn metadata(subject: &Subject<'_>) -> Result<Vec<Case>> {
    let carries = &subject.manifest.carries;
    let base = base_dtype(subject);
    let tensor = ModelFixture::new().tensor("t", base, &shape_of(base, 1))?;
    let mut cases = Vec::new();
    for (key, value) in generate::values(|word| carries.metadata_type(word)) {
        let what = format!("metadata like `{key}`");
        let model = tensor.clone().foreign(subject.id(), &key, value);
        cases.push(Case { may_refuse: true, ..Case::new(what, model) });
    }
    if carries.foreign != ForeignCarrier::None {
        let mut model = tensor.clone();
        for (key, value) in generate::values(|_| true) {
            model = model.foreign(STRANGER, &key, value);
        }
        let keep = carries.foreign == ForeignCarrier::Keep;
        let foreign = if keep { ForeignPolicy::Keep } else { ForeignPolicy::Default };
        cases.push(Case { foreign, ..Case::new("other formats' metadata", model) });
    }
    if carries.tokenizer {
        cases.push(Case::new("a tokenizer", tensor.clone().tokenizer(r#"{"schema":1}"#)));
    }
    if carries.assets {
        let long: Vec<u8> = generate::Random::new(7).bytes(100_000);
        let model = tensor.asset("README.md", "# Model\n").asset("sub/data.bin", long).asset("empty", "");
        cases.push(Case::new("companion files", model));
    }
    Ok(cases)
}
