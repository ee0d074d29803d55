//! The promises every quantizer makes, on seeded rows: what it lists exists, lengths are checked, blocks give the same
//! values however many rows a call has, and nothing panics.
//!
//! A quantizer's tests are one line, [`quantizer_conformance!`](crate::quantizer_conformance); `apr plugins check` runs the
//! same [`CHECKS`] on a built library.

mod lengths;
mod recipes;
mod subject;
mod types;
mod values;

pub use subject::Subject;

use crate::Verdict;
use apr_sdk::{Error, Manifest, PluginDecl, Result};

/// A check: what it found, or how the promise is broken.
pub type Check = fn(&Subject<'_>) -> Result<Verdict>;

/// Every check, by the name that `apr plugins check` prints and [`quantizer_conformance!`](crate::quantizer_conformance)
/// gives the test.
pub const CHECKS: &[(&str, Check)] = &[
    ("types", types::types),
    ("unknown_types", types::unknown_types),
    ("any_bytes", values::any_bytes),
    ("round_trip", values::round_trip),
    ("row_by_row", values::row_by_row),
    ("not_finite", values::not_finite),
    ("lengths", lengths::lengths),
    ("importance", lengths::importance),
    ("repacks", values::repacks),
    ("recipes", recipes::recipes),
    ("schemes", types::schemes),
];

/// Runs the check `name` on the quantizer of a plugin that is linked in. What
/// [`quantizer_conformance!`](crate::quantizer_conformance) makes tests of.
///
/// # Errors
/// How the promise is broken; NotFound if there is no such check.
pub fn check_quantizer(name: &str, plugin: &PluginDecl) -> Result<Verdict> {
    let check = CHECKS.iter().find(|(known, _)| *known == name);
    let (_, check) =
        check.ok_or_else(|| Error::not_found(format!("unknown check of quantizers `{name}`")))?;
    let manifest = Manifest::parse(plugin.manifest)?;
    // What the host does when it finds the plugin.
    manifest.block_types.iter().try_for_each(|block| block.provide().map(drop))?;
    let quantizer = (plugin.quantizer)().ok_or_else(|| Error::failed("the plugin has no quantizer"))?;
    check(&Subject::new(&*quantizer, &manifest.block_types)?)
}

/// Makes one `#[test]` for each check of [`quantizers::CHECKS`](crate::quantizers::CHECKS).
///
/// ```ignore
/// apr_testkit::quantizer_conformance!(my_quantizer::PLUGIN);
/// ```
#[macro_export]
macro_rules! quantizer_conformance {
    ($plugin:expr) => {
        $crate::__quantizer_tests! {
            $plugin,
            types unknown_types any_bytes round_trip row_by_row not_finite lengths importance repacks recipes schemes
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __quantizer_tests {
    ($plugin:expr, $($check:ident)*) => {
        /// The tests that the macro made, so that none is forgotten.
        #[test]
        fn every_check_of_quantizers_is_a_test() {
            let names: ::std::vec::Vec<_> = $crate::quantizers::CHECKS.iter().map(|(name, _)| *name).collect();
            ::std::assert_eq!(names, [$(::std::stringify!($check)),*]);
        }
        $(
            #[test]
            fn $check() -> ::std::result::Result<(), $crate::Finding> {
                let result = $crate::quantizers::check_quantizer(::std::stringify!($check), &$plugin);
                result.map(drop).map_err($crate::Finding)
            }
        )*
    };
}
