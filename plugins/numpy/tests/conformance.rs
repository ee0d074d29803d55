//! The promises that every format makes, one test each.

// What is deflated, column-major or big-endian comes back with equal payloads, not in equal bytes.
apr_testkit::conformance!(
    apr_plugin_numpy::PLUGIN,
    fixtures = "tests/data",
    byte_identical = true,
    except = [
        "deflated.npz",
        "fortran.npz",
        "big_endian.npz",
        "old_deflated.npz",
        "fortran.npy",
        "big_endian.npy",
        "old_fortran.npy"
    ]
);
