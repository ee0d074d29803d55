//! `kill -9` at random moments: under the final name there is nothing or the whole right file, and whoever runs next, with
//! or without `--resume`, gets the right bytes and cleans up.

use crate::build::big;
use crate::command::{apr, crc, run, wait};
use apr_tests::Scratch;
use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const N_KILLS: usize = 200;
/// Enough to last through some tens of milliseconds, little enough for 200 times.
const MIB: u64 = 48;
const CONVERT: [&str; 5] = ["convert", "in.safetensors", "out.apr", "--arch", "none"];

/// A generator of moments; its seed is fixed, the machine's own pace is not.
struct Moments(u64);

impl Moments {
    /// A random delay below `longest`.
    fn before(&mut self, longest: Duration) -> Duration {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        longest.mul_f64((self.0 >> 40) as f64 / (1u64 << 24) as f64)
    }
}

fn converting(folder: &Path, journal: bool, args: &[&str]) -> Command {
    let mut command = apr(folder, &[&CONVERT[..], args].concat());
    if journal {
        command.env("APR_JOURNAL_BYTES", "0").env("APR_JOURNAL_MILLISECONDS", "2");
    }
    command
}

fn same(a: &[u8], path: &Path) -> bool {
    fs::read(path).unwrap() == a
}

/// What 200 kills met.
#[derive(Debug, Default)]
struct Met {
    whole: usize,
    staged: usize,
    journals: usize,
    resumed: usize,
}

#[test]
fn killed_at_200_moments_leaves_nothing_or_all_slow() {
    let scratch = Scratch::in_memory();
    let folder = scratch.at("");
    big(&scratch.at("in.safetensors"), MIB);
    let input = crc(&fs::read(scratch.at("in.safetensors")).unwrap());
    let whole = wait(converting(&folder, true, &[]).spawn().unwrap(), Instant::now());
    assert_eq!(whole.code, 0, "{}", whole.stderr);
    let right = fs::read(scratch.at("out.apr")).unwrap();
    fs::remove_file(scratch.at("out.apr")).unwrap();

    let mut moments = Moments(3);
    let mut longest = whole.took;
    let mut met = Met::default();
    for round in 0..N_KILLS {
        // Each kill meets what the one before left behind, as it does in life.
        let resume = round % 2 == 1 && scratch.at(".out.apr.apr-journal").exists();
        let args: &[&str] = if resume { &["--resume"] } else { &[] };
        let began = Instant::now();
        let mut child: Child = converting(&folder, round % 4 < 3, args).spawn().unwrap();
        std::thread::sleep(moments.before(longest).saturating_sub(began.elapsed()));
        child.kill().unwrap();
        child.wait().unwrap();
        look(&scratch, &right, &mut met);
        // About one in four is done before it is killed, however fast the machine is at the moment.
        longest = longest.mul_f64(if scratch.at("out.apr").exists() { 0.92 } else { 1.03 });
        if scratch.at("out.apr").exists() {
            fs::remove_file(scratch.at("out.apr")).unwrap();
        } else if round % 5 == 4 {
            // Now and then someone finishes what is there.
            met.resumed += usize::from(finish(&scratch, &right, round % 10 == 9));
        }
    }
    assert_eq!(input, crc(&fs::read(scratch.at("in.safetensors")).unwrap()), "the input was touched");
    eprintln!("{met:?}, the last moments were before {longest:?}");
    // The moments must have met the work, else the test says nothing.
    assert!(met.staged > N_KILLS / 10 && met.journals > N_KILLS / 20 && met.resumed > 0, "{met:?}");
}

/// What a kill left: only names we know, and under the final name all or nothing.
fn look(scratch: &Scratch, right: &[u8], met: &mut Met) {
    let names = scratch.names();
    let known =
        [".out.apr.apr-journal", ".out.apr.apr-lock", ".out.apr.apr-part", "in.safetensors", "out.apr"];
    assert!(names.iter().all(|name| known.contains(&name.as_str())), "{names:?}");
    met.staged += usize::from(names.iter().any(|name| name.ends_with("-part")));
    met.journals += usize::from(names.iter().any(|name| name.ends_with("-journal")));
    if scratch.at("out.apr").exists() {
        met.whole += 1;
        assert!(same(right, &scratch.at("out.apr")), "half a file under the final name");
    }
}

/// Runs to the end, with `--resume` if it was asked and there is a journal; what is left is the right file and nothing
/// else. Gives whether something was resumed.
fn finish(scratch: &Scratch, right: &[u8], resume: bool) -> bool {
    let folder = scratch.at("");
    let mut resumed = false;
    if resume {
        let ended = run(&folder, &[&CONVERT[..], &["--resume"]].concat());
        resumed = ended.code == 0;
        let nothing = ended.stderr.contains("nothing to resume");
        assert!(resumed || (ended.code == 2 && nothing), "{}", ended.stderr);
    }
    if !resumed {
        let ended = run(&folder, &CONVERT);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
    }
    assert!(same(right, &scratch.at("out.apr")), "resumed: {resumed}");
    assert_eq!(scratch.names(), ["in.safetensors", "out.apr"]);
    fs::remove_file(scratch.at("out.apr")).unwrap();
    resumed
}
