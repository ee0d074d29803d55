//! Which vector instructions are used.

use std::sync::OnceLock;

/// A set of instructions that encoders and decoders have a form for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// None: the scalar form.
    Scalar,
    /// x86-64: AVX2 and F16C. Fused multiply-add is never used.
    Avx2,
    /// x86-64: AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl Level {
    /// Names a level that is not to be passed: `scalar`, `avx2` or `avx512`. For tests.
    pub const VARIABLE: &'static str = "APR_QUANTS_LEVEL";

    /// Every level, lowest first.
    pub const ALL: [Level; 3] = [Level::Scalar, Level::Avx2, Level::Avx512];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Level::Scalar => "scalar",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        }
    }

    /// Whether this machine has what it needs.
    pub fn is_supported(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return match self {
            Level::Scalar => true,
            Level::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c"),
            Level::Avx512 => {
                Level::Avx2.is_supported()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
        };
        #[cfg(not(target_arch = "x86_64"))]
        return self == Level::Scalar;
    }

    /// The highest that this machine has and [`Level::VARIABLE`] allows; found out once.
    pub fn best() -> Level {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| {
            let asked = std::env::var(Level::VARIABLE).unwrap_or_default();
            let most = Level::ALL.into_iter().find(|level| level.name() == asked).unwrap_or(Level::Avx512);
            let fits = |level: &Level| *level <= most && level.is_supported();
            Level::ALL.into_iter().rev().find(fits).unwrap_or(Level::Scalar)
        })
    }
}
