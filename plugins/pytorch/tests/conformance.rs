//! The promises that every format makes, one test each.

apr_testkit::conformance!(
    apr_plugin_pytorch::PLUGIN,
    fixtures = "tests/data",
    byte_identical = true,
    except = [
        // Tensors that share bytes, or are strided or big-endian or deflated, are written one by one, as plain ones.
        "big_endian.pt",
        "checkpoint.ckpt",
        "deflated.pt",
        "legacy_checkpoint.pt",
        "legacy_stream.pt",
        "legacy_tar.pt",
        "state_dict.pth",
        "views.pt",
    ]
);
