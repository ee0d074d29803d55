//! The book shows the matrix as it is: generated, not typed. `BLESS=1` writes it.

use crate::expected::MATRIX;
use apr_tests::documents::assert_written;

#[test]
fn the_book_shows_the_matrix() {
    assert_written("reference/matrix.md", "rosetta", &MATRIX.markdown());
}
