//! Redirects, secrets and certificates: apr goes where its user sent it, says who it is only there, and trusts nobody else.

use std::net::{IpAddr, UdpSocket};

use super::models::{safetensors, single, web};
use super::program::{Ended, Machine, complaint};
use super::server::hub::{Behaviour, samples};
use super::server::message::Request;
use super::server::redirector::PRIVATE_HOSTS;
use super::server::tls::{Authority, Certificate};
use super::server::{Bound, Content, FileServer, Habit, Hub, Options, Redirector, Response, Seen};

fn model() -> Content {
    safetensors("layer", 2, 300, 3)
}

/// Asks for the tensors of a model.
fn look(machine: &Machine, url: &str) -> Ended {
    machine.run(&["inspect", url, "--insecure-http"])
}

#[test]
fn ten_redirects_are_followed_and_no_more() {
    let redirector = Redirector::start(Options::default(), model());
    let machine = Machine::new();
    for url in [redirector.hops(1), redirector.hops(10), redirector.relative_hops(10)] {
        machine.ok(&["inspect", &url]);
    }
    let endless =
        [redirector.hops(11), redirector.relative_hops(11), redirector.endless(), redirector.spiral()];
    for url in endless {
        redirector.log().clear();
        machine.fails(&["inspect", &url], 1, &["more than 10 redirects", &url]);
        assert_eq!(redirector.log().requests().len(), 11, "{url}");
    }
}

#[test]
fn redirects_to_what_is_no_place_for_a_model_are_refused() {
    let redirector = Redirector::start(Options::default(), model());
    let target = FileServer::honest(model());
    let machine = Machine::new();
    let mut failures = Vec::new();
    for (case, url) in redirector.to_odd(target.port()) {
        let is_followed = matches!(case, "user and password" | "a host that looks like another");
        let ended = look(&machine, &url);
        // Users and passwords of a redirect are nobody's.
        let wrong = match ended.code {
            0 if is_followed => None,
            _ if case == "no host" => complaint(&ended, 1, &["no host `file`"]),
            _ => complaint(&ended, 1, &["127.0.0.1"]),
        };
        failures.extend(wrong.map(|wrong| format!("{case}: {wrong}: {}", ended.stderr)));
    }
    let nowhere = look(&machine, &redirector.nowhere());
    failures.extend(complaint(&nowhere, 1, &["302"]).map(|wrong| format!("{wrong}: {}", nowhere.stderr)));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(target.log().requests().iter().all(|seen| !seen.authorized));
}

/// Whether a case of [`PRIVATE_HOSTS`] is this machine, in whatever spelling.
fn is_loopback(case: &str) -> bool {
    case.contains("loopback")
}

#[test]
fn redirects_into_a_network_that_nobody_named_are_refused() {
    let redirector = Redirector::start(Options::default(), model());
    let target = web(Habit::Honest, &model());
    let machine = Machine::new();
    for (case, url) in redirector.to_private(target.port()) {
        // The user named this machine, so that it may be led to.
        if is_loopback(case) {
            continue;
        }
        machine.fails(&["inspect", &url, "--insecure-http"], 1, &["refused to connect", "redirect"]);
        machine.fails(&["inspect", &url], 2, &["http", "--insecure-http"]);
    }
    assert_eq!(target.log().lines(), [""; 0]);
}

/// An address of this machine that other machines see; no packet is sent to find it.
fn outer_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[test]
fn redirects_to_this_machine_from_elsewhere_are_refused_in_every_spelling() {
    let Some(bound) = outer_address().and_then(|address| Bound::at(address, 0).ok()) else {
        apr_tests::skipped("tests/remote: this machine has no address but the loopback one");
        return;
    };
    let target = web(Habit::Honest, &model());
    let port = target.port();
    let options = Options::default();
    let url = bound.url(&options);
    let server = bound.serve(options, move |request: &Request| {
        let n: usize = request.segments()[0].parse().unwrap();
        Response::redirect(302, &format!("http://{}:{port}/file", PRIVATE_HOSTS[n].1))
    });
    let machine = Machine::new();
    for (n, (case, _)) in PRIVATE_HOSTS.iter().enumerate() {
        if is_loopback(case) || case.starts_with("link-local") {
            let url = format!("{url}/{n}/file");
            machine.fails(&["inspect", &url, "--insecure-http"], 1, &["refused to connect"]);
        }
    }
    assert_eq!(target.log().lines(), [""; 0]);
    assert!(!server.log().lines().is_empty());
    machine.fails(&["inspect", &format!("{url}/0/file")], 2, &["--insecure-http"]);
}

#[test]
fn a_redirect_from_https_to_http_is_refused() {
    let authority = Authority::new();
    let tls = Options { tls: Some(authority.config(Certificate::Good)), ..Options::default() };
    let redirector = Redirector::start(tls, model());
    let target = web(Habit::Honest, &model());
    let machine = trusting(&authority);
    machine.ok(&["inspect", &redirector.hops(2)]);
    let url = redirector.to(302, &target.url_of("file"));
    machine.fails(&["inspect", &url, "--insecure-http"], 1, &["from https to http"]);
    assert_eq!(target.log().lines(), [""; 0]);
}

/// A machine that trusts an authority.
fn trusting(authority: &Authority) -> Machine {
    let machine = Machine::new();
    let path = machine.home("authority.pem");
    authority.write_pem(&path);
    machine.with("SSL_CERT_FILE", path.display().to_string())
}

#[test]
fn a_good_certificate_is_trusted_through_ssl_cert_file() {
    let authority = Authority::new();
    let options = Options { tls: Some(authority.config(Certificate::Good)), ..Options::default() };
    let behaviour = Behaviour { options: options.clone(), ..Behaviour::default() };
    let hub = Hub::behaving(behaviour, vec![single("apr/model", &model())]);
    let server = FileServer::start(options, Habit::Honest, model());
    server.be_only("model.safetensors");
    let machine = trusting(&authority).with("HF_ENDPOINT", hub.url());
    machine.ok(&["inspect", &server.url_of("model.safetensors")]);
    machine.ok(&["pull", "hf://apr/model"]);
    machine.ok(&["convert", "hf://apr/model/model.safetensors", "out.gguf", "--arch", "none"]);
}

#[test]
fn bad_certificates_are_refused_in_words() {
    let authority = Authority::new();
    let cases: [(Certificate, &[&str]); 4] = [
        (Certificate::Expired, &["expired"]),
        (Certificate::NotYet, &["not valid yet", "clock"]),
        (Certificate::WrongName, &["elsewhere.example"]),
        (Certificate::SelfSigned, &["SSL_CERT_FILE"]),
    ];
    let mut failures = Vec::new();
    let mut judge = |what: String, machine: &Machine, server: &FileServer, words: &[&str]| {
        let ended = machine.run(&["inspect", &server.url_of("model.safetensors")]);
        let wrong = complaint(&ended, 1, &[&["cannot trust `127.0.0.1`"], words].concat());
        failures.extend(wrong.map(|wrong| format!("{what}: {wrong}: {}", ended.stderr)));
        assert_eq!(server.log().lines(), [""; 0], "{what}: something was asked for");
    };
    let shown = |certificate| {
        let options = Options { tls: Some(authority.config(certificate)), ..Options::default() };
        FileServer::start(options, Habit::Honest, model())
    };
    let trusting = trusting(&authority);
    for (certificate, words) in cases {
        judge(format!("{certificate:?}"), &trusting, &shown(certificate), words);
    }
    // An authority that nobody named.
    judge("unknown".to_owned(), &Machine::new(), &shown(Certificate::Good), &["SSL_CERT_FILE"]);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn https_where_only_http_is_spoken_is_an_error_and_the_reverse() {
    let plain = web(Habit::Honest, &model());
    let url = plain.url_of("model.gguf").replace("http:", "https:");
    Machine::new().impatient().fails(&["inspect", &url], 1, &["127.0.0.1"]);
    let authority = Authority::new();
    let options = Options { tls: Some(authority.config(Certificate::Good)), ..Options::default() };
    let encrypted = FileServer::start(options, Habit::Honest, model());
    let url = encrypted.url_of("model.gguf").replace("https:", "http:");
    Machine::new().impatient().fails(&["inspect", &url], 1, &["127.0.0.1"]);
}

const CANARY: &str = "canary7f3a";

/// The same as the password of `ada`, as it is sent: in base 64.
const CANARY_IN_BASIC: &str = "YWRhOmNhbmFyeTdmM2E";

fn knows(seen: &Seen) -> bool {
    seen.contains(CANARY) || seen.contains(CANARY_IN_BASIC)
}

/// Panics if a secret is in what was said, or in a file that the user did not write it into.
fn assert_kept(machine: &Machine, ended: &Ended, own: &[&str]) {
    for text in [&ended.stderr, &ended.text()] {
        assert!(!text.contains(CANARY) && !text.contains(CANARY_IN_BASIC), "{text}");
    }
    let mut waiting = vec![machine.everything()];
    while let Some(path) = waiting.pop() {
        if path.is_dir() && !path.is_symlink() {
            waiting.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(!name.contains(CANARY), "{name}");
        let bytes = std::fs::read(&path).unwrap_or_default();
        let has = |secret: &str| bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
        let is_own = own.contains(&name.as_str());
        assert!(is_own || !has(CANARY) && !has(CANARY_IN_BASIC), "{}", path.display());
    }
}

#[test]
fn the_token_is_sent_to_the_hub_and_nowhere_else() {
    let token = format!("hf_{CANARY}");
    let hub = Hub::start(samples::repositories());
    hub.allow_token(&token);
    let commands: [(&[&str], i32); 8] = [
        (&["-vv", "pull", "hf://apr/small", "--progress", "json"], 0),
        (&["-vv", "pull", "hf://apr/small", "-o", "folder"], 0),
        (&["-vv", "inspect", "hf://apr/xet/model.safetensors"], 4),
        (&["-vv", "inspect", "hf://apr/private/model.safetensors"], 3),
        (&["-vv", "pull", "hf://apr/gated-auto"], 1),
        (&["-vv", "pull", "hf://apr/disabled"], 1),
        (&["-vv", "pull", "hf://apr/missing", "--json"], 3),
        (&["-vv", "config", "show"], 0),
    ];
    let machine = Machine::of(&hub).with("HF_TOKEN", &token);
    for (args, code) in commands {
        let ended = machine.run(args);
        assert_eq!(ended.code, code, "{args:?}: {}", ended.stderr);
        assert_kept(&machine, &ended, &[]);
    }
    let (front, cdn) = (hub.log().requests_to(hub.port()), hub.log().requests_to(hub.cdn_port()));
    assert!(front.iter().all(|seen| seen.authorized) && !front.is_empty());
    assert!(cdn.iter().all(|seen| !seen.authorized && !knows(seen)) && !cdn.is_empty());
    // Elsewhere is elsewhere, too, if it is on the same machine.
    let server = web(Habit::Honest, &model());
    machine.ok(&["inspect", &server.url_of("model.safetensors")]);
    assert!(server.log().requests().iter().all(|seen| !seen.authorized && !knows(seen)));
}

#[test]
fn the_token_is_found_where_the_hubs_client_keeps_it() {
    let token = format!("hf_{CANARY}");
    let hub = Hub::start(samples::repositories());
    hub.allow_token(&token);
    let machine = Machine::of(&hub);
    let file = machine.home(".cache/huggingface/token");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, format!("{token}\n")).unwrap();
    let ended = machine.ok(&["pull", "hf://apr/small", "-vv"]);
    assert_kept(&machine, &ended, &["token"]);
    assert!(hub.log().requests_to(hub.port()).iter().all(|seen| seen.authorized));
}

#[test]
fn headers_and_logins_go_to_their_own_server_alone() {
    let target = web(Habit::Honest, &model());
    let redirector = Redirector::start(Options::default(), model());
    let machine = Machine::new();
    machine.write("headers", format!("X-Key: {CANARY}\nAuthorization: Bearer {CANARY}\n"));
    std::fs::write(machine.home(".netrc"), format!("machine 127.0.0.1 login ada password {CANARY}\n"))
        .unwrap();
    let away = redirector.to(302, &target.url_of("model.safetensors"));
    let own = ["headers", ".netrc"];
    let with_user = away.replace("http://", &format!("http://ada:{CANARY}@"));
    let with_query = format!("{away}?key={CANARY}");
    let commands: [&[&str]; 6] = [
        &["-vv", "inspect", &away, "--header-file", "headers"],
        &["-vv", "pull", &away, "--header-file", "headers", "-o", "out", "--force"],
        &["-vv", "convert", &away, "out.gguf", "--arch", "none", "--force"],
        &["-vv", "inspect", &with_user],
        &["-vv", "pull", &with_query, "-o", "out", "--force"],
        &["-vv", "convert", &with_query, "out.gguf", "--arch", "none", "--force"],
    ];
    for args in commands {
        let ended = machine.ok(args);
        assert_kept(&machine, &ended, &own);
    }
    // What fails says nothing either.
    let gone = web(Habit::Honest, &model()).url_of("model");
    for url in [&gone, "http://127.0.0.1:1/x"] {
        let url = format!("{}?key={CANARY}", url.replace("http://", &format!("http://ada:{CANARY}@")));
        let ended = machine.run(&["-vv", "inspect", &url, "--header-file", "headers"]);
        assert_eq!(ended.code, 1, "{}", ended.stderr);
        assert_kept(&machine, &ended, &own);
    }
    let first = redirector.log().requests();
    assert!(first.iter().all(|seen| seen.authorized) && first.iter().any(knows));
    assert!(target.log().requests().iter().all(|seen| !seen.authorized && !knows(seen)));
    assert!(!target.log().requests().is_empty());
}

#[test]
fn a_login_is_for_its_host_alone() {
    let server = web(Habit::Honest, &model());
    let machine = Machine::new();
    std::fs::write(
        machine.home(".netrc"),
        format!("machine elsewhere.example login ada password {CANARY}\n"),
    )
    .unwrap();
    machine.ok(&["inspect", &server.url_of("model.safetensors")]);
    assert!(server.log().requests().iter().all(|seen| !seen.authorized));
}

#[test]
fn http_to_other_machines_has_to_be_allowed() {
    let machine = Machine::new();
    machine.fails(&["inspect", "http://192.0.2.1/model.gguf"], 2, &["--insecure-http"]);
    machine.with("HF_ENDPOINT", "http://192.0.2.1").fails(&["inspect", "hf://a/b"], 2, &["--insecure-http"]);
}
