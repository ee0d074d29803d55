//! The manifest agrees with itself and with the objects that the plugin makes.

use crate::{Subject, Verdict};
use apr_sdk::{Error, Result};

pub(super) fn manifest(subject: &Subject<'_>) -> Result<Verdict> {
    let format = subject.manifest;
    let id = &format.id;
    if !format.reads && !format.writes {
        return wrong(format!("`{id}.roles` is empty: use `read`, `write` or both"));
    }
    for (role, says, has) in
        [("read", format.reads, subject.reader.is_some()), ("write", format.writes, subject.writer.is_some())]
    {
        if says && !has {
            return wrong(format!(
                "`{id}.roles` has `{role}`, but the plugin creates no such object for `{id}`"
            ));
        }
        if has && !says {
            return wrong(format!("the plugin can `{role}` `{id}`, but `{id}.roles` does not list it"));
        }
    }
    if format.extensions.is_empty() && format.claims.is_empty() {
        return wrong(format!("`{id}.extensions` is empty: the host cannot choose the format for an output"));
    }
    if let Some(odd) = format.extensions.iter().find(|e| e.starts_with('.') || e.to_lowercase() != **e) {
        return wrong(format!("`{id}.extensions` lists `{odd}`: write it in lower case, without the dot"));
    }
    let carries = &format.carries;
    let none = carries.dtypes.as_ref().is_some_and(Vec::is_empty);
    if format.writes && (none || carries.max_dims == 0 || carries.max_name_bytes == 0) {
        return wrong(format!(
            "`{id}` can be written, but its dtypes, `max_dims` or `max_name_bytes` allow no tensor"
        ));
    }
    if let Some(option) = format.options.iter().find(|option| option.help.is_empty()) {
        return wrong(format!("option `{}` of `{id}` has no help", option.name));
    }
    Verdict::passed(format!("{} extensions, {} options", format.extensions.len(), format.options.len()))
}

fn wrong(text: String) -> Result<Verdict> {
    Err(Error::failed(text))
}
