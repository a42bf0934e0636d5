//! From which prompt length on one target's first token comes sooner (D8).

use crate::measure::distribution::student_quantile;

/// A prompt length and the time to first token that it took, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Prompt tokens by the server's own count.
    pub tokens: f64,
    /// Time to first token, s.
    pub ttft_s: f64,
}

/// A line through points: ttft = intercept + slope·tokens, by ordinary least squares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Seconds at no token: round trip, front door, fixed cost.
    pub intercept_s: f64,
    /// Seconds per token: 1/prefill speed.
    pub slope_s: f64,
    variance_intercept: f64,
    variance_slope: f64,
    covariance: f64,
    n: usize,
}

impl Line {
    /// The line through `points`; `None` for fewer than three, or all of one length.
    pub fn fit(points: &[Point]) -> Option<Self> {
        let n = points.len();
        let count = n as f64;
        let mean = |value: fn(&Point) -> f64| points.iter().map(value).sum::<f64>() / count;
        let (x, y) = (mean(|point| point.tokens), mean(|point| point.ttft_s));
        let sxx: f64 = points.iter().map(|point| (point.tokens - x).powi(2)).sum();
        let sxy: f64 = points.iter().map(|point| (point.tokens - x) * (point.ttft_s - y)).sum();
        if n < 3 || sxx <= 0.0 {
            return None;
        }
        let slope_s = sxy / sxx;
        let intercept_s = y - slope_s * x;
        let residual = |point: &Point| point.ttft_s - intercept_s - slope_s * point.tokens;
        let s2 = points.iter().map(|point| residual(point).powi(2)).sum::<f64>() / (count - 2.0);
        Some(Self {
            intercept_s,
            slope_s,
            variance_intercept: s2 * (1.0 / count + x * x / sxx),
            variance_slope: s2 / sxx,
            covariance: -s2 * x / sxx,
            n,
        })
    }

    /// The line's value.
    pub fn at(&self, tokens: f64) -> f64 {
        self.intercept_s + self.slope_s * tokens
    }
}

/// Where two lines cross.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Crossing {
    /// Prompt tokens: (a_B − a_A)/(b_A − b_B).
    pub tokens: f64,
    /// Its standard error by the delta method.
    pub standard_error: f64,
    /// The t of the 95 % intervals, with n_A + n_B − 4 degrees of freedom.
    pub t: f64,
    /// 95 % interval by the delta method.
    pub delta: [f64; 2],
    /// 95 % interval by Fieller's theorem; `None` where it is unbounded: the slopes cannot be told
    /// apart, so the crossing is not resolved.
    pub fieller: Option<[f64; 2]>,
    /// Where Fieller's 95 % set is two rays, the lengths between them, at which the lines do not
    /// cross.
    pub excluded: Option<[f64; 2]>,
}

/// Where the lines of A and B cross; `None` if they are parallel.
pub fn crossing(a: &Line, b: &Line) -> Option<Crossing> {
    let rise = b.intercept_s - a.intercept_s;
    let gain = a.slope_s - b.slope_s;
    if gain == 0.0 {
        return None;
    }
    let tokens = rise / gain;
    let var_rise = a.variance_intercept + b.variance_intercept;
    let var_gain = a.variance_slope + b.variance_slope;
    let covariance = -(a.covariance + b.covariance);
    let variance = var_rise - 2.0 * tokens * covariance + tokens * tokens * var_gain;
    let standard_error = variance.max(0.0).sqrt() / gain.abs();
    let t = student_quantile((a.n + b.n - 4) as f64, 0.975);
    let half = t * standard_error;
    // (D² − t²V_DD)θ² − 2(AD − t²V_AD)θ + (A² − t²V_AA) = 0
    let (square, linear, constant) = (
        gain * gain - t * t * var_gain,
        rise * gain - t * t * covariance,
        rise * rise - t * t * var_rise,
    );
    let discriminant = linear * linear - square * constant;
    let roots = (square != 0.0 && discriminant >= 0.0).then(|| {
        let root = discriminant.sqrt();
        let ends = [(linear - root) / square, (linear + root) / square];
        if square > 0.0 { ends } else { [ends[1], ends[0]] }
    });
    let (fieller, excluded) = if square > 0.0 { (roots, None) } else { (None, roots) };
    let delta = [tokens - half, tokens + half];
    Some(Crossing { tokens, standard_error, t, delta, fieller, excluded })
}

/// What can be said of which target's first token comes sooner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Answer {
    /// `first` wins below the crossing, the other above it.
    Crosses {
        /// Who wins short prompts.
        first: Side,
        /// Where.
        at: Crossing,
    },
    /// One target wins over all lengths measured; if the lines cross, then outside them.
    Always(Side),
    /// The measurements cannot tell where, or whether, the lines cross.
    NotResolved,
}

/// One of two targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The first one named.
    A,
    /// The second one named.
    B,
}

/// The prompt lengths between which both were measured; `None` if there are none.
pub fn shared_range(a: &[Point], b: &[Point]) -> Option<[f64; 2]> {
    let ends = |points: &[Point]| {
        let lengths = points.iter().map(|point| point.tokens);
        lengths.fold((f64::MAX, f64::MIN), |(low, high), n| (low.min(n), high.max(n)))
    };
    let (a, b) = (ends(a), ends(b));
    let (low, high) = (a.0.max(b.0), a.1.min(b.1));
    (low < high).then_some([low, high])
}

/// Compares two targets over the prompt lengths that both were measured at.
pub fn answer(a: &[Point], b: &[Point]) -> Answer {
    let (Some(line_a), Some(line_b)) = (Line::fit(a), Line::fit(b)) else {
        return Answer::NotResolved;
    };
    let Some([shortest, longest]) = shared_range(a, b) else { return Answer::NotResolved };
    let winner_at = |tokens| if line_a.at(tokens) < line_b.at(tokens) { Side::A } else { Side::B };
    let (short, long) = (winner_at(shortest), winner_at(longest));
    match crossing(&line_a, &line_b) {
        None if line_a.intercept_s == line_b.intercept_s => Answer::NotResolved,
        None => Answer::Always(short),
        Some(crossing) => match crossing.fieller {
            // Slopes that cannot be told apart, and one line surely above the other.
            None => match crossing.excluded {
                Some([low, high]) if low < shortest && longest < high => Answer::Always(short),
                _ => Answer::NotResolved,
            },
            // The interval lies outside what was measured: one side wins everywhere.
            Some([low, high]) if high < shortest || low > longest => Answer::Always(short),
            Some(_) if short != long => Answer::Crosses { first: short, at: crossing },
            Some(_) => Answer::NotResolved,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::sample::tests::assert_close;

    const LENGTHS: [f64; 6] = [64.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0];

    fn points(ttft_s: [f64; 6]) -> Vec<Point> {
        LENGTHS.into_iter().zip(ttft_s).map(|(tokens, ttft_s)| Point { tokens, ttft_s }).collect()
    }

    #[test]
    fn near_and_slow_against_far_and_fast() {
        let a = Line::fit(&points([0.083, 0.131, 0.198, 0.329, 0.590, 1.121])).unwrap();
        let b = Line::fit(&points([0.342, 0.351, 0.349, 0.372, 0.395, 0.468])).unwrap();
        assert_close(a.intercept_s, 0.0654722790208565);
        assert_close(a.slope_s, 0.00025739579073435766);
        assert_close(b.intercept_s, 0.33828001402114855);
        assert_close(b.slope_s, 3.091498948413858e-05);
        let got = crossing(&a, &b).unwrap();
        assert_close(got.tokens, 1204.5512621570529);
        assert_close(got.standard_error, 9.902695843979453);
        assert_close(got.t, 2.306004135204166);
        assert_close(got.delta[0], 1181.7156045911672);
        assert_close(got.delta[1], 1227.3869197229385);
        assert_close(got.fieller.unwrap()[0], 1181.678346680159);
        assert_close(got.fieller.unwrap()[1], 1227.3557770266832);
    }

    #[test]
    fn answers() {
        let near = points([0.083, 0.131, 0.198, 0.329, 0.590, 1.121]);
        let far = points([0.342, 0.351, 0.349, 0.372, 0.395, 0.468]);
        assert!(matches!(answer(&near, &far), Answer::Crosses { first: Side::A, .. }));
        assert!(matches!(answer(&far, &near), Answer::Crosses { first: Side::B, .. }));
        let faster = points([0.01, 0.02, 0.03, 0.05, 0.1, 0.2]);
        assert_eq!(answer(&faster, &near), Answer::Always(Side::A));
        let noisy = points([0.3, 0.2, 0.5, 0.1, 0.9, 0.4]);
        let other = points([0.4, 0.1, 0.6, 0.2, 0.7, 0.5]);
        assert_eq!(answer(&noisy, &other), Answer::NotResolved);
        assert_eq!(answer(&near[..2], &far), Answer::NotResolved);
    }

    #[test]
    fn of_parallel_lines_the_lower_one_wins_at_every_length_measured() {
        let line = |fixed: f64| {
            let wiggle = [1e-3, -2e-3, 1e-3, 2e-3, -1e-3, -1e-3];
            let mut ttft = LENGTHS.map(|tokens| fixed + tokens * 2e-4);
            ttft.iter_mut().zip(wiggle).for_each(|(ttft, wiggle)| *ttft += wiggle * (1.0 + fixed));
            points(ttft)
        };
        let (low, high) = (line(0.05), line(0.08));
        let found = crossing(&Line::fit(&low).unwrap(), &Line::fit(&high).unwrap()).unwrap();
        assert_eq!(found.fieller, None);
        let [from, to] = found.excluded.unwrap();
        assert!(from < 64.0 && to > 4096.0, "{from} {to}");
        assert_eq!(answer(&low, &high), Answer::Always(Side::A));
        assert_eq!(answer(&high, &low), Answer::Always(Side::B));
        // A difference within the noise is none.
        assert_eq!(answer(&low, &line(0.0505)), Answer::NotResolved);
    }

    #[test]
    fn lines_are_not_followed_beyond_what_both_were_measured_at() {
        let of = |lengths: [f64; 6], fixed: f64, slope: f64| {
            let wiggle = [1e-4, -2e-4, 1e-4, 2e-4, -1e-4, -1e-4];
            let point = |(tokens, wiggle): (f64, f64)| Point {
                tokens,
                ttft_s: fixed + slope * tokens + wiggle,
            };
            lengths.into_iter().zip(wiggle).map(point).collect::<Vec<_>>()
        };
        let short = [64.0, 128.0, 192.0, 256.0, 384.0, 512.0];
        let long = short.map(|tokens| tokens + 400.0);
        // They cross at 2,000 tokens, where neither was measured.
        let (near, far) = (of(short, 0.05, 3e-4), of(long, 0.55, 5e-5));
        assert_eq!(answer(&near, &far), Answer::Always(Side::A));
        // And at 300, where only one was.
        let (near, far) = (of(short, 0.05, 3e-4), of(long, 0.125, 5e-5));
        assert_eq!(answer(&near, &far), Answer::Always(Side::B));
        let apart = short.map(|tokens| tokens + 4_000.0);
        assert_eq!(answer(&near, &of(apart, 0.125, 5e-5)), Answer::NotResolved);
    }
}
