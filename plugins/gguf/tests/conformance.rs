//! The promises that every format makes, on all fixtures.

apr_testkit::conformance!(
    apr_plugin_gguf::PLUGIN,
    fixtures = "tests/data",
    byte_identical = true,
    except = [
        "big-endian.gguf",
        "unsorted.gguf",
        "version-1-big-endian.gguf",
        "version-1.gguf",
        "version-2-big-endian.gguf",
        "version-2.gguf",
        "version-3-big-endian.gguf",
    ]
);
