//! Descriptions of packed weights in the metadata of the file that they are copied from. They call weights by names that only the tool
//! that wrote them can tell from the tensors' names: once tensors are renamed, they are no longer true.

use crate::open::OpenedModel;
use crate::open::schemes::announcements::{self, announcements};
use crate::open::schemes::descriptions;
use crate::planned::PlannedModel;
use crate::registry::Registry;
use apr_sdk::{Bytes, Derived};

/// Takes descriptions out if any tensor has another name than in the source; returns a warning if there were any.
pub fn forget_old_names(
    planned: &mut PlannedModel,
    source: &OpenedModel,
    registry: &Registry,
) -> Option<String> {
    let is_renamed = planned.tensors().any(|(_, tensor, computation)| {
        let from = computation.expression.parts().iter().find_map(|part| part.source_tensor());
        from.and_then(|from| source.model.tensors.get(from)).is_some_and(|from| from.name != tensor.name)
    });
    if !is_renamed {
        return None;
    }
    let any = planned.with_rest(|rest| {
        let any = descriptions::forget(rest, registry, &|_| true);
        let derived = rest.derived.as_ref().and_then(Bytes::inline);
        let derived = derived.and_then(|json| Derived::from_json(json).ok());
        if derived.is_none_or(|derived| derived.stated.is_empty()) {
            return any;
        }
        let announced = announcements(source);
        let own: Vec<_> = announced.iter().filter(|announcement| announcement.is_own).collect();
        announcements::remove(&own, rest);
        true
    });
    let what =
        "not carried over: the description of each packed weight in the metadata, which uses the old names";
    any.then(|| what.to_owned())
}
