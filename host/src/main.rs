//! The `apr` program: everything is in the library and in `cli`.

mod cli;

fn main() -> std::process::ExitCode {
    apr_sandbox::worker::serve_if_asked().unwrap_or_else(cli::run)
}
