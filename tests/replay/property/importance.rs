//! Importance matrices: what is read of one is finite, lies in its bytes, and costs memory in proportion to them.

use super::errors::{check_refusal, check_shown};
use super::memory::peak;
use apr_sdk::{Budget, ImportanceSink, MemorySource, Result, Value};

/// Counts what it is handed.
#[derive(Default)]
struct Counted {
    tensors: Vec<(String, usize)>,
    records: usize,
}

impl ImportanceSink for Counted {
    fn tensor(&mut self, _dialect: &str, name: &str, values: &[f32]) -> Result<()> {
        assert!(!values.is_empty() && values.iter().all(|value| value.is_finite()), "{name:?}");
        assert!(self.tensors.iter().all(|(before, _)| before != name), "{name:?} twice");
        assert_eq!(self.records, 0, "{name:?} after records");
        self.tensors.push((name.to_owned(), values.len()));
        Ok(())
    }

    fn record(&mut self, _format: &str, key: &str, value: Value) -> Result<()> {
        check_shown("a record's key", key);
        value.check()?;
        self.records += 1;
        Ok(())
    }
}

/// Reads any bytes as an importance matrix. Gives whether they are one.
pub fn check(input: &[u8]) -> bool {
    let quants = (apr_plugin_quants::PLUGIN.quantizer)().unwrap();
    let source = MemorySource::new("a.imatrix", input);
    let mut counted = Counted::default();
    let (read, held) = peak(|| quants.importance(&source, &mut counted));
    let most = Budget::BASE + Budget::PER_BYTE * input.len() as u64;
    assert!(held <= most, "{held} bytes are held at once, of a file of {}", input.len());
    match read {
        Ok(()) => {
            let values: usize = counted.tensors.iter().map(|(_, values)| values).sum();
            assert!(values > 0 && 4 * values <= input.len(), "{values} values of {} bytes", input.len());
            assert!((2..=4).contains(&counted.records), "{} records", counted.records);
            true
        }
        Err(error) => {
            check_refusal("reading an importance matrix", &error);
            false
        }
    }
}
