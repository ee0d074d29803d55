//! Which vector instructions are used.

use apr_sdk::{Error, Result};
use std::sync::OnceLock;

/// A set of instructions that every kernel has a form for. All give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// None beyond those that every processor has.
    Scalar,
    /// x86-64: AVX2, FMA and F16C.
    Avx2,
    /// x86-64: AVX-512 F, BW, DQ, VL and VNNI.
    Avx512,
}

impl Level {
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

    /// Whether this processor has what it needs.
    pub fn is_supported(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return match self {
            Level::Scalar => true,
            Level::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            Level::Avx512 => {
                Level::Avx2.is_supported()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vnni")
            }
        };
        #[cfg(not(target_arch = "x86_64"))]
        return self == Level::Scalar;
    }

    /// The highest that this processor has; found out once.
    pub fn best() -> Level {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| {
            Level::ALL.into_iter().rev().find(|level| level.is_supported()).unwrap_or(Level::Scalar)
        })
    }

    /// The level of a name.
    ///
    /// # Errors
    /// InvalidArgument for a name that is none; Unsupported if the processor lacks its instructions.
    pub fn named(name: &str) -> Result<Level> {
        let names = || Level::ALL.map(Level::name).join(", ");
        let level = Level::ALL.into_iter().find(|level| level.name() == name).ok_or_else(|| {
            Error::invalid_argument(format!("unknown instruction set `{name}`"))
                .hint(format!("use one of {}", names()))
        })?;
        if !level.is_supported() {
            return Err(Error::unsupported(format!(
                "this processor does not support the instruction set `{name}`"
            ))
            .hint(format!("use `{}`, the highest supported one", Level::best().name())));
        }
        Ok(level)
    }
}

/// Compiles a function for every level, with a first parameter that chooses among them.
macro_rules! versions {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $kind:ty),* $(,)?) -> $result:ty $body:block)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name(level: $crate::level::Level, $($argument: $kind),*) -> $result {
            #[inline(always)]
            fn plain($($argument: $kind),*) -> $result $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            fn avx2($($argument: $kind),*) -> $result { plain($($argument),*) }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")]
            fn avx512($($argument: $kind),*) -> $result { plain($($argument),*) }
            match level {
                // SAFETY: a level is only ever made where the processor has its instructions.
                #[cfg(target_arch = "x86_64")]
                $crate::level::Level::Avx512 => unsafe { avx512($($argument),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::level::Level::Avx2 => unsafe { avx2($($argument),*) },
                _ => plain($($argument),*),
            }
        }
    )*};
}
pub(crate) use versions;

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::ErrorKind;

    #[test]
    fn names_are_levels() {
        assert_eq!(Level::named("scalar").unwrap(), Level::Scalar);
        assert_eq!(Level::named("sse9").unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert!(Level::best().is_supported());
        for level in Level::ALL {
            match Level::named(level.name()) {
                Ok(found) => assert_eq!(found, level),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported),
            }
        }
    }
}
