//! Formats dates for templates that print today's. Names are in English, the time is UTC.

use std::fmt::Write;

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// Characters in a format. 1000: templates have fewer than 30.
const MAX_FORMAT: usize = 1000;
/// The last second of the year 9999, the last that Python supports.
const LAST: i64 = 253_402_300_799;

/// Formats the time `seconds` after 1970.
///
/// # Errors
/// A message for a format or a time that is not supported.
pub fn strftime(seconds: i64, format: &str) -> Result<String, String> {
    if !(0..=LAST).contains(&seconds) {
        return Err(format!("the date {seconds} is not between the years 1970 and 9999"));
    }
    if format.len() > MAX_FORMAT {
        return Err(format!(
            "the date format has {} bytes, more than the limit of {MAX_FORMAT}",
            format.len()
        ));
    }
    let day = seconds.div_euclid(86_400);
    let of_day = seconds.rem_euclid(86_400);
    let (year, month, of_month, of_year) = date(day);
    let hour = of_day / 3600;
    let minute = of_day / 60 % 60;
    let second = of_day % 60;
    let weekday = word(&DAYS, (day + 4) % 7);
    let name = word(&MONTHS, month - 1);
    let twelve = if hour % 12 == 0 { 12 } else { hour % 12 };
    let mut out = String::new();
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut letter = rest.next();
        let bare = letter == Some('-');
        if bare {
            letter = rest.next();
        }
        let mut number = |n: i64, width: usize| {
            let _ = if bare { write!(out, "{n}") } else { write!(out, "{n:0width$}") };
        };
        match letter {
            Some('Y') => number(year, 4),
            Some('y') => number(year % 100, 2),
            Some('m') => number(month, 2),
            Some('d') => number(of_month, 2),
            Some('j') => number(of_year, 3),
            Some('H') => number(hour, 2),
            Some('I') => number(twelve, 2),
            Some('M') => number(minute, 2),
            Some('S') => number(second, 2),
            Some('B') => out.push_str(name),
            Some('b' | 'h') => out.push_str(short(name)),
            Some('A') => out.push_str(weekday),
            Some('a') => out.push_str(short(weekday)),
            Some('p') => out.push_str(if hour < 12 { "AM" } else { "PM" }),
            Some('F') => drop(write!(out, "{year:04}-{month:02}-{of_month:02}")),
            Some('e') => drop(write!(out, "{of_month:2}")),
            Some('k') => drop(write!(out, "{hour:2}")),
            Some('l') => drop(write!(out, "{twelve:2}")),
            Some('R') => drop(write!(out, "{hour:02}:{minute:02}")),
            Some('D' | 'x') => drop(write!(out, "{month:02}/{of_month:02}/{:02}", year % 100)),
            Some('X') => drop(write!(out, "{hour:02}:{minute:02}:{second:02}")),
            Some('c') => {
                let _ = write!(out, "{} {} {of_month:2} ", short(weekday), short(name));
                let _ = write!(out, "{hour:02}:{minute:02}:{second:02} {year}");
            }
            Some('w') => drop(write!(out, "{}", (day + 4) % 7)),
            Some('u') => drop(write!(out, "{}", (day + 3) % 7 + 1)),
            Some('U') => drop(write!(out, "{:02}", (of_year + 6 - (day + 4) % 7) / 7)),
            Some('W') => drop(write!(out, "{:02}", (of_year + 6 - (day + 3) % 7) / 7)),
            Some('C') => drop(write!(out, "{:02}", year / 100)),
            Some('f') => out.push_str("000000"),
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('T') => drop(write!(out, "{hour:02}:{minute:02}:{second:02}")),
            Some('Z') => out.push_str("UTC"),
            Some('%') => out.push('%'),
            Some(other) => {
                return Err(format!("unknown directive `%{}` in the date format", other.escape_default()));
            }
            None => return Err("the date format ends with `%`".to_owned()),
        }
    }
    Ok(out)
}

fn word(words: &[&'static str], n: i64) -> &'static str {
    usize::try_from(n).ok().and_then(|n| words.get(n)).copied().unwrap_or("")
}

fn short(word: &str) -> &str {
    word.get(..3).unwrap_or(word)
}

fn is_leap(year: i64) -> bool {
    (year % 4 == 0 && year % 100 != 0) || year % 400 == 0
}

/// Year, month, day of the month and day of the year, for a day since 1970.
fn date(day: i64) -> (i64, i64, i64, i64) {
    let mut year = 1970;
    let mut left = day;
    loop {
        let days = if is_leap(year) { 366 } else { 365 };
        if left < days {
            break;
        }
        left -= days;
        year += 1;
    }
    let of_year = left + 1;
    let mut month = 1;
    for days in [31, if is_leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < days {
            break;
        }
        left -= days;
        month += 1;
    }
    (year, month, left + 1, of_year)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let all = "%Y-%m-%d %H:%M:%S %y %j %B %b %A %a %I %p %-d %% %F %T";
        let day = strftime(1_709_210_096, all);
        assert_eq!(
            day.as_deref(),
            Ok("2024-02-29 12:34:56 24 060 February Feb Thursday Thu 12 PM 29 % 2024-02-29 12:34:56")
        );
        assert_eq!(strftime(0, "%d %b %Y, %-I %p").as_deref(), Ok("01 Jan 1970, 12 AM"));
        assert_eq!(strftime(LAST, "%F %a").as_deref(), Ok("9999-12-31 Fri"));
    }

    #[test]
    fn what_is_not_known_is_said() {
        assert!(strftime(0, "%Q").is_err() && strftime(0, "%").is_err() && strftime(-1, "%Y").is_err());
        assert!(strftime(LAST + 1, "%Y").is_err() && strftime(0, &"x".repeat(2000)).is_err());
    }
}
