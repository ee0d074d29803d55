//! Moments as the command line of AWS prints them: ISO 8601 in UTC, with microseconds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds of a day.
const DAY: u64 = 86_400;

/// A moment, since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(Duration);

impl Timestamp {
    /// The present; a clock before 1970 shows the first moment of it.
    pub fn now() -> Timestamp {
        Timestamp(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    }

    /// The moment some time later.
    pub fn after(self, time: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(time))
    }

    /// The moment some time earlier.
    pub fn before(self, time: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(time))
    }

    /// Nanoseconds since 1970.
    pub fn nanoseconds(self) -> u128 {
        self.0.as_nanos()
    }

    /// As text.
    pub fn text(self) -> String {
        let seconds = self.0.as_secs();
        let (days, rest) = (seconds / DAY, seconds % DAY);
        let Date { year, month, day } = Date::of(days);
        format!(
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:06}+00:00",
            rest / 3600,
            rest / 60 % 60,
            rest % 60,
            self.0.subsec_micros()
        )
    }
}

/// A day of the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Date {
    year: u64,
    month: u64,
    day: u64,
}

impl Date {
    /// The day so many days after the first of January 1970: years begin in March, so that a leap day is the last of its year.
    fn of(days: u64) -> Date {
        /// Days of 400 years.
        const ERA: u64 = 146_097;
        // From the first of March of the year 0.
        let days = days.saturating_add(719_468);
        let (era, day) = (days / ERA, days % ERA);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let in_month = day - (153 * month + 2) / 5 + 1;
        let is_next = month >= 10;
        Date {
            year: era * 400 + year + u64::from(is_next),
            month: if is_next { month - 9 } else { month + 3 },
            day: in_month,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        let text =
            |seconds, micros| Timestamp(Duration::from_secs(seconds) + Duration::from_micros(micros)).text();
        assert_eq!(text(0, 0), "1970-01-01T00:00:00.000000+00:00");
        assert_eq!(text(951_782_400, 7), "2000-02-29T00:00:00.000007+00:00");
        assert_eq!(text(1_709_251_199, 999_999), "2024-02-29T23:59:59.999999+00:00");
        assert_eq!(text(1_796_083_200, 0), "2026-12-01T00:00:00.000000+00:00");
        assert_eq!(text(4_107_542_400, 0), "2100-03-01T00:00:00.000000+00:00");
    }
}
