//! A page in a real browser, without a network: nothing is refused or fetched, all is laid out, nothing sticks out, every
//! text can be read, in light and in dark, wide and narrow.

use crate::{bytes, measured, weights, write};
use apr_host::report::{LineChart, Mark, chart_page, survey_page};
use apr_tests::{Scratch, host, skipped};
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The browser: what `APR_CHROMIUM` names, or one that is installed.
fn browser() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("APR_CHROMIUM") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let all = std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name)));
    all.into_iter().find(|file| file.is_file())
}

/// How a page is looked at.
#[derive(Clone, Copy)]
struct Look {
    width: u32,
    dark: bool,
}

/// Opens `page` with these further arguments; gives what the browser printed, and what it complained of.
fn open(browser: &Path, page: &Path, look: Look, args: &[&str]) -> (String, Vec<String>) {
    let scratch = Scratch::new();
    let mut command = Command::new(browser);
    command.args([
        "--headless=new",
        "--disable-gpu",
        "--hide-scrollbars",
        "--no-first-run",
        "--enable-logging=stderr",
    ]);
    // A test may run as root, and in a container without room for shared memory.
    command.args(["--no-sandbox", "--disable-dev-shm-usage"]);
    // Names lead nowhere, and so does the proxy: the page must do without.
    command.args([
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--proxy-server=127.0.0.1:9",
        "--disable-background-networking",
    ]);
    command.arg(format!("--user-data-dir={}", scratch.path().display()));
    command.arg(format!("--window-size={},2000", look.width.max(500)));
    command.arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!look.dark)));
    let output = command.args(args).arg(format!("file://{}", page.display())).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let complaints = said.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
    (String::from_utf8_lossy(&output.stdout).into_owned(), complaints)
}

/// What the probe found in a copy of the page that lets it in, in a window of this width.
fn probe(browser: &Path, page: &str, look: Look) -> Json {
    let scratch = Scratch::new();
    let policy = page.lines().find(|line| line.contains("Content-Security-Policy")).unwrap();
    let script = format!("<script>{}</script></body>", include_str!("probe.js"));
    let copy = page.replace(policy, "").replace("</body>", &script);
    let copy = copy.replace('&', "&amp;").replace('"', "&quot;");
    // In a frame, since no window is narrower than 500 pixels.
    let frame =
        format!("<iframe width={} height=1000 style='border: 0' srcdoc=\"{copy}\"></iframe>", look.width);
    let copy = scratch.at("copy.html");
    std::fs::write(&copy, format!("<!DOCTYPE html><title></title><body style='margin: 0'>{frame}")).unwrap();
    let (dom, complaints) = open(browser, &copy, look, &["--dump-dom"]);
    assert!(complaints.is_empty(), "{complaints:#?}");
    let title = dom.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0;
    let title = title.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&title).unwrap_or_else(|e| panic!("{e}: {title}"))
}

/// A page about two models with all that a page can have.
fn everything(folder: &Path) -> String {
    let (a, b) = (folder.join("a.safetensors"), folder.join("b.safetensors"));
    let kinds = ["attn.q.weight", "attn.k.weight", "ffn.up.weight", "ffn.down.weight", "norm.weight"];
    let tensors = |noise: f32| {
        let mut tensors = Vec::new();
        for layer in 0..12u8 {
            for (n, kind) in (1u8..).zip(kinds) {
                let values = weights(512, u64::from(layer) * 8 + u64::from(n));
                let by = noise * f32::from(n) * f32::from(layer);
                let off = weights(512, 99);
                let values: Vec<f32> = values.iter().zip(&off).map(|(value, off)| value + off * by).collect();
                tensors.push((format!("layers.{layer}.{kind}"), bytes(&values)));
            }
        }
        tensors
    };
    for (path, noise) in [(&a, 0.0), (&b, 0.01)] {
        let made = tensors(noise);
        let mut all: Vec<_> =
            made.iter().map(|(n, b)| (n.as_str(), "F32", &[16, 32][..], b.clone())).collect();
        all.push(("broken.weight", "F32", &[4], bytes(&[f32::NAN, 1.0, 2.0, f32::INFINITY])));
        all.push(("zeros", "F32", &[2], bytes(&[0.0, 0.0])));
        if noise > 0.0 {
            all.push(("<script>only in b</script>", "F32", &[1], bytes(&[1.0])));
        }
        write(path, &all);
    }
    survey_page(&measured(&host(), &a, Some(&b)), None).unwrap()
}

#[test]
fn a_browser_shows_it_without_a_network_in_light_and_dark() {
    let Some(browser) = browser() else {
        skipped("a report in a browser: chromium is not installed");
        return;
    };
    let scratch = Scratch::new();
    let mark = |n: u8| Mark { label: format!("hop {n}"), value: f64::from(n) };
    let chart = LineChart::new("error after each hop", (1..6).map(mark).collect());
    let chart = chart_page("A chain", "along 5 hops", ["To", "Error"], &chart).unwrap();
    // A page, how many drawings it has, and bytes that its picture takes at least: an empty one takes some 6 kB.
    for (page, drawings, least) in [(everything(scratch.path()), 125, 40_000), (chart, 1, 10_000)] {
        let path = scratch.at("page.html");
        std::fs::write(&path, &page).unwrap();
        let mut backgrounds = Vec::new();
        for (width, dark) in [(1280, false), (1280, true), (400, false), (400, true)] {
            let (look, shown) = (Look { width, dark }, format!("{width} pixels, dark {dark}"));
            // The page itself: its policy holds, and it obeys that.
            let picture = scratch.at("page.png");
            let (_, complaints) =
                open(&browser, &path, look, &[&format!("--screenshot={}", picture.display())]);
            assert!(complaints.is_empty(), "{shown}: {complaints:#?}");
            let size = std::fs::metadata(&picture).unwrap().len();
            assert!(size > least, "{shown}: the picture has {size} bytes");
            let found = probe(&browser, &page, look);
            assert_eq!((&found["width"], &found["dark"]), (&width.into(), &dark.into()), "{found}");
            assert_eq!(found["overflow"], 0, "{shown}: {found}");
            for list in ["hidden", "faint"] {
                assert_eq!(found[list].as_array().unwrap().len(), 0, "{shown}, {list}: {found:#}");
            }
            assert_eq!((&found["unnamed"], &found["unscoped"]), (&0.into(), &0.into()), "{found}");
            assert_eq!(found["drawings"], drawings, "{found}");
            backgrounds.push(found["page"].clone());
        }
        assert_ne!(backgrounds[0], backgrounds[1], "dark is as light");
    }
}

#[test]
fn the_browser_test_sees_what_is_wrong() {
    let Some(browser) = browser() else {
        skipped("a report in a browser: chromium is not installed");
        return;
    };
    let scratch = Scratch::new();
    let page = everything(scratch.path());
    let look = Look { width: 1280, dark: false };
    // A script that the policy refuses is complained of.
    let path = scratch.at("page.html");
    std::fs::write(&path, page.replace("</body>", "<script>1</script></body>")).unwrap();
    let (_, complaints) = open(&browser, &path, look, &["--dump-dom"]);
    assert!(complaints.iter().any(|line| line.contains("Content Security Policy")), "{complaints:#?}");
    // So are a style sheet that is another than the policy's, and a picture from elsewhere.
    for other in [
        page.replace("<style>", "<style> "),
        page.replace("<main>", "<main><img src='https://example.org/a.png'>"),
    ] {
        std::fs::write(&path, other).unwrap();
        assert!(!open(&browser, &path, look, &["--dump-dom"]).1.is_empty());
    }
    let bad = page.replace("<main>", "<main><p class=wide>x</p><h2></h2><p class=pale>pale</p>");
    let bad =
        bad.replace("</style>", ".wide { width: 3000px; max-width: none } .pale { color: #999 }</style>");
    let found = probe(&browser, &bad, look);
    assert!(found["overflow"].as_i64().unwrap() > 1000, "{found}");
    let list = |name: &str| found[name].as_array().unwrap().len();
    assert_eq!((list("hidden"), list("faint")), (1, 1), "{found:#}");
}
