//! Seeded weights: sets that meet every branch of the encoders. Only additions, multiplications and divisions of IEEE 754
//! are used, so that every machine makes the same.

use apr_plugin_quants::number::{from_f16, half};
use std::sync::OnceLock;

/// Elements of a row.
pub const ROW: usize = 4096;
/// Rows of a set.
pub const ROWS: usize = 256;

/// Names of the sets of test values.
pub const SETS: [&str; 10] =
    ["normal", "uniform", "heavy", "bf16", "quarter", "constant", "zero", "tiny", "huge", "denormal"];

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators").
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In 0..1, a multiple of 2⁻²⁴.
    pub fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / 16_777_216.0
    }

    /// About normal: the sum of twelve.
    pub fn normal(&mut self) -> f32 {
        (0..12).fold(-6.0, |sum, _| sum + self.unit())
    }
}

/// The weights of a set, `ROWS` rows of `ROW`, made once.
pub fn weights(set: &str) -> &'static [f32] {
    static MADE: [OnceLock<Vec<f32>>; SETS.len()] = [const { OnceLock::new() }; SETS.len()];
    let number = SETS.iter().position(|name| *name == set).unwrap();
    MADE[number].get_or_init(|| made(set))
}

fn made(set: &str) -> Vec<f32> {
    let seed = SETS.iter().position(|name| *name == set).unwrap() as u64;
    let mut random = Random(0x00a9_0001 + seed);
    let mut out = Vec::with_capacity(ROW * ROWS);
    for row in 0..ROWS {
        // Rows of one set differ in size, as those of models do.
        let scale = 0.02 * (1.0 + (row % 7) as f32);
        let level = random.normal() * scale;
        for column in 0..ROW {
            let value = match set {
                "normal" => random.normal() * scale,
                "uniform" => (random.unit() - 0.5) * scale,
                "heavy" => random.normal() * scale / (random.unit() + 0.001),
                "bf16" => f32::from_bits((random.normal() * scale).to_bits() & 0xffff_0000),
                "quarter" => (random.normal() * 8.0).round() * 0.25,
                // Whole rows, then runs of 32, so that blocks are mixed too.
                "constant" if row % 2 == 0 => level,
                "constant" => {
                    if column / 32 % 3 == 0 {
                        level
                    } else {
                        random.normal() * scale
                    }
                }
                "zero" if row % 4 != 3 => 0.0,
                "zero" => {
                    if column / 16 % 2 == 0 {
                        0.0
                    } else {
                        random.normal() * scale
                    }
                }
                "tiny" => random.normal() * 1e-12,
                "huge" => random.normal() * 1e4,
                "denormal" => random.normal() * 1e-41,
                other => panic!("no set `{other}`"),
            };
            out.push(value);
        }
    }
    out
}

/// The importance of the columns for a set: means of squares, from nearly none to much; some columns never had input.
pub fn importance(set: &str) -> Vec<f32> {
    let seed = SETS.iter().position(|name| *name == set).unwrap() as u64;
    let mut random = Random(0x1a9_0001 + seed);
    let zeros = matches!(set, "heavy" | "bf16");
    let value = |column: usize, random: &mut Random| {
        let root = random.normal() * (1.0 + (column % 5) as f32);
        // As the halves of a file would be: nothing depends on it but that products are not all exact.
        let square = from_f16(half(root * root)) + 1e-5;
        if zeros && column % 61 == 7 { 0.0 } else { square }
    };
    (0..ROW).map(|column| value(column, &mut random)).collect()
}
