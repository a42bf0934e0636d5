//! Cost configs: what a machine of one's own and an API cost. Every figure is read, none assumed:
//! nothing in it has a default that is money.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::located::{Kind, Source};
use crate::analyse::cost::{ApiPrice, OwnHardware};

/// A cost config.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CostConfig {
    /// When these prices were true.
    pub date: String,
    /// What the money is.
    pub currency: String,
    /// Of which weights these are the prices, as a target's config names them in `base_model`;
    /// results of others get a warning.
    pub base_model: Option<String>,
    /// The machine.
    pub own: Own,
    /// The API.
    pub api: Api,
}

/// A machine of one's own.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Own {
    /// What it is called here.
    pub name: String,
    /// A part of its GPU's or processor's name; results of other machines get a warning.
    pub machine: Option<String>,
    /// What it costs.
    pub price: f64,
    /// What it is worth in the end.
    pub residual: f64,
    /// Years until then.
    pub years: f64,
    /// Watts while it waits.
    pub idle_w: f64,
    /// Watts while it works; default: the devices' mean power in the results.
    pub busy_w: Option<f64>,
    /// Money for a kilowatt hour.
    pub tariff_per_kwh: f64,
    /// Share of the time in which it produces.
    pub utilisation: f64,
    /// Anything else by the month.
    #[serde(default)]
    pub other_per_month: f64,
}

/// An API.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Api {
    /// What it is called here.
    pub name: String,
    /// Money for a million fresh prompt tokens.
    pub input_per_mtok: f64,
    /// For cached ones; default: as fresh ones.
    pub cached_per_mtok: Option<f64>,
    /// For output tokens.
    pub output_per_mtok: f64,
}

impl CostConfig {
    /// Reads a cost config.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::from_source(&Source::read(path)?)
    }

    fn from_source(source: &Source) -> Result<Self, ConfigError> {
        source.is_to_be(Kind::Costs)?;
        let config: Self = source.parse()?;
        let (own, api) = (&config.own, &config.api);
        let amount = |table: &'static str, key: &'static str, value: f64| {
            let fine = value >= 0.0 && value.is_finite();
            (!fine).then_some((table, key, "is a number from 0 on"))
        };
        let faults = [
            (!(own.years > 0.0 && own.years.is_finite())).then_some((
                "own",
                "years",
                "is more than 0",
            )),
            (!(0.0..=1.0).contains(&own.utilisation)).then_some((
                "own",
                "utilisation",
                "is a share of the time, 0 to 1",
            )),
            amount("own", "price", own.price),
            amount("own", "residual", own.residual),
            (own.residual > own.price).then_some(("own", "residual", "is over the price")),
            amount("own", "idle_w", own.idle_w),
            amount("own", "busy_w", own.busy_w.unwrap_or(0.0)),
            (own.busy_w.is_some_and(|busy| busy < own.idle_w)).then_some((
                "own",
                "busy_w",
                "is under idle_w",
            )),
            amount("own", "tariff_per_kwh", own.tariff_per_kwh),
            amount("own", "other_per_month", own.other_per_month),
            amount("api", "input_per_mtok", api.input_per_mtok),
            amount("api", "cached_per_mtok", api.cached_per_mtok.unwrap_or(0.0)),
            amount("api", "output_per_mtok", api.output_per_mtok),
        ];
        match faults.into_iter().flatten().next() {
            Some((table, key, what)) => {
                Err(source.error_at(&[table, key], format!("{table}.{key} {what}")))
            }
            None => Ok(config),
        }
    }

    /// The API's prices.
    pub fn api_price(&self) -> ApiPrice {
        ApiPrice {
            input_per_mtok: self.api.input_per_mtok,
            cached_per_mtok: self.api.cached_per_mtok.unwrap_or(self.api.input_per_mtok),
            output_per_mtok: self.api.output_per_mtok,
        }
    }
}

impl Own {
    /// The machine at so many watts under load.
    pub fn at(&self, busy_w: f64) -> OwnHardware {
        OwnHardware {
            price: self.price,
            residual: self.residual,
            years: self.years,
            idle_w: self.idle_w,
            busy_w,
            tariff_per_kwh: self.tariff_per_kwh,
            other_per_month: self.other_per_month,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIPPED: &str = include_str!("../../../configs/costs/spark-or-api.toml");

    fn read(text: &str) -> Result<CostConfig, String> {
        let source = Source::new("costs.toml".into(), text.to_owned());
        CostConfig::from_source(&source).map_err(|error| error.to_string())
    }

    #[test]
    fn the_shipped_one_is_read() {
        let config = read(SHIPPED).unwrap();
        assert!(config.own.machine.is_some() && config.base_model.is_some());
        assert_eq!(config.own.at(85.0).price, 3999.0);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let wrong = |from: &str, to: &str| read(&SHIPPED.replace(from, to)).unwrap_err();
        let line = |part: &str| 1 + SHIPPED.lines().position(|line| line.contains(part)).unwrap();
        let expected = format!("costs.toml:{}: own.utilisation is a share", line("utilisation"));
        let said = wrong("= 0.25 ", "= 1.5 ");
        assert!(said.starts_with(&expected), "{said}");
        assert!(wrong("3999.0", "-1.0").contains("own.price"));
        assert!(wrong("busy_w          = 85.0", "busy_w = 1.0").contains("under idle_w"));
        let said = wrong("tariff_per_kwh", "tarif_per_kwh");
        assert!(said.contains("did you mean") || said.contains("tariff_per_kwh"), "{said}");
        assert!(read("[target]\nname = \"t\"").unwrap_err().contains("configs/costs/"));
        assert!(read("").unwrap_err().contains("date"), "no figure has a default");
    }
}
