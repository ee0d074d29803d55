//! A process that is killed between any two steps leaves a cache that the next one completes.

use super::*;
use std::mem::forget;

/// Does the steps of a pull up to number `last`, and leaves everything as a killed process does: no destructor runs. Locks end
/// with the process, which is what dropping them does here.
fn killed_after(scratch: &Scratch, last: usize) {
    let model = scratch.model();
    let (name, content) = FILES[1];
    let blob = etag(name, content);
    let download = Download { commit: COMMIT.to_owned(), blob: blob.clone(), size: content.len() as u64 };
    let mut n = 0;
    let mut is_last = || {
        n += 1;
        n > last
    };
    if is_last() {
        return;
    }
    model.set_ref("main", COMMIT).unwrap();
    if is_last() {
        return;
    }
    model.set_tree(COMMIT, &tree(&FILES)).unwrap();
    if is_last() {
        return;
    }
    drop(model.lock(&blob, &|_| Ok(())).unwrap());
    if is_last() {
        return;
    }
    let partial = Partial::open(&scratch.at("blobs"), None, download).unwrap();
    if is_last() {
        return forget(partial);
    }
    partial.write_at(0, &content[..1000]).unwrap();
    if is_last() {
        return forget(partial);
    }
    partial.record().unwrap();
    if is_last() {
        return forget(partial);
    }
    partial.write_at(1000, &content[1000..]).unwrap();
    let verified = partial.verify(None, &|_| Ok(())).unwrap();
    if is_last() {
        return forget(verified);
    }
    // Between the rename and the journal's end.
    let journal = scratch.at("blobs").join(format!("{blob}.apr.json"));
    let text = std::fs::read(&journal).unwrap();
    model.publish(verified).unwrap();
    if is_last() {
        return write(&journal, &text);
    }
    if is_last() {
        return;
    }
    model.link(COMMIT, name, &blob, true).unwrap();
}

#[test]
fn the_next_process_completes_what_a_killed_one_began() {
    for last in 0..=10 {
        let scratch = Scratch::new();
        killed_after(&scratch, last);
        // What is there is never wrong: a file is the whole file, or it is not found.
        let (name, content) = FILES[1];
        if let Some(found) = scratch.model().file(COMMIT, name).unwrap() {
            assert_eq!(std::fs::read(found.path).unwrap(), content, "step {last}");
        }
        let listing = scratch.cache().contents().unwrap();
        assert!(listing.repositories.iter().all(|r| r.damage.is_empty()), "step {last}: {listing:?}");
        pull(&scratch.model(), "main", COMMIT, &FILES).unwrap();
        assert!(scratch.model().missing(COMMIT, &tree(&FILES)).unwrap().is_empty(), "step {last}");
        let plan = scratch.cache().plan_gc(&scratch.cache().contents().unwrap(), false).unwrap();
        plan.run(&scratch.cache()).unwrap();
        let left =
            scratch.listing().into_iter().filter(|line| line.contains(".apr.") || line.contains(".tmp"));
        assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new(), "step {last}");
        assert!(scratch.model().missing(COMMIT, &tree(&FILES)).unwrap().is_empty(), "step {last}");
    }
}

#[test]
fn what_a_killed_download_recorded_is_not_fetched_again() {
    let scratch = Scratch::new();
    killed_after(&scratch, 6);
    let (name, content) = FILES[1];
    let download =
        Download { commit: COMMIT.to_owned(), blob: etag(name, content), size: content.len() as u64 };
    let partial = Partial::open(&scratch.at("blobs"), None, download).unwrap();
    assert_eq!(partial.resumed(), 1000);
    assert_eq!(partial.missing().first(), Some(&(1000..5000)));
}
