//! Faults of a line: a file server that stops, crawls, or hangs up.

use super::message::{Fault, Request, Response};
use super::ranges::Served;

/// When it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Every time.
    Always,
    /// To the first so many requests.
    First(u64),
    /// To the requests over the connection that came first.
    FirstConnection,
    /// To the answers that contain a byte of the file, and there.
    AtByte(u64),
}

/// A fault, and when it happens. Its offset counts bytes of an answer's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    pub fault: Fault,
    pub when: When,
}

impl Stall {
    /// The request is read, and nothing comes.
    pub fn silent() -> Self {
        Self { fault: Fault::Silent, when: When::Always }
    }

    /// After so many bytes of each answer nothing more comes.
    pub fn stops_after(len: u64) -> Self {
        Self { fault: Fault::Hang(len), when: When::Always }
    }

    /// Each answer comes at so many bytes a second.
    pub fn crawls(per_second: u64) -> Self {
        Self { fault: Fault::Drip(per_second), when: When::Always }
    }

    /// The connection is reset after so many bytes.
    pub fn resets_after(len: u64, when: When) -> Self {
        Self { fault: Fault::Reset(len), when }
    }

    /// The connection ends in order after so many bytes.
    pub fn closes_after(len: u64, when: When) -> Self {
        Self { fault: Fault::Close(len), when }
    }

    /// The answer to a request, before which so many others were answered.
    pub(super) fn answer(
        self,
        request: &Request,
        served: &Served,
        n_before: u64,
        is_first_connection: bool,
    ) -> Response {
        let honest = served.answer(request);
        let happens = match self.when {
            When::Always => true,
            When::First(n) => n_before < n,
            When::FirstConnection => is_first_connection,
            When::AtByte(byte) => {
                let within = (honest.offset..honest.offset + honest.len).contains(&byte);
                let after = byte.saturating_sub(honest.offset);
                return if within { honest.failing(self.fault.moved(after)) } else { honest };
            }
        };
        if happens { honest.failing(self.fault) } else { honest }
    }
}

impl Fault {
    /// The same after so many bytes.
    fn moved(self, after: u64) -> Self {
        match self {
            Self::Close(_) => Self::Close(after),
            Self::Reset(_) => Self::Reset(after),
            Self::Hang(_) => Self::Hang(after),
            other => other,
        }
    }
}
