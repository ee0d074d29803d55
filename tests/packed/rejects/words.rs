//! Integers in words: what does not fit is an error that names the tensor.

use crate::folder::{Folder, fixtures};
use apr_sdk::{DType, Error, ErrorKind, StoredTensor};

/// A fixture, after a change.
pub(super) fn changed(name: &str, change: impl FnOnce(&mut Folder)) -> Folder {
    let mut folder = Folder::read(&fixtures().join(name));
    change(&mut folder);
    folder
}

/// The number of the tensor whose name ends so.
fn number(folder: &Folder, ending: &str) -> usize {
    folder.model.tensors.iter().position(|tensor| tensor.name.ends_with(ending)).unwrap()
}

pub(super) fn remove(folder: &mut Folder, ending: &str) {
    let at = number(folder, ending);
    folder.model.tensors.remove(at);
    folder.bytes.remove(at);
}

/// Adds a tensor to the module that all fixtures have.
pub(super) fn add(folder: &mut Folder, ending: &str, dtype: DType, shape: &[u64], bytes: Vec<u8>) {
    let name = format!("model.layers.0.mlp.up_proj.{ending}");
    folder.model.tensors.push(StoredTensor { name, dtype, shape: shape.to_vec() });
    folder.bytes.push(bytes);
}

/// The error of a model, or of its first weight's rows.
fn error(folder: &Folder) -> Error {
    match folder.understood() {
        Err(error) => error,
        Ok(understood) => {
            let weight = &understood.packed[0];
            folder.unpack(weight, 0..weight.rows.rows, 0..weight.rows.rows).unwrap_err()
        }
    }
}

pub(super) fn says(folder: &Folder, kind: ErrorKind, text: &str) {
    let error = error(folder);
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(text), "{error}");
}

/// Replaces a text in what the configuration announces.
pub(super) fn configured(folder: &mut Folder, from: &str, to: &str) {
    let json = &mut folder.model.announced[0].json;
    assert!(json.contains(from), "{json}");
    *json = json.replace(from, to);
}

#[test]
fn gptq_without_its_parts_or_with_others() {
    for (ending, says_so) in
        [(".scales", "up_proj.scales` is missing"), (".qzeros", "up_proj.qzeros` is missing")]
    {
        says(&changed("gptq-4-asym", |folder| remove(folder, ending)), ErrorKind::Malformed, says_so);
    }
    // Zero points that are left out are in the middle only where the configuration says so.
    for text in ["\"sym\":false", "\"sym\":null", "\"other\":true"] {
        let unsaid = changed("gptq-4-no-zeros", |folder| configured(folder, "\"sym\":true", text));
        says(&unsaid, ErrorKind::Malformed, "up_proj.qzeros` is missing");
    }
    let empty =
        changed("auto-round-empty-zeros", |folder| configured(folder, "\"sym\":true", "\"sym\":false"));
    says(&empty, ErrorKind::Malformed, "its shape [0] does not match 4 groups of 64 rows");
    let group = |text: &'static str| {
        changed("gptq-4-sym", move |folder| configured(folder, "\"group_size\":32", text))
    };
    says(&group("\"group_size\":64"), ErrorKind::Malformed, "in groups of 64");
    let without = changed("gptq-4-sym", |folder| {
        configured(folder, "\"group_size\":32", "\"group_size\":48");
        remove(folder, ".g_idx");
    });
    says(&without, ErrorKind::Malformed, "in groups of 48");
    let bits = changed("gptq-4-sym", |folder| configured(folder, "\"bits\":4", "\"bits\":5"));
    says(&bits, ErrorKind::Malformed, "is not 2, 3, 4 or 8");
    let other = changed("gptq-4-sym", |folder| configured(folder, "\"bits\":4", "\"bits\":8"));
    says(&other, ErrorKind::Malformed, "codes of 8 bits");
    let index = changed("gptq-4-actorder", |folder| {
        let at = number(folder, ".g_idx");
        folder.bytes[at][..4].copy_from_slice(&77u32.to_le_bytes());
    });
    says(&index, ErrorKind::Malformed, "`g_idx` has group 77, but there are only 4");
    let crowded = changed("gptq-4-actorder", |folder| {
        let at = number(folder, ".g_idx");
        folder.bytes[at].as_chunks_mut::<4>().0.fill(1u32.to_le_bytes());
    });
    says(&crowded, ErrorKind::Malformed, "`g_idx` assigns 128 columns to group 1, but groups have 32");
    let order = changed("gptq-4-actorder", |folder| remove(folder, ".g_idx"));
    says(&order, ErrorKind::Malformed, "`desc_act` states that columns are reordered");
    let planes = changed("gptq-3", |folder| {
        configured(folder, "\"checkpoint_format\":\"gptq\"", "\"checkpoint_format\":\"gptq_p\"");
    });
    says(&planes, ErrorKind::Unsupported, "`gptq_p`");
    let turned =
        |text: &'static str| changed("gptq-4-sym", move |folder| configured(folder, "\"bits\"", text));
    says(&turned("\"rotation\":\"hadamard\",\"bits\""), ErrorKind::Unsupported, "`rotation`");
    assert!(turned("\"rotation\":null,\"bits\"").understood().is_ok());
    let other = changed("gptq-4-sym", |folder| configured(folder, "\"gptq\"", "\"paroquant\""));
    assert_eq!(other.understood().unwrap().packed, [], "what is not known here is left to other plugins");
    let other = changed("gptq-4-sym", |folder| configured(folder, "\"gptq\"", "\"hqq\""));
    says(
        &other,
        ErrorKind::Unsupported,
        "it looks like a weight of GPTQ, but the configuration states `hqq`",
    );
    let arranged = changed("gptq-4-sym", |folder| {
        configured(folder, "\"checkpoint_format\":\"gptq\"", "\"checkpoint_format\":\"marlin\"");
    });
    says(&arranged, ErrorKind::Unsupported, "in the form `marlin`");
    let halves = changed("gptq-4-sym", |folder| {
        let at = number(folder, ".qweight");
        folder.model.tensors[at].dtype = DType::I16;
        folder.model.tensors[at].shape[0] *= 2;
    });
    says(&halves, ErrorKind::Unsupported, "in words of type I16");
    let nan = changed("gptq-4-sym", |folder| {
        let at = number(folder, ".scales");
        folder.bytes[at][..2].copy_from_slice(&0x7e00u16.to_le_bytes());
    });
    says(&nan, ErrorKind::Malformed, "a scale is NaN");
}

/// All values of a fixture's weight.
fn all(folder: &Folder) -> Vec<f32> {
    let understood = folder.understood().unwrap_or_else(|error| panic!("{error}"));
    let rows = understood.packed[0].rows.rows;
    folder.unpack(&understood.packed[0], 0..rows, 0..rows).unwrap()
}

#[test]
fn an_index_that_was_never_filled_is_none() {
    let zeros = changed("gptq-4-sym", |folder| {
        let at = number(folder, ".g_idx");
        folder.bytes[at].fill(0);
    });
    assert_eq!(all(&zeros), all(&changed("gptq-4-sym", |_| {})));
    let unset = changed("ct-pack-int4", |folder| {
        add(folder, "weight_g_idx", DType::I32, &[96], vec![0xff; 4 * 96]);
    });
    assert_eq!(all(&unset), all(&changed("ct-pack-int4", |_| {})));
    let unset = changed("ct-int8-channel", |folder| {
        add(folder, "weight_g_idx", DType::I32, &[96], vec![0xff; 4 * 96]);
    });
    assert_eq!(all(&unset), all(&changed("ct-int8-channel", |_| {})));
}

#[test]
fn zero_points_of_compressed_tensors_in_bytes_are_those_in_words() {
    let packed = changed("ct-pack-int4-asym", |_| {});
    let words = packed.bytes[number(&packed, ".weight_zero_point")].clone();
    let bytes = changed("ct-pack-int4-asym", |folder| {
        let at = number(folder, ".weight_zero_point");
        // Row 0 .. 7 of group g are the places of word g.
        let zero = |row: usize, group: usize| {
            let word = u32::from_le_bytes(words.as_chunks::<4>().0[row / 8 * 3 + group]);
            (word >> (row % 8 * 4) & 15) as u8
        };
        let all = (0..40).flat_map(|row| (0..3).map(move |group| (row, group)));
        folder.bytes[at] = all.map(|(row, group)| zero(row, group).wrapping_sub(8)).collect();
        let tensor = &mut folder.model.tensors[at];
        (tensor.dtype, tensor.shape) = (DType::I8, vec![40, 3]);
    });
    assert_eq!(all(&bytes), all(&packed));
}

#[test]
fn of_groups_by_classes_that_names_do_not_tell_tensors_show_which_is_meant() {
    let with = |targets: &'static str| {
        changed("ct-two-groups", move |folder| {
            configured(folder, "\"re:.*self_attn.*\"", "\"OwnAttention\"");
            configured(folder, "\"model.layers.0.mlp.down_proj\"", targets);
        })
    };
    let (apart, stated) = (with("\"OwnMLP\""), changed("ct-two-groups", |_| {}));
    assert_eq!(all(&apart), all(&stated));
    let about = |folder: &Folder| -> Vec<String> {
        folder.understood().unwrap().packed.into_iter().map(|weight| weight.about).collect()
    };
    assert_eq!(about(&apart), about(&stated));
}

#[test]
fn one_scale_for_a_tensor_and_stacked_matrices_of_compressed_tensors() {
    let stacked = changed("ct-pack-int4", |folder| {
        for (ending, shape) in [
            (".weight_packed", vec![2, 20, 12]),
            (".weight_scale", vec![2, 20, 3]),
            (".weight_shape", vec![3]),
        ] {
            let at = number(folder, ending);
            folder.model.tensors[at].shape = shape;
        }
        let at = number(folder, ".weight_shape");
        folder.bytes[at] = [2u64, 20, 96].iter().flat_map(|size| size.to_le_bytes()).collect();
    });
    assert_eq!(stacked.understood().unwrap().packed[0].shape, [2, 20, 96]);
    assert_eq!(all(&stacked), all(&changed("ct-pack-int4", |_| {})));
    // Scales that are all the same, and the one that they are.
    let with = |shape: &'static [u64], strategy: &'static str| {
        changed("ct-pack-int8", move |folder| {
            let at = number(folder, ".weight_scale");
            folder.bytes[at] = [0x00, 0x3c].repeat(shape[0] as usize);
            folder.model.tensors[at].shape = shape.to_vec();
            configured(folder, "\"strategy\":\"channel\"", strategy);
        })
    };
    let one = with(&[1], "\"strategy\":\"tensor\"");
    assert_eq!(all(&one), all(&with(&[24, 1], "\"strategy\":\"channel\"")));
    says(
        &with(&[1], "\"strategy\":\"channel\""),
        ErrorKind::Malformed,
        "its shape [1] does not match 24 rows",
    );
}

#[test]
fn a_stored_zero_point_of_gptq_that_is_the_largest_wraps_to_0() {
    // A word 0xf means zero points 0 and 1, as the writer took 1 from each place of 0x10 with a borrow.
    let with = |word: u32, format: &'static str| {
        changed("gptq-4-asym", move |folder| {
            configured(folder, "\"checkpoint_format\":\"gptq\"", format);
            let at = number(folder, ".qzeros");
            folder.bytes[at].as_chunks_mut::<4>().0.fill(word.to_le_bytes());
        })
    };
    let first = with(0x7777_776f, "\"checkpoint_format\":\"gptq\"");
    let second = with(0x8888_8880, "\"checkpoint_format\":\"gptq_v2\"");
    assert_eq!(all(&first), all(&second));
}

#[test]
fn a_pattern_of_gptq_that_cannot_be_read_matters_where_it_says_something_else() {
    let with = |own: &'static str| {
        changed("gptq-4-sym", move |folder| {
            let text = format!("\"dynamic\":{{{own}}},\"bits\"");
            configured(folder, "\"bits\"", &text);
        })
    };
    assert!(with(r#""+:.*(?P=up).*": {"bits": 4}, "-:.*(?P=up).*": {}"#).understood().is_ok());
    assert!(with(r#""+:.*up_proj": {"bits": 4}, "+:.*(?P=up).*": {"bits": 8}"#).understood().is_ok());
    says(&with(r#""+:.*(?P=up).*": {"bits": 8}"#), ErrorKind::Unsupported, "`.*(?P=up).*`");
    // One that looks around is read.
    assert!(with(r#""+:(?!.*up).*": {"bits": 8}"#).understood().is_ok());
    says(&with(r#""+:(?!.*down).*": {"bits": 8}"#), ErrorKind::Malformed, "codes of 8 bits");
}

#[test]
fn awq_of_other_bits_or_shapes() {
    let bits = changed("awq-gemm", |folder| configured(folder, "\"bits\":4", "\"bits\":3"));
    says(&bits, ErrorKind::Malformed, "is not 4");
    let group = changed("awq-gemm", |folder| configured(folder, "\"group_size\":32", "\"group_size\":48"));
    says(&group, ErrorKind::Malformed, "in groups of 48");
    let short = changed("awq-gemm", |folder| {
        let at = number(folder, ".qweight");
        folder.model.tensors[at].shape[0] -= 1;
    });
    says(&short, ErrorKind::Malformed, "64 rows of 95 in groups of 32");
    let fast = changed("awq-gemm", |folder| configured(folder, "\"gemm\"", "\"gemv_fast\""));
    says(&fast, ErrorKind::Unsupported, "gemv_fast");
    let older =
        changed("awq-gemm", |folder| configured(folder, "\"bits\"", "\"backend\":\"llm-awq\",\"bits\""));
    says(&older, ErrorKind::Unsupported, "llm-awq");
    let group =
        changed("awq-gemv-fast", |folder| configured(folder, "\"group_size\":32", "\"group_size\":2"));
    says(&group, ErrorKind::Malformed, "do not match rows of 128");
    // Rows of scales are filled up, so that their number alone would be another length of groups.
    for size in ["64", "128", "1000000000", "-1", "null"] {
        let other = changed("awq-gemv", |folder| {
            configured(folder, "\"group_size\":32", &format!("\"group_size\":{size}"));
        });
        says(&other, ErrorKind::Malformed, "do not match rows of 96");
    }
    let untold = changed("awq-gemv", |folder| folder.model.announced.clear());
    assert_eq!(all(&untold), all(&changed("awq-gemv", |_| {})));
    let short = changed("awq-gemv-fast", |folder| remove(folder, ".qzeros"));
    says(&short, ErrorKind::Malformed, "up_proj.qzeros` is missing");
    let newer = changed("awq-gemv", |folder| configured(folder, "\"version\"", "\"format\""));
    assert_eq!(all(&newer), all(&changed("awq-gemv", |_| {})));
    // Of both keys the older one counts.
    let both =
        changed("awq-gemv", |folder| configured(folder, "\"version\"", "\"format\":\"gemm\",\"version\""));
    assert_eq!(all(&both), all(&newer));
    let marlin = changed("awq-gemm", |folder| configured(folder, "\"gemm\"", "\"marlin\""));
    says(&marlin, ErrorKind::Unsupported, "version `marlin`");
    let upper = changed("awq-gemm", |folder| configured(folder, "\"gemm\"", "\"GEMM\""));
    assert!(upper.understood().is_ok());
}

#[test]
fn compressed_tensors_that_do_not_fit() {
    let lies = changed("ct-pack-int4", |folder| {
        let at = number(folder, ".weight_shape");
        folder.bytes[at][8..16].copy_from_slice(&200u64.to_le_bytes());
    });
    says(&lies, ErrorKind::Malformed, "200 codes of 4 bits");
    says(
        &changed("ct-pack-int4", |folder| remove(folder, ".weight_scale")),
        ErrorKind::Malformed,
        "weight_scale` is missing",
    );
    let zeros = changed("ct-pack-int4-asym", |folder| remove(folder, ".weight_zero_point"));
    says(&zeros, ErrorKind::Malformed, "zero points are missing");
    let bits = changed("ct-pack-int4", |folder| configured(folder, "\"num_bits\":4", "\"num_bits\":0"));
    says(&bits, ErrorKind::Malformed, "is not from 1 to 8");
    let marlin = changed("ct-pack-int4", |folder| {
        configured(folder, "\"format\":\"pack-quantized\"", "\"format\":\"marlin-24\"")
    });
    says(&marlin, ErrorKind::Unsupported, "marlin-24");
    let turned = changed("ct-pack-int4", |folder| {
        configured(folder, "\"ignore\"", "\"transform_config\":{\"config_groups\":{\"u\":{}}},\"ignore\"");
    });
    says(&turned, ErrorKind::Unsupported, "transform_config");
    let order = changed("ct-pack-int4-actorder", |folder| remove(folder, ".weight_g_idx"));
    says(&order, ErrorKind::Malformed, "`actorder` states that columns are reordered");
    let bytes = changed("ct-nvfp4", |folder| {
        let at = number(folder, ".weight_scale");
        folder.model.tensors[at].dtype = DType::U8;
    });
    says(&bytes, ErrorKind::Unsupported, "for 16 columns are not supported");
    let channel = changed("ct-float-channel", |folder| {
        let at = number(folder, "up_proj.weight");
        folder.model.tensors[at].shape.reverse();
    });
    says(&channel, ErrorKind::Malformed, "does not match that of the codes, [96, 24]");
    let order = changed("ct-int8-channel", |folder| {
        add(folder, "weight_g_idx", DType::I32, &[96], vec![0; 4 * 96]);
    });
    says(&order, ErrorKind::Unsupported, "in activation order");
    let far = changed("ct-pack-int4", |folder| {
        configured(folder, "\"symmetric\":true", "\"symmetric\":false");
        add(folder, "weight_zero_point", DType::I8, &[40, 3], vec![8; 40 * 3]);
    });
    says(&far, ErrorKind::Malformed, "a zero point is 8, which is out of range for 4 bits");
    let floats = changed("ct-pack-int4", |folder| {
        let at = number(folder, ".weight_packed");
        folder.model.tensors[at].dtype = DType::F32;
    });
    says(&floats, ErrorKind::Malformed, "codes of type F32 are not supported");
}

/// The first value of a fixture's weight.
fn first(folder: &Folder) -> f32 {
    let understood = folder.understood().unwrap();
    folder.unpack(&understood.packed[0], 0..1, 0..1).unwrap()[0]
}

#[test]
fn zero_points_are_lower_by_one_in_the_first_version_alone() {
    let stated = first(&changed("gptq-v2", |_| {}));
    // By the newer key, and by the file beside the model.
    let newer = changed("gptq-v2", |folder| configured(folder, "checkpoint_format", "format"));
    assert_eq!(first(&newer), stated);
    let beside = changed("gptq-v2", |folder| {
        configured(folder, "\"checkpoint_format\":\"gptq_v2\"", "\"meta\":{}");
        folder.model.announced.push(apr_sdk::Announced {
            file: "quantize_config.json".into(),
            key: String::new(),
            json: r#"{"bits": 4, "group_size": 32, "checkpoint_format": "gptq_v2"}"#.into(),
        });
    });
    assert_eq!(first(&beside), stated);
    let lower = first(&changed("auto-round-gptq", |_| {}));
    for form in ["auto_round", "auto_round:gptqmodel"] {
        let as_stored = changed("auto-round-gptq", |folder| configured(folder, "auto_round:auto_gptq", form));
        assert!(first(&as_stored) > lower, "{form}");
    }
}
