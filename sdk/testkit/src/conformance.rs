//! The macro that makes one test of each promise.

/// Makes one `#[test]` for each check of [`crate::CHECKS`], on the models in a folder of the crate.
///
/// ```ignore
/// apr_testkit::conformance!(toy::PLUGIN, fixtures = "tests/data");
/// apr_testkit::conformance!(toy::PLUGIN, fixtures = "tests/data", byte_identical = true);
/// apr_testkit::conformance!(toy::PLUGIN, fixtures = "tests/data", byte_identical = true, except = ["old.toy"]);
/// ```
///
/// Each file of the folder with an extension that the manifest lists is a model, and each folder of such files is one
/// of several files. `except` names those that need not come out byte-identical; one that does fails.
#[macro_export]
macro_rules! conformance {
    ($plugin:expr, fixtures = $folder:literal $(,)?) => {
        $crate::conformance!($plugin, fixtures = $folder, byte_identical = false, except = []);
    };
    ($plugin:expr, fixtures = $folder:literal, byte_identical = $identical:literal $(,)?) => {
        $crate::conformance!($plugin, fixtures = $folder, byte_identical = $identical, except = []);
    };
    ($plugin:expr, fixtures = $folder:literal, byte_identical = $identical:literal, except = [$($except:literal),* $(,)?] $(,)?) => {
        $crate::__conformance_tests! {
            $plugin, $folder, $identical, [$($except),*]:
            manifest probe limits truncation flips determinism carries refuses source_errors round_trip header_only
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    ($plugin:expr, $folder:literal, $identical:literal, $except:tt: $($check:ident)*) => {
        /// The tests that the macro made, so that none is forgotten.
        #[test]
        fn every_check_is_a_test() {
            let names: ::std::vec::Vec<_> = $crate::CHECKS.iter().map(|(name, _)| *name).collect();
            ::std::assert_eq!(names, [$(::std::stringify!($check)),*]);
        }
        $(
            #[test]
            fn $check() -> ::std::result::Result<(), $crate::Finding> {
                let folder = ::std::path::Path::new(::std::env!("CARGO_MANIFEST_DIR")).join($folder);
                let result = $crate::check_plugin(::std::stringify!($check), &$plugin, &folder, $identical, &$except);
                result.map_err($crate::Finding)
            }
        )*
    };
}

/// A failed check, shown as its message where a test prints it.
pub struct Finding(pub apr_sdk::Error);

impl std::fmt::Debug for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.message())
    }
}
