//! Every vector form gives the bytes of the scalar form.

use crate::data::{ROW, SETS, importance, weights};
use apr_plugin_quants::simd::Level;
use apr_plugin_quants::types::{Rows, TYPES};

#[test]
fn every_level_of_this_machine_gives_the_bytes_of_the_scalar_form() {
    for of in TYPES {
        let info = of.dtype.info().unwrap();
        for set in SETS {
            let values = importance(set);
            let block = info.block_elements as usize;
            // Vector forms work on groups of blocks, or of rows, and must do with what is left over.
            for (row_len, rows) in [(ROW, 2), (block, 35), (block * 3, 33)] {
                let rows = &weights(set)[..row_len * rows];
                for importance in [None, Some(&values[..row_len])] {
                    if importance.is_none() && of.needs_importance {
                        continue;
                    }
                    let mut scalar: Option<Result<Vec<u8>, String>> = None;
                    for level in Level::ALL.into_iter().filter(|level| level.is_supported()) {
                        let blocks = rows.len() / info.block_elements as usize;
                        let mut out = vec![0; blocks * info.block_bytes as usize];
                        let made = (of.encode)(&Rows { values: rows, row_len, importance, level }, &mut out);
                        let made = made.map(|()| out).map_err(|error| error.to_string());
                        let want = scalar.get_or_insert_with(|| made.clone());
                        let with = importance.is_some();
                        assert!(*want == made, "{} {set} {row_len} {with} {}", of.dtype, level.name());
                    }
                }
            }
        }
    }
}
