//! One case for each refusal: what the message says, and where.

use crate::fixture::{FORMAT, open, reader};
use crate::forge::{call, checkpoint, global, int, named, pickle, storage, stream, tensor, text, tuple, zip};
use apr_sdk::{Error, ErrorKind, Limits, MemorySource, Options};

const NOTHING: &str = "nothing was executed";

fn refuse(bytes: &[u8]) -> Error {
    let error = open(bytes).map(|(_, model, _)| format!("{:?}", model.tensors)).expect_err("it opens");
    assert!(error.offset().is_some() && error.file().is_some(), "{error}");
    error
}

/// Refused as an object of a ZIP and of a stream, naming `what`, and saying that nothing was executed.
fn hostile(object: &[u8], what: &str) {
    for file in [checkpoint(object, 64), stream(object)] {
        let error = refuse(&file);
        assert!(error.message().contains(what), "`{what}` is not in: {error}");
        assert!(error.message().contains(NOTHING), "{error}");
    }
}

#[test]
fn names_that_are_not_on_the_list() {
    for (module, name) in [
        ("os", "system"),
        ("posix", "system"),
        ("nt", "system"),
        ("subprocess", "Popen"),
        ("builtins", "eval"),
        ("__builtin__", "exec"),
        ("builtins", "__import__"),
        ("builtins", "getattr"),
        ("runpy", "_run_code"),
        ("pip", "main"),
        ("pip._internal", "main"),
        ("numpy.testing._private.utils", "runstring"),
        ("torch", "load"),
        ("torch.hub", "load"),
        ("torch.serialization", "load"),
        ("torch._inductor.codecache", "compile_file"),
        ("torch.utils._config_module", "ConfigModule.load_config"),
        ("torch.storage", "_load_from_bytes"),
        ("torch.fx.experimental.symbolic_shapes", "ShapeEnv.evaluate_guards_expression"),
        ("_codecs", "decode"),
        ("codecs", "encode"),
        ("operator", "attrgetter"),
        ("functools", "partial"),
        ("types", "CodeType"),
        ("marshal", "loads"),
        ("pickle", "loads"),
        ("ctypes", "CDLL"),
        ("importlib", "import_module"),
        ("webbrowser", "open"),
        ("timeit", "timeit"),
        ("cProfile", "run"),
        ("pdb", "run"),
        ("code", "InteractiveInterpreter"),
        ("asyncio.unix_events", "_UnixSubprocessTransport._start"),
        ("bdb", "Bdb.run"),
        ("idlelib.autocomplete", "AutoComplete.get_entity"),
        ("lib2to3.pgen2.grammar", "Grammar.loads"),
        ("__torch__.os", "system"),
        ("torch.jit._pickle", "build_intlist"),
    ] {
        let call = call(module, name, &[text("id")]);
        hostile(&pickle(&call), &format!("`{module}.{name}` (GLOBAL)"));
        let stack =
            [text(module), text(name), b"\x93".to_vec(), tuple(&[text("id")]), b"R".to_vec()].concat();
        hostile(&pickle(&stack), &format!("`{module}.{name}` (STACK_GLOBAL)"));
        let inst = [b"(".to_vec(), text("id"), format!("i{module}\n{name}\n").into_bytes()].concat();
        hostile(&pickle(&inst), &format!("`{module}.{name}` (INST)"));
    }
}

#[test]
fn odd_spellings_of_the_same() {
    // The texts from the memo; protocol 0's lines with carriage returns and spaces; a name that is no text.
    let memo = [
        text("os"),
        b"q\x05".to_vec(),
        text("system"),
        b"q\x060h\x05h\x06\x93".to_vec(),
        tuple(&[text("id")]),
        b"R".to_vec(),
    ];
    hostile(&pickle(&memo.concat()), "`os.system` (STACK_GLOBAL)");
    hostile(b"cos\nsystem\n(S'id'\ntR.", "`os.system` (GLOBAL)");
    hostile(b"\x80\x02cos\r\nsystem\n)R.", "`os\\r.system`");
    hostile(b"\x80\x02ccollections\nOrderedDict \n)R.", "`collections.OrderedDict `");
    hostile(b"\x80\x02c\xff\nx\n)R.", "`\u{fffd}.x`");
    hostile(b"\x80\x02c\n\n)R.", "`.`");
    hostile(&pickle(&[int(1), text("x"), b"\x93".to_vec()].concat()), "STACK_GLOBAL of an integer and text");
    // What follows the call makes no difference, nor that the call's result is thrown away.
    hostile(
        &[b"\x80\x02", &call("os", "system", &[text("id")])[..], b"0}.", b"garbage"].concat(),
        "`os.system`",
    );
    hostile(&[b"\x80\x04\x95\x05\0\0\0\0\0\0\0", &global("os", "system")[..], b"."].concat(), "`os.system`");
}

#[test]
fn calls_that_make_no_tensor() {
    let ordered = || global("collections", "OrderedDict");
    let object = [b"(".to_vec(), ordered(), text("x"), b"o".to_vec()].concat();
    hostile(&pickle(&object), "OBJ");
    hostile(&pickle(&[global("torch", "Tensor"), b")\x81".to_vec()].concat()), "NEWOBJ");
    hostile(&pickle(&[global("torch", "Tensor"), b")}\x92".to_vec()].concat()), "NEWOBJ_EX");
    hostile(&pickle(b"\x82\x01"), "EXT1");
    hostile(&pickle(b"\x83\x01\x01"), "EXT2");
    hostile(&pickle(b"\x84\x01\x01\0\0"), "EXT4");
    hostile(&pickle(b"\x97"), "NEXT_BUFFER");
    hostile(&pickle(b"Pos\n"), "PERSID");
    hostile(&pickle(&[text("os"), b")R".to_vec()].concat()), "it calls text");
    hostile(&pickle(&call("torch", "device", &[int(1)])), "Device does not take (an integer)");
    hostile(&pickle(&call("torch", "FloatStorage", &[int(1 << 40)])), "does not take");
    hostile(&pickle(&call("torch", "Tensor", &[int(1)])), "does not take");
    hostile(&pickle(&call("collections", "OrderedDict", &[int(1)])), "something other than a list of pairs");
    hostile(&pickle(&call("collections", "defaultdict", &[text("os")])), "not a plain class");
    hostile(&pickle(&call("_codecs", "encode", &[text("x"), text("zlib")])), "Latin-1");
    hostile(&pickle(&call("_codecs", "encode", &[text("漢"), text("latin1")])), "not Latin-1");
    hostile(&pickle(&call("torch.storage", "UntypedStorage", &[int(1)])), "does not take");
    hostile(&pickle(&[ordered(), b"]R".to_vec()].concat()), "the arguments are a list");
    let function = call(
        "torch._tensor",
        "_rebuild_from_type_v2",
        &[ordered(), global("torch", "Tensor"), tuple(&[]), b"N".to_vec()],
    );
    hostile(&pickle(&function), "rebuilds no tensor");
}

#[test]
fn tensors_with_wrong_arguments() {
    let ok = || storage("FloatStorage", 4);
    for (items, what) in [
        (vec![], "V2 does not take 0 values"),
        (vec![int(1); 9], "V2 does not take 9 values"),
        (
            vec![text("x"), int(0), tuple(&[]), tuple(&[]), b"\x89".to_vec(), b"N".to_vec()],
            "a tensor of text",
        ),
        (vec![int(1), int(0), tuple(&[]), tuple(&[]), b"\x89".to_vec(), text("h")], "a tensor with hooks"),
    ] {
        hostile(&pickle(&call("torch._utils", "_rebuild_tensor_v2", &items)), what);
    }
    for (value, what) in [
        (tensor(ok(), -1, &[2], &[1]), "an offset that is not a valid count"),
        (tensor(ok(), 0, &[-2], &[1]), "sizes that are negative or not valid counts"),
        (tensor(ok(), 0, &[2], &[-1]), "strides that are negative or not valid counts"),
        (tensor(ok(), 0, &[2, 2], &[1]), "2 sizes and 1 strides"),
        (tensor(storage("UntypedStorage", 16), 0, &[2], &[1]), "without a type"),
    ] {
        let error = refuse(&checkpoint(&named(&value), 16));
        assert!(error.message().contains(what) && error.message().contains(NOTHING), "{error}");
    }
    let conj = [
        ok(),
        int(0),
        tuple(&[int(4)]),
        tuple(&[int(1)]),
        b"\x89".to_vec(),
        b"N".to_vec(),
        [b"}".to_vec(), text("conj"), b"\x88s".to_vec()].concat(),
    ];
    let error = refuse(&checkpoint(&named(&call("torch._utils", "_rebuild_tensor_v2", &conj)), 16));
    assert!(error.message().contains("`conj` pending"), "{error}");
    for name in ["_rebuild_sparse_tensor", "_rebuild_nested_tensor", "_rebuild_meta_tensor_no_storage"] {
        let error = refuse(&checkpoint(&named(&call("torch._utils", name, &[])), 16));
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.message().contains(name), "{error}");
    }
}

#[test]
fn tensors_past_their_storage() {
    for (value, len, what) in [
        (tensor(storage("FloatStorage", 4), 0, &[5], &[1]), 16, "extend past its storage of 4 elements"),
        (tensor(storage("FloatStorage", 4), 1, &[4], &[1]), 16, "extend past its storage of 4 elements"),
        (
            tensor(storage("FloatStorage", 4), 0, &[2, 2], &[3, 1]),
            16,
            "extend past its storage of 4 elements",
        ),
        (tensor(storage("FloatStorage", 4), i64::MAX, &[2], &[1]), 16, "extend past its storage"),
        (
            tensor(storage("FloatStorage", 4), 0, &[2, 2], &[i64::MAX, i64::MAX]),
            16,
            "extend past its storage",
        ),
        (
            tensor(storage("FloatStorage", 4), 0, &[4], &[1]),
            15,
            "4 elements of 4 bytes, but the record has 15 bytes",
        ),
        (tensor(storage("FloatStorage", 1 << 40), 0, &[4], &[1]), 16, "1099511627776 elements"),
        (tensor(storage("FloatStorage", 4), 0, &[1 << 40], &[0]), 16, "out of proportion"),
        (tensor(storage("FloatStorage", 4), 0, &[1 << 13, 1 << 13, 3], &[0, 0, 1]), 16, "out of proportion"),
        (tensor(storage("FloatStorage", 4), 0, &[1 << 62, 1 << 62], &[0, 0]), 16, "more than 2^63 elements"),
    ] {
        let error = refuse(&checkpoint(&named(&value), len));
        assert!(error.message().contains(what), "`{what}` is not in: {error}");
        assert_eq!(error.tensor_name(), Some("t"), "{error}");
    }
    // The same storage under many names claims the sum.
    let one = tensor(storage("FloatStorage", 1 << 20), 0, &[1 << 20], &[1]);
    let many: Vec<u8> =
        (0..200).flat_map(|n| [text(&n.to_string()), one.clone(), b"s".to_vec()].concat()).collect();
    let error = refuse(&checkpoint(&pickle(&[b"}", &many[..]].concat()), 4 << 20));
    assert!(error.message().contains("out of proportion"), "{error}");
    // Overlapping windows, as `unfold` makes them, are what torch means by them.
    let unfold = tensor(storage("FloatStorage", 4), 0, &[3, 2], &[1, 1]);
    assert_eq!(open(&checkpoint(&named(&unfold), 16)).unwrap().1.tensors[0].shape, [3, 2]);
}

#[test]
fn persistent_ids_that_name_no_storage() {
    let class = || global("torch", "FloatStorage");
    for (items, what) in [
        (vec![], "a persistent id of 0 values, expected 5"),
        (vec![text("storage"), class(), text("0"), text("cpu")], "a persistent id of 4 values"),
        (vec![text("storage"), class(), text("0"), text("cpu"), int(4), int(1), int(1)], "7 values"),
        (vec![text("module"), class(), text("0"), text("cpu"), int(4)], "does not refer to a storage"),
        (vec![text("storage"), text("FloatStorage"), text("0"), text("cpu"), int(4)], "whose class is text"),
        (vec![text("storage"), class(), int(0), text("cpu"), int(4)], "key or location is not text"),
        (vec![text("storage"), class(), text("0"), text("cpu"), int(-4)], "size is not a valid count"),
        (vec![text("storage"), class(), text("0"), text("cpu"), text("4")], "size is not a valid count"),
    ] {
        let error = refuse(&checkpoint(&named(&[tuple(&items), b"Q".to_vec()].concat()), 16));
        assert!(error.message().contains(what) && error.message().contains(NOTHING), "{error}");
    }
    let missing = [text("storage"), class(), text("../../x"), text("cpu"), int(4)];
    let error = refuse(&checkpoint(&named(&[tuple(&missing), b"Q".to_vec()].concat()), 16));
    assert!(error.message().contains("`../../x`, which has no record"), "{error}");
}

#[test]
fn states_that_are_no_dict() {
    let ordered = [global("collections", "OrderedDict"), b")R".to_vec()].concat();
    hostile(
        &pickle(&[ordered.clone(), text("x"), b"b".to_vec()].concat()),
        "the state of a dict is text, expected a dict",
    );
    hostile(&pickle(&[b"]}b".to_vec()].concat()), "it sets the state of a list");
    hostile(&pickle(&[global("torch", "device"), b"}b".to_vec()].concat()), "it sets the state of a name");
}

#[test]
fn pickles_that_are_broken() {
    for (object, what) in [
        (&b"\x80\x06N."[..], "pickle protocol 6"),
        (b"\x80\x02\xff.", "byte 0xff is not a pickle opcode"),
        (b"\x80\x02R.", "stack underflow"),
        (b"\x80\x02.", "stack underflow"),
        (b"\x80\x02(0.", "stack underflow"),
        (b"\x80\x021.", "POP_MARK without a mark"),
        (b"\x80\x02u.", "SETITEMS without a mark"),
        (b"\x80\x02}(Nu.", "a key without a value"),
        (b"\x80\x02]NNs.", "it sets items of a list"),
        (b"\x80\x02}Na.", "it adds to a dict"),
        (b"\x80\x02h\x07.", "BINGET of memo index 7, which is not set"),
        (b"\x80\x02j\xff\xff\xff\xff.", "memo index 4294967295"),
        (b"gx\n.", "`x` is not a memo index"),
        (b"Ix\n.", "`x` is not a number"),
        (b"I-\n.", "is not a number"),
        (b"L--1L\n.", "is not a number"),
        (b"S'x\n.", "not quoted"),
        (b"\x80\x02X\x02\0\0\0\xff\xff.", "not valid UTF-8"),
        (b"\x80\x02X\xff\xff\xff\xff.", "BINUNICODE of 4294967295 bytes"),
        (b"\x80\x04\x8d\0\0\0\0\0\x01\0\0.", "BINUNICODE8 of 1099511627776 bytes"),
        (b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\xff.", "a length of 18446744073709551615 bytes"),
        (b"\x80\x02\x8b\xff\xff\xff\xff.", "LONG4 of -1 bytes"),
        (b"\x80\x02\x8b\xff\xff\xff\x7f.", "LONG4 of 2147483647 bytes"),
        (b"\x80\x04\x95\xff\xff\xff\xff\0\0\0\0N.", "a frame of 4294967295 bytes"),
        (b"\x80\x02cos", "an unterminated text line of 2 bytes or more"),
        (b"\x80\x02N", "are left"),
    ] {
        let error = refuse(&zip(&[("m/data.pkl", object)]));
        assert!(error.message().contains(what), "`{what}` is not in: {error}");
    }
}

#[test]
fn nesting_and_references_without_measure() {
    let deep = |open: &str, close: &str, n: usize| {
        pickle(format!("{}N{}", open.repeat(n), close.repeat(n)).as_bytes())
    };
    let tuples = pickle(&[b"N".to_vec(), b"\x85".repeat(100_000)].concat());
    let lists = pickle(&[b"]".repeat(100_000), b"a".repeat(99_999)].concat());
    for object in [tuples, lists, deep("(", "t", 1000)] {
        let error = refuse(&checkpoint(&object, 0));
        assert!(error.message().contains("nested more than 64 levels deep"), "{error}");
    }
    let marks = pickle(&b"(".repeat(1_000_000));
    assert_eq!(
        refuse(&zip(&[("m/data.pkl", &marks)])).message(),
        "stack underflow in STOP: nothing was executed"
    );
    for object in [&b"\x80\x02]q\0h\0a."[..], b"\x80\x02}q\0Kx h\0s.", b"\x80\x02]q\0(h\0tq\x010h\x01a."] {
        let error = refuse(&checkpoint(object, 0));
        let expected = ["contains itself", "not a pickle opcode", "stack underflow"];
        assert!(expected.iter().any(|what| error.message().contains(what)), "{error}");
    }
    // Ten references to ten references to ...: twenty levels.
    let mut object = b"\x80\x02]q\0".to_vec();
    for n in 0..20u8 {
        object.extend([b"0](".to_vec(), [b'h', n].repeat(10), vec![b'e', b'q', n + 1]].concat());
    }
    object.push(b'.');
    let error = refuse(&checkpoint(&object, 0));
    assert!(error.message().contains("too often to be expanded"), "{error}");
    let dup = pickle(&[b"]".to_vec(), b"2".repeat(1 << 20)].concat());
    let (limits, source) = (Limits::default(), MemorySource::new("m.pt", checkpoint(&dup, 0)));
    let opened = apr_testkit::read_limited(&*reader(), FORMAT, &source, &Options::new(), &limits);
    assert!(opened.is_ok(), "a stack of a million places is not a model, but no harm");
}

#[test]
fn memory_stays_in_proportion_to_the_pickle() {
    // One byte a value: what the arena may hold is bounded, not by the machine's memory.
    let values = pickle(&[b"(".to_vec(), b"}".repeat(6_000_000), b"t".to_vec()].concat());
    let error = refuse(&zip(&[("m/data.pkl", &values)]));
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
}

#[test]
fn archives_that_are_no_checkpoint() {
    for (records, what) in [
        (vec![("x/other", &b"x"[..])], "no `data.pkl`"),
        (vec![("a/data.pkl", b"N."), ("b/data.pkl", b"N.")], "two pickles"),
        (vec![("m/data.pkl", b"N."), ("m/byteorder", b"middle")], "the byte order is `middle`"),
    ] {
        let error = refuse(&zip(&records));
        assert!(error.message().contains(what), "{error}");
    }
    let page = refuse(b"<!DOCTYPE html><html>");
    assert!(page.message().contains("a text page"), "{page}");
}

#[test]
fn streams_whose_storages_do_not_fit() {
    let id =
        [text("storage"), global("torch", "FloatStorage"), text("0"), text("cpu"), int(4), b"N".to_vec()];
    let value = tensor([tuple(&id), b"Q".to_vec()].concat(), 0, &[4], &[1]);
    let head = stream(&named(&value));
    let head = &head[..head.len() - 4];
    let list = |key: &str| [&b"\x80\x02]"[..], &text(key), b"a."].concat();
    let whole = [head, &list("0"), &4u64.to_le_bytes(), &[0; 16]].concat();
    assert_eq!(open(&whole).unwrap().1.tensors.len(), 1);
    for (rest, what) in [
        (b"\x80\x02].".to_vec(), "refers to the storage `0`, which is not in the stream"),
        (b"\x80\x02}.".to_vec(), "the list of storages is not a list"),
        (list("1"), "storage `1` is listed, but no tensor refers to it"),
        (list("0"), "storage `0` is missing"),
        (
            [list("0"), 5u64.to_le_bytes().to_vec(), vec![0; 20]].concat(),
            "has 5 elements, but the pickle states 4",
        ),
        (
            [list("0"), 4u64.to_le_bytes().to_vec(), vec![0; 15]].concat(),
            "has 4 elements of 4 bytes, but only 15 bytes are left",
        ),
    ] {
        let error = refuse(&[head, &rest].concat());
        assert!(error.message().contains(what), "`{what}` is not in: {error}");
    }
    let view = [id[..5].to_vec(), vec![tuple(&[text("v"), int(2), int(3)])]].concat();
    let value = tensor([tuple(&view), b"Q".to_vec()].concat(), 0, &[1], &[1]);
    let error = refuse(&stream(&named(&value)));
    assert!(error.message().contains("a view of 3 elements from 2 in a storage of 4"), "{error}");
}

#[test]
fn modules_saved_as_a_whole_are_named_in_streams_too() {
    let id =
        [text("storage"), global("torch", "FloatStorage"), text("0"), text("cpu"), int(4), b"N".to_vec()];
    let weight = tensor([tuple(&id), b"Q".to_vec()].concat(), 0, &[4], &[1]);
    // The class lies beside its source text, and is instantiated without arguments.
    let module =
        [text("module"), global("models.resnet", "ResNet"), text("resnet.py"), text("class ResNet: pass")];
    let object = [tuple(&module), b"Q)\x81}".to_vec(), text("weight"), weight, b"sb".to_vec()].concat();
    let whole = |object: &[u8]| {
        let head = stream(&pickle(object));
        let keys = [&b"\x80\x02]"[..], &text("0"), b"a."].concat();
        [&head[..head.len() - 4], &keys, &4u64.to_le_bytes(), &[0; 16]].concat()
    };
    let error = refuse(&whole(&object));
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.message().contains("what was saved is created by `models.resnet.ResNet`"), "{error}");
    assert!(error.message().contains(NOTHING), "{error}");
    assert!(error.hint_text().unwrap().contains("torch.save(model.state_dict(), OUT)"), "{error:?}");
    // What stands for nothing known is still no storage.
    let other = [text("modules"), global("models.resnet", "ResNet"), text("resnet.py"), text("")];
    let error = refuse(&stream(&named(&[tuple(&other), b"Q".to_vec()].concat())));
    assert!(error.message().contains("a persistent id of 4 values, expected 6"), "{error}");
}

#[test]
fn tensors_whose_paths_make_one_name_are_no_fault_of_the_file() {
    let value = || tensor(storage("FloatStorage", 4), 0, &[4], &[1]);
    let inner = [b"}".to_vec(), text("b"), value(), b"s".to_vec()].concat();
    let object = [b"}(".to_vec(), text("a"), inner, text("a.b"), value(), b"u".to_vec()].concat();
    let error = open(&checkpoint(&pickle(&object), 16)).map(drop).unwrap_err();
    assert_eq!(
        (error.kind(), error.tensor_name()),
        (apr_sdk::ErrorKind::Unsupported, Some("a.b")),
        "{error}"
    );
}
