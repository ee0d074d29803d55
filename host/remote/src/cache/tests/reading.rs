//! Reading what is there: caches of the hub's client, old and new, whole and damaged.

use super::*;
use apr_sdk::ErrorKind;

#[test]
fn what_the_hub_s_client_fetched_is_found() {
    let scratch = Scratch::new();
    by_hub_client(&scratch);
    let model = scratch.model();
    assert_eq!(model.commit_of("main").unwrap().as_deref(), Some(COMMIT));
    assert_eq!(model.commit_of(COMMIT).unwrap().as_deref(), Some(COMMIT));
    assert_eq!(model.commit_of("v2").unwrap(), None);
    for (name, content) in FILES {
        let found = model.file(COMMIT, name).unwrap().unwrap();
        assert_eq!(found.path, scratch.at("snapshots").join(COMMIT).join(name));
        assert_eq!((found.len, found.blob), (content.len() as u64, Some(etag(name, content))));
    }
    assert_eq!(model.file(COMMIT, "other.json").unwrap(), None);
    assert!(
        model.is_absent(COMMIT, "absent.json").unwrap() && !model.is_absent(COMMIT, "config.json").unwrap()
    );
    let listed = model.tree(COMMIT).unwrap().unwrap();
    assert_eq!(listed, tree(&FILES));
    assert_eq!(listed.bytes(), 5407);
    assert!(model.missing(COMMIT, &listed).unwrap().is_empty());
    assert_eq!(model.only_commit().unwrap().as_deref(), Some(COMMIT));
}

#[test]
fn what_a_snapshot_lacks_is_told() {
    let scratch = Scratch::new();
    by_hub_client(&scratch);
    let model = scratch.model();
    let listed = model.tree(COMMIT).unwrap().unwrap();
    // A link that leads nowhere, and a file that was cut.
    std::fs::remove_file(scratch.at("blobs").join(etag(FILES[0].0, FILES[0].1).as_str())).unwrap();
    write(&scratch.at("blobs").join(etag(FILES[1].0, FILES[1].1).as_str()), b"short");
    assert_eq!(model.missing(COMMIT, &listed).unwrap(), ["config.json", "model.safetensors"]);
    assert_eq!(model.file(COMMIT, "config.json").unwrap(), None);
    assert_eq!(model.missing(OTHER, &listed).unwrap().len(), 3);
}

#[test]
fn refs_are_trimmed_and_anything_but_a_commit_is_refused() {
    let scratch = Scratch::new();
    let model = scratch.model();
    let read = |content: &str| {
        write(&scratch.at("refs/main"), content.as_bytes());
        model.commit_of("main")
    };
    assert_eq!(read(&format!("{COMMIT}\n")).unwrap().as_deref(), Some(COMMIT));
    assert_eq!(read("").unwrap(), None);
    assert_eq!(read(" \n").unwrap(), None);
    assert_eq!(
        read("<html>").unwrap_err().to_string(),
        format!(
            "E002 {}: the ref holds `<html>`, which is not a commit: remove the file; the next download writes it anew",
            scratch.at("refs/main").display()
        )
    );
    for bad in ["../x", "", "a\\b"] {
        assert_eq!(model.commit_of(bad).unwrap_err().kind(), ErrorKind::InvalidArgument, "{bad:?}");
    }
}

#[test]
fn payloads_of_the_shared_store_are_two_links_away() {
    let scratch = Scratch::new();
    by_hub_client(&scratch);
    let (hash, root) = ("ab".to_owned() + &"0".repeat(62), scratch.folder.join("hub"));
    let (name, content) = FILES[1];
    let blob = scratch.at("blobs").join(etag(name, content).as_str());
    write(&root.join("blobs/ab").join(&hash), content);
    std::fs::remove_file(&blob).unwrap();
    link(&format!("../../blobs/ab/{hash}"), &blob);
    // Without its mark, the folder is no store.
    let model = scratch.model();
    assert_eq!(model.file(COMMIT, name).unwrap_err().message(), "the link points outside the cache");
    write(&root.join("blobs/.huggingface-shared-blobs"), b"1\n");
    let found = model.file(COMMIT, name).unwrap().unwrap();
    assert_eq!((found.len, found.blob), (5000, Some(etag(name, content))));
    let proofs = scratch.cache().proofs();
    let verdict = model.verify(&etag(name, content), &proofs, &|_| Ok(())).unwrap();
    assert_eq!(verdict, Verdict::Right(etag(name, content).digest().unwrap()));
}

#[test]
fn links_that_lead_elsewhere_are_refused() {
    let scratch = Scratch::new();
    by_hub_client(&scratch);
    let model = scratch.model();
    write(&scratch.folder.join("secret"), b"secret");
    let at = scratch.at("snapshots").join(COMMIT).join("leak.json");
    link("../../../../secret", &at);
    let error = model.file(COMMIT, "leak.json").unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "E002 {}: the link points outside the cache: remove the link; the next download makes it anew",
            at.display()
        )
    );
    link("loop.json", &scratch.at("snapshots").join(COMMIT).join("loop.json"));
    assert_eq!(model.file(COMMIT, "loop.json").unwrap(), None);
    for bad in ["../config.json", "/etc/passwd", "a\\b", "nul"] {
        assert_eq!(model.file(COMMIT, bad).unwrap_err().kind(), ErrorKind::Malformed, "{bad}");
    }
    assert_eq!(
        model.snapshot("main").unwrap_err().to_string(),
        "E002 `main` is not a commit, which has 40 hexadecimal digits: check that the endpoint is a hub"
    );
}

#[test]
fn names_that_differ_in_case_are_different() {
    let scratch = Scratch::new();
    let files: [(&str, &[u8]); 2] = [("Config.json", b"{}"), ("config.json", b"[]")];
    pull(&scratch.model(), "main", COMMIT, &files).unwrap();
    for (name, content) in files {
        let found = scratch.model().file(COMMIT, name).unwrap().unwrap();
        assert_eq!(std::fs::read(found.path).unwrap(), content);
    }
    let other = scratch.cache().repository(&RepositoryId::new("Org/Tiny").unwrap());
    assert_eq!(other.commit_of("main").unwrap(), None);
}

#[test]
fn without_a_ref_only_a_lone_snapshot_will_do() {
    let scratch = Scratch::new();
    assert_eq!(scratch.model().only_commit().unwrap(), None);
    by_hub_client(&scratch);
    std::fs::remove_dir_all(scratch.at("refs")).unwrap();
    // What a download that was stopped leaves.
    std::fs::create_dir(scratch.at("snapshots").join("3".repeat(40))).unwrap();
    assert_eq!(scratch.model().only_commit().unwrap().as_deref(), Some(COMMIT));
    by_hub_client_at(&scratch, "v2", OTHER, &FILES);
    assert_eq!(scratch.model().only_commit().unwrap(), None);
    assert_eq!(scratch.model().commits().unwrap(), [COMMIT, OTHER, &"3".repeat(40)]);
}

#[test]
fn listings_that_are_not_understood_are_passed_over() {
    let scratch = Scratch::new();
    let path = scratch.at(&format!("trees/{COMMIT}.json"));
    for bad in
        ["", "[]", "{\"format_version\":2,\"files\":{}}", "{\"format_version\":1,\"files\":{\"a\":{}}}"]
    {
        write(&path, bad.as_bytes());
        assert_eq!(scratch.model().tree(COMMIT).unwrap(), None, "{bad}");
    }
    // Paths come from a server: none of these is looked up.
    let hostile = tree(&[("../../x", b"x"), ("a/../../y", b"y"), ("good.json", b"{}")]);
    assert_eq!(scratch.model().missing(COMMIT, &hostile).unwrap(), ["good.json"]);
}
