//! Is TTFT a line in the prompt's length at all? Attention is quadratic, so over long prompts it
//! bends: then a line's crossing is off, and the crossing of parabolas stands beside it.

use super::crossover::{Point, shared_range};
use crate::measure::distribution::student_quantile;

/// ttft = a + b·n + c·n², by ordinary least squares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parabola {
    /// Centre and scale of the lengths, which keep the arithmetic well-conditioned.
    centre: f64,
    scale: f64,
    coefficients: [f64; 3],
    /// Variances and covariances of the coefficients, scaled like them.
    covariance: [[f64; 3]; 3],
    degrees: f64,
    mean: f64,
}

/// A bend smaller than this share of the mean TTFT over half the range is of no interest, however
/// sure it is.
const BEND_SHARE_MIN: f64 = 0.01;
/// The bend is called by a 95 % interval, and so is a crossing.
const QUANTILE: f64 = 0.975;

impl Parabola {
    /// The parabola through `points`; `None` for fewer than four, or for fewer than three lengths.
    pub fn fit(points: &[Point]) -> Option<Self> {
        let lengths = points.iter().map(|point| point.tokens);
        let (low, high) =
            lengths.fold((f64::MAX, f64::MIN), |(low, high), n| (low.min(n), high.max(n)));
        let mut distinct: Vec<f64> = points.iter().map(|point| point.tokens).collect();
        distinct.sort_by(f64::total_cmp);
        distinct.dedup();
        if points.len() < 4 || distinct.len() < 3 {
            return None;
        }
        let (centre, scale) = (f64::midpoint(low, high), (high - low) / 2.0);
        let u = |point: &Point| (point.tokens - centre) / scale;
        let power = |k: i32| points.iter().map(|point| u(point).powi(k)).sum::<f64>();
        let moment =
            |k: i32| points.iter().map(|point| point.ttft_s * u(point).powi(k)).sum::<f64>();
        let s: [f64; 5] = [power(0), power(1), power(2), power(3), power(4)];
        let matrix = [[s[0], s[1], s[2]], [s[1], s[2], s[3]], [s[2], s[3], s[4]]];
        let right = [moment(0), moment(1), moment(2)];
        let whole = determinant(&matrix);
        if whole.abs() < f64::EPSILON {
            return None;
        }
        // Cramer's rule.
        let solve = |right: [f64; 3]| {
            [0, 1, 2].map(|column| {
                let mut replaced = matrix;
                for (row, value) in replaced.iter_mut().zip(right) {
                    row[column] = value;
                }
                determinant(&replaced) / whole
            })
        };
        let coefficients = solve(right);
        let at = |u: f64| coefficients[0] + coefficients[1] * u + coefficients[2] * u * u;
        let degrees = points.len() as f64 - 3.0;
        let s2 =
            points.iter().map(|point| (point.ttft_s - at(u(point))).powi(2)).sum::<f64>() / degrees;
        let inverse = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]].map(solve);
        Some(Self {
            centre,
            scale,
            coefficients,
            covariance: inverse.map(|row| row.map(|value| s2 * value)),
            degrees,
            mean: moment(0) / s[0],
        })
    }

    /// Whether TTFT bends: surely, and by more than a hundredth of its mean.
    pub fn bends(&self) -> bool {
        let bend = self.coefficients[2].abs();
        let t = student_quantile(self.degrees, QUANTILE);
        bend > t * self.covariance[2][2].sqrt() && bend > BEND_SHARE_MIN * self.mean.abs()
    }

    /// Its value, seconds.
    pub fn at(&self, tokens: f64) -> f64 {
        let u = (tokens - self.centre) / self.scale;
        let [a, b, c] = self.coefficients;
        a + b * u + c * u * u
    }

    /// The variance of that value as an estimate, seconds².
    fn variance_at(&self, tokens: f64) -> f64 {
        let u = (tokens - self.centre) / self.scale;
        let powers = [1.0, u, u * u];
        let row = |row: &[f64; 3]| row.iter().zip(powers).map(|(v, u)| v * u).sum::<f64>();
        self.covariance.iter().zip(powers).map(|(values, u)| u * row(values)).sum()
    }
}

fn determinant(m: &[[f64; 3]; 3]) -> f64 {
    let minor = |a: usize, b: usize| m[1][a] * m[2][b] - m[1][b] * m[2][a];
    m[0][0] * minor(1, 2) - m[0][1] * minor(0, 2) + m[0][2] * minor(0, 1)
}

/// Where two parabolas cross.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurvedCrossing {
    /// Prompt tokens; inside what both were measured at.
    pub tokens: f64,
    /// 95 % interval, by Fieller's argument: the lengths around it at which the curves' difference
    /// is within t standard errors of nought; `None` where they do not end inside what was measured.
    pub interval: Option<[f64; 2]>,
}

/// The one crossing of the parabolas through A's and B's points within the lengths of both.
pub fn crossing(a: &[Point], b: &[Point]) -> Option<CurvedCrossing> {
    let range = shared_range(a, b)?;
    let (a, b) = (Parabola::fit(a)?, Parabola::fit(b)?);
    let tokens = root(&a, &b, range)?;
    let t = student_quantile(a.degrees + b.degrees, QUANTILE);
    let may_cross =
        |at: f64| (b.at(at) - a.at(at)).powi(2) <= t * t * (a.variance_at(at) + b.variance_at(at));
    let end = |edge: f64| (!may_cross(edge)).then(|| bisect(tokens, edge, may_cross));
    let interval = end(range[0]).zip(end(range[1])).map(|(low, high)| [low, high]);
    Some(CurvedCrossing { tokens, interval })
}

/// Where `holds` ends between a place where it does and one where it does not.
fn bisect(mut inside: f64, mut outside: f64, holds: impl Fn(f64) -> bool) -> f64 {
    const HALVINGS: u32 = 60;
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(inside, outside);
        if holds(middle) { inside = middle } else { outside = middle }
    }
    f64::midpoint(inside, outside)
}

/// Where B − A changes its sign between the ends; `None` if it does not, or twice.
fn root(a: &Parabola, b: &Parabola, [low, high]: [f64; 2]) -> Option<f64> {
    let sign = |tokens: f64| (b.at(tokens) - a.at(tokens)).signum();
    let first = sign(low);
    (first != sign(high)).then(|| bisect(low, high, |tokens| sign(tokens) == first))
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

    use super::*;

    const LENGTHS: [f64; 6] = [512.0, 1024.0, 2048.0, 3072.0, 4096.0, 6144.0];

    /// Ten requests of each length with a tenth of a per cent of noise around `ttft_s`.
    fn points(seed: u64, ttft_s: impl Fn(f64) -> f64) -> Vec<Point> {
        let mut random = ChaCha20Rng::seed_from_u64(seed);
        let mut noisy = |tokens: f64| {
            let unit = random.next_u64() as f64 / u64::MAX as f64 - 0.5;
            Point { tokens, ttft_s: ttft_s(tokens) * (1.0 + 0.002 * unit) }
        };
        LENGTHS.iter().flat_map(|&n| (0..10).map(|_| noisy(n)).collect::<Vec<_>>()).collect()
    }

    #[test]
    fn a_line_does_not_bend_and_attention_does() {
        let line = |n: f64| 0.05 + n / 4_000.0;
        let bent = |n: f64| 0.05 + n / 4_000.0 + 2e-8 * n * n;
        for seed in 0..20 {
            assert!(!Parabola::fit(&points(seed, line)).unwrap().bends(), "seed {seed}");
            assert!(Parabola::fit(&points(seed, bent)).unwrap().bends(), "seed {seed}");
        }
        let exact = Parabola::fit(&points(0, bent)).unwrap();
        assert!((exact.at(5_000.0) - bent(5_000.0)).abs() < 0.01);
    }

    #[test]
    fn curves_cross_where_they_do_and_the_interval_holds_it() {
        let near = |n: f64| 0.05 + n / 4_000.0 + 2e-8 * n * n;
        let far = |n: f64| 0.6 + n / 32_000.0;
        // 0.05 + n/4,000 + 2e-8·n² = 0.6 + n/32,000.
        let (slope, square) = (1.0 / 4_000.0 - 1.0 / 32_000.0, 2e-8_f64);
        let truth = ((slope * slope + 4.0 * square * 0.55_f64).sqrt() - slope) / (2.0 * square);
        let got = crossing(&points(1, near), &points(2, far)).unwrap();
        let [low, high] = got.interval.unwrap();
        assert!(low <= truth && truth <= high, "{low}..{high} without {truth}");
        assert!((got.tokens / truth - 1.0).abs() < 0.01);
        assert_eq!(crossing(&points(1, near), &points(2, |n| near(n) + 1.0)), None);
    }

    #[test]
    fn too_few_lengths_make_no_parabola() {
        let two: Vec<Point> = points(0, |n| n).into_iter().filter(|p| p.tokens < 2_000.0).collect();
        assert_eq!(Parabola::fit(&two), None);
        assert_eq!(Parabola::fit(&[]), None);
    }
}
