//! Redirects lead where they are said to lead.

use super::super::redirector::PRIVATE_HOSTS;
use super::super::{Content, Options, Redirector};
use super::get;

fn redirector() -> Redirector {
    Redirector::start(Options::default(), Content::bytes("the end"))
}

/// Follows redirects that are absolute or begin with a slash; the statuses on the way, and what is there.
fn followed(url: &str, at_most: usize) -> (Vec<u16>, String) {
    let (mut url, mut statuses) = (url.to_owned(), Vec::new());
    while statuses.len() < at_most {
        let answer = get(&url, &[]);
        let Some(location) = answer.header("Location") else { return (statuses, answer.text()) };
        statuses.push(answer.status);
        let origin = url.split('/').take(3).collect::<Vec<_>>().join("/");
        url = match location.strip_prefix("..") {
            // The address is that of a file two folders down.
            Some(rest) => format!("{origin}/relative{rest}"),
            None if location.starts_with('/') => format!("{origin}{location}"),
            None => location.to_owned(),
        };
    }
    (statuses, String::new())
}

#[test]
fn hops_are_counted() {
    let redirector = redirector();
    assert_eq!(followed(&redirector.hops(0), 9), (vec![], "the end".to_owned()));
    let (statuses, text) = followed(&redirector.hops(5), 9);
    assert_eq!((statuses, text.as_str()), (vec![301, 308, 307, 303, 302], "the end"));
    let (statuses, text) = followed(&redirector.relative_hops(3), 9);
    assert_eq!((statuses.len(), text.as_str()), (3, "the end"));
    assert_eq!(followed(&redirector.hops(20), 99).0.len(), 20);
}

#[test]
fn loops_do_not_end() {
    let redirector = redirector();
    for url in [redirector.endless(), redirector.spiral()] {
        assert_eq!(followed(&url, 50).0, [302; 50]);
    }
    let lines = redirector.log().lines();
    let (endless, spiral) = lines.split_at(50);
    assert_eq!(endless[0], endless[2]);
    assert_ne!(spiral[0], spiral[2]);
}

#[test]
fn locations_are_sent_as_they_are() {
    let redirector = redirector();
    let private = redirector.to_private(4242);
    assert_eq!(private.len(), PRIVATE_HOSTS.len());
    for ((case, url), (_, host)) in private.iter().zip(PRIVATE_HOSTS) {
        let location = format!("http://{host}:4242/file");
        assert_eq!(get(url, &[]).header("Location"), Some(location.as_str()), "{case}");
    }
    for (case, url) in redirector.to_odd(4242) {
        let answer = get(&url, &[]);
        assert_eq!(answer.status, 302, "{case}");
        assert!(answer.header("Location").is_some(), "{case}");
    }
    let answer = get(&redirector.to(307, "file:///etc/passwd"), &[]);
    assert_eq!((answer.status, answer.header("Location")), (307, Some("file:///etc/passwd")));
    assert_eq!(get(&redirector.nowhere(), &[]).header("Location"), None);
}
