//! The flags of every verb that changes metadata.

use crate::cli::open_args::parse_pair;

/// Which metadata is changed.
#[derive(Clone, Debug, clap::Args)]
pub struct KeyArgs {
    /// Set a metadata key of the output or of the source, in its type; VALUE may be @FILE. A new key is
    /// KEY:TYPE=VALUE, FORMAT.KEY says whose key is meant; repeat for several
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    pub set: Vec<(String, String)>,
    /// Remove a metadata key of the output or of the source; repeat for several
    #[arg(long, value_name = "KEY")]
    pub unset: Vec<String>,
}
