//! A value alone among zeros, at every place of a super-block: codes of the parts behind one of zeros must not be written to
//! another's place. ggml 0.26.0 does that with IQ3_S.

use apr_plugin_quants::PLUGIN;
use apr_sdk::DType;

const ROW: usize = 256;

#[test]
fn a_value_alone_in_its_row_is_kept() {
    let quantizer = (PLUGIN.quantizer)().unwrap();
    let importance = [1.0; ROW];
    for dtype in [
        DType::Q3_K,
        DType::Q4_K,
        DType::Q5_K,
        DType::Q6_K,
        DType::Q4_0,
        DType::Q5_0,
        DType::Q8_0,
        DType::IQ4_NL,
        DType::IQ4_XS,
        DType::IQ3_XXS,
        DType::IQ3_S,
    ] {
        for weights in [None, Some(&importance[..])] {
            if weights.is_none() && dtype == DType::IQ3_XXS {
                continue;
            }
            let mut rows = vec![0.0; ROW * ROW];
            (0..ROW).for_each(|at| rows[at * ROW + at] = if at % 3 == 0 { -1.0 } else { 1.0 });
            let info = dtype.info().unwrap();
            let mut blocks = vec![0; rows.len() / info.block_elements as usize * info.block_bytes as usize];
            quantizer.encode(dtype, &rows, ROW as u64, weights, &mut blocks).unwrap();
            let mut again = vec![0.0; rows.len()];
            quantizer.decode(dtype, &blocks, ROW as u64, &mut again).unwrap();
            for at in 0..ROW {
                let (want, have) = (rows[at * ROW + at], again[at * ROW + at]);
                assert!((want - have).abs() < 0.2, "{dtype}, {}, place {at}: {have}", weights.is_some());
            }
        }
    }
}
