//! Writing: the layout that comes of it, and who may write at the same time.

use super::*;
use apr_sdk::{Error, ErrorKind};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

#[test]
fn a_pull_leaves_what_the_hub_s_client_leaves() {
    let (ours, theirs) = (Scratch::new(), Scratch::new());
    by_hub_client(&theirs);
    let model = ours.model();
    pull(&model, "main", COMMIT, &FILES).unwrap();
    model.set_absent(COMMIT, "absent.json").unwrap();
    // The text of the tag and the spaces in the listing are free, and so are modes below the umask.
    let comparable = |scratch: &Scratch| -> Vec<String> {
        let free = |line: &String| line.contains("CACHEDIR.TAG") || line.contains("trees/");
        let lines = scratch.listing().into_iter().filter(|line| !free(line));
        lines.map(|line| line.trim_end_matches(" 664").trim_end_matches(" 644").to_owned()).collect()
    };
    assert_eq!(comparable(&ours), comparable(&theirs));
    assert_eq!(std::fs::read(ours.at("refs/main")).unwrap(), COMMIT.as_bytes());
    let text = std::fs::read_to_string(ours.at(&format!("trees/{COMMIT}.json"))).unwrap();
    let start = "{\n \"format_version\": 1,\n \"files\": {\n  \"config.json\": {\n   \"size\": 7,\n   \"blob_id\": \"";
    assert!(text.starts_with(start), "{text}");
    let tag = std::fs::read_to_string(ours.folder.join("hub/CACHEDIR.TAG")).unwrap();
    assert!(tag.starts_with("Signature: 8a477f597d28d172789f06886806bc55\n"));
    let lock =
        ours.folder.join(format!("hub/.locks/models--org--tiny/{}.lock", etag(FILES[0].0, FILES[0].1)));
    assert_eq!(lock.metadata().unwrap().mode() & 0o777, 0o664);
    // A second time, nothing is to be done.
    let before = ours.listing();
    pull(&model, "main", COMMIT, &FILES).unwrap();
    assert_eq!(ours.listing(), before);
}

#[test]
fn a_download_goes_on_where_it_stopped() {
    let scratch = Scratch::new();
    let model = scratch.model();
    let content: Vec<u8> = (0..=255_u8).map(|n| n.wrapping_mul(7)).collect();
    let blob = BlobName::new(&sha256(&content)).unwrap();
    let download = Download { commit: COMMIT.to_owned(), blob: blob.clone(), size: content.len() as u64 };
    let open = |download: &Download| {
        let lock = model.lock(&blob, &|_| Ok(())).unwrap();
        model.partial(lock, download.clone()).unwrap()
    };
    let partial = open(&download);
    partial.write_at(100, &content[100..110]).unwrap();
    partial.write_at(0, &content[..10]).unwrap();
    assert_eq!(partial.missing(), [10..100, 110..content.len() as u64]);
    drop(partial);
    // Another commit with the same content goes on with it, too.
    let partial = open(&Download { commit: OTHER.to_owned(), ..download.clone() });
    assert_eq!(partial.resumed(), 20);
    assert_eq!(partial.missing(), [10..100, 110..content.len() as u64]);
    let error = partial.verify(None, &|_| Ok(())).unwrap_err();
    assert_eq!(error.message(), "the download is not finished: byte 10 is missing");
    // Another length, a journal that is not understood, a file that lacks what the journal says: from the beginning.
    let path = scratch.at("blobs").join(format!("{blob}.apr.incomplete"));
    let journal = scratch.at("blobs").join(format!("{blob}.apr.json"));
    let good = std::fs::read(&journal).unwrap();
    let cut = || std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(50).unwrap();
    let spoils: [(&str, &dyn Fn()); 3] = [
        ("journal", &|| std::fs::write(&journal, b"{\"done\":[[0,9]]}").unwrap()),
        ("file", &cut),
        ("absent", &|| std::fs::remove_file(&path).unwrap()),
    ];
    for (what, spoil) in spoils {
        write(&path, &content[..110]);
        write(&journal, &good);
        spoil();
        assert_eq!(open(&download).resumed(), 0, "{what}");
    }
    write(&path, &content[..110]);
    write(&journal, &good);
    let partial = open(&Download { size: 7, ..download.clone() });
    assert_eq!(partial.resumed(), 0);
    let error = partial.write_at(5, b"abc").unwrap_err();
    assert_eq!(error.message(), "the server sent bytes behind the end: 3 at 5, but the file has 7");
}

#[test]
fn the_journal_is_at_most_one_interval_behind() {
    let scratch = Scratch::new();
    let model = scratch.model();
    let blob = BlobName::new("x").unwrap();
    let download = Download { commit: COMMIT.to_owned(), blob: blob.clone(), size: 64 << 20 };
    let partial = Partial::open(&scratch.at("blobs"), None, download.clone()).unwrap();
    let piece = vec![1; 1 << 20];
    (0..20).for_each(|n| partial.write_at(n << 20, &piece).unwrap());
    // A process that is killed runs no destructor.
    std::mem::forget(partial);
    let partial = model.partial(model.lock(&blob, &|_| Ok(())).unwrap(), download).unwrap();
    assert_eq!(partial.resumed(), 16 << 20);
    partial.discard().unwrap();
    assert_eq!(std::fs::read_dir(scratch.at("blobs")).unwrap().count(), 0);
}

#[test]
fn wrong_content_is_never_published() {
    let scratch = Scratch::new();
    let model = scratch.model();
    let blob = BlobName::new(&sha256(b"right")).unwrap();
    let lock = model.lock(&blob, &|_| Ok(())).unwrap();
    let download = Download { commit: COMMIT.to_owned(), blob: blob.clone(), size: 5 };
    let partial = model.partial(lock, download).unwrap();
    partial.write_at(0, b"wrong").unwrap();
    let error = partial.verify(None, &|_| Ok(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert_eq!(
        error.to_string(),
        format!(
            "E004 {}: the download has SHA-256 {}, but {blob} was announced: download it again; if that does not help, \
             a proxy or mirror changes it",
            scratch.at("blobs").join(format!("{blob}.apr.incomplete")).display(),
            sha256(b"wrong"),
        )
    );
    assert_eq!(std::fs::read_dir(scratch.at("blobs")).unwrap().count(), 0);
}

#[test]
fn a_blob_of_other_content_is_not_replaced_in_silence() {
    let scratch = Scratch::new();
    let model = scratch.model();
    let blob = BlobName::new(&sha256(b"right")).unwrap();
    let publish = || {
        let lock = model.lock(&blob, &|_| Ok(())).unwrap();
        let download = Download { commit: COMMIT.to_owned(), blob: blob.clone(), size: 5 };
        let partial = model.partial(lock, download).unwrap();
        partial.write_at(0, b"right").unwrap();
        model.publish(partial.verify(None, &|_| Ok(())).unwrap()).unwrap().before
    };
    let path = scratch.at("blobs").join(blob.as_str());
    assert_eq!(publish(), Before::Nothing);
    assert_eq!(publish(), Before::Same);
    write(&path, b"wrong");
    assert_eq!(publish(), Before::Other);
    // Of a link into the shared store, the link is replaced: others lead to the payload, too.
    let payload = scratch.folder.join("payload");
    write(&payload, b"wrong");
    std::fs::remove_file(&path).unwrap();
    symlink(&payload, &path).unwrap();
    assert_eq!(publish(), Before::Other);
    assert_eq!(
        (std::fs::read(&path).unwrap(), std::fs::read(&payload).unwrap()),
        (b"right".into(), b"wrong".into())
    );
    std::fs::remove_file(&path).unwrap();
    symlink("nowhere", &path).unwrap();
    assert_eq!(publish(), Before::Nothing);
}

#[test]
fn a_link_that_is_wrong_is_replaced_and_a_folder_that_is_one_refused() {
    let scratch = Scratch::new();
    let model = scratch.model();
    let path = fill(&model, COMMIT, "a/config.json", b"{}").unwrap();
    let blob = etag("config.json", b"{}");
    std::fs::remove_file(&path).unwrap();
    symlink("../../../blobs/nothing", &path).unwrap();
    model.link(COMMIT, "a/config.json", &blob, false).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"{}");
    let folder = scratch.at("snapshots").join(COMMIT).join("b");
    std::fs::create_dir(scratch.folder.join("elsewhere")).unwrap();
    symlink(scratch.folder.join("elsewhere"), &folder).unwrap();
    assert_eq!(
        model.link(COMMIT, "b/config.json", &blob, false).unwrap_err().to_string(),
        format!(
            "E007 {}: a folder of the cache is a link, and apr writes through none: replace the link with a folder",
            folder.display()
        )
    );
    assert_eq!(std::fs::read_dir(scratch.folder.join("elsewhere")).unwrap().count(), 0);
    let gone = BlobName::new("gone").unwrap();
    assert_eq!(model.link(COMMIT, "c.json", &gone, false).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn without_links_a_new_blob_is_moved_and_an_old_one_copied() {
    let scratch = Scratch::new();
    let cache = scratch.cache().without_links();
    let model = cache.repository(&RepositoryId::new("org/tiny").unwrap());
    let path = fill(&model, COMMIT, "config.json", b"{}").unwrap();
    assert!(path.symlink_metadata().unwrap().is_file());
    let blob = etag("config.json", b"{}");
    assert!(!scratch.at("blobs").join(blob.as_str()).exists());
    assert_eq!(model.file(COMMIT, "config.json").unwrap().unwrap().blob, None);
    write(&scratch.at("blobs").join(blob.as_str()), b"{}");
    let path = fill(&model, OTHER, "config.json", b"{}").unwrap();
    assert!(path.symlink_metadata().unwrap().is_file() && scratch.at("blobs").join(blob.as_str()).exists());
}

#[test]
fn whoever_waits_is_told_for_what_and_can_stop() {
    let scratch = Scratch::new();
    let model = scratch.model();
    let blob = BlobName::new("x").unwrap();
    let held = model.lock(&blob, &|_| Ok(())).unwrap();
    let told = std::cell::RefCell::new(None);
    let error = model
        .lock_with(&blob, Duration::from_millis(250), &|path| {
            *told.borrow_mut() = path.map(Path::to_owned);
            path.map_or(Ok(()), |_| Err(Error::cancelled("enough")))
        })
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert_eq!(told.take(), Some(scratch.folder.join("hub/.locks/models--org--tiny/x.lock")));
    assert!(model.is_locked(&blob));
    drop(held);
    assert!(!model.is_locked(&blob));
}

#[test]
fn many_at_once_fill_one_entry() {
    let scratch = Scratch::new();
    std::thread::scope(|scope| {
        for n in 0..6 {
            let (scratch, commit) = (&scratch, if n % 2 == 0 { COMMIT } else { OTHER });
            scope.spawn(move || pull(&scratch.model(), "main", commit, &FILES).unwrap());
        }
    });
    for commit in [COMMIT, OTHER] {
        assert!(scratch.model().missing(commit, &tree(&FILES)).unwrap().is_empty());
    }
    let proofs = scratch.cache().proofs();
    for (name, content) in FILES {
        let verdict = scratch.model().verify(&etag(name, content), &proofs, &|_| Ok(())).unwrap();
        assert!(matches!(verdict, Verdict::Right(_)), "{name}: {verdict:?}");
    }
    let left = scratch.listing().into_iter().filter(|line| line.contains(".tmp") || line.contains(".apr."));
    assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn a_cache_that_cannot_be_written_serves_and_says_so() {
    let scratch = Scratch::new();
    by_hub_client(&scratch);
    if rustix::process::geteuid().is_root() {
        return read_only_by_kind(&scratch);
    }
    let folders =
        ["", "blobs", "refs", "snapshots", &format!("snapshots/{COMMIT}")].map(|below| scratch.at(below));
    let set = |mode| {
        folders.iter().for_each(|at| std::fs::set_permissions(at, Permissions::from_mode(mode)).unwrap())
    };
    set(0o555);
    let model = scratch.model();
    let refused = model.set_ref("main", OTHER).unwrap_err();
    let read = model.file(COMMIT, "config.json").unwrap();
    let same = model.set_ref("main", COMMIT);
    set(0o755);
    assert!(read.is_some() && same.is_ok());
    assert_eq!(
        refused.to_string(),
        format!(
            "E007 {}: cannot write: permission denied: set APR_CACHE to a folder that you can write to",
            scratch.at("refs/main").display()
        )
    );
}

/// The same for the administrator, whom permissions do not stop: a file is where a folder should be.
fn read_only_by_kind(scratch: &Scratch) {
    std::fs::remove_dir_all(scratch.at("refs")).unwrap();
    write(&scratch.at("refs"), b"");
    let refused = scratch.model().set_ref("main", COMMIT).unwrap_err();
    assert_eq!((refused.kind(), refused.file()), (ErrorKind::Io, scratch.at("refs").to_str()));
    assert!(scratch.model().file(COMMIT, "config.json").unwrap().is_some());
    let denied = std::io::Error::from_raw_os_error(rustix::io::Errno::ROFS.raw_os_error());
    assert_eq!(
        error::io_error(&denied, "write", Path::new("/hub/refs/main")).to_string(),
        "E007 /hub/refs/main: cannot write: read-only file system: set APR_CACHE to a folder that you can write to"
    );
}

#[test]
fn proofs_are_forgotten_when_a_blob_changes() {
    let scratch = Scratch::new();
    let model = scratch.model();
    fill(&model, COMMIT, "config.json", b"{}").unwrap();
    let blob = etag("config.json", b"{}");
    let hashed = std::cell::Cell::new(0);
    let tick = |bytes: u64| {
        hashed.set(hashed.get() + bytes);
        Ok(())
    };
    let judge = || model.prove(&blob, &scratch.cache().proofs(), &tick).unwrap();
    // Publishing hashed it already.
    assert!(matches!(judge(), Verdict::Right(_)));
    assert_eq!(hashed.get(), 0);
    let path = scratch.at("blobs").join(blob.as_str());
    let times = path.metadata().unwrap().modified().unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"[]", 0).unwrap();
    // Whoever sets the time back does not get past the time of the last change.
    file.set_modified(times).unwrap();
    let wrong = Verdict::Wrong(ContentDigest::Git(git_id(b"[]")));
    assert_eq!((judge(), hashed.get()), (wrong.clone(), 2));
    assert_eq!((judge(), hashed.get()), (wrong.clone(), 2));
    assert_eq!(model.verify(&blob, &scratch.cache().proofs(), &tick).unwrap(), wrong);
    assert_eq!(hashed.get(), 4);
    std::fs::write(scratch.folder.join("state/cache-proofs"), "garbage").unwrap();
    assert_eq!((judge(), hashed.get()), (wrong, 6));
    let unnamed = BlobName::new("no-digest").unwrap();
    assert_eq!(model.prove(&unnamed, &scratch.cache().proofs(), &tick).unwrap(), Verdict::Unknown);
}
