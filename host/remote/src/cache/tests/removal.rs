//! Listing and removing: what is announced goes, and nothing else.

use super::*;

/// A cache with a model of each of two programs, a data set, a download of each that was interrupted, and a shared payload.
fn full(scratch: &Scratch) {
    by_hub_client(scratch);
    by_hub_client_at(scratch, "v2", OTHER, &[FILES[0], ("model.safetensors", b"newer")]);
    let id = RepositoryId::new("org/own").unwrap();
    pull(&scratch.cache().repository(&id), "main", COMMIT, &FILES).unwrap();
    let root = scratch.folder.join("hub");
    write(&root.join("datasets--org--data/refs/main"), COMMIT.as_bytes());
    write(&root.join("datasets--org--data/blobs/abc"), b"data");
    link("../../blobs/abc", &root.join("datasets--org--data/snapshots").join(COMMIT).join("data.csv"));
    write(&scratch.at("blobs/abc.0123abcd.incomplete"), b"theirs");
    let download = Download { commit: COMMIT.to_owned(), blob: BlobName::new("half").unwrap(), size: 9 };
    let partial = Partial::open(&root.join("models--org--own/blobs"), None, download).unwrap();
    partial.write_at(0, b"ours").unwrap();
}

fn contents(scratch: &Scratch) -> Contents {
    scratch.cache().contents().unwrap()
}

/// Bytes of all regular files in the cache.
fn bytes_on_disk(scratch: &Scratch) -> u64 {
    let found = super::super::contents::walk(&scratch.folder.join("hub")).unwrap();
    found.iter().filter(|found| found.meta.is_file()).map(|found| found.meta.len()).sum()
}

/// Carries a removal out, and checks that it frees what it announced.
fn run(scratch: &Scratch, plan: &Removal) -> Removed {
    let before = bytes_on_disk(scratch);
    let removed = plan.run(&scratch.cache()).unwrap();
    assert_eq!((removed.bytes, before - bytes_on_disk(scratch)), (plan.bytes(), plan.bytes()), "{plan:?}");
    assert_eq!(plan.subjects.iter().map(|subject| subject.bytes).sum::<u64>(), plan.bytes());
    assert!(removed.left.is_empty(), "{removed:?}");
    removed
}

#[test]
fn everything_is_listed_also_what_is_foreign_or_damaged() {
    let scratch = Scratch::new();
    full(&scratch);
    write(&scratch.folder.join("hub/notes.txt"), b"mine");
    std::fs::remove_file(scratch.at("blobs").join(etag(FILES[0].0, FILES[0].1).as_str())).unwrap();
    write(&scratch.at("refs/broken"), b"<html>");
    symlink("/tmp", scratch.folder.join("hub/models--org--linked")).unwrap();
    let all = contents(&scratch);
    let names: Vec<String> = all.repositories.iter().map(RepositoryContents::shown).collect();
    assert_eq!(names, ["datasets/org/data", "org/linked", "org/own", "org/tiny"]);
    let [data, linked, own, tiny] = &all.repositories[..] else { panic!("{names:?}") };
    assert_eq!((data.kind, data.bytes(), data.n_files(), data.is_own()), (Kind::Dataset, 4, 1, false));
    assert_eq!(
        (linked.bytes(), &linked.damage[..]),
        (0, &["it is a link, which is not followed".to_owned()][..])
    );
    assert_eq!((own.bytes(), own.is_own(), own.damage.len()), (5407 + 4, true, 0));
    assert!(own.partials[0].is_own && !tiny.partials[0].is_own);
    assert_eq!(tiny.partials[0].blob, "abc");
    assert_eq!(tiny.revisions.iter().map(|r| &r.refs[..]).collect::<Vec<_>>(), [["main"], ["v2"]]);
    assert_eq!(
        tiny.damage,
        [
            "the ref `broken` holds no commit",
            "`config.json` of 111111111111 leads nowhere",
            "`config.json` of 222222222222 leads nowhere"
        ]
    );
    assert_eq!(all.strays, [scratch.folder.join("hub/notes.txt")]);
    assert_eq!(tiny.revision("v2").unwrap().commit, OTHER);
    assert_eq!(tiny.revision("2222").unwrap().commit, OTHER);
    assert!(tiny.revision("222").is_none() && tiny.revision("v3").is_none());
    assert_eq!(all.repository("hf://org/own").unwrap().folder, "models--org--own");
    assert!(all.repository("org/data").is_none() && all.repository("Org/own").is_none());
    assert_eq!(tiny.bytes_of(tiny.revision("v2").unwrap()), 5);
    // Nobody's cache holds nothing.
    assert!(Scratch::new().cache().contents().unwrap().repositories.is_empty());
}

#[test]
fn a_revision_takes_only_what_no_other_needs() {
    let scratch = Scratch::new();
    full(&scratch);
    let all = contents(&scratch);
    let tiny = all.repository("org/tiny").unwrap();
    let gone = scratch.cache().plan_removal(tiny, Some(&[&"3".repeat(40)])).unwrap_err();
    assert_eq!(gone.kind(), apr_sdk::ErrorKind::NotFound);
    let plan = scratch.cache().plan_removal(tiny, Some(&[COMMIT])).unwrap();
    run(&scratch, &plan);
    let model = scratch.model();
    assert_eq!((model.commits().unwrap(), model.commit_of("main").unwrap()), (vec![OTHER.to_owned()], None));
    assert!(model.tree(COMMIT).unwrap().is_none() && !model.is_absent(COMMIT, "absent.json").unwrap());
    assert!(model.missing(OTHER, &model.tree(OTHER).unwrap().unwrap()).unwrap().is_empty());
    // Two at once take what only they share.
    by_hub_client(&scratch);
    by_hub_client_at(&scratch, "v3", &"3".repeat(40), &[FILES[1]]);
    let all = contents(&scratch);
    let shared = scratch.at("blobs").join(etag(FILES[1].0, FILES[1].1).as_str());
    let tiny = all.repository("org/tiny").unwrap();
    run(&scratch, &scratch.cache().plan_removal(tiny, Some(&[COMMIT, &"3".repeat(40)])).unwrap());
    assert_eq!((model.commits().unwrap(), shared.exists()), (vec![OTHER.to_owned()], false));
    // The last one takes the repository.
    let all = contents(&scratch);
    let plan = scratch.cache().plan_removal(all.repository("org/tiny").unwrap(), Some(&[OTHER])).unwrap();
    run(&scratch, &plan);
    assert!(!scratch.at("").exists());
    assert!(contents(&scratch).repository("org/own").is_some());
}

#[test]
fn no_link_is_followed_and_nothing_outside_is_touched() {
    let scratch = Scratch::new();
    full(&scratch);
    let outside = scratch.folder.join("outside");
    write(&outside.join("precious"), b"precious");
    symlink(&outside, scratch.at("snapshots/elsewhere")).unwrap();
    symlink(outside.join("precious"), scratch.at("blobs/elsewhere")).unwrap();
    symlink(&outside, scratch.folder.join("hub/models--org--linked")).unwrap();
    for name in ["org/tiny", "org/linked"] {
        let all = contents(&scratch);
        run(&scratch, &scratch.cache().plan_removal(all.repository(name).unwrap(), None).unwrap());
        assert!(contents(&scratch).repository(name).is_none());
    }
    assert_eq!(std::fs::read(outside.join("precious")).unwrap(), b"precious");
    // A folder that becomes a link after the removal was planned.
    let all = contents(&scratch);
    let plan = scratch.cache().plan_removal(all.repository("org/own").unwrap(), None).unwrap();
    let blobs = scratch.folder.join("hub/models--org--own/blobs");
    std::fs::rename(&blobs, scratch.folder.join("moved")).unwrap();
    symlink(scratch.folder.join("moved"), &blobs).unwrap();
    let removed = plan.run(&scratch.cache()).unwrap();
    assert!(removed.left.iter().any(|line| line.ends_with(": it changed meanwhile")), "{removed:?}");
    assert_eq!(std::fs::read_dir(scratch.folder.join("moved")).unwrap().count(), 5);
}

#[test]
fn garbage_is_what_nothing_refers_to_and_nobody_is_fetching() {
    let scratch = Scratch::new();
    full(&scratch);
    let root = scratch.folder.join("hub");
    write(&scratch.at("blobs/unused"), b"theirs");
    let own = scratch.cache().repository(&RepositoryId::new("org/own").unwrap());
    let path = fill(&own, OTHER, "old.json", b"{old}").unwrap();
    std::fs::remove_file(path).unwrap();
    let plan = |all| scratch.cache().plan_gc(&contents(&scratch), all).unwrap();
    // While it is being fetched, it stays.
    let held = own.lock(&BlobName::new("half").unwrap(), &|_| Ok(())).unwrap();
    assert_eq!(plan(false).kept, ["org/own: another process is downloading it"]);
    drop(held);
    let what = |plan: &Removal| plan.subjects.iter().map(|s| s.what.clone()).collect::<Vec<_>>();
    let blob = etag("old.json", b"{old}");
    assert_eq!(what(&plan(false)), ["partial download of half".to_owned(), format!("unused blob {blob}")]);
    run(&scratch, &plan(false));
    assert!(plan(false).is_empty());
    assert_eq!(what(&plan(true)), ["partial download of abc", "unused blob unused"]);
    run(&scratch, &plan(true));
    let names = ["models--org--own", "models--org--tiny"].map(|name| root.join(name));
    let left = names.iter().flat_map(|at| super::super::contents::walk(at).unwrap());
    assert!(left.into_iter().all(|found| !found.path.to_string_lossy().contains(".apr.")));
    assert!(own.missing(COMMIT, &tree(&FILES)).unwrap().is_empty());
}

#[test]
fn clearing_leaves_what_others_put_there_or_refer_to() {
    let scratch = Scratch::new();
    full(&scratch);
    let own = scratch.cache().repository(&RepositoryId::new("org/own").unwrap());
    let plan = |all| scratch.cache().plan_clear(&contents(&scratch), all).unwrap();
    assert!(plan(false).subjects.iter().all(|subject| subject.is_own && subject.repository == "org/own"));
    // Another program has a revision with one of our blobs.
    let shared = etag(FILES[1].0, FILES[1].1);
    link(&format!("../../blobs/{shared}"), &own.path().join("snapshots").join(OTHER).join(FILES[1].0));
    let theirs = contents(&scratch).repository("org/tiny").unwrap().bytes();
    run(&scratch, &plan(false));
    assert_eq!(own.commits().unwrap(), [OTHER]);
    assert_eq!(std::fs::read(own.file(OTHER, FILES[1].0).unwrap().unwrap().path).unwrap(), FILES[1].1);
    assert_eq!(std::fs::read_dir(own.path().join("blobs")).unwrap().count(), 1);
    assert_eq!(own.commit_of("main").unwrap(), None);
    assert_eq!(contents(&scratch).repository("org/tiny").unwrap().bytes(), theirs);
    // Once that goes, the next time takes the rest, with the folder.
    std::fs::remove_dir_all(own.path().join("snapshots")).unwrap();
    run(&scratch, &plan(false));
    assert!(!own.path().exists());
    assert!(plan(false).is_empty());
    // What a user keeps there is not touched, and keeps the folder.
    fill(&own, COMMIT, "config.json", b"{}").unwrap();
    write(&own.path().join("blobs/.notes"), b"mine");
    run(&scratch, &plan(false));
    assert_eq!(std::fs::read(own.path().join("blobs/.notes")).unwrap(), b"mine");
    assert!(contents(&scratch).repository("org/own").unwrap().revisions.is_empty());
    // A blob that another program fetched anew under the same name is not ours.
    fill(&own, COMMIT, "config.json", b"{}").unwrap();
    let blob = own.path().join("blobs").join(etag("config.json", b"{}").as_str());
    std::fs::remove_file(&blob).unwrap();
    write(&blob, b"{}");
    assert!(!contents(&scratch).repository("org/own").unwrap().blobs[0].is_own);
    run(&scratch, &plan(true));
    assert!(contents(&scratch).repositories.is_empty());
}

#[test]
fn a_payload_goes_once_nothing_leads_to_it() {
    let scratch = Scratch::new();
    let root = scratch.folder.join("hub");
    let hash = "ab".to_owned() + &"0".repeat(62);
    let payload = root.join("blobs/ab").join(&hash);
    write(&root.join("blobs/.huggingface-shared-blobs"), b"1\n");
    write(&payload, b"payload");
    for name in ["one", "two"] {
        let path = root.join(format!("models--org--{name}"));
        link(&format!("../../blobs/ab/{hash}"), &path.join("blobs/etag"));
        link("../../blobs/etag", &path.join("snapshots").join(COMMIT).join("model.bin"));
    }
    let refs = payload.with_extension("refs");
    write(&refs, b"models--org--one/blobs/etag\nmodels--org--two/blobs/etag\n../../etc/passwd\n");
    let all = contents(&scratch);
    assert_eq!((all.bytes(), all.repositories[0].bytes(), all.payloads.len()), (7, 7, 1));
    let plan = |name: &str| {
        scratch.cache().plan_removal(contents(&scratch).repository(name).unwrap(), None).unwrap()
    };
    assert_eq!(plan("org/one").bytes(), 0);
    plan("org/one").run(&scratch.cache()).unwrap();
    assert_eq!(std::fs::read(&payload).unwrap(), b"payload");
    // Without its list, nothing can be said of it.
    let list = std::fs::read(&refs).unwrap();
    std::fs::remove_file(&refs).unwrap();
    assert_eq!(plan("org/two").bytes(), 0);
    write(&refs, &list);
    let last = plan("org/two");
    assert_eq!(last.bytes(), 7);
    assert_eq!(last.run(&scratch.cache()).unwrap().bytes, 7);
    assert!(!payload.exists() && !refs.exists());
}

#[test]
fn a_repository_that_is_being_downloaded_stays() {
    let scratch = Scratch::new();
    full(&scratch);
    let own = scratch.cache().repository(&RepositoryId::new("org/own").unwrap());
    let _held = own.lock(&BlobName::new("half").unwrap(), &|_| Ok(())).unwrap();
    let all = contents(&scratch);
    assert_eq!(
        scratch.cache().plan_removal(all.repository("org/own").unwrap(), None).unwrap_err().to_string(),
        format!(
            "E007 {}: another process is downloading its blob half: wait for it to finish, or stop it",
            own.path().display()
        )
    );
    let plan = scratch.cache().plan_clear(&all, false).unwrap();
    assert_eq!(
        (plan.is_empty(), &plan.kept[..]),
        (true, &["org/own: another process is downloading it".to_owned()][..])
    );
}
