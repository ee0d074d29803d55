//! Models that are run: opened, translated into the form that their table computes in, and put on a device.

mod backend;
mod facts;
mod file_watch;
mod image_file;
mod images;
mod key;
mod load;
mod memory;
mod options;
mod rows;
mod suggestions;
mod translated;
mod weight_values;

pub use backend::{Backend, devices, first_usable, no_device, not_automatic};
pub use facts::Facts;
pub use load::{Loaded, load, load_with_values};
pub use options::{LoadOptions, Wanted};
pub use suggestions::{Embedding, Suggested};
pub use weight_values::WeightValues;
