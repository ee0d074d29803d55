//! One input as the files of a model: alone, under the names of a model of several files, as a folder.

/// What separates the files of one input.
pub const NEXT_FILE: &[u8] = b"\n--next-file--\n";

/// The most files that one input makes: enough for every rule about several, few enough to stay fast.
const MOST: usize = 5;

/// Named files, the first of which is opened, or their folder.
#[derive(Debug)]
pub struct Arrangement {
    /// Names and contents.
    pub files: Vec<(String, Vec<u8>)>,
    /// Whether the folder is opened.
    pub folder: bool,
}

/// Every way in which `input` is opened. Without a separator the same bytes stand under every name.
pub fn arrangements(id: &str, input: &[u8]) -> Vec<Arrangement> {
    let pieces = split(input);
    let mut all = Vec::new();
    if pieces.len() == 1 {
        all.push(file(vec![(format!("model.{id}"), input.to_vec())]));
        let names = names(id, 3);
        all.push(file(names.into_iter().map(|name| (name, input.to_vec())).collect()));
        return all;
    }
    let names = names(id, pieces.len());
    let mut files: Vec<_> =
        names.into_iter().zip(pieces).map(|(name, piece)| (name, piece.to_vec())).collect();
    all.push(file(files.clone()));
    all.push(Arrangement { files: files.clone(), folder: true });
    // Opened by a later file: a shard whose index lies beside it, a part that is not the first.
    files.rotate_left(1);
    all.push(file(files));
    all
}

fn file(files: Vec<(String, Vec<u8>)>) -> Arrangement {
    Arrangement { files, folder: false }
}

fn split(input: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut rest = input;
    while pieces.len() + 1 < MOST {
        let Some(at) = rest.windows(NEXT_FILE.len()).position(|window| window == NEXT_FILE) else { break };
        pieces.push(&rest[..at]);
        rest = &rest[at + NEXT_FILE.len()..];
    }
    pieces.push(rest);
    pieces
}

/// What `count` files of one model are called, the one that is opened first.
fn names(id: &str, count: usize) -> Vec<String> {
    let numbered = |of: usize| (1..=of).map(move |n| format!("model-{n:05}-of-{of:05}.{id}"));
    let index = match id {
        "gguf" => return numbered(count).collect(),
        "pytorch" => {
            let of = count.saturating_sub(1);
            let shards = (1..=of).map(|n| format!("pytorch_model-{n:05}-of-{of:05}.bin"));
            return std::iter::once("pytorch_model.bin.index.json".to_owned()).chain(shards).collect();
        }
        // Data beside the model.
        "onnx" => {
            let beside = (1..count).map(|n| if n == 1 { "data".to_owned() } else { format!("data-{n}") });
            let names = beside.map(|suffix| format!("model.onnx.{suffix}"));
            return std::iter::once("model.onnx".to_owned()).chain(names).collect();
        }
        "safetensors" => "model.safetensors.index.json".to_owned(),
        other => format!("model.{other}"),
    };
    std::iter::once(index).chain(numbered(count - 1)).collect()
}
