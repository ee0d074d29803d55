//! Check that a plugin's own probe recognises what it writes: a file that opens with `--from` alone is no use to its owner.

use super::base_dtype;
use super::carries::{self, Case};
use crate::fixture::probe_bytes;
use crate::subject::guarded;
use crate::{ModelFixture, Subject, shape_of};
use apr_sdk::{Error, LayoutRequest, Look, OptionKind, Reader, Result, Score};

/// Tensors whose names alone take more than [`Look::HEAD`], at 32 bytes each.
const MANY: usize = Look::HEAD / 32 + 1;

/// Writes a model for each claim, and some in each way that the format has, and probes the file that a user opens of
/// each; gives how many. A model that cannot be written is for the other checks to judge.
pub(super) fn written(subject: &Subject<'_>, reader: &dyn Reader) -> Result<u64> {
    let Some(writer) = subject.writer else { return Ok(0) };
    let mut probed = 0;
    for (case, mut request) in ways(subject)? {
        request.foreign = case.foreign;
        let files = guarded(|| case.model.write(writer, &subject.manifest.carries, &request));
        let Ok(Ok(files)) = files else { continue };
        let Some((name, bytes)) = files.first() else { continue };
        let score = guarded(|| Ok(probe_bytes(reader, name, bytes)))??;
        if score < Score::STRUCTURE {
            let id = subject.id();
            let what = &case.what;
            return Err(Error::failed(format!(
                "`{id}` does not recognize the output of its own writer: {what}, `{name}`, scores {}, at \
                 least 50 is required",
                score.0
            )));
        }
        probed += 1;
    }
    Ok(probed)
}

fn ways(subject: &Subject<'_>) -> Result<Vec<(Case, LayoutRequest)>> {
    let mut ways: Vec<_> =
        carries::cases(subject)?.into_iter().map(|case| (case, subject.request())).collect();
    let mut models = vec![Case::new("many tensors", many(subject)?)];
    models.push(Case::new("a small llama", ModelFixture::tiny()?));
    if subject.manifest.carries.one_tensor {
        models.iter_mut().for_each(|case| case.model.keep_one());
    }
    for extension in &subject.manifest.extensions {
        for case in &models {
            let mut request = LayoutRequest::file(&format!("kit.{extension}"));
            request.options = subject.options(true);
            ways.push((Case::new(&case.what, case.model.clone()), request));
        }
    }
    let [case, ..] = &models[..] else { return Ok(ways) };
    for option in subject.manifest.options.iter().filter(|option| option.write) {
        let values = match &option.kind {
            OptionKind::Flag => vec!["true".to_owned()],
            OptionKind::Choice(values) => values.clone(),
            _ => Vec::new(),
        };
        for value in values {
            let mut request = subject.request();
            request.options = request.options.with(&option.name, &value);
            let what = format!("{} with {} {value}", case.what, option.name);
            ways.push((Case::new(what, case.model.clone()), request));
        }
    }
    let mut shards = subject.request();
    shards.max_shard_size = Some(1 << 10);
    ways.push((Case::new(format!("{} in shards", case.what), case.model.clone()), shards));
    Ok(ways)
}

/// A model whose header passes what a probe sees.
fn many(subject: &Subject<'_>) -> Result<ModelFixture> {
    let base = base_dtype(subject);
    let shape = shape_of(base, 1);
    (0..MANY).try_fold(ModelFixture::new(), |model, n| model.tensor(&format!("{n:032}"), base, &shape))
}
