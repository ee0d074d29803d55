//! Objects of Python that the library has not: ranges, views of maps, methods that are not called.

use minijinja::value::{Enumerator, Object, ObjectRepr, Value};
use std::fmt;
use std::sync::Arc;

/// The most numbers of a range, as in Jinja's sandbox.
pub const MAX_RANGE: i64 = 100_000;

/// `range(start, stop, step)`.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The first number.
    pub start: i64,
    /// The number before which it ends.
    pub stop: i64,
    /// What lies between two numbers; not 0.
    pub step: i64,
}

impl Range {
    /// How many numbers it has.
    pub fn count(self) -> i64 {
        let span = if self.step > 0 {
            self.stop.saturating_sub(self.start)
        } else {
            self.start.saturating_sub(self.stop)
        };
        if span <= 0 { 0 } else { (span - 1) / self.step.saturating_abs() + 1 }
    }

    /// The number at a place that it has.
    pub fn at(self, n: i64) -> i64 {
        self.start.saturating_add(self.step.saturating_mul(n))
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            1 => write!(f, "range({}, {})", self.start, self.stop),
            step => write!(f, "range({}, {}, {step})", self.start, self.stop),
        }
    }
}

impl Object for Range {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let n = key.as_i64().filter(|n| (0..self.count()).contains(n))?;
        Some(Value::from(self.at(n)))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(usize::try_from(self.count()).unwrap_or(0))
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// What `items`, `keys` and `values` of a map give.
#[derive(Debug)]
pub struct View {
    /// Which of them.
    pub name: &'static str,
    /// What it has.
    pub items: Vec<Value>,
}

impl Object for View {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.items.clone())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.items.len())
    }
}

/// A method of a value, not called.
#[derive(Debug)]
pub struct Method {
    /// What has it.
    pub value: Value,
    /// What it is called.
    pub name: String,
}
