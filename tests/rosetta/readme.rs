//! README shows the matrix as it is: generated, not typed. `BLESS=1` writes it.

use crate::expected::MATRIX;
use apr_tests::root;

const BEGIN: &str = "<!-- written by `BLESS=1 cargo test -p apr-tests --test rosetta` -->\n";
const END: &str = "<!-- end of what is written -->\n";

#[test]
fn readme_shows_the_matrix() {
    let path = root().join("README.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("README has no place for the matrix");
    let (shown, after) = rest.split_once(END).expect("README's matrix has no end");
    let found = MATRIX.markdown();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, [before, BEGIN, &found, END, after].concat()).unwrap();
    } else {
        assert_eq!(shown, found, "BLESS=1 writes it");
    }
}
