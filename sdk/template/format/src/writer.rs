//! Turns a model into a layout. No byte is written here: the host does that.

use crate::layout;
use apr_sdk::{CheckedModel, Encoding, Error, LayoutRequest, LayoutSink, Result, Writer};

/// The writer for `toy`. It has no state: one object serves all threads.
pub struct Toy;

impl Writer for Toy {
    fn layout(&self, model: &CheckedModel, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        let (mut header, mut offset) = (String::new(), 0u64);
        for tensor in &model.tensors {
            offset = offset.next_multiple_of(layout::ALIGN);
            let dims: Vec<_> = tensor.shape.iter().map(u64::to_string).collect();
            header += &format!("{} [{}] {offset} {}\n", tensor.dtype, dims.join(","), tensor.name);
            offset += tensor.payload_len()?;
        }
        let len = u32::try_from(header.len()).map_err(|_| Error::unsupported("the header exceeds 4 GiB"))?;
        sink.file(&if request.folder { format!("{}.toy", request.stem) } else { request.file_name.clone() })?;
        sink.inline(&[&layout::MAGIC[..], &len.to_le_bytes(), header.as_bytes()].concat())?;
        sink.pad_to(layout::ALIGN)?;
        (0..model.tensors.len() as u64).try_for_each(|n| sink.payload(n, layout::ALIGN, Encoding::Raw))
    }
}
