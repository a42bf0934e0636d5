//! Run it or pay for it (D13): own hardware by the month against an API by the token.

/// Hours in a month: 8,760/12.
const HOURS: f64 = 730.0;

/// A machine of one's own. Money is in one currency throughout.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OwnHardware {
    /// What it costs.
    pub price: f64,
    /// What it is worth in the end.
    pub residual: f64,
    /// Years until then.
    pub years: f64,
    /// Watts while it waits.
    pub idle_w: f64,
    /// Watts while it works.
    pub busy_w: f64,
    /// Money for a kilowatt hour.
    pub tariff_per_kwh: f64,
    /// Anything else by the month: room, network, somebody's time.
    pub other_per_month: f64,
}

/// A machine at work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OwnCost {
    /// Money by the month that is spent whatever it does, without power.
    pub amortisation_per_month: f64,
    /// Kilowatt hours by the month at this utilisation.
    pub kwh_per_month: f64,
    /// Million output tokens by the month at this utilisation.
    pub mtok_per_month: f64,
    /// Million output tokens by the month if it never waits.
    pub capacity_mtok_per_month: f64,
    /// Money for a million output tokens, all in; `None` at no utilisation.
    pub per_mtok: Option<f64>,
    /// Money for one more million: power above idle.
    pub marginal_per_mtok: f64,
    /// Money by the month at no utilisation: amortisation, idle power, the rest.
    pub fixed_per_month: f64,
}

impl OwnHardware {
    /// What it costs at `throughput_tps` output tokens per second (> 0) while it works, which it
    /// does for the share `utilisation` (0 ..= 1) of the time.
    pub fn cost(&self, throughput_tps: f64, utilisation: f64) -> OwnCost {
        let amortisation = (self.price - self.residual) / (12.0 * self.years);
        let idle_kwh = self.idle_w * HOURS / 1000.0;
        let extra_kw = (self.busy_w - self.idle_w) / 1000.0;
        let kwh = idle_kwh + extra_kw * utilisation * HOURS;
        let capacity = 3600.0 * HOURS * throughput_tps / 1e6;
        let mtok = utilisation * capacity;
        let spent = amortisation + self.other_per_month + kwh * self.tariff_per_kwh;
        OwnCost {
            amortisation_per_month: amortisation,
            kwh_per_month: kwh,
            mtok_per_month: mtok,
            capacity_mtok_per_month: capacity,
            per_mtok: (mtok > 0.0).then(|| spent / mtok),
            marginal_per_mtok: extra_kw * self.tariff_per_kwh / (3600.0 * throughput_tps) * 1e6,
            fixed_per_month: amortisation + self.other_per_month + idle_kwh * self.tariff_per_kwh,
        }
    }
}

/// An API's prices, money for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ApiPrice {
    /// Fresh prompt tokens.
    pub input_per_mtok: f64,
    /// Cached prompt tokens.
    pub cached_per_mtok: f64,
    /// Output tokens.
    pub output_per_mtok: f64,
}

/// Tokens of a workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Workload {
    /// Prompt tokens, cached ones included.
    pub prompt: f64,
    /// Cached prompt tokens.
    pub cached: f64,
    /// Output tokens.
    pub output: f64,
}

impl ApiPrice {
    /// Money for the workload.
    pub fn of(&self, workload: &Workload) -> f64 {
        let fresh = (workload.prompt - workload.cached).max(0.0);
        (self.input_per_mtok * fresh
            + self.cached_per_mtok * workload.cached
            + self.output_per_mtok * workload.output)
            / 1e6
    }

    /// Money for a million output tokens with the prompts that come with them; `None` without
    /// output.
    pub fn blended_per_output_mtok(&self, workload: &Workload) -> Option<f64> {
        (workload.output > 0.0).then(|| self.of(workload) / workload.output * 1e6)
    }
}

/// From which volume on a machine of one's own is cheaper than an API.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BreakEven {
    /// From so many million output tokens a month, that is, from this share of the time.
    From {
        /// Million output tokens by the month: F/(p − v).
        mtok_per_month: f64,
        /// Share of the machine's capacity, at most 1.
        utilisation: f64,
    },
    /// It would take more than the machine can do.
    BeyondCapacity {
        /// Million output tokens by the month.
        mtok_per_month: f64,
        /// Share of the machine's capacity, over 1.
        utilisation: f64,
    },
    /// Its power alone costs more than the API.
    Never,
}

impl BreakEven {
    /// Share of the machine's capacity from which on it is cheaper; over 1 where it cannot do as
    /// much, `None` where no volume is enough.
    pub fn utilisation(&self) -> Option<f64> {
        match self {
            Self::From { utilisation, .. } | Self::BeyondCapacity { utilisation, .. } => {
                Some(*utilisation)
            }
            Self::Never => None,
        }
    }
}

/// Break-even of a machine against a blended price per million output tokens.
pub fn break_even(own: &OwnCost, price_per_mtok: f64) -> BreakEven {
    let margin = price_per_mtok - own.marginal_per_mtok;
    if margin <= 0.0 {
        return BreakEven::Never;
    }
    let mtok_per_month = own.fixed_per_month / margin;
    let utilisation = mtok_per_month / own.capacity_mtok_per_month;
    if utilisation <= 1.0 {
        BreakEven::From { mtok_per_month, utilisation }
    } else {
        BreakEven::BeyondCapacity { mtok_per_month, utilisation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::sample::tests::assert_close;

    const SPARK: OwnHardware = OwnHardware {
        price: 3999.0,
        residual: 800.0,
        years: 3.0,
        idle_w: 30.0,
        busy_w: 85.0,
        tariff_per_kwh: 0.30,
        other_per_month: 0.0,
    };

    #[test]
    fn a_batching_box_against_an_api() {
        let own = SPARK.cost(400.0, 0.25);
        assert_close(own.amortisation_per_month, 88.86111111111111);
        assert_close(own.kwh_per_month, 31.9375);
        assert_close(own.mtok_per_month, 262.8);
        assert_close(own.per_mtok.unwrap(), 0.37459041518687636);
        assert_close(own.marginal_per_mtok, 0.011458333333333333);
        assert_close(own.capacity_mtok_per_month, 1051.2);
        let BreakEven::From { mtok_per_month, utilisation } = break_even(&own, 0.60) else {
            panic!("a quarter of the time is enough");
        };
        assert_close(mtok_per_month, 162.1484365781711);
        assert_close(utilisation, 0.1542507958315935);
    }

    #[test]
    fn a_serial_box_never_pays() {
        let own = SPARK.cost(17.0, 0.25);
        assert_eq!(break_even(&own, 0.20), BreakEven::Never);
        assert!(matches!(break_even(&own, 0.60), BreakEven::BeyondCapacity { .. }));
        assert_eq!(SPARK.cost(17.0, 0.0).per_mtok, None);
    }

    #[test]
    fn a_blended_price() {
        let price = ApiPrice { input_per_mtok: 0.2, cached_per_mtok: 0.1, output_per_mtok: 0.4 };
        let workload = Workload { prompt: 3e6, cached: 1e6, output: 2e6 };
        assert_close(price.of(&workload), 0.4 + 0.1 + 0.8);
        assert_close(price.blended_per_output_mtok(&workload).unwrap(), 0.65);
    }
}
