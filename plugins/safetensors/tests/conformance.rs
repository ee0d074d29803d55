//! The promises that every format makes, one test each.

apr_testkit::conformance!(apr_plugin_safetensors::PLUGIN, fixtures = "tests/data", byte_identical = true);
