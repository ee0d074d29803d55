//! When a request is tried again, and after what time.

use std::time::Duration;
use ureq::http::HeaderMap;

/// Attempts of one request, counted anew whenever bytes arrive.
pub const ATTEMPTS: u32 = 6;

/// The longest time that a server may make apr wait. A longer wait is an error that says so.
pub const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Returns whether a status is one that may be another at the next attempt.
pub fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 502 | 503 | 504)
}

/// Time before the attempt after `failed` ones: `first`, doubled each time, at most eight times that.
pub fn backoff(first: Duration, failed: u32) -> Duration {
    first * 2u32.pow(failed.saturating_sub(1).min(3))
}

/// The wait that an answer asks for: of the hub's `RateLimit` if nothing remains (`"api";r=0;t=55`), else `Retry-After` in
/// seconds.
pub fn wanted_wait(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let limited = text("ratelimit").and_then(|limit| {
        let field = |name: &str| {
            let mut fields = limit.split(';').map(str::trim);
            fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('=')?.parse::<u64>().ok())
        };
        (field("r") == Some(0)).then(|| field("t").unwrap_or(0).saturating_add(1))
    });
    let seconds = limited.or_else(|| text("retry-after")?.trim().parse().ok())?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_what_the_server_asks_for() {
        let wait = |pairs: &[(&'static str, &'static str)]| {
            let headers = pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            wanted_wait(&headers.collect::<HeaderMap>()).map(|wait| wait.as_secs())
        };
        assert_eq!(wait(&[]), None);
        assert_eq!(wait(&[("retry-after", "7")]), Some(7));
        assert_eq!(wait(&[("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")]), None);
        assert_eq!(wait(&[("ratelimit", "\"api\";r=0;t=55"), ("retry-after", "7")]), Some(56));
        assert_eq!(wait(&[("ratelimit", "\"api\";r=12;t=55")]), None);
    }

    #[test]
    fn backoff_doubles_to_eight_times() {
        let second = Duration::from_secs(1);
        let seconds: Vec<u64> = (1..=6).map(|failed| backoff(second, failed).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 8, 8]);
    }
}
