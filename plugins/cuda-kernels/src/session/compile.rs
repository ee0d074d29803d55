//! From a checked program to nodes.

use super::values::Values;
use crate::device::Matrix;
use crate::driver::{Buffer, Driver, Launch};
use crate::operations::{self, attention::Attention};
use crate::parameters::{self, Rounded};
use crate::session::step::{Node, Step, index, short};
use apr_sdk::{CheckedProgram, Columns, DType, Error, PagedState, Result, RowsOf, Slice};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Positions of a page.
pub(crate) const PAGE: usize = 64;
/// The most elements of a key or a value that kernels hold at a time.
pub(crate) const MOST_HEAD: usize = 4096;

/// Room for rows of activations in one form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// Whether they are rounded to 8 bits; if not, they are padded to whole units.
    pub(crate) is_rounded: bool,
    /// How many columns they have, those that fill up the last unit included.
    pub(crate) columns: usize,
    /// How many there are for each row of a value.
    pub(crate) per_row: usize,
    /// Whether steps of many rows need it, whose usual products do not.
    pub(crate) is_always: bool,
    /// What it holds at this place in the program: a part of a value, cut into so many rows.
    holds: Option<(Columns, usize)>,
    /// Nodes from this one on that round into it come after all that read it so far.
    free_from: usize,
}

/// Where a product finds its activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// In a slot.
    Slot(usize),
    /// In the value itself.
    Value(Columns),
}

/// The angles of one rope.
pub(crate) struct Angles {
    /// Radians per position, on the device.
    pub(crate) frequencies: Buffer,
    /// How many there are.
    pub(crate) pairs: usize,
    /// Multiplies sine and cosine.
    pub(crate) magnitude: f32,
}

/// Where a state lies in each page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cache {
    /// The kernels' view of it, without the pages.
    pub(crate) parameters: parameters::Cache,
    /// Key heads.
    pub(crate) heads: usize,
    /// Elements of a key.
    pub(crate) key: usize,
    /// Elements of a value.
    pub(crate) value: usize,
    /// The kernels' name for its cells.
    pub(crate) cells: &'static str,
    /// Whether values are parts of keys; `None` while no operation stores any.
    pub(crate) views: Option<bool>,
}

/// A compiled program.
pub(crate) struct Plan {
    /// Its nodes in order, each with the place of its operation.
    pub(crate) nodes: Vec<(usize, Box<dyn Node>)>,
    /// How many operations there are.
    pub(crate) operations: usize,
    /// The activations that it needs.
    pub(crate) slots: Vec<Slot>,
    /// Bytes that activations for tensor cores need for each row, at most.
    pub(crate) cut_bytes: usize,
    /// The tables of angles that it needs.
    pub(crate) angles: Vec<Angles>,
    /// The attentions, for each needs memory for its work.
    pub(crate) attentions: Vec<Arc<Attention>>,
    /// Its states.
    pub(crate) caches: Vec<Cache>,
    /// Bytes of a page.
    pub(crate) page_bytes: usize,
    /// Whether outputs are the batch's sequences, for they were pooled.
    pub(crate) pooled: bool,
    /// What is given to the sink at the end.
    pub(crate) logits: Option<Columns>,
    /// Whether keys are stored.
    pub(crate) cached: bool,
}

/// A program on its way to a [`Plan`].
pub(crate) struct Compiler<'c> {
    pub(crate) plan: Plan,
    program: &'c CheckedProgram,
    driver: &'c Arc<dyn Driver>,
    weights: &'c [Arc<Matrix>],
    /// The weights that were asked for as floats.
    floats: BTreeMap<u32, Arc<Buffer>>,
    /// Indices of the tables of angles, keyed by the bits of their parameters.
    turning: BTreeMap<Vec<u32>, usize>,
    /// What the last nodes wrote, as long as nothing overwrote it.
    made: Vec<(Columns, usize)>,
    operation: usize,
}

/// Makes a program's values and nodes.
///
/// # Errors
/// Unsupported or LimitExceeded for what this backend cannot run, naming the operation; Io if the device has no memory left.
pub(crate) fn compile(
    driver: &Arc<dyn Driver>,
    program: &CheckedProgram,
    weights: &[Arc<Matrix>],
) -> Result<(Values, Plan)> {
    let values = Values::new(program.values());
    let mut page_bytes = 0;
    let mut caches = Vec::new();
    for (number, state) in program.states().iter().enumerate() {
        caches.push(Cache::new(state, program.values_are_views(number), &mut page_bytes)?);
    }
    let plan = Plan {
        nodes: Vec::new(),
        operations: program.operations().len(),
        slots: Vec::new(),
        cut_bytes: 0,
        angles: Vec::new(),
        attentions: Vec::new(),
        caches,
        page_bytes,
        pooled: program.is_pooled(),
        logits: None,
        cached: false,
    };
    let mut compiler = Compiler {
        plan,
        program,
        driver,
        weights,
        floats: BTreeMap::new(),
        turning: BTreeMap::new(),
        made: Vec::new(),
        operation: 0,
    };
    program.for_each_operation(|number, operation| {
        compiler.operation = number;
        operations::compile(operation, &mut compiler)
    })?;
    let plan = compiler.plan;
    Ok((values, plan))
}

impl Cache {
    /// A state behind those that a page holds already.
    fn new(state: &PagedState, views: Option<bool>, page_bytes: &mut usize) -> Result<Cache> {
        let (heads, key, value) = (index(state.heads), index(state.key), index(state.value));
        if key > MOST_HEAD || value > MOST_HEAD {
            return Err(Error::unsupported(format!(
                "keys of {key} and values of {value} elements exceed the limit of {MOST_HEAD}"
            )));
        }
        let (number, cells, bytes): (u32, &'static str, fn(usize) -> usize) = if state.dtype == DType::F32 {
            (0, "f32", |width| width * 4)
        } else if state.dtype == DType::F16 {
            (1, "f16", |width| width * 2)
        } else {
            // A checked program has no other.
            (2, "q8_0", |width| width.next_multiple_of(32) + width.div_ceil(32) * 2)
        };
        let row = |width| bytes(width).next_multiple_of(16);
        let keys = *page_bytes;
        let whole = |row: usize| heads.checked_mul(PAGE * row).filter(|bytes| *bytes <= 1 << 40);
        let room = whole(row(key)).zip(whole(row(value)));
        let (of_keys, of_values) =
            room.ok_or_else(|| Error::limit("a cache is larger than the memory of any device"))?;
        *page_bytes = page_bytes.saturating_add(of_keys).saturating_add(of_values);
        let parameters = parameters::Cache {
            keys: keys as u64,
            values: (keys + of_keys) as u64,
            cells: number,
            heads: state.heads,
            key: state.key,
            value: state.value,
            key_bytes: short(row(key)),
            value_bytes: short(row(value)),
            ..Default::default()
        };
        Ok(Cache { parameters, heads, key, value, cells, views })
    }
}

impl Compiler<'_> {
    /// Appends a node.
    pub(crate) fn push(&mut self, node: impl Node + 'static) {
        self.plan.nodes.push((self.operation, Box::new(node)));
    }

    /// Appends a node that writes a place, and may round it as well.
    pub(crate) fn push_maker(&mut self, out: &Columns, node: impl Node + 'static) {
        self.push(node);
        self.made.push((*out, self.plan.nodes.len() - 1));
    }

    /// Has the node of the operation right before this one turn and store heads, if it can; says whether it does.
    pub(crate) fn join(&mut self, rotate: &operations::rope::Rotate) -> bool {
        let now = self.operation;
        let Some((operation, node)) = self.plan.nodes.last_mut() else { return false };
        let joined = *operation + 1 == now && node.join(rotate);
        if joined {
            *operation = now;
        }
        joined
    }

    /// The columns of a slice of an operation.
    pub(crate) fn columns(&self, slice: &Slice) -> Columns {
        self.program.columns(slice)
    }

    /// Takes note that an operation writes these columns.
    pub(crate) fn written(&mut self, columns: &Columns) {
        for slot in &mut self.plan.slots {
            if slot.holds.is_some_and(|(held, _)| held.overlaps(columns)) {
                slot.holds = None;
            }
        }
        self.made.retain(|(made, _)| !made.overlaps(columns));
    }

    /// A weight.
    pub(crate) fn matrix(&self, weight: u32) -> Arc<Matrix> {
        Arc::clone(&self.weights[index(weight)])
    }

    /// A weight's rows as floats, one after the other. They are kept once, however many operations name them.
    ///
    /// # Errors
    /// Io if the device has no memory left.
    pub(crate) fn floats(&mut self, weight: u32) -> Result<Arc<Buffer>> {
        if let Some(known) = self.floats.get(&weight) {
            return Ok(Arc::clone(known));
        }
        let matrix = self.matrix(weight);
        let (rows, columns) = (matrix.layout.rows, matrix.layout.columns);
        let bytes = rows.checked_mul(columns * 4).ok_or_else(|| Error::limit("a bias is too large"))?;
        let buffer = Arc::new(Buffer::new(self.driver, bytes)?);
        let numbers: Vec<u8> = (0..short(rows)).flat_map(u32::to_le_bytes).collect();
        let indices = Buffer::new(self.driver, numbers.len())?;
        // In pieces, for a launch has at most so many rows.
        let launches: Vec<Launch> = (0..rows)
            .step_by(1 << 15)
            .map(|first| {
                let count = (rows - first).min(1 << 15);
                let out = parameters::Place {
                    at: buffer.at() + (first * columns * 4) as u64,
                    stride: short(columns),
                    width: short(columns),
                };
                let index = indices.at() + (first * 4) as u64;
                operations::embed::launch(&matrix, (index, 0), out, 1.0, count)
            })
            .collect();
        let mut queue = self.driver.queue()?;
        // SAFETY: the indices are rows of the matrix, for each of which the buffer has room; all stays until the queue has
        // come by.
        unsafe {
            queue.upload(indices.at(), &numbers)?;
            queue.run(&launches)?;
        }
        queue.wait()?;
        self.floats.insert(weight, Arc::clone(&buffer));
        Ok(buffer)
    }

    /// The activations `x`, cut into `parts` rows, for a matrix. Nodes that make them are added if they are not there yet.
    pub(crate) fn activations(
        &mut self,
        x: &Columns,
        parts: usize,
        matrix: &Matrix,
        is_always: bool,
    ) -> Source {
        let (of, columns) = (matrix.layout.of, x.width / parts);
        let is_aligned = |elements: usize| elements.is_multiple_of(of.unit);
        let whole = index(self.program.values()[x.value].width);
        if !of.is_blocks
            && is_aligned(columns)
            && x.first.is_multiple_of(4)
            && whole.is_multiple_of(4)
            && parts == 1
        {
            return Source::Value(*x);
        }
        // Codes lie in whole runs of 64: `types.cuh`.
        let (is_rounded, whole_runs) = (of.is_blocks, if of.is_blocks { 64 } else { of.unit });
        let wide = columns.next_multiple_of(whole_runs);
        let slots = &mut self.plan.slots;
        let is = |slot: &Slot| slot.is_rounded == is_rounded && slot.columns == wide;
        let number = slots.iter().position(is).unwrap_or_else(|| {
            let (holds, free_from) = (None, 0);
            slots.push(Slot { is_rounded, columns: wide, per_row: 0, is_always: false, holds, free_from });
            slots.len() - 1
        });
        let slot = &mut slots[number];
        slot.per_row = slot.per_row.max(parts);
        slot.is_always |= is_always;
        // Whoever asks is not there yet, and rounds nothing itself.
        let free_from = std::mem::replace(&mut slot.free_from, self.plan.nodes.len());
        if slot.holds == Some((*x, parts)) {
            return Source::Slot(number);
        }
        slot.holds = Some((*x, parts));
        let maker = self.made.iter().rev().find(|(made, _)| made == x).map(|(_, node)| *node);
        // What made it can round it as well, unless what the slot held before is still read then.
        let joined = is_rounded
            && parts == 1
            && maker.is_some_and(|node| node >= free_from && self.plan.nodes[node].1.round_into(number));
        if !joined {
            self.push(operations::linear::Fill { slot: number, x: *x, parts, columns });
        }
        Source::Slot(number)
    }

    /// A table of angles.
    ///
    /// # Errors
    /// Io if the device has no memory left.
    pub(crate) fn angles(&mut self, frequencies: &[f32], magnitude: f32) -> Result<usize> {
        let bits = frequencies.iter().chain([&magnitude]).map(|x| x.to_bits()).collect();
        if let Some(known) = self.turning.get(&bits) {
            return Ok(*known);
        }
        let table = self.plan.angles.len();
        self.turning.insert(bits, table);
        let bytes: Vec<u8> = frequencies.iter().flat_map(|x| x.to_le_bytes()).collect();
        let buffer = self.upload(&bytes)?;
        self.plan.angles.push(Angles { frequencies: buffer, pairs: frequencies.len(), magnitude });
        self.push(operations::rope::Turn { table });
        Ok(table)
    }

    /// Bytes on the device.
    ///
    /// # Errors
    /// Io if it has no memory left.
    pub(crate) fn upload(&self, bytes: &[u8]) -> Result<Buffer> {
        let buffer = Buffer::new(self.driver, bytes.len())?;
        if !bytes.is_empty() {
            // SAFETY: the buffer has as many bytes, and no kernel knows it yet.
            unsafe { self.driver.upload(buffer.at(), bytes)? };
        }
        Ok(buffer)
    }
}

/// What a node is to round its rows into.
pub(crate) fn rounded(step: &Step<'_>, slot: Option<usize>, rows: RowsOf) -> Rounded {
    match slot {
        Some(slot) if step.needs(slot, rows) => step.slot(slot),
        _ => Rounded::default(),
    }
}
