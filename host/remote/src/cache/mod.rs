//! The cache of downloads, which is shared with the hub's own client: either finds what the other fetched.
//!
//! ```text
//! CACHEDIR.TAG                                 tells backup programs to pass over the cache
//! .locks/models--org--name/{etag}.lock         held while a blob is written
//! models--org--name/refs/{revision}            the commit that a branch or tag was last seen at
//! models--org--name/blobs/{etag}               a file's bytes, or a link to ../../blobs/xx/{xet hash}
//! models--org--name/blobs/{etag}.apr.incomplete, {etag}.apr.json   an unfinished download, and what it has
//! models--org--name/snapshots/{commit}/{path}  a link to ../../blobs/{etag}
//! models--org--name/.no_exist/{commit}/{path}  empty: the commit has no such file
//! models--org--name/trees/{commit}.json        the files of the commit
//! blobs/xx/{xet hash}                          the store that repositories share: read, never added to
//! ```
//!
//! A blob is not right because of its name: it is hashed before it is published, and [`Proofs`] remembers which were.

mod blob_name;
mod contents;
mod error;
mod lock;
mod memory;
mod partial;
mod publish;
mod refs;
mod removal;
mod repository;
mod roots;
mod shared_store;
mod small_file;
mod snapshot;
mod tree;

#[cfg(test)]
mod tests;

pub use blob_name::{BlobName, ContentDigest, hex};
pub use contents::{Blob, Contents, Kind, PartialFile, Payload, RepositoryContents, Revision, SnapshotFile};
pub use lock::EntryLock;
pub use memory::{Proofs, Verdict};
pub use partial::{Download, Partial, Ranges, Verified};
pub use publish::{Before, Published};
pub use removal::{Removal, Removed, Subject};
pub use repository::{Cache, Repository};
pub use roots::{Env, Roots, hub_home};
pub use shared_store::is_payload as is_shared_payload;
pub use snapshot::CachedFile;
pub use tree::{Tree, TreeFile};
