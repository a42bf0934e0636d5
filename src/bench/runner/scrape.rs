//! The server's own counters over one level, warm-up included: its page of Prometheus metrics
//! before and after.

use std::time::Duration;

use super::server::untimed;
use crate::bench::config::Config;
use crate::bench::engine::RunningServer;
use crate::bench::http::Http;
use crate::bench::prometheus::{Counters, counters, difference};
use crate::results::record::ServerMetrics;

/// A page of metrics is a matter of milliseconds; a server that computes on its event loop may take
/// longer.
const DEADLINE: Duration = Duration::from_secs(10);

/// What was read before a level, or why nothing was.
pub struct Scrape(Result<(Http, String, Counters), String>);

/// Reads the counters of a server that we started.
pub async fn before(config: &Config, server: Option<&RunningServer>) -> Scrape {
    let Some(server) = server else {
        return Scrape(Err("the server was not started here".to_owned()));
    };
    let Some(url) = server.metrics_url.clone() else {
        return Scrape(Err("its engine's entry names no page of metrics".to_owned()));
    };
    let read = async {
        let http = untimed(config).map_err(|why| why.text)?;
        let page = read(&http, &url).await?;
        Ok((http, url, page))
    };
    Scrape(read.await)
}

impl Scrape {
    /// Reads them again: how far each went, or why that is not known.
    pub async fn after(self) -> Option<ServerMetrics> {
        let went = async {
            let (http, url, before) = self.0?;
            let after = read(&http, &url).await?;
            difference(&before, &after)
                .map_err(|series| format!("{series} went back: the server counts from zero again"))
        };
        Some(match went.await {
            Ok(counters) => ServerMetrics { counters: Some(counters), reason: None },
            Err(reason) => ServerMetrics { counters: None, reason: Some(reason) },
        })
    }
}

async fn read(http: &Http, url: &str) -> Result<Counters, String> {
    let reply = http.get(url, DEADLINE).await.map_err(|error| format!("failed to {error}"))?;
    if reply.status != 200 {
        return Err(format!("{url} answered with status {}", reply.status));
    }
    let found = counters(&reply.body);
    if found.is_empty() { Err(format!("{url} shows no counter")) } else { Ok(found) }
}
