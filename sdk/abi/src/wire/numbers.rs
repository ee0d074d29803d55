//! Enumerations as numbers. An unknown number leads to a fallback or an error, never to undefined behaviour.

use abi_stable::StableAbi;

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident { $($(#[$constant_doc:meta])* $constant:ident = $n:literal,)* })*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
        pub struct $name(pub u32);

        impl $name {
            $($(#[$constant_doc])* pub const $constant: $name = $name($n);)*
            /// Every constant with its name and number.
            pub const ALL: &'static [(&'static str, u32)] = &[$((stringify!($constant), $n)),*];
        }
    )*

    /// Every enumeration with its name and constants.
    pub const NUMBERS: &[(&str, &[(&str, u32)])] = &[$((stringify!($name), $name::ALL)),*];
    };
}

numbers! {
    /// The kind of an error: `apr_sdk::ErrorKind`.
    ErrorNumber {
        /// The file breaks its own format's rules.
        MALFORMED = 0,
        /// Valid, but not possible here.
        UNSUPPORTED = 1,
        /// A cap or the memory budget would be exceeded.
        LIMIT_EXCEEDED = 2,
        /// The user's request is impossible.
        INVALID_ARGUMENT = 3,
        /// A file does not exist.
        NOT_FOUND = 4,
        /// The machine failed.
        IO = 5,
        /// A plugin broke its contract.
        PLUGIN = 6,
        /// A check failed.
        FAILED = 7,
        /// The user stopped the work.
        CANCELLED = 8,
    }
    /// A format's confidence that a file is its own: `apr_sdk::Score`. Any number is allowed; these have names.
    ScoreNumber {
        /// Not this format.
        NO = 0,
        /// Only the extension matches.
        EXTENSION = 20,
        /// The structure matches.
        STRUCTURE = 50,
        /// The magic matches.
        MAGIC = 80,
        /// Magic and version match.
        MAGIC_AND_VERSION = 100,
    }
    /// The treatment of foreign metadata: `apr_sdk::ForeignPolicy`.
    PolicyNumber {
        /// The target's default carrier.
        DEFAULT = 0,
        /// Without the verbatim forms.
        TYPED = 1,
        /// Keep it even where the default is to leave it out.
        KEEP = 2,
        /// Leave it all out.
        DROP = 3,
    }
    /// An element type: the number of `apr_sdk::DType`.
    DTypeNumber {
        /// The first number assigned at run time, to types that no table has.
        FIRST_AT_RUN_TIME = 0x0001_0000,
        /// The last number assigned at run time.
        LAST_AT_RUN_TIME = 0x7fff_fffe,
        /// No type: a tensor keeps the one it has.
        KEEP = 0xffff_ffff,
        /// Flag added to a type: only if it holds every value exactly.
        NARROW_IF_EXACT = 0x8000_0000,
    }
    /// The severity of a message.
    LogNumber {
        /// Shown with `-v`.
        DEBUG = 0,
        /// Shown in the summary.
        NOTE = 1,
        /// Shown immediately.
        WARNING = 2,
    }
    /// The kind of payload a tensor has.
    PayloadNumber {
        /// Raw bytes in an extent.
        EXTENT = 0,
        /// Compressed blocks.
        BLOCKS = 1,
        /// A stream that is read in order.
        SEQUENTIAL = 2,
    }
    /// Byte order of an extent's view, if it has one.
    ByteOrder {
        /// No view.
        PLAIN = 0,
        /// A view, little-endian.
        LITTLE = 1,
        /// A view, big-endian.
        BIG = 2,
    }
    /// The kind of a fact about a model.
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
        /// The id of the source format, as text; only sent to writers.
        FORMAT = 6,
        /// The id of a format whose foreign metadata has no file, as text; only sent to writers.
        EMPTY_FOREIGN = 7,
        /// The model card, as bytes.
        MODEL_CARD = 8,
        /// The tensors that are the codes of weights, as bytes; not sent to writers.
        DERIVED = 9,
        /// The file's version, older than the one that is written, as text; not sent to writers.
        OLDER = 10,
    }
    /// Storage of a payload in the output.
    EncodingNumber {
        /// Raw bytes.
        RAW = 0,
        /// Encoded block by block by the writer.
        ENCODED = 1,
    }
    /// A digest algorithm.
    DigestNumber {
        /// CRC-32 (IEEE).
        CRC32 = 0,
        /// CRC-32C (Castagnoli).
        CRC32C = 1,
        /// SHA-256 (FIPS 180-4).
        SHA256 = 2,
    }
    /// Notation of a digest.
    FormNumber {
        /// Raw bytes; a CRC least significant byte first.
        BYTES = 0,
        /// Lower-case hexadecimal digits.
        HEX = 1,
        /// The bytes of a CRC rotated right by 15 bits plus `a282ead8`.
        MASKED = 2,
    }
    /// The bytes that a checksum is computed from.
    CodingNumber {
        /// The bytes it covers.
        RAW = 0,
        /// Decoded bytes.
        ENCODED = 1,
        /// Decoded bytes, read and compared by a tensor's stream.
        STREAMED = 2,
    }
    /// A device's answer whether it can run an operation: `apr_sdk::Support`. An unknown number is no.
    SupportNumber {
        /// It cannot.
        NO = 0,
        /// It can.
        YES = 1,
    }
}
