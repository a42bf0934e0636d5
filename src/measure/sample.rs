//! A sample of one metric: sorted values, percentiles (definition D1), moments.

/// Values in ascending order. Infinite ones are allowed (a failure that counts as infinitely
/// slow); NaN is not a value and is left out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample {
    sorted: Vec<f64>,
}

impl Sample {
    /// Sorts `values`; their order carries no meaning.
    pub fn new(mut values: Vec<f64>) -> Self {
        values.retain(|value| !value.is_nan());
        values.sort_unstable_by(f64::total_cmp);
        Self { sorted: values }
    }

    /// Takes `sorted` as it is: ascending, without NaN.
    pub fn from_sorted(sorted: Vec<f64>) -> Self {
        debug_assert!(sorted.is_sorted());
        Self { sorted }
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// The values, ascending.
    pub fn values(&self) -> &[f64] {
        &self.sorted
    }

    /// The percentile `q` in 0 ..= 100, by linear interpolation (numpy's default; D1): with
    /// h = (n − 1)·q/100 and i = ⌊h⌋, x₍ᵢ₎ + (h − i)·(x₍ᵢ₊₁₎ − x₍ᵢ₎), 0-based. `None` if empty.
    pub fn percentile(&self, q: f64) -> Option<f64> {
        let last = self.sorted.len().checked_sub(1)?;
        Some(self.at_position(last as f64 * q / 100.0))
    }

    /// The median.
    pub fn median(&self) -> Option<f64> {
        self.percentile(50.0)
    }

    /// The value at a plotting position: the fraction (i − ½)/n is the i-th value (1-based), and
    /// between two of them is interpolated. `None` if empty.
    pub fn at_fraction(&self, fraction: f64) -> Option<f64> {
        let n = self.sorted.len();
        (n > 0).then(|| self.at_position(fraction * n as f64 - 0.5))
    }

    /// Arithmetic mean.
    pub fn mean(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.sorted.iter().sum::<f64>() / self.sorted.len() as f64)
    }

    /// Standard deviation with n − 1; `None` under two values.
    pub fn std_dev(&self) -> Option<f64> {
        let mean = self.mean()?;
        let degrees = self.sorted.len().checked_sub(1).filter(|degrees| *degrees > 0)?;
        let squares: f64 = self.sorted.iter().map(|value| (value - mean).powi(2)).sum();
        Some((squares / degrees as f64).sqrt())
    }

    /// Smallest value.
    pub fn min(&self) -> Option<f64> {
        self.sorted.first().copied()
    }

    /// Largest value.
    pub fn max(&self) -> Option<f64> {
        self.sorted.last().copied()
    }

    /// The value at a fractional 0-based position, clamped to the ends. Not for an empty sample.
    fn at_position(&self, position: f64) -> f64 {
        let last = self.sorted.len() - 1;
        let position = position.clamp(0.0, last as f64);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        let below = position as usize;
        let low = self.sorted[below];
        let high = self.sorted[(below + 1).min(last)];
        let weight = position - below as f64;
        // Not only a short cut: infinite neighbours would make 0·∞.
        if weight == 0.0 || low == high { low } else { low + weight * (high - low) }
    }
}

/// What every percentile of a sample becomes if each of `failures` counts as infinitely slow.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PercentilesWithFailures {
    /// `None` where it is infinite.
    pub p50: Option<f64>,
    /// `None` where it is infinite.
    pub p90: Option<f64>,
    /// `None` where it is infinite, and under [`P99_MIN_SAMPLES`] samples.
    pub p99: Option<f64>,
    /// Percentiles above this one are infinite; `None` where nothing failed.
    pub infinite_from_percent: Option<f64>,
}

/// Under so many samples a "p99" is the largest value under another name.
pub const P99_MIN_SAMPLES: usize = 100;

impl PercentilesWithFailures {
    /// Percentiles of `ok` with `failures` infinite values added; `None` if both are nothing.
    pub fn new(ok: &Sample, failures: usize) -> Option<Self> {
        let n = ok.len() + failures;
        if n == 0 {
            return None;
        }
        let mut values = ok.values().to_vec();
        values.resize(n, f64::INFINITY);
        let all = Sample { sorted: values };
        let finite = |q| all.percentile(q).filter(|value| value.is_finite());
        let infinite_from_percent = (failures > 0).then(|| {
            let last_finite = ok.len().saturating_sub(1) as f64;
            100.0 * last_finite / (n.max(2) - 1) as f64
        });
        Some(Self {
            p50: finite(50.0),
            p90: finite(90.0),
            p99: finite(99.0).filter(|_| n >= P99_MIN_SAMPLES),
            infinite_from_percent,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Twenty latencies with a tail, used by many vectors.
    pub(crate) const S20: [f64; 20] = [
        101.2, 99.8, 103.5, 98.7, 100.1, 102.9, 97.4, 110.3, 99.0, 100.6, 101.9, 98.1, 105.7,
        100.0, 99.5, 104.2, 131.8, 98.9, 102.2, 312.4,
    ];

    /// Equal within 1e-9 relative.
    #[track_caller]
    pub(crate) fn assert_close(got: f64, expected: f64) {
        let scale = expected.abs().max(1e-300);
        assert!((got - expected).abs() <= 1e-9 * scale, "got {got}, expected {expected}");
    }

    #[track_caller]
    fn check(values: &[f64], q: f64, expected: f64) {
        assert_close(Sample::new(values.to_vec()).percentile(q).unwrap(), expected);
    }

    #[test]
    fn percentiles_of_one_to_twenty() {
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        for (q, expected) in [(50.0, 10.5), (90.0, 18.1), (99.0, 19.81)] {
            check(&values, q, expected);
        }
    }

    #[test]
    fn percentiles_of_a_sample_with_a_tail() {
        let expected = [
            (0.0, 97.4),
            (25.0, 99.375),
            (50.0, 100.9),
            (90.0, 112.45),
            (95.0, 140.83),
            (99.0, 278.086),
            (100.0, 312.4),
        ];
        for (q, expected) in expected {
            check(&S20, q, expected);
        }
    }

    #[test]
    fn percentiles_of_tiny_samples() {
        assert_eq!(Sample::default().percentile(50.0), None);
        check(&[7.0], 99.0, 7.0);
        check(&[1.0, 2.0], 99.0, 1.99);
        check(&[5.0, 5.0, 5.0, 5.0, 9.0], 90.0, 7.4);
        check(&[3.0, 1.0, 2.0], 50.0, 2.0);
    }

    #[test]
    fn a_failure_is_infinitely_slow() {
        let ok = Sample::new(vec![1.0; 98]);
        let all = PercentilesWithFailures::new(&ok, 2).unwrap();
        assert_eq!((all.p50, all.p90, all.p99), (Some(1.0), Some(1.0), None));
        assert_close(all.infinite_from_percent.unwrap(), 100.0 * 97.0 / 99.0);
        let none = PercentilesWithFailures::new(&ok, 0).unwrap();
        assert_eq!((none.p99, none.infinite_from_percent), (None, None));
        let dead = PercentilesWithFailures::new(&Sample::default(), 3).unwrap();
        assert_eq!((dead.p50, dead.infinite_from_percent), (None, Some(0.0)));
    }

    proptest! {
        #[test]
        fn percentile_is_monotone_and_exact_at_the_ends(
            values in prop::collection::vec(-1e6f64..1e6, 1..60),
            a in 0.0f64..=100.0,
            b in 0.0f64..=100.0,
        ) {
            let sample = Sample::new(values);
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(sample.percentile(low) <= sample.percentile(high));
            prop_assert_eq!(sample.percentile(0.0), sample.min());
            prop_assert_eq!(sample.percentile(100.0), sample.max());
        }

        #[test]
        fn failures_never_lower_a_percentile(
            values in prop::collection::vec(0.0f64..1e3, 1..200),
            failures in 0usize..50,
        ) {
            let kept = values.len().saturating_sub(failures).max(1);
            let sample = Sample::new(values);
            let ok = Sample::new(sample.values()[..kept].to_vec());
            let all = PercentilesWithFailures::new(&ok, sample.len() - kept).unwrap();
            for (q, with_failures) in [(50.0, all.p50), (90.0, all.p90)] {
                let honest = with_failures.unwrap_or(f64::INFINITY);
                prop_assert!(honest >= ok.percentile(q).unwrap());
            }
        }
    }
}
