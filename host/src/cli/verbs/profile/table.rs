//! A profile as tables.

use super::Profiled;
use super::shares::{Share, Shares};
use apr_host::sizes::{show_number_of, show_size};
use apr_sdk::escape;
use std::fmt;

/// Writes the tables of a profile.
pub fn write(f: &mut fmt::Formatter<'_>, profiled: &Profiled) -> fmt::Result {
    let model = &profiled.model;
    let config = &profiled.config;
    writeln!(
        f,
        "{}: {}, {}, {}; {} on {}, {}",
        escape(&model.path, 400),
        escape(&model.architecture, 80),
        show_number_of(model.layers, "layer"),
        model.dtype,
        escape(&config.backend, 40),
        escape(&config.device, 80),
        show_number_of(config.threads, "thread")
    )?;
    if let Some(floor) = profiled.floor_bytes_per_second {
        writeln!(f, "memory delivers {:.2} GB/s", floor / 1e9)?;
    }
    part(f, "prompt", &profiled.prompt)?;
    match &profiled.answer {
        Some(answer) => part(f, "answer", answer),
        None => Ok(()),
    }
}

fn part(f: &mut fmt::Formatter<'_>, word: &str, shares: &Shares) -> fmt::Result {
    let tokens = show_number_of(shares.tokens, "token");
    writeln!(
        f,
        "\n{word}: {tokens} in {:.1} ms, {:.1} tokens/s",
        shares.seconds * 1e3,
        shares.tokens_per_second
    )?;
    for (head, list) in [("operation", &shares.operations), ("layer", &shares.layers)] {
        writeln!(
            f,
            "{head:14}  {:>5}  {:>11}  {:>7}  {:>10}  {:>8}  {:>8}",
            "count", "time", "share", "read", "GB/s", "of floor"
        )?;
        list.iter().try_for_each(|share| line(f, share))?;
    }
    line(f, &shares.total)
}

fn line(f: &mut fmt::Formatter<'_>, share: &Share) -> fmt::Result {
    let reads = share.bytes > 0;
    let rate = if reads { format!("{:.2}", share.bytes_per_second / 1e9) } else { "-".to_owned() };
    let of_floor = share.share_of_floor.filter(|_| reads);
    writeln!(
        f,
        "{:14}  {:>5}  {:>8.3} ms  {:>5.1} %  {:>10}  {rate:>8}  {:>8}",
        share.name,
        share.count,
        share.seconds * 1e3,
        share.share * 100.0,
        if reads { show_size(share.bytes) } else { "-".to_owned() },
        of_floor.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0))
    )
}
