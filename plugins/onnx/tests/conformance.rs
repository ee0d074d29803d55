//! The promises every format makes.

// Lists of numbers become raw data; the files of `split` get the names of companions of the model.
apr_testkit::conformance!(
    apr_plugin_onnx::PLUGIN,
    fixtures = "tests/data",
    byte_identical = true,
    except = ["handmade-runs.onnx", "shapes.onnx", "types-typed.onnx", "external/split.onnx"]
);
