//! The worker: what runs in the process of its own.

mod confinement;
mod descriptors;
mod service;

use std::process::ExitCode;

/// The argument with which a program is asked to be a worker.
pub(crate) const ASKED: &str = "--apr-sandbox-worker";

/// Serves requests until the program that asked is gone, if this process was started as a worker; `None` if not. To be
/// called before a program does anything else.
pub fn serve_if_asked() -> Option<ExitCode> {
    if std::env::args_os().nth(1).is_none_or(|argument| argument != ASKED) {
        return None;
    }
    descriptors::close_inherited();
    let remark = confinement::confine();
    // What ends the pipes ends the work: there is nobody to tell.
    Some(match service::serve(&remark) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}
