//! One `TensorProto`: interprets its fields, and locates its data. No data is read.

use crate::external::{self, Reference};
use crate::layout::{STRING, TYPES, tensor as number, type_of_id, wire};
use crate::scan::{Field, Scan};
use apr_sdk::{DType, Error, Limits, Result, checked_payload_len};

/// From where to where, in bytes of the file.
pub type Range = (u64, u64);

/// What a message says of its tensor.
#[derive(Clone, Debug, Default)]
pub struct TensorProto {
    /// Where the message begins, behind its length, and where it ends.
    pub body: Range,
    /// Its name; empty if it has none.
    pub name: String,
    /// The record of the name.
    pub name_at: Option<Range>,
    /// Its dimensions.
    pub dims: Vec<u64>,
    /// The `data_type` field, a number of `TensorProto.DataType`.
    pub data_type: Option<u64>,
    /// The records of dimensions, type and data, in their order, neighbours joined: what the writer says itself.
    pub facts: Vec<Range>,
    /// Where its data lies.
    pub data: Data,
}

/// Where a tensor's data lies.
#[derive(Clone, Debug, Default)]
pub enum Data {
    /// There is none.
    #[default]
    Absent,
    /// In `raw_data`, or in a single run of numbers of fixed width, which looks the same: exactly these bytes.
    Raw(Range),
    /// In records of numbers that must be decoded.
    Typed(Typed),
    /// In another file.
    External(Reference),
    /// `string_data`, which stays in the graph.
    Strings,
}

/// Records of numbers.
#[derive(Clone, Debug, Default)]
pub struct Typed {
    /// The field they are of.
    pub field: u32,
    /// The records, tags included, neighbours joined.
    pub records: Vec<Range>,
    /// Bytes of the values alone.
    pub value_len: u64,
}

impl TensorProto {
    /// Whether it holds strings, and so is none of the model's tensors.
    pub fn is_strings(&self) -> bool {
        self.data_type == Some(STRING)
    }

    /// Its element type.
    ///
    /// # Errors
    /// Malformed if it has none; Unsupported for an unknown one.
    pub fn dtype(&self) -> Result<DType> {
        let Some(id) = self.data_type.filter(|&id| id != 0) else {
            return Err(Error::malformed("it has no data_type"));
        };
        let known = type_of_id(id).ok_or_else(|| {
            let last = TYPES.last().map_or("", |row| row.name);
            Error::unsupported(format!("its data_type {id} is unknown, the highest supported one is {last}"))
        });
        known.map(|row| row.dtype)
    }
}

/// Collects the records of one message.
struct Collector<'s, 'a> {
    scan: &'s mut Scan<'a>,
    proto: TensorProto,
    raw: Option<Range>,
    typed: Typed,
    /// The value of the one packed record, as long as there is one only.
    packed: Option<Range>,
    n_records: u64,
    strings: bool,
    is_external: bool,
    reference: Reference,
}

/// Reads the records of a `TensorProto` whose field is `field`.
///
/// # Errors
/// Malformed for records of a wrong kind, negative dimensions, or data in two places; Unsupported for segments and too
/// many dimensions; LimitExceeded; any error from reading.
pub fn read(scan: &mut Scan<'_>, field: &Field) -> Result<TensorProto> {
    let body = (field.start, field.end);
    let mut collector = Collector {
        scan,
        proto: TensorProto { body, ..TensorProto::default() },
        raw: None,
        typed: Typed::default(),
        packed: None,
        n_records: 0,
        strings: false,
        is_external: false,
        reference: Reference::default(),
    };
    let mut at = body.0;
    while at < body.1 {
        let field = collector.scan.field(at, body.1)?;
        if let Err(error) = collector.record(&field) {
            return Err(named(collector.scan.place(error, field.at), &collector.proto.name));
        }
        at = field.end;
    }
    collector.finish()
}

/// Adds a tensor's name to an error.
fn named(error: Error, name: &str) -> Error {
    if name.is_empty() { error } else { error.tensor(name) }
}

/// Appends a range, joined with the last one if it follows that.
fn join(ranges: &mut Vec<Range>, at: u64, end: u64, limits: &Limits) -> Result<()> {
    match ranges.last_mut() {
        Some(last) if last.1 == at => last.1 = end,
        _ => {
            // In a vector that doubles, and once more where it is copied.
            limits.budget.charge(3 * size_of::<Range>() as u64)?;
            ranges.push((at, end));
        }
    }
    Ok(())
}

impl Collector<'_, '_> {
    fn record(&mut self, field: &Field) -> Result<()> {
        match field.number {
            number::DIMS => self.dims(field)?,
            number::DATA_TYPE => {
                expect(field, wire::VARINT)?;
                self.proto.data_type = Some(field.value);
            }
            number::SEGMENT => {
                return Err(Error::unsupported("tensors in segments are not supported"));
            }
            number::NAME => {
                expect(field, wire::LEN)?;
                self.proto.name = self.scan.name(field)?;
                self.proto.name_at = Some((field.at, field.end));
                return Ok(());
            }
            number::RAW_DATA => {
                expect(field, wire::LEN)?;
                if self.raw.replace((field.start, field.end)).is_some() {
                    return Err(Error::malformed("duplicate raw_data"));
                }
            }
            number::FLOAT_DATA => self.numbers(field, wire::I32, 4)?,
            number::DOUBLE_DATA => self.numbers(field, wire::I64, 8)?,
            number::INT32_DATA | number::INT64_DATA | number::UINT64_DATA => {
                self.numbers(field, wire::VARINT, 1)?;
            }
            number::STRING_DATA => {
                expect(field, wire::LEN)?;
                self.strings = true;
                return Ok(());
            }
            number::EXTERNAL_DATA => {
                expect(field, wire::LEN)?;
                external::entry(self.scan, field, &mut self.reference)?;
            }
            number::DATA_LOCATION => {
                expect(field, wire::VARINT)?;
                if field.value > 1 {
                    return Err(Error::malformed(format!(
                        "data_location is {}, expected 0 or 1",
                        field.value
                    )));
                }
                self.is_external = field.value == 1;
            }
            _ => return Ok(()),
        }
        join(&mut self.proto.facts, field.at, field.end, self.scan.limits())
    }

    /// A dimension, or a packed run of them.
    fn dims(&mut self, field: &Field) -> Result<()> {
        let mut at = field.start;
        while at < field.end {
            let (value, end) = match field.wire {
                wire::VARINT => (field.value, field.end),
                wire::LEN => self.scan.varint(at, field.end)?,
                _ => return expect(field, wire::VARINT),
            };
            if value > i64::MAX as u64 {
                return Err(Error::malformed(format!("negative dimension -{}", value.wrapping_neg())));
            }
            let limit = self.scan.limits().dims;
            if self.proto.dims.len() >= limit {
                return Err(Error::unsupported(format!("more than {limit} dimensions, the limit")));
            }
            self.proto.dims.push(value);
            at = end;
        }
        Ok(())
    }

    /// Numbers of a typed field: one of them, or a packed run.
    fn numbers(&mut self, field: &Field, single: u8, width: u64) -> Result<()> {
        let packed = field.wire == wire::LEN;
        if !packed {
            expect(field, single)?;
        }
        if packed && !field.len().is_multiple_of(width) {
            let message =
                format!("a run of {} bytes is not a multiple of the number size {width}", field.len());
            return Err(Error::malformed(message));
        }
        if self.n_records > 0 && self.typed.field != field.number {
            let both = format!("its data is in both field {} and field {}", self.typed.field, field.number);
            return Err(Error::malformed(both));
        }
        self.packed = (packed && self.n_records == 0).then_some((field.start, field.end));
        self.n_records += 1;
        self.typed.field = field.number;
        self.typed.value_len += field.len();
        join(&mut self.typed.records, field.at, field.end, self.scan.limits())
    }

    fn finish(mut self) -> Result<TensorProto> {
        match self.data() {
            Ok(data) => Ok(TensorProto { data, ..self.proto }),
            Err(error) => Err(named(self.scan.place(error, self.proto.body.0), &self.proto.name)),
        }
    }

    /// Where the data is: in one place.
    fn data(&mut self) -> Result<Data> {
        let places = [
            (self.raw.is_some(), "raw_data"),
            (self.n_records > 0, "a typed field"),
            (self.is_external, "another file"),
            (self.strings, "string_data"),
        ];
        let there: Vec<_> = places.iter().filter(|(is, _)| *is).map(|(_, what)| *what).collect();
        if there.len() > 1 {
            return Err(Error::malformed(format!("its data is in {}", there.join(" and in "))));
        }
        if self.strings != self.proto.is_strings() && !there.is_empty() {
            return Err(Error::malformed("string_data must be used for strings, and only for strings"));
        }
        Ok(match (self.raw, self.packed) {
            _ if self.proto.is_strings() => Data::Strings,
            _ if self.is_external => Data::External(std::mem::take(&mut self.reference)),
            (Some(raw), _) => Data::Raw(raw),
            (None, Some(run)) if [number::FLOAT_DATA, number::DOUBLE_DATA].contains(&self.typed.field) => {
                self.right_field()?;
                Data::Raw(run)
            }
            _ if self.n_records > 0 => {
                self.right_field()?;
                Data::Typed(std::mem::take(&mut self.typed))
            }
            _ => Data::Absent,
        })
    }

    /// Each element type has its one typed field.
    fn right_field(&self) -> Result<()> {
        let Some(row) = self.proto.data_type.and_then(type_of_id) else { return Ok(()) };
        if row.field == self.typed.field {
            return Ok(());
        }
        let (there, wanted) = (self.typed.field, row.field);
        Err(Error::malformed(format!("{} data is in field {there}, expected field {wanted}", row.name)))
    }
}

/// Checks a record's wire type.
fn expect(field: &Field, wanted: u8) -> Result<()> {
    if field.wire == wanted {
        return Ok(());
    }
    Err(Error::malformed(format!(
        "field {} of a tensor has wire type {}, expected {wanted}",
        field.number, field.wire
    )))
}

/// Checks that there is as much data as type and dimensions need; gives how much that is.
///
/// # Errors
/// Malformed, with both figures; as [`TensorProto::dtype`].
pub fn check_len(proto: &TensorProto) -> Result<u64> {
    let dtype = proto.dtype()?;
    let need = checked_payload_len(dtype, &proto.dims)?;
    let wrong = |have: u64, what: &str| {
        let shape = &proto.dims;
        Err(Error::malformed(format!("{dtype} {shape:?} requires {need} bytes, but {what} has {have}")))
    };
    match &proto.data {
        Data::Raw((start, end)) if end - start != need => wrong(end - start, "its data"),
        Data::External(reference) => match reference.len {
            Some(len) if len != need => wrong(len, "its `length`"),
            _ => Ok(need),
        },
        Data::Absent if need > 0 => wrong(0, "its message"),
        Data::Typed(typed) if [number::FLOAT_DATA, number::DOUBLE_DATA].contains(&typed.field) => {
            if typed.value_len == need { Ok(need) } else { wrong(typed.value_len, "its typed field") }
        }
        Data::Typed(typed) => {
            let count = n_entries(dtype, &proto.dims)?;
            // A number has 1 to 10 bytes.
            if typed.value_len >= count && typed.value_len <= count.saturating_mul(10) {
                return Ok(need);
            }
            let shape = &proto.dims;
            let have = typed.value_len;
            let message = format!(
                "{dtype} {shape:?} requires {count} numbers of 1 to 10 bytes, but its typed field has {have}"
            );
            Err(Error::malformed(message))
        }
        _ => Ok(need),
    }
}

/// How many numbers a typed field of whole numbers has: one an element, or for 4 and 2 bits one a packed byte.
///
/// # Errors
/// As [`checked_payload_len`].
pub fn n_entries(dtype: DType, dims: &[u64]) -> Result<u64> {
    let info = dtype.require()?;
    let per_byte = u64::from(info.block_elements);
    let elements = apr_sdk::checked_elements(dims)?;
    Ok(if info.block_bytes == 1 { elements.div_ceil(per_byte) } else { elements })
}
