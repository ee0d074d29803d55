//! Writes the seeds of every target into folders: `seeds FOLDER`.

use apr_fuzz::seeds::{
    archives, importance, libraries, manifests, models, older_apr, packed, programs, single_models,
};
use std::path::PathBuf;

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).expect("usage: seeds FOLDER"));
    let formats = ["ggml_legacy", "gguf", "npy", "npz", "onnx", "pytorch", "safetensors", "apr"];
    let formats = formats.map(|id| (id, models(id)));
    let others = [
        ("apr_64", older_apr("header_64")),
        ("apr_1", older_apr("version_1")),
        ("pytorch_reports", single_models("pytorch")),
        ("zip", archives()),
        ("importance", importance()),
        ("manifest", manifests()),
        ("packed", packed()),
        ("library", libraries()),
        ("program", programs()),
        ("cuda_program", programs()),
    ];
    for (target, seeds) in formats.into_iter().chain(others) {
        let folder = folder.join(target);
        std::fs::create_dir_all(&folder).expect("the folder can be made");
        for (name, bytes) in seeds {
            std::fs::write(folder.join(name), bytes).expect("the seed can be written");
        }
    }
}
