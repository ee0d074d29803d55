//! Plugins as files: found, judged before any of their code runs, loaded on demand, and never unloaded.

mod crash;
mod discover;
mod lazy;
mod load;
mod lock;
mod named;
mod options;
mod places;
mod rehearsal;
mod running;
pub mod section;
mod table_file;
pub mod trust;

pub use crash::{leave_crashes_to_others, name_crashes};
pub use discover::{add_bundled, discover};
pub use lock::{Lock, LockEntry, sha256};
pub use options::DiscoverOptions;
pub use places::{Candidate, Found, Place, file_name, find, is_table, places, table_name};
pub use rehearsal::{Rehearsal, SURVIVED};
