//! The promises that every format makes, on all fixtures.

apr_testkit::conformance!(apr_plugin_ggml_legacy::PLUGIN, fixtures = "tests/data");
