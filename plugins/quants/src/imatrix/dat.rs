//! The older form, all little-endian:
//!
//! ```text
//! i32 entries, at least 1
//! entries times:  i32 length, name;  i32 calls;  i32 values, at least 1;  values times f32
//! optional:       i32 chunks;  i32 length, the name of the text that was used
//! ```
//!
//! A value is a mean times the calls, so it is divided by them where they are positive. llama-quantize does not look at what
//! follows; here it is refused, since no writer puts anything there.

use super::entries::{Counts, Entries, Entry};
use super::{Origin, numbers, twice};
use apr_sdk::{Cursor, Error, Result};
use std::collections::BTreeSet;

/// The fewest bytes of an entry: three numbers and one value.
const SMALLEST: u64 = 16;

/// Reads what follows the number of entries.
pub fn read(cursor: &mut Cursor<'_>, entries: i32, sink: &mut dyn Entries) -> Result<Origin> {
    let left = cursor.left();
    let plausible = usize::try_from(entries).ok().filter(|&n| n > 0 && n as u64 <= left / SMALLEST);
    let Some(entries) = plausible else {
        // There is no magic number: this word is all that there is to know the form by.
        let message = "this is not an importance matrix: it starts neither with GGUF nor with a plausible \
                       number of entries";
        let error = cursor.place(Error::unsupported(message), 0);
        return Err(error.hint("use the complete output of llama-imatrix"));
    };
    let mut names = BTreeSet::new();
    for _ in 0..entries {
        let at = cursor.position();
        let name = text(cursor, "name")?;
        if names.contains(&name) {
            return Err(twice(cursor, at, &name));
        }
        let calls = signed(cursor)?;
        let count_at = cursor.position();
        let count = signed(cursor)?;
        let Some(count) = u64::try_from(count).ok().filter(|&n| n > 0) else {
            return Err(cursor
                .error_at(count_at, format!("{count} is not a valid number of values"))
                .tensor(name));
        };
        let values_at = cursor.position();
        let named = |error: Error| error.tensor(name.as_str());
        let values = numbers(cursor, "the number of values", count_at, count).map_err(named)?;
        sink.entry(cursor, Entry { name: &name, at: values_at, values, counts: Counts::Calls(calls) })?;
        names.insert(name);
    }
    let mut origin = Origin { datasets: Vec::new(), entries, chunks: 0, chunk_size: 0 };
    if cursor.left() > 0 {
        origin.chunks = u32::try_from(signed(cursor)?).unwrap_or(0);
        // Its oldest writers stopped here.
        if cursor.left() > 0 {
            origin.datasets.push(text(cursor, "name of the text")?);
        }
    }
    if cursor.left() > 0 {
        let message = format!("{} extra bytes after the importance matrix", cursor.left());
        return Err(cursor
            .error_at(cursor.position(), message)
            .hint("use the unmodified output of llama-imatrix"));
    }
    Ok(origin)
}

/// A length and a text.
fn text(cursor: &mut Cursor<'_>, what: &str) -> Result<String> {
    let at = cursor.position();
    let len = signed(cursor)?;
    let Ok(len) = u64::try_from(len) else {
        return Err(cursor.error_at(at, format!("the length of the {what} is {len}")));
    };
    cursor.count(&format!("the length of the {what}"), at, len, cursor.limits().name_bytes, 1)?;
    cursor.text(what, len)
}

fn signed(cursor: &mut Cursor<'_>) -> Result<i32> {
    Ok(i32::from_le_bytes(cursor.u32()?.to_le_bytes()))
}
