//! The plan: pure data about what a conversion will do, available before it does anything.

mod listing;
mod op_lists;

pub use listing::each_tensor;
pub use op_lists::OpLists;

use crate::architecture::Summary;
use crate::planned::coverage::Coverage;
use apr_sdk::escape;
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The plan of a conversion. JSON: `apr.plan/1`: of `apr convert --plan`: the fields below.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// `apr.plan/1`.
    pub schema: &'static str,
    /// The input, as typed.
    pub input: String,
    /// The id of the input's format.
    pub from: String,
    /// The final path of the output.
    pub output: String,
    /// The id of the output's format.
    pub to: String,
    /// The files that will be written (each `name`, `bytes`).
    pub files: Vec<PlanFile>,
    /// Total size of all files in bytes; exact, unless a file's size is an upper bound.
    pub bytes: u64,
    /// True if the total is an upper bound; absent otherwise.
    #[serde(skip_serializing_if = "is_exact")]
    pub is_bound: bool,
    /// Upper bound for the memory that payload takes, in bytes: tiles, boxes or blocks per thread. The header's
    /// index comes on top, and so does, one at a time, any compressed block above 4 MiB, about which nothing is
    /// known before it is read.
    pub payload_memory: u64,
    /// A summary of the output model, as in `apr.inspect/1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// The plan for each tensor (`name`, `dtype`, `shape`, `bytes`, `file`, `offset`, `ops`).
    pub tensors: Vec<PlanTensor>,
    /// The destination of everything in the source, as in `apr.convert/1`.
    pub coverage: Coverage,
    /// Content that will not be carried, and assumptions.
    pub notes: Vec<String>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// A file that will be written.
#[derive(Clone, Debug, Serialize)]
pub struct PlanFile {
    /// Path relative to the output folder, or the name of the output itself.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
    /// True if the length is an upper bound, because payload is encoded.
    #[serde(skip_serializing_if = "is_exact")]
    pub is_bound: bool,
}

/// The plan for one tensor.
#[derive(Clone, Debug, Serialize)]
pub struct PlanTensor {
    /// The tensor's name in the output.
    pub name: String,
    /// The tensor's dtype in the output.
    pub dtype: &'static str,
    /// Dimensions, outermost first.
    pub shape: Vec<u64>,
    /// Length of the payload in bytes.
    pub bytes: u64,
    /// The name of its output file.
    #[serde(serialize_with = "text")]
    pub file: Arc<str>,
    /// Offset in that file, in bytes.
    pub offset: u64,
    /// True if offset and length are upper bounds, because payload is encoded.
    #[serde(skip_serializing_if = "is_exact")]
    pub is_bound: bool,
    /// The operations, in order.
    pub ops: Vec<Cow<'static, str>>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_exact(is_bound: &bool) -> bool {
    !is_bound
}

fn at_most(is_bound: bool) -> &'static str {
    if is_bound { "at most " } else { "" }
}

fn text<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} ({}) -> {} ({})",
            escape(&self.input, 400),
            self.from,
            escape(&self.output, 400),
            self.to
        )?;
        for file in &self.files {
            let most = at_most(file.is_bound);
            writeln!(f, "  {most}{:>16} bytes  {}", file.bytes, escape(&file.name, 200))?;
        }
        let mut last = "";
        for tensor in &self.tensors {
            if *tensor.file != *last {
                writeln!(f, "{}:", escape(&tensor.file, 200))?;
                last = &tensor.file;
            }
            let name = escape(&tensor.name, 120);
            let PlanTensor { dtype, shape, offset, bytes, .. } = tensor;
            let ops = tensor.ops.join(", ");
            let most = at_most(tensor.is_bound);
            writeln!(f, "  {most}{offset:>16}  {name}  {dtype} {shape:?}  {most}{bytes} bytes  {ops}")?;
        }
        for note in &self.notes {
            writeln!(f, "note: {}", escape(note, 1000))?;
        }
        if let Some(summary) = &self.summary
            && let Some(bits) = summary.bits_per_weight
        {
            write!(f, "the output has {} parameters, {bits:.2} bits per parameter", summary.parameters)?;
            match (&summary.kv_cache, summary.memory_bytes) {
                (Some(kv), Some(bytes)) => {
                    let tokens = kv.tokens;
                    writeln!(
                        f,
                        "; running it with a KV cache for {tokens} tokens takes {bytes} bytes of memory"
                    )?;
                }
                _ => writeln!(f)?,
            }
        }
        write!(
            f,
            "{} tensors, {}{} bytes to write, {} bytes of memory for payload",
            self.tensors.len(),
            at_most(self.is_bound),
            self.bytes,
            self.payload_memory
        )
    }
}
