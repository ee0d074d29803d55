//! Reads a plugin's manifest from its library file without loading it, and checks target, panic strategy and
//! interface: steps 5 to 8 of loading.

use crate::storage::small_file::open_regular;
use apr_abi::manifest::{self, Head};
use apr_sdk::{Error, Manifest, Result};
use object::read::{Object, ObjectSection};
use object::{Architecture, BinaryFormat, Endianness, ReadCache, ReadRef};
use std::path::Path;

/// The manifest section of a library.
#[derive(Clone, Debug)]
pub struct Section {
    /// The head: interface, target, compiler.
    pub head: Head,
    /// The text, parsed.
    pub manifest: Manifest,
    /// The section's bytes, to compare with those of the loaded library.
    pub bytes: Vec<u8>,
    format: BinaryFormat,
    architecture: Architecture,
    little_endian: bool,
    is_64: bool,
}

fn not_a_plugin(message: &str) -> Error {
    Error::plugin(message).code("E_NOT_A_PLUGIN")
}

/// Reads the manifest section of a library for any target: step 5.
///
/// # Errors
/// Plugin with `E_NOT_A_PLUGIN`; Io if the file cannot be read.
pub fn read(path: &Path) -> Result<Section> {
    let file = open_regular(path).map_err(|error| Error::io(format!("cannot open it: {error}")))?;
    parse(&ReadCache::new(file))
}

/// Like [`read`], from a library's bytes.
///
/// # Errors
/// Plugin with `E_NOT_A_PLUGIN`.
pub fn parse<'data>(library: impl ReadRef<'data>) -> Result<Section> {
    let library = object::File::parse(library).map_err(|error| {
        not_a_plugin("it is not a library").cause(error.to_string()).hint(
            "specify the path of a plugin library, such as libapr_plugin_my_format.so; run `apr plugins \
             new` to create one",
        )
    })?;
    let section = library
        .section_by_name(manifest::SECTION)
        .ok_or_else(|| not_a_plugin("it is a library, but has no plugin manifest"))?;
    let bytes = section.data().map_err(|error| {
        not_a_plugin("its manifest section extends past the end of the file").cause(error.to_string())
    })?;
    let (head, len) = manifest::parse(bytes, library.endianness() == Endianness::Big)?;
    let manifest = Manifest::parse(&head.text).map_err(|error| error.code("E_NOT_A_PLUGIN"))?;
    Ok(Section {
        head,
        manifest,
        bytes: bytes[..len].to_vec(),
        format: library.format(),
        architecture: library.architecture(),
        little_endian: library.is_little_endian(),
        is_64: library.is_64(),
    })
}

impl Section {
    /// Checks whether this program may load the library: steps 6 to 8.
    ///
    /// # Errors
    /// Plugin with `E_TARGET`, `E_PANIC_ABORT`, `E_ABI_MAJOR` or `E_ABI_MINOR`.
    pub fn judge(&self) -> Result<()> {
        self.judge_target()?;
        if !self.head.unwinds {
            return Err(Error::plugin(
                "it was built without unwinding, so a panic in it would terminate apr",
            )
            .code("E_PANIC_ABORT")
            .hint("build it with `panic = \"unwind\"`"));
        }
        self.judge_interface()
    }

    fn judge_target(&self) -> Result<()> {
        let is_native = self.format == BinaryFormat::native_object()
            && architecture_name(self.architecture) == Some(std::env::consts::ARCH)
            && self.little_endian == cfg!(target_endian = "little")
            && self.is_64 == cfg!(target_pointer_width = "64")
            && system_of(&self.head.target).eq(system_of(manifest::TARGET));
        if is_native {
            return Ok(());
        }
        let theirs = apr_sdk::escape(&self.head.target, 48);
        let ours = manifest::TARGET;
        Err(Error::plugin(format!("it was built for {theirs}, but this is {ours}"))
            .code("E_TARGET")
            .hint(format!("get the plugin for {ours}")))
    }

    fn judge_interface(&self) -> Result<()> {
        let ((major, minor), (our_major, our_minor)) = (self.head.abi, apr_abi::ABI);
        let ours = format!("this apr has ABI {our_major}.{our_minor}");
        if major != our_major {
            let hint = if major > our_major { "use a newer apr" } else { "get a newer build of the plugin" };
            let message = format!("it was built for ABI {major}.{minor}, but {ours}");
            return Err(Error::plugin(message).code("E_ABI_MAJOR").hint(hint));
        }
        if minor > our_minor {
            let message = format!("it requires ABI {major}.{minor}, but {ours}");
            return Err(Error::plugin(message).code("E_ABI_MINOR").hint("use a newer apr"));
        }
        if self.head.wire_hash != 0 && self.head.wire_hash != manifest::WIRE_HASH {
            let message = format!(
                "it is a development build with interface {:08x}, but this apr has {:08x}",
                self.head.wire_hash,
                manifest::WIRE_HASH
            );
            let hint = "build the plugin and apr from the same sources";
            return Err(Error::plugin(message).code("E_ABI_MINOR").hint(hint));
        }
        Ok(())
    }
}

/// The name for an architecture in `std::env::consts::ARCH`, if it is known.
fn architecture_name(architecture: Architecture) -> Option<&'static str> {
    Some(match architecture {
        Architecture::X86_64 => "x86_64",
        Architecture::I386 => "x86",
        Architecture::Aarch64 => "aarch64",
        Architecture::Arm => "arm",
        Architecture::Riscv64 => "riscv64",
        Architecture::PowerPc64 => "powerpc64",
        Architecture::S390x => "s390x",
        Architecture::LoongArch64 => "loongarch64",
        _ => return None,
    })
}

/// The operating system and C library of a target triple: whatever follows architecture and vendor.
fn system_of(target: &str) -> impl Iterator<Item = &str> {
    target.split('-').skip(2)
}
