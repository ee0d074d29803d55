//! The promises that every format makes, one test each.

apr_testkit::conformance!(apr_plugin_pytorch::PLUGIN, fixtures = "tests/data");
