//! The `apr` program: everything is in the library and in `cli`.

mod cli;

fn main() -> std::process::ExitCode {
    cli::run()
}
