//! The header and its flags, with the names of the program that writes them.

/// The first four bytes.
pub const MAGIC: [u8; 4] = *b"APRN";
/// The newest major version.
pub const VERSION: u8 = 1;
/// Length of the checksum at the end.
pub const SUM_LEN: u64 = 4;
/// Length of an Ed25519 signature and its public key.
pub const SIGNATURE_LEN: u64 = 64 + 32;
/// The most bytes of a payload before compression, for the program that writes it.
pub const MAX_UNCOMPRESSED: u32 = 1 << 30;

/// Feature flags of the header.
pub mod flags {
    /// AES-256-GCM.
    pub const ENCRYPTED: u8 = 1;
    /// Ed25519 signature.
    pub const SIGNED: u8 = 1 << 1;
}

/// The header, without the magic and its reserved bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Major and minor version.
    pub version: (u8, u8),
    /// See [`model_type`].
    pub model_type: u16,
    /// Length of the MessagePack in bytes.
    pub metadata_size: u32,
    /// Length of the payload in the file.
    pub payload_size: u32,
    /// Length of the payload before compression.
    pub uncompressed_size: u32,
    /// The number of the compression.
    pub compression: u8,
    /// See [`flags`].
    pub flags: u8,
    /// The program's judgement of the model, out of 100; 0 if there is none.
    pub quality_score: u8,
}

impl Header {
    /// Length in the file, including the magic.
    pub const LEN: usize = 32;

    /// Decodes a header from its 32 bytes, whose magic the caller has checked.
    pub fn from_bytes(bytes: &[u8; Header::LEN]) -> Header {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Header {
            version: (bytes[4], bytes[5]),
            model_type: u16::from_le_bytes([bytes[6], bytes[7]]),
            metadata_size: word(8),
            payload_size: word(12),
            uncompressed_size: word(16),
            compression: bytes[20],
            flags: bytes[21],
            quality_score: bytes[22],
        }
    }
}

/// The numbers of model types.
const MODEL_TYPES: &[(u16, &str)] = &[
    (0x01, LINEAR_REGRESSION),
    (0x02, "LogisticRegression"),
    (0x03, "DecisionTree"),
    (0x04, "RandomForest"),
    (0x05, "GradientBoosting"),
    (0x06, K_MEANS),
    (0x07, "Pca"),
    (0x08, "NaiveBayes"),
    (0x09, "Knn"),
    (0x0a, "Svm"),
    (0x10, "NgramLm"),
    (0x11, "Tfidf"),
    (0x12, "CountVectorizer"),
    (0x20, "NeuralSequential"),
    (0x21, "NeuralCustom"),
    (0x30, "ContentRecommender"),
    (0x40, "MixtureOfExperts"),
    (0xff, "Custom"),
];

/// A model type whose value is understood.
pub const LINEAR_REGRESSION: &str = "LinearRegression";
/// A model type whose value is understood.
pub const K_MEANS: &str = "KMeans";

/// The name of a model type; `None` for a number that the format does not define.
pub fn model_type(number: u16) -> Option<&'static str> {
    MODEL_TYPES.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}
