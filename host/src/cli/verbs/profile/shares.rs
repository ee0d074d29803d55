//! The shares of time that kinds of operations and layers have.

use apr_inference::trace::{Recording, Traced};
use serde::Serialize;

/// A part of a run: a prompt or an answer.
#[derive(Debug, Serialize)]
pub struct Shares {
    /// Number of its tokens.
    pub tokens: usize,
    /// The duration of the best repetition.
    pub seconds: f64,
    /// Tokens per second in it.
    pub tokens_per_second: f64,
    /// Kinds of operations, the one that took longest first.
    pub operations: Vec<Share>,
    /// Layers in order, with what comes before and behind them.
    pub layers: Vec<Share>,
    /// All operations together.
    pub total: Share,
}

/// A share.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Share {
    /// Its name.
    pub name: String,
    /// Number of operations.
    pub count: usize,
    /// Their time.
    pub seconds: f64,
    /// Its share of the time of all operations.
    pub share: f64,
    /// Bytes that they read.
    pub bytes: u64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// The share of what memory delivers.
    pub share_of_floor: Option<f64>,
}

impl Shares {
    /// The shares of a run that was repeated: each operation has the least of its times.
    pub fn of(runs: &[&Recording], floor: Option<f64>) -> Shares {
        let took = runs.iter().map(|run| run.took().as_secs_f64()).fold(f64::INFINITY, f64::min);
        let Some(first) = runs.first() else { return Shares::nothing() };
        let mut kinds: Vec<Share> = Vec::new();
        let mut layers: Vec<Share> = Vec::new();
        let mut total = Share { name: "all".to_owned(), ..Share::default() };
        for operation in &first.operations {
            let times = runs.iter().filter_map(|run| run.operations.get(operation.number));
            let nanoseconds = times.map(|same| same.nanoseconds).min().unwrap_or(0);
            for (list, name) in [(&mut kinds, operation.kind.clone()), (&mut layers, place_of(operation))] {
                match list.iter_mut().find(|share| share.name == name) {
                    Some(share) => share.add(operation, nanoseconds),
                    None => {
                        let mut share = Share { name, ..Share::default() };
                        share.add(operation, nanoseconds);
                        list.push(share);
                    }
                }
            }
            total.add(operation, nanoseconds);
        }
        let whole = total.seconds;
        kinds.iter_mut().chain(&mut layers).chain([&mut total]).for_each(|share| share.finish(whole, floor));
        kinds.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let tokens = first.ids.len();
        #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
        let rate = tokens as f64 / took;
        Shares { tokens, seconds: took, tokens_per_second: rate, operations: kinds, layers, total }
    }

    fn nothing() -> Shares {
        Shares {
            tokens: 0,
            seconds: 0.0,
            tokens_per_second: 0.0,
            operations: Vec::new(),
            layers: Vec::new(),
            total: Share::default(),
        }
    }
}

impl Share {
    fn add(&mut self, operation: &Traced, nanoseconds: u64) {
        self.count += 1;
        self.bytes += operation.bytes;
        #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
        let seconds = nanoseconds as f64 / 1e9;
        self.seconds += seconds;
    }

    fn finish(&mut self, whole: f64, floor: Option<f64>) {
        #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
        let bytes = self.bytes as f64;
        self.share = if whole > 0.0 { self.seconds / whole } else { 0.0 };
        self.bytes_per_second = if self.seconds > 0.0 { bytes / self.seconds } else { 0.0 };
        self.share_of_floor = floor.map(|floor| self.bytes_per_second / floor);
    }
}

/// The part of the model that an operation belongs to.
fn place_of(operation: &Traced) -> String {
    match operation.layer {
        Some(layer) => format!("layer {layer}"),
        None if operation.number == 0 || operation.name.starts_with("input") => "input".to_owned(),
        None => "output".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(times: [u64; 3]) -> Recording {
        let operation = |number: usize, kind: &str, layer| Traced {
            number,
            kind: kind.to_owned(),
            layer,
            name: String::new(),
            results: Vec::new(),
            nanoseconds: times[number],
            bytes: 1000,
        };
        let mut recording = Recording::default();
        recording.operations = vec![
            operation(0, "embed", None),
            operation(1, "linear", Some(0)),
            operation(2, "linear", Some(1)),
        ];
        recording
    }

    #[test]
    fn the_least_time_of_each_operation_counts() {
        let runs = [run([1000, 9000, 3000]), run([2000, 6000, 5000])];
        let shares = Shares::of(&[&runs[0], &runs[1]], Some(2e9));
        let names: Vec<_> = shares.operations.iter().map(|share| share.name.as_str()).collect();
        assert_eq!(names, ["linear", "embed"]);
        assert_eq!((shares.operations[0].count, shares.operations[0].bytes), (2, 2000));
        assert!((shares.operations[0].share - 0.9).abs() < 1e-9);
        assert!((shares.total.seconds - 10e-6).abs() < 1e-12);
        assert!((shares.operations[1].share_of_floor.unwrap() - 0.5).abs() < 1e-9);
        let places: Vec<_> = shares.layers.iter().map(|share| share.name.as_str()).collect();
        assert_eq!(places, ["input", "layer 0", "layer 1"]);
    }
}
