//! Files laid out by hand, so that any field can say anything.

/// A file of the LLaMA layout with one layer, in any version.
pub struct File {
    pub magic: [u8; 4],
    pub version: Option<u32>,
    pub hparams: Vec<u32>,
    pub tokens: Vec<Vec<u8>>,
    pub scored: bool,
    pub aligned: bool,
    pub tensors: Vec<Tensor>,
}

/// A tensor's record as it is written, and its payload.
#[derive(Clone)]
pub struct Tensor {
    pub n_dims: u32,
    pub name_len: u32,
    pub kind: u32,
    pub dims: Vec<u32>,
    pub name: Vec<u8>,
    pub payload: Vec<u8>,
}

impl Tensor {
    /// A record that tells the truth.
    pub fn new(name: &str, kind: u32, dims: &[u32], len: usize) -> Tensor {
        Tensor {
            n_dims: dims.len() as u32,
            name_len: name.len() as u32,
            kind,
            dims: dims.to_vec(),
            name: name.into(),
            payload: vec![7; len],
        }
    }
}

const LAYER: [&str; 9] = [
    "attention_norm.weight",
    "attention.wq.weight",
    "attention.wk.weight",
    "attention.wv.weight",
    "attention.wo.weight",
    "ffn_norm.weight",
    "feed_forward.w1.weight",
    "feed_forward.w2.weight",
    "feed_forward.w3.weight",
];

impl File {
    /// ggjt of `version`, one layer, all tensors, each F32 of one row of 4.
    pub fn ggjt(version: u32) -> File {
        let names = ["tok_embeddings.weight", "norm.weight", "output.weight"].map(str::to_owned);
        let names = names.into_iter().chain(LAYER.map(|part| format!("layers.0.{part}")));
        File {
            magic: *b"tjgg",
            version: Some(version),
            hparams: vec![2, 4, 1, 1, 1, 1, 0],
            tokens: vec![b"a".to_vec(), b"bc".to_vec()],
            scored: true,
            aligned: true,
            tensors: names.map(|name| Tensor::new(&name, 0, &[4, 1], 16)).collect(),
        }
    }

    /// The same model behind the bare magic.
    pub fn ggml() -> File {
        File { magic: *b"lmgg", version: None, scored: false, aligned: false, ..File::ggjt(1) }
    }

    /// With tensor number `n` changed.
    pub fn with(mut self, n: usize, change: impl FnOnce(&mut Tensor)) -> File {
        change(&mut self.tensors[n]);
        self
    }

    /// The offset of tensor number `n`'s record.
    pub fn record_at(&self, n: usize) -> u64 {
        let before = File {
            tensors: self.tensors[..n].to_vec(),
            tokens: self.tokens.clone(),
            hparams: self.hparams.clone(),
            ..*self
        };
        before.bytes().len() as u64
    }

    /// The finished file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = self.magic.to_vec();
        self.version
            .into_iter()
            .chain(self.hparams.iter().copied())
            .for_each(|n| out.extend(n.to_le_bytes()));
        for token in &self.tokens {
            out.extend((token.len() as u32).to_le_bytes());
            out.extend(token);
            out.extend(&0.5f32.to_le_bytes()[..if self.scored { 4 } else { 0 }]);
        }
        for tensor in &self.tensors {
            let numbers = [tensor.n_dims, tensor.name_len, tensor.kind];
            numbers.iter().chain(&tensor.dims).for_each(|n| out.extend(n.to_le_bytes()));
            out.extend(&tensor.name);
            if self.aligned {
                out.resize(out.len().next_multiple_of(32), 0);
            }
            out.extend(&tensor.payload);
        }
        out
    }
}
