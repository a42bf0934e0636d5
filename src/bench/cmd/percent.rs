//! A share on the command line.

use std::str::FromStr;

/// A share, written as a percentage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Percent(pub f64);

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.trim().trim_end_matches('%').trim();
        match number.parse::<f64>() {
            Ok(percent) if percent >= 0.0 && percent.is_finite() => Ok(Self(percent / 100.0)),
            _ => Err(format!("{text:?} is no percentage such as 5%")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages() {
        assert_eq!("5%".parse(), Ok(Percent(0.05)));
        assert_eq!("2.5".parse(), Ok(Percent(0.025)));
        assert!("-1%".parse::<Percent>().is_err());
        assert!("five".parse::<Percent>().is_err());
    }
}
