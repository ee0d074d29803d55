//! PyTorch checkpoints: a pickle with tensors in its containers, and their bytes beside it.
//!
//! ```text
//! ZIP (torch 1.6 and later), records at multiples of 64:
//!   NAME/data.pkl | NAME/byteorder | NAME/data/0 | NAME/data/1 | ... | NAME/version | central directory
//! stream (0.1.10 to 1.5), five pickles and the storages:
//!   0x1950a86a20f9469cfc6c | 1001 | {little_endian, ..} | object | [key, ..] | i64 count, bytes | i64 count, bytes | ...
//! tar (before): sys_info, storages, tensors, pickle
//! ```
//! A tensor is a call in the pickle, `torch._utils._rebuild_tensor_v2(storage, offset, size, stride, ..)`,
//! and a storage is a persistent id, `("storage", torch.FloatStorage, "0", "cpu", elements)`. Nothing in a
//! pickle is ever executed.

#![forbid(unsafe_code)]

mod checkpoint;
mod derived;
mod holds;
mod index_file;
mod kept;
mod layout;
mod legacy_stream;
mod legacy_tar;
mod list_keys;
mod names;
mod pickle;
mod pickle_writer;
mod plan;
mod quantized;
mod reader;
mod scan;
mod shards;
mod storage;
mod tree;
mod writer;
mod zip_file;

apr_sdk::export_plugin! {
    id: pytorch,
    manifest: "
        formats=pytorch
        pytorch.name=PyTorch
        pytorch.roles=read write
        pytorch.extensions=pt pth bin ckpt
        pytorch.dialect=prefers hf
        pytorch.dtypes=BOOL U8 I8 F8_E5M2 F8_E4M3 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ I16 U16 F16 BF16 I32 U32 F32 C64 F64 I64 U64 C128
        pytorch.max_dims=8
        pytorch.metadata=*
        pytorch.bookkeeping=total_size apr.tree apr.tied
        pytorch.foreign=lost
        pytorch.report.scan=List what every pickle in the file would import and call
        pytorch.report.list-keys=List the paths that contain tensors, for --prefix
        pytorch.option.prefix=read text - Take only the tensors under this path, and strip it from their names
        pytorch.option.safe=read refuse - Refuse every pickle
    ",
    reader: |_| Some(Box::new(reader::PyTorch)),
    writer: |_| Some(Box::new(writer::PyTorch)),
}
