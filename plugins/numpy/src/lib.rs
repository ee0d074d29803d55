//! NumPy's array files: one array in a `.npy`, several named ones in a `.npz`, which is a ZIP archive of
//! these.
//!
//! ```text
//! 0           6     7     8                  10 or 12      N * 64
//! | \x93NUMPY | 1-3 | 0   | header length    | header, spaces, line feed | elements |
//!               version     u16, from 2.0 u32  {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
//! ```
//! The header is a Python literal, which is parsed and never evaluated. Elements are row-major, or
//! column-major with `fortran_order`, in the byte order at the start of `descr`. An entry `NAME.npy` of an
//! archive is the array NAME.

#![forbid(unsafe_code)]

mod array;
mod descr;
mod header;
mod layout;
mod literal;
mod reader;
mod rearranged;
mod scan;
mod writer;

apr_sdk::export_plugin! {
    id: numpy,
    manifest: "
        formats=npy npz
        npy.name=NumPy array
        npy.roles=read write
        npy.magic=0:934e554d5059
        npy.extensions=npy
        npy.one_tensor=yes
        npy.dtypes=BOOL I8 U8 I16 U16 F16 I32 U32 F32 C64 I64 U64 F64 C128
        npy.max_dims=8
        npy.report.scan=List the arrays of Python objects, which are pickles
        npy.option.void1=read choice:bytes,f8_e4m3,f8_e5m2,f8_e4m3fnuz,f8_e5m2fnuz,f8_e8m0 bytes Read one-byte void elements (V1) as this type
        npy.option.void2=read choice:bytes,bf16 bytes Read two-byte void elements (V2) as this type
        npz.name=NumPy archive
        npz.roles=read write
        npz.extensions=npz
        npz.dtypes=BOOL I8 U8 I16 U16 F16 I32 U32 F32 C64 I64 U64 F64 C128
        npz.max_dims=8
        npz.report.scan=List the arrays of Python objects, which are pickles
        npz.max_name_bytes=65531
        npz.names=no-nul
        npz.foreign=keep
        npz.option.void1=read choice:bytes,f8_e4m3,f8_e5m2,f8_e4m3fnuz,f8_e5m2fnuz,f8_e8m0 bytes Read one-byte void elements (V1) as this type
        npz.option.void2=read choice:bytes,bf16 bytes Read two-byte void elements (V2) as this type
    ",
    reader: |format| reader::Numpy::new(format).map(|reader| Box::new(reader) as _),
    writer: |format| writer::Numpy::new(format).map(|writer| Box::new(writer) as _),
}
