//! Each check passes on the toy format and fails on a known-bad one, with a message that says what is wrong.

use crate::broken::{Broken, Fault};
use crate::template::{manifest_text, small};
use apr_sdk::{FormatManifest, Manifest};
use apr_testkit::{CHECKS, Fixture, Subject, Verdict};

fn manifest(replace: &[(&str, &str)]) -> FormatManifest {
    let text = replace.iter().fold(manifest_text(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    Manifest::parse(&text).unwrap().formats.remove(0)
}

/// Runs one check on a broken toy; `Err` holds the message.
fn run(check: &str, fault: Fault, replace: &[(&str, &str)]) -> Result<Verdict, String> {
    let (broken, manifest, fixtures) = (Broken::new(fault), manifest(replace), [small()]);
    let mut subject = Subject::new(Some(&broken), Some(&broken), &manifest, &fixtures);
    subject.byte_identical = true;
    let (_, check) = CHECKS.iter().find(|(name, _)| *name == check).unwrap();
    check(&subject).map_err(|e| e.message().to_owned())
}

#[track_caller]
fn fails(check: &str, fault: Fault, replace: &[(&str, &str)], message: &str) {
    let found = run(check, fault, replace).expect_err("a known-bad format passes");
    assert!(found.contains(message), "{found}");
    if replace.is_empty() {
        assert!(run(check, Fault::None, &[]).is_ok());
    }
}

#[test]
fn the_sound_toy_passes_with_and_without_files() {
    let (toy, manifest) = (Broken::new(Fault::None), manifest(&[]));
    for fixtures in [vec![small()], Vec::new()] {
        let mut subject = Subject::new(Some(&toy), Some(&toy), &manifest, &fixtures);
        subject.byte_identical = true;
        for (name, check) in CHECKS {
            let verdict = check(&subject).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(matches!(verdict, Verdict::Passed(_)), "{name}: {verdict:?}");
        }
    }
}

#[test]
fn checks_that_have_nothing_to_try_say_so() {
    let (toy, manifest) = (Broken::new(Fault::None), manifest(&[]));
    let unreadable = Subject::new(None, Some(&toy), &manifest, &[]);
    let skipped = |check: &str| {
        let (_, check) = CHECKS.iter().find(|(name, _)| *name == check).unwrap();
        matches!(check(&unreadable), Ok(Verdict::Skipped(_)))
    };
    assert!(skipped("probe") && skipped("flips") && skipped("round_trip"));
    assert!(!skipped("refuses"));
    let unwritable = Subject::new(Some(&toy), None, &manifest, &[]);
    for (name, check) in CHECKS.iter().filter(|(name, _)| !["manifest", "probe"].contains(name)) {
        assert!(matches!(check(&unwritable), Ok(Verdict::Skipped(_))), "{name}");
    }
}

#[test]
fn manifest_must_agree_with_itself_and_the_objects() {
    fails("manifest", Fault::None, &[("toy.roles=read write", "toy.roles=read")], "does not list it");
    fails("manifest", Fault::None, &[("toy.roles=read write", "toy.roles=")], "is empty");
    fails("manifest", Fault::None, &[("toy.extensions=toy", "toy.extensions=.toy")], "without the dot");
    fails("manifest", Fault::None, &[("toy.extensions=toy", "toy.extensions=")], "cannot choose");
    fails("manifest", Fault::None, &[("toy.dtypes=*", "toy.dtypes=")], "allow no tensor");
    fails("manifest", Fault::None, &[("toy.dtypes=*", "toy.option.deep=read flag -")], "no help");
    let (toy, manifest) = (Broken::new(Fault::None), manifest(&[]));
    let missing = Subject::new(Some(&toy), None, &manifest, &[]);
    assert!(CHECKS[0].1(&missing).is_err());
}

#[test]
fn probe_must_know_its_own_and_leave_strangers() {
    fails("probe", Fault::ProbesEverything, &[], "must be below 50");
    fails("probe", Fault::ProbesNothing, &[], "its own file scores 20");
    fails("probe", Fault::ProbePanicsOnShortFile, &[], "the plugin panicked");
    fails("probe", Fault::None, &[("toy.magic=0:544f5931", "toy.magic=0:00")], "does not match it");
}

#[test]
fn probe_must_know_whatever_the_writer_writes() {
    let unknown = "does not recognize the output of its own writer";
    let fails = |fault, replace: &[(&str, &str)], which: &str| {
        let found = run("probe", fault, replace).expect_err("a known-bad probe passes");
        assert!(found.contains(unknown) && found.contains(which) && found.contains("scores 20"), "{found}");
        assert!(run("probe", Fault::None, replace).is_ok(), "{which}");
    };
    fails(Fault::ProbeKnowsItsFixtures, &[], "any model");
    fails(Fault::ProbeWantsTensors, &[], "any model");
    fails(Fault::ProbeWantsTheWholeHeader, &[("toy.dtypes=*", "toy.max_name_bytes=99")], "many tensors");
    let two = [("toy.extensions=toy", "toy.extensions=toy tst")];
    fails(Fault::ProbeWantsOneExtension, &two, "many tensors, `kit.tst`");
    let option = [("toy.dtypes=*", "toy.option.form=write choice:this,other this Write that form")];
    fails(Fault::ProbeWantsAnOption, &option, "many tensors with form other");
}

#[test]
fn limits_must_be_those_that_were_given() {
    fails("limits", Fault::OwnLimits, &[], "without charging the budget");
    fails("limits", Fault::IgnoresSink, &[], "it opens");
}

#[test]
fn damaged_files_must_not_break_a_reader() {
    fails("truncation", Fault::PanicsOnCutFile, &[], "the plugin panicked: cannot happen");
    fails("truncation", Fault::BreaksContract, &[], "before `foreign_file`");
    fails("flips", Fault::PanicsOnOddLine, &[], "the plugin panicked: an odd line");
}

#[test]
fn the_same_twice() {
    fails("determinism", Fault::CountsOpenings, &[], "different notes the second time");
    fails("determinism", Fault::CountsWritings, &[], "written twice");
}

#[test]
fn claims_must_be_kept() {
    fails("carries", Fault::DropsTensor, &[], "never places it");
    fails("carries", Fault::ShortensNames, &[], "the manifest claims");
    fails("carries", Fault::SwapsPayload, &[], "the manifest claims");
    fails("carries", Fault::PanicsOnDType, &[], "the manifest claims dtype");
    let claims = |line: &'static str| [("toy.dtypes=*", line)];
    fails(
        "carries",
        Fault::None,
        &claims("toy.metadata=str"),
        "metadata `kit.str` (str) of `toy` is missing",
    );
    fails("carries", Fault::None, &claims("toy.metadata=str"), "or mention it in a note");
    fails("carries", Fault::RefusesMetadata, &claims("toy.metadata=str"), "refuses all of it");
    let keys = claims("toy.metadata=str\ntoy.keys=note:str");
    fails("carries", Fault::RefusesMetadata, &keys, "list them in `toy.keys`");
    assert!(run("carries", Fault::TakesOneKey, &keys).is_ok());
    fails(
        "carries",
        Fault::TakesOneKey,
        &claims("toy.metadata=str\ntoy.keys=other:str"),
        "refuses all of it",
    );
    fails("carries", Fault::None, &claims("toy.foreign=all"), "of `kit_other` is missing");
    fails("carries", Fault::None, &claims("toy.tokenizer=yes"), "the tokenizer is missing");
    fails("carries", Fault::None, &claims("toy.assets=yes"), "asset `README.md` is missing");
    fails(
        "carries",
        Fault::None,
        &[("toy.names=no-control", "toy.names=any")],
        "the manifest claims the name",
    );
}

#[test]
fn what_is_not_claimed_must_be_refused() {
    fails(
        "refuses",
        Fault::None,
        &[("toy.dtypes=*", "toy.dtypes=F64")],
        "does not carry any of the format's own files",
    );
    fails("refuses", Fault::PanicsOnMetadata, &[], "the plugin panicked: only tensors");
}

#[test]
fn errors_of_the_machine_must_come_through() {
    fails("source_errors", Fault::SwallowsErrors, &[], "was ignored");
    fails("source_errors", Fault::RenamesErrors, &[], "a different kind of error");
    fails("source_errors", Fault::PanicsOnCutFile, &[], "the plugin panicked");
}

#[test]
fn round_trips_must_keep_everything() {
    fails("round_trip", Fault::DropsTensor, &[], "never places it");
    fails("round_trip", Fault::OtherPadding, &[], "not byte-identical");
    let (broken, manifest, fixtures) = (Broken::new(Fault::OtherPadding), manifest(&[]), [small()]);
    let mut subject = Subject::new(Some(&broken), Some(&broken), &manifest, &fixtures);
    let (_, check) = CHECKS.iter().find(|(name, _)| *name == "round_trip").unwrap();
    assert!(check(&subject).is_ok());
    (subject.byte_identical, subject.except) = (true, &["small.toy"]);
    assert!(check(&subject).is_ok());
    let sound = Broken::new(Fault::None);
    subject.writer = Some(&sound);
    assert!(check(&subject).unwrap_err().message().contains("remove it from the list"));
}

#[test]
fn opening_must_not_read_the_payload() {
    fails("header_only", Fault::ReadsAll, &[], "are payload");
}

#[test]
fn fixtures_are_files_of_the_format_and_folders_of_them() {
    let folder = std::env::temp_dir().join(format!("apr-testkit-{}", std::process::id()));
    let deep = folder.join("two");
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::create_dir_all(folder.join("rejects")).unwrap();
    let bytes = small().files.remove(0).1;
    std::fs::write(folder.join("make.py"), "print()").unwrap();
    for path in ["b.toy", "a.TOY", "two/x.toy", "two/y.toy", "two/README", "rejects/r.toy"] {
        std::fs::write(folder.join(path), &bytes).unwrap();
    }
    let (toy, manifest) = (Broken::new(Fault::None), manifest(&[]));
    let found = Fixture::load(&folder, &manifest, &toy).unwrap();
    let names: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.files.len())).collect();
    // `two/README` has the format's magic, so it is opened as well.
    assert_eq!(names, [("a.TOY", 1), ("b.toy", 1), ("two/README", 1), ("two/x.toy", 1), ("two/y.toy", 1)]);
    assert_eq!(found[4].files[0].0, "y.toy");
    std::fs::create_dir_all(folder.join("none")).unwrap();
    let none = Fixture::load(&folder.join("none"), &manifest, &toy).unwrap_err();
    assert!(none.message().contains("no fixture"));
    std::fs::remove_dir_all(folder).unwrap();
}
