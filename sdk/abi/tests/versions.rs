//! The rules of growth: the frozen copy of 1.0 fits what is there now, an old plugin works in a new host, a new one is
//! refused by an old host, and nothing of a refused plugin runs.

use crate::toy::{self, Toy};
use abi_stable::StableAbi;
use abi_stable::abi_stability::abi_checking::{CheckingGlobals, check_layout_compatibility_with_globals};
use abi_stable::library::{CheckTypeLayout, LibHeader, RootModuleError};
use abi_stable::marker_type::ErasedPrefix;
use abi_stable::prefix_type::PrefixRef;
use abi_stable::std_types::{RBoxError, RErr, RResult, RStr};
use abi_stable::type_layout::TypeLayout;
use apr_abi::link::Module;
use apr_abi::wire;
use apr_sdk::{Error, Limits, MemorySource, Options};
use std::sync::atomic::{AtomicBool, Ordering};

/// The wire as 1.0 has it: a verbatim copy of `src/wire`. Until the first tagged release the wire may change, and the
/// copy with it (`cp src/wire/*.rs tests/versions/frozen_1_0/`); from then on it never does.
#[allow(dead_code, unused_imports, reason = "a copy of a whole module, of which the layouts are looked at")]
mod frozen_1_0;
#[allow(dead_code, unused_imports, reason = "as above")]
mod next;

type Layout = &'static TypeLayout;

const NOW: Layout = <wire::PluginMod_Ref as StableAbi>::LAYOUT;
const FROZEN: Layout = <frozen_1_0::PluginMod_Ref as StableAbi>::LAYOUT;
const NEXT: Layout = <next::PluginMod_Ref as StableAbi>::LAYOUT;

/// The sorts of differences that the check finds, if any.
fn check(plugin: Layout, host: Layout) -> Vec<String> {
    let Err(errors) = check_layout_compatibility_with_globals(plugin, host, &CheckingGlobals::new()) else {
        return Vec::new();
    };
    let found = errors.errors.iter().flat_map(|error| &error.errs).map(|error| format!("{error:?}"));
    let mut sorts: Vec<_> = found.map(|text| text.split('(').next().unwrap_or_default().to_owned()).collect();
    sorts.sort();
    sorts.dedup();
    sorts
}

#[test]
fn the_frozen_copy_fits_what_is_there_now() {
    let help = "the wire changed; before the first tagged release copy src/wire to tests/versions/frozen_1_0, \
                after it only append";
    assert_eq!(check(FROZEN, NOW), Vec::<String>::new(), "{help}");
    // The other way round only appended fields may be missed: a supertrait, which the first check lets pass, is seen.
    let back = check(NOW, FROZEN);
    assert!(back.iter().all(|sort| sort == "FieldCountMismatch"), "{back:?}: {help}");
}

#[test]
fn appending_keeps_old_plugins_and_refuses_new_ones() {
    assert_eq!(check(NOW, NEXT), Vec::<String>::new());
    assert_eq!(check(NEXT, NOW), ["FieldCountMismatch"]);
}

#[test]
fn an_old_plugin_works_in_a_new_host() {
    assert!(check(toy::HEADER.layout().unwrap(), NEXT).is_empty());
    // SAFETY: the layouts were checked just now.
    let module = unsafe { toy::HEADER.unchecked_layout::<next::PluginMod_Ref>() }.unwrap();
    assert!(module.motto().is_none());
    // An old reader behind the new trait object: the calls of 1.0 reach the plugin, the new one runs its default.
    let object = wire::ReaderObject::from_value(
        apr_abi::adapt::reader::ToWireReader::new(Box::new(Toy)),
        abi_stable::erased_types::TD_Opaque,
    );
    // SAFETY: the trait objects' layouts are part of the modules' that were checked.
    let object: next::ReaderObject = unsafe { std::mem::transmute(object) };
    assert_eq!(object.rank(), 7);
    // So does what only 1.1 says.
    let mut newer = Vec::new();
    next::pairs::push(&mut newer, "since 1.1", b"x");
    let look = next::WireLook {
        name: "n".into(),
        head: [].as_slice().into(),
        tail: [].as_slice().into(),
        entries: [].as_slice().into(),
        len: 3,
        is_folder: false,
        detail: newer.as_slice().into(),
    };
    assert_eq!(object.probe(&look).into_result().unwrap().0, 77);
    assert!(toy::heard()[0].contains("name: \"n\""));
}

static RAN: AtomicBool = AtomicBool::new(false);

extern "C" fn fails() -> RResult<PrefixRef<ErasedPrefix>, RootModuleError> {
    RAN.store(true, Ordering::SeqCst);
    RErr(RootModuleError::Returned(RBoxError::from_fmt(&"no licence")))
}

// SAFETY: it never gives a module.
static NEW_HEADER: LibHeader =
    unsafe { LibHeader::from_constructor::<next::PluginMod_Ref>(fails, CheckTypeLayout::Yes) };
// SAFETY: as above.
static FAILING_HEADER: LibHeader =
    unsafe { LibHeader::from_constructor::<wire::PluginMod_Ref>(fails, CheckTypeLayout::Yes) };
// SAFETY: as above.
static UNCHECKED_HEADER: LibHeader =
    unsafe { LibHeader::from_constructor::<wire::PluginMod_Ref>(fails, CheckTypeLayout::No) };

fn refusal(header: *const u8) -> Error {
    // SAFETY: statics, or not looked at.
    unsafe { Module::from_header(header) }.err().unwrap()
}

#[test]
fn headers_are_refused_before_their_constructor_runs() {
    let error = refusal((&raw const NEW_HEADER).cast());
    assert_eq!(error.explicit_code(), Some("E_LAYOUT"), "{error}");
    assert!(error.message().len() < 300 && error.message().contains("FieldCountMismatch"), "{error}");
    let error = refusal((&raw const UNCHECKED_HEADER).cast());
    assert_eq!(error.explicit_code(), Some("E_LAYOUT"), "{error}");
    let wrong = Box::leak(Box::new([0u64; 64]));
    assert_eq!(refusal(wrong.as_ptr().cast()).explicit_code(), Some("E_ABI_MAJOR"));
    assert_eq!(refusal(std::ptr::null()).explicit_code(), Some("E_NOT_A_PLUGIN"));
    assert!(!RAN.load(Ordering::SeqCst));
    let error = refusal((&raw const FAILING_HEADER).cast());
    assert_eq!(error.explicit_code(), Some("E_INIT"), "{error}");
    assert!(error.message().contains("no licence"), "{error}");
    assert!(RAN.load(Ordering::SeqCst));
}

#[test]
fn the_toy_is_loaded_by_the_same_path() {
    let module = toy::module();
    assert_eq!(module.manifest().len(), apr_abi::manifest::HEAD_LEN + 33);
    let made: RStr<'_> = "toy".into();
    let reader = module.reader(made.as_str()).unwrap();
    assert!(reader.open(&MemorySource::new("a", [0; 8]), &Limits::default(), &Options::new()).is_ok());
    toy::heard();
}
