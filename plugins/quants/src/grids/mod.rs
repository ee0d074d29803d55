//! What the types with codebooks share: the codebooks, their nearest points, and the searches for a block's points.

mod bundle;
mod cells;
mod codebook;
mod finder;
mod lattice;
mod points;
mod positive;
mod splits;
mod superblock;
pub mod ternary;

use cells::Cells;
pub use codebook::Codebook;
pub use lattice::{Again, Search};
pub use superblock::{Lattice, Packed};

use apr_sdk::Error;

/// Elements of a super-block.
pub const ELEMENTS: usize = 256;

/// The codebook of IQ1_S and IQ1_M. The levels are −1, 0 and 1, stored one higher.
pub static IQ1: Codebook<8> = Codebook::new(&points::IQ1, &[0, 1, 2], 3);
/// The codebook of IQ2_XXS.
pub static IQ2_XXS: Codebook<8> = Codebook::new(&points::IQ2_XXS, &[8, 25, 43], 2);
/// The codebook of IQ2_XS.
pub static IQ2_XS: Codebook<8> = Codebook::new(&points::IQ2_XS, &[8, 25, 43], 2);
/// The codebook of IQ2_S.
pub static IQ2_S: Codebook<8> = Codebook::new(&points::IQ2_S, &[8, 25, 43], 1);
/// The codebook of IQ3_XXS.
pub static IQ3_XXS: Codebook<4> = Codebook::new(&points::IQ3_XXS, &[4, 12, 20, 28, 36, 44, 52, 62], 2);
/// The codebook of IQ3_S.
pub static IQ3_S: Codebook<4> = Codebook::new(&points::IQ3_S, &[1, 3, 5, 7, 9, 11, 13, 15], 3);

/// Seven signs and their parity, so that the number of ones is even.
pub fn even_signs(seven: u8) -> u8 {
    let parity = (seven & 127).count_ones() % 2 == 1;
    seven & 127 | u8::from(parity) << 7
}

/// The value with a sign: bit `bit` of `signs` makes it negative.
pub fn signed(value: f32, signs: u8, bit: usize) -> f32 {
    if signs >> bit & 1 == 1 { -value } else { value }
}

/// What is said where ggml ends the process: sums of this block's squares are no finite numbers.
pub fn no_point() -> Error {
    Error::failed("the weights of a block are too large for a codebook type")
        .hint("choose a type without a codebook for this tensor, for example Q4_K or Q8_0")
}
