//! `apr kernels`: what computes here, is it right, and how fast is it?

mod bench;
mod blocks;
mod check;
pub mod floor;
mod list;
mod rows;

use crate::cli::context::Context;
use crate::cli::report::{Report, boxed};
use apr_engine::crew::Crew;
use apr_host::host::Host;
use apr_host::running::devices;
use apr_host::threads::Team;
use apr_sdk::{Device, DeviceInfo, Error, Options, Result, escape};
use std::sync::Arc;

/// List, check and time what computes
///
/// A compute backend is a plugin with devices: the CPU's comes with apr.
///
/// Examples:
///   apr kernels list
///   apr kernels check
///   apr kernels bench --type q4_k --threads 1
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    List(list::Args),
    Check(check::Args),
    Bench(bench::Args),
}

/// Does what is asked.
///
/// # Errors
/// As the action.
pub fn run(args: &Args, context: &Context) -> Result<Box<dyn Report>> {
    match &args.action {
        Action::List(args) => Ok(boxed(list::run(args, context))),
        Action::Check(args) => check::run(args, context).map(boxed),
        Action::Bench(args) => bench::run(args, context).map(boxed),
    }
}

/// Which device is checked or timed.
#[derive(Clone, Debug, clap::Args)]
struct DeviceArgs {
    /// Backend: an id from `apr kernels list`
    #[arg(long, value_name = "ID", default_value = "cpu")]
    backend: String,
    /// Number of the backend's device
    #[arg(long, value_name = "N", default_value_t = 0)]
    device: u32,
    /// Set an option of the backend, such as level=avx2; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = crate::cli::open_args::parse_pair)]
    backend_option: Vec<(String, String)>,
}

/// A device that is open, and the threads that it is lent.
struct Opened {
    device: Box<dyn Device>,
    info: DeviceInfo,
    team: Team,
}

impl DeviceArgs {
    /// Opens the device with these options.
    ///
    /// # Errors
    /// InvalidArgument for a backend or a device that is not there; what opening raised.
    fn open(&self, host: &Host, options: &Options) -> Result<Opened> {
        let kernel = host.registry.kernel(&self.backend)?;
        let listed = devices(kernel.as_ref())?;
        let found = usize::try_from(self.device).ok().and_then(|number| listed.into_iter().nth(number));
        let info = found.ok_or_else(|| {
            let shown = escape(&self.backend, 40);
            Error::invalid_argument(format!("the backend `{shown}` has no device {}", self.device))
                .hint("run `apr kernels list` to see the devices")
        })?;
        let device = kernel.open(self.device, options)?;
        let team = Team::new(host.threads().width(), Arc::clone(&host.cancel));
        Ok(Opened { device, info, team })
    }
}
