//! `apr kernels`: what computes here, is it right, and how fast is it?

mod bench;
pub mod blocks;
mod check;
pub mod floor;
mod list;
pub mod rows;
pub mod verdicts;

use crate::cli::context::Context;
use crate::cli::output::verb_report::{Report, boxed};
use apr_engine::crew::Crew;
use apr_host::host::Host;
use apr_host::running::{devices, first_usable, no_device};
use apr_host::threads::Team;
use apr_sdk::{Device, DeviceInfo, Options, Result};
use std::sync::Arc;

/// List, check and time compute backends
///
/// A compute backend is a plugin with devices: the CPU's comes with apr.
///
/// Examples:
///   apr kernels list
///   apr kernels check
///   apr kernels bench --type Q4_K --threads 1
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
    /// Backend: an id from `apr kernels list` [default: the first with a usable device]
    #[arg(long, value_name = "ID")]
    backend: Option<String>,
    /// Number of the backend's device
    #[arg(long, value_name = "N", default_value_t = 0)]
    device: u32,
    /// Set an option of the backend, such as level=avx2; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = crate::cli::flags::open_args::parse_pair)]
    backend_option: Vec<(String, String)>,
}

/// A device that is open, and the threads that it is lent.
struct Opened {
    /// The backend's id.
    backend: String,
    device: Box<dyn Device>,
    info: DeviceInfo,
    team: Team,
}

impl DeviceArgs {
    /// Opens the device.
    ///
    /// # Errors
    /// InvalidArgument for a backend or a device that is not there; Unsupported if no backend has a usable one; what opening
    /// raised.
    fn open(&self, host: &Host) -> Result<Opened> {
        let number = usize::try_from(self.device).unwrap_or(usize::MAX);
        let (backend, kernel) = match &self.backend {
            Some(id) => (id.clone(), host.registry.kernel(id)?),
            None => first_usable(&host.registry, self.device)?,
        };
        let listed = devices(kernel.as_ref())?;
        let info = listed.get(number).cloned();
        let info = info.ok_or_else(|| no_device(&backend, self.device, &listed))?;
        let mut given = Options::new();
        self.backend_option.iter().for_each(|(name, value)| given.set(name, value));
        let device = kernel.open(self.device, &host.registry.kernel_options(&backend, &given)?)?;
        let team = Team::new(host.threads().width(), Arc::clone(&host.cancel));
        Ok(Opened { backend, device, info, team })
    }
}
