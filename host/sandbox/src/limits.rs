//! Limits of a request. Memory and time grow with what is given, so that no right text is refused.

/// Bytes of memory that any request may take. 512 MiB: templates and texts of everyday size need a few.
const MEMORY: u64 = 512 << 20;
/// Memory for each byte of a request: the text itself, and 4 bytes for each token of two lists that grow.
const MEMORY_OF_BYTE: u64 = 32;
/// Memory for each byte of a tokenizer, whose tokens are in several tables.
const MEMORY_OF_TOKENIZER: u64 = 64;
/// Seconds of a processor that any request may take, and those for each MiB of it: many times what it needs.
const SECONDS: u64 = 5;
const SECONDS_OF_MIB: u64 = 10;
/// Seconds that pass for one of a processor on a machine that is busy, before the worker is taken for stuck.
const BUSY: u64 = 20;
/// Bytes of any answer, and those for each byte of a request. 320 MiB: a template may write 256 MiB.
const ANSWER: u64 = 320 << 20;
const ANSWER_OF_BYTE: u64 = 64;

/// The stack of a worker, as systems usually give.
pub const STACK: u64 = 8 << 20;
/// Bytes of a request. 2 GiB: a text has 1 GiB at most.
pub const REQUEST: u64 = 2 << 30;

/// The limits of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory, of the whole process.
    pub memory: u64,
    /// Seconds of a processor from the request on.
    pub seconds: u64,
}

impl Limits {
    /// Those of a request of so many bytes to a worker that holds tokenizers of so many bytes. A tokenizer that has
    /// still to be made counts like a text.
    pub fn of(request: usize, held: usize) -> Limits {
        let [request, held] = [request, held].map(|n| u64::try_from(n).unwrap_or(u64::MAX));
        let memory = MEMORY
            .saturating_add(request.saturating_mul(MEMORY_OF_BYTE))
            .saturating_add(held.saturating_mul(MEMORY_OF_TOKENIZER));
        let mib = request.saturating_add(held) >> 20;
        Limits { memory, seconds: SECONDS.saturating_add(mib.saturating_mul(SECONDS_OF_MIB)) }
    }

    /// Seconds after which a worker that has not answered is ended.
    pub fn patience(self) -> u64 {
        self.seconds.saturating_mul(BUSY)
    }
}

/// Bytes of the answer to a request of so many.
pub fn answer(request: usize) -> u64 {
    ANSWER.saturating_add(u64::try_from(request).unwrap_or(u64::MAX).saturating_mul(ANSWER_OF_BYTE))
}
