//! Enumerations as numbers. An unknown number is answered by a fallback or an error, never by undefined behaviour.

use abi_stable::StableAbi;

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident { $($(#[$constant_doc:meta])* $constant:ident = $n:literal,)* })*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
        pub struct $name(pub u32);

        impl $name {
            $($(#[$constant_doc])* pub const $constant: $name = $name($n);)*
            /// Every constant: its name and number.
            pub const ALL: &'static [(&'static str, u32)] = &[$((stringify!($constant), $n)),*];
        }
    )*

    /// Every enumeration: its name and constants.
    pub const NUMBERS: &[(&str, &[(&str, u32)])] = &[$((stringify!($name), $name::ALL)),*];
    };
}

numbers! {
    /// The kind of an error: its position in `apr_sdk::ErrorKind::ALL`.
    ErrorNumber {}
    /// How sure a format is: `apr_sdk::Score`.
    ScoreNumber {}
    /// An element type: its position in the dtype table.
    DTypeNumber {
        /// No type: a tensor keeps the one it has.
        KEEP = 0xffff_ffff,
        /// Added to a type: only if it holds every value exactly.
        NARROW_IF_EXACT = 0x8000_0000,
    }
    /// How grave a message is.
    LogNumber {
        /// Shown with `-v`.
        DEBUG = 0,
        /// Shown in the summary.
        NOTE = 1,
        /// Shown at once.
        WARNING = 2,
    }
    /// Where a tensor's payload is.
    PayloadNumber {
        /// In an extent.
        EXTENT = 0,
        /// In compressed blocks.
        BLOCKS = 1,
        /// In a stream.
        SEQUENTIAL = 2,
    }
    /// Whether an extent has a view, and in which byte order.
    ByteOrder {
        /// No view.
        PLAIN = 0,
        /// A view, little-endian.
        LITTLE = 1,
        /// A view, big-endian.
        BIG = 2,
    }
    /// Which fact a model says of itself.
    FactNumber {
        /// The dialect, as text.
        DIALECT = 0,
        /// The architecture's id as text, its configuration as bytes.
        ARCHITECTURE = 1,
        /// The tokenizer, as bytes.
        TOKENIZER = 2,
        /// The recipe's name, as text.
        RECIPE = 3,
        /// The provenance record, as bytes.
        PROVENANCE = 4,
        /// A note, as text.
        NOTE = 5,
        /// The id of the format the model was read from, as text; only towards a writer.
        FORMAT = 6,
        /// A format whose foreign metadata has no file, as text; only towards a writer.
        EMPTY_FOREIGN = 7,
        /// The model card, as bytes.
        MODEL_CARD = 8,
    }
    /// How a payload lies in the output.
    EncodingNumber {
        /// As it is.
        RAW = 0,
        /// Block by block through the writer.
        ENCODED = 1,
    }
    /// A digest.
    DigestNumber {
        /// CRC-32 (IEEE).
        CRC32 = 0,
    }
    /// How a CRC-32 is written.
    CrcFormNumber {
        /// Four bytes.
        LITTLE_ENDIAN = 0,
        /// Eight hexadecimal digits.
        HEX = 1,
    }
    /// Of which bytes a checksum is.
    CodingNumber {
        /// Of those it covers.
        RAW = 0,
        /// Of what they decode to.
        ENCODED = 1,
        /// The same, which a tensor's stream reads and compares.
        STREAMED = 2,
    }
}
