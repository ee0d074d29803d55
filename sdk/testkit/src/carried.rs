//! What a format cannot hold: the host refuses it before work starts, by what the manifest says.

use apr_sdk::manifest::NameRule;
use apr_sdk::{Error, FormatManifest, Model, Result, Tensor};

/// Refuses a model that the manifest of `format` does not carry: dtypes, dimensions, names, sizes, its own metadata.
///
/// # Errors
/// Unsupported, with the tensor or key and what about it.
pub fn carried(format: &FormatManifest, model: &Model) -> Result<()> {
    if format.carries.one_tensor && model.tensors.len() != 1 {
        let count = model.tensors.len();
        return Err(Error::unsupported(format!("`{}` cannot hold {count} tensors, only one", format.id)));
    }
    for tensor in &model.tensors {
        carried_tensor(format, tensor).map_err(|e| e.tensor(&tensor.name))?;
    }
    metadata_carried(format, model)
}

/// Refuses metadata of the format's own that the manifest does not claim.
pub(crate) fn metadata_carried(format: &FormatManifest, model: &Model) -> Result<()> {
    let files = model.foreign_of(&format.id).map(|foreign| foreign.files.as_slice()).unwrap_or_default();
    for (key, value) in files.iter().flat_map(|file| &file.typed) {
        let word = value.kind.name().unwrap_or("?");
        if !format.carries.metadata_type(word) {
            let key = apr_sdk::escape(key, 80);
            return Err(Error::unsupported(format!(
                "`{}.metadata` does not list `{word}`, the type of its own key `{key}`",
                format.id
            )));
        }
    }
    Ok(())
}

fn carried_tensor(format: &FormatManifest, tensor: &Tensor) -> Result<()> {
    let carries = &format.carries;
    let refuse = |what: String| Err(Error::unsupported(format!("`{}` cannot hold {what}", format.id)));
    if !carries.dtype(tensor.dtype.name()) {
        return refuse(format!("dtype {}", tensor.dtype));
    }
    if tensor.shape.len() > carries.max_dims {
        return refuse(format!("{} dimensions, at most {}", tensor.shape.len(), carries.max_dims));
    }
    if tensor.shape.is_empty() && !carries.scalars {
        return refuse("a tensor without dimensions".into());
    }
    if tensor.shape.contains(&0) && !carries.zero_size {
        return refuse("a dimension of size 0".into());
    }
    if tensor.name.len() > carries.max_name_bytes {
        return refuse(format!("a name of {} bytes, at most {}", tensor.name.len(), carries.max_name_bytes));
    }
    let odd = match carries.names {
        NameRule::NoNul => tensor.name.contains('\0'),
        NameRule::NoControl => tensor.name.contains(char::is_control),
        _ => false,
    };
    if odd { refuse("a name with these characters".into()) } else { Ok(()) }
}
