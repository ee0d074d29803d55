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
    /// The kind of an error: `apr_sdk::ErrorKind`.
    ErrorNumber {
        /// The file breaks its own format's rules.
        MALFORMED = 0,
        /// Right, but not possible here.
        UNSUPPORTED = 1,
        /// A cap or the memory budget would be passed.
        LIMIT_EXCEEDED = 2,
        /// The user's request is impossible.
        INVALID_ARGUMENT = 3,
        /// A file does not exist.
        NOT_FOUND = 4,
        /// The machine failed.
        IO = 5,
        /// A plugin broke its contract.
        PLUGIN = 6,
        /// A check said no.
        FAILED = 7,
        /// The user stopped the work.
        CANCELLED = 8,
    }
    /// How sure a format is: `apr_sdk::Score`. Any number may come; these have names.
    ScoreNumber {
        /// Not mine.
        NO = 0,
        /// Only the extension speaks for it.
        EXTENSION = 20,
        /// The structure fits.
        STRUCTURE = 50,
        /// The magic fits.
        MAGIC = 80,
        /// The magic and the version fit.
        MAGIC_AND_VERSION = 100,
    }
    /// What becomes of foreign metadata: `apr_sdk::ForeignPolicy`.
    PolicyNumber {
        /// The target's default carrier.
        DEFAULT = 0,
        /// Without the verbatim forms.
        TYPED = 1,
        /// Also where the default is to leave it out.
        KEEP = 2,
        /// None.
        DROP = 3,
    }
    /// An element type: the number of `apr_sdk::DType`.
    DTypeNumber {
        /// The first of those that are given out while the program runs, for types that no table has.
        FIRST_AT_RUN_TIME = 0x0001_0000,
        /// The last of those.
        LAST_AT_RUN_TIME = 0x7fff_fffe,
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
        /// CRC-32C (Castagnoli).
        CRC32C = 1,
        /// SHA-256.
        SHA256 = 2,
    }
    /// How a digest is written.
    FormNumber {
        /// Its bytes, those of a CRC least significant first.
        BYTES = 0,
        /// Lower-case hexadecimal digits.
        HEX = 1,
        /// The bytes of a CRC that was turned by 15 bits and added to `a282ead8`.
        MASKED = 2,
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
