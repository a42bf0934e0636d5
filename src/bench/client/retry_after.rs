//! `Retry-After`: seconds, or a date.

use std::time::{Duration, SystemTime};

use hyper::header::{HeaderMap, RETRY_AFTER};

/// What the header asks for, counted from `now`; a date that has passed is no wait.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
    let wait = date.duration_since(jiff::Timestamp::try_from(now).ok()?);
    Some(Duration::try_from(wait).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_read() {
        let asked = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, value.parse().unwrap());
            retry_after(&headers, SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_770))
        };
        assert_eq!(asked("7"), Some(Duration::from_secs(7)));
        assert_eq!(asked(" 0.25 "), Some(Duration::from_millis(250)));
        assert_eq!(asked("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::from_secs(7)));
        assert_eq!(asked("Sun, 06 Nov 1994 08:49:00 GMT"), Some(Duration::ZERO));
        assert_eq!(asked("-1"), None);
        assert_eq!(asked("soon"), None);
        assert_eq!(retry_after(&HeaderMap::new(), SystemTime::now()), None);
    }
}
