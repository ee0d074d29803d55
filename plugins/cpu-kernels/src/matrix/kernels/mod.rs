//! The kernels: what a tile of 16 rows gives with one token and with many. Three forms, for floats, for blocks of 32 and
//! for super-blocks of 256; a type fills in how its codes lie.

pub mod floats;
pub mod small;
pub mod super_block;

use super::lanes::{Lanes, ask, scalar::Scalar};
use super::layout::ROWS;
use crate::level::Level;
use std::ops::Range;

/// Products of a tile's rows.
pub type Products = [f32; ROWS];

/// Receives a token, a first row, and products of it and the rows that follow.
pub type Give<'a> = &'a mut dyn FnMut(usize, usize, &[f32]);

/// Tokens whose sums are kept while a tile's rows are walked: their codes and sums fit the caches beside it.
const TOKENS: usize = 64;

/// Bytes of what is read next that are asked for in the last tile. What follows, and all else, the processor fetches ahead by itself,
/// since tiles are read in the order in which they lie: asking for it, near or far ahead, gave less on the processors at hand.
const AHEAD: usize = 2048;

/// What is to be multiplied. `Matrix::multiply` has checked that all that a kernel reads is there.
pub struct Job<'a> {
    /// The image: bands of tiles of 16 rows.
    pub image: &'a [u8],
    /// Bytes of a tile.
    pub tile_bytes: usize,
    /// Tiles of a band; the last may have fewer.
    pub band: usize,
    /// Columns of a row.
    pub columns: usize,
    /// The rows that are wanted.
    pub rows: Range<usize>,
    /// The first token of the activations.
    pub x: *const u8,
    /// Bytes from a token to the next.
    pub stride: usize,
    /// The tokens that are wanted.
    pub tokens: Range<usize>,
    /// What will be read after this.
    pub ahead: Option<&'a [u8]>,
}

impl Job<'_> {
    /// A token's activations.
    ///
    /// # Safety
    /// The token is one of those that are wanted, or the one after them.
    #[inline(always)]
    unsafe fn token(&self, token: usize) -> *const u8 {
        // SAFETY: the buffer of activations has this many tokens of `stride` bytes.
        unsafe { self.x.add(token * self.stride) }
    }
}

/// Tiles that lie together.
#[derive(Clone, Copy)]
pub struct Band {
    /// Where they begin.
    pub bytes: *const u8,
    /// How many there are.
    pub count: usize,
}

/// What a tile gives.
///
/// # Safety
/// The functions read a tile of the job's image and tokens of its activations, within the bounds that the layout and the
/// rounding of the type state; where they are inlined, the level's instructions are enabled.
pub unsafe trait Kernel: 'static {
    /// Room for a part of a tile in the form in which many tokens take it.
    type Unpacked<L: Lanes>;

    /// Such room.
    fn room<L: Lanes>() -> Self::Unpacked<L>;

    /// The products of some tiles of a band with one token, for `products`, which are zero.
    unsafe fn one<L: Lanes>(
        job: &Job<'_>,
        band: Band,
        tiles: Range<usize>,
        x: *const u8,
        products: &mut [Products],
    );

    /// The products of a tile of a band with up to [`TOKENS`] tokens that follow `x`, added to `products`.
    unsafe fn many<L: Lanes>(
        job: &Job<'_>,
        band: Band,
        tile: usize,
        x: *const u8,
        products: &mut [Products],
        room: &mut Self::Unpacked<L>,
    );
}

/// Walks the tiles.
///
/// # Safety
/// As for [`Kernel`]; the job's ranges lie within its image and activations.
#[inline(always)]
unsafe fn walk<L: Lanes, K: Kernel>(job: &Job<'_>, give: Give<'_>) {
    let all = job.rows.start / ROWS..job.rows.end.div_ceil(ROWS);
    let mut room = (job.tokens.len() > 1).then(K::room::<L>);
    let mut products = [[0.0; ROWS]; TOKENS];
    let mut next = all.start;
    while next < all.end {
        let first = next / job.band * job.band;
        let count = job.band.min(job.image.len() / job.tile_bytes - first);
        let tiles = next..all.end.min(first + count);
        next = tiles.end;
        let bytes = &job.image[first * job.tile_bytes..(first + count) * job.tile_bytes];
        let band = Band { bytes: bytes.as_ptr(), count };
        if next == all.end
            && let Some(ahead) = job.ahead
        {
            ahead[..AHEAD.min(ahead.len())].chunks(64).for_each(|line| ask(line.as_ptr()));
        }
        let wanted = |tile: usize| job.rows.start.max(tile * ROWS)..job.rows.end.min((tile + 1) * ROWS);
        let part = |tile: usize| wanted(tile).start - tile * ROWS..wanted(tile).end - tile * ROWS;
        let Some(room) = &mut room else {
            let products = &mut products[..tiles.len()];
            products.fill([0.0; ROWS]);
            let within = tiles.start - first..tiles.end - first;
            // SAFETY: the tiles are some of the band's, and the token one of those that are there.
            unsafe { K::one::<L>(job, band, within, job.token(job.tokens.start), products) };
            for (tile, products) in tiles.zip(products) {
                give(job.tokens.start, wanted(tile).start, &products[part(tile)]);
            }
            continue;
        };
        for tile in tiles {
            for token in job.tokens.clone().step_by(TOKENS) {
                let products = &mut products[..TOKENS.min(job.tokens.end - token)];
                products.fill([0.0; ROWS]);
                // SAFETY: as above; there are as many tokens as there is room for products.
                unsafe { K::many::<L>(job, band, tile - first, job.token(token), products, room) };
                for (n, products) in products.iter().enumerate() {
                    give(token + n, wanted(tile).start, &products[part(tile)]);
                }
            }
        }
    }
}

/// Runs `$body` for each `$t` below `$count`, at most 16, without a loop: what it keeps for each `$t` stays in registers.
macro_rules! unrolled {
    ($t:ident < $count:expr, $body:block) => {
        $crate::matrix::kernels::unrolled!(@ $t, $count, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $t:ident, $count:expr, $body:block, $($n:literal)*) => {$(
        if $n < $count {
            let $t = $n;
            $body
        }
    )*};
}

/// Calls `$of::<..., T>` with groups of `T` tokens: the largest that registers have room for, then smaller ones.
macro_rules! in_groups {
    ($lanes:ident, $count:expr, |$first:ident, $group:ident| $call:expr) => {{
        let (mut $first, count) = (0, $count);
        in_groups!(@ $lanes, $first, count, $group, $call, 16 8 4 2 1);
    }};
    (@ $lanes:ident, $first:ident, $count:ident, $group:ident, $call:expr, $($n:literal)*) => {$(
        if $n <= $lanes::TOKENS {
            const $group: usize = $n;
            while $count - $first >= $n {
                $call;
                $first += $n;
            }
        }
    )*};
}

use in_groups;
pub(super) use unrolled;

/// A type's kernels.
pub struct Kernels {
    scalar: unsafe fn(&Job<'_>, Give<'_>),
    #[cfg(target_arch = "x86_64")]
    avx2: unsafe fn(&Job<'_>, Give<'_>),
    #[cfg(target_arch = "x86_64")]
    avx512: unsafe fn(&Job<'_>, Give<'_>),
}

impl Kernels {
    /// Those of a kernel.
    pub const fn of<K: Kernel>() -> Kernels {
        Kernels {
            scalar: scalar::<K>,
            #[cfg(target_arch = "x86_64")]
            avx2: avx2::<K>,
            #[cfg(target_arch = "x86_64")]
            avx512: avx512::<K>,
        }
    }

    /// Multiplies.
    ///
    /// # Safety
    /// The job's ranges lie within its image and its activations, which are those of this type and which nobody writes.
    pub unsafe fn run(&self, level: Level, job: &Job<'_>, give: Give<'_>) {
        assert!(level.is_supported(), "the processor does not support these instructions");
        // SAFETY: the processor has the instructions; the caller sees to the rest.
        unsafe {
            match level {
                Level::Scalar => (self.scalar)(job, give),
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 => (self.avx2)(job, give),
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 => (self.avx512)(job, give),
                #[cfg(not(target_arch = "x86_64"))]
                Level::Avx2 | Level::Avx512 => (self.scalar)(job, give),
            }
        }
    }
}

unsafe fn scalar<K: Kernel>(job: &Job<'_>, give: Give<'_>) {
    // SAFETY: as the caller of `Kernels::run` says.
    unsafe { walk::<Scalar, K>(job, give) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2<K: Kernel>(job: &Job<'_>, give: Give<'_>) {
    // SAFETY: as the caller of `Kernels::run` says; the instructions are enabled here.
    unsafe { walk::<super::lanes::avx2::Avx2, K>(job, give) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
unsafe fn avx512<K: Kernel>(job: &Job<'_>, give: Give<'_>) {
    // SAFETY: as the caller of `Kernels::run` says; the instructions are enabled here.
    unsafe { walk::<super::lanes::avx512::Avx512, K>(job, give) }
}
