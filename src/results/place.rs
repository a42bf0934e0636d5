//! Where a server was: rows and lines of several machines are to say so.

use std::collections::BTreeSet;

use super::record::Meta;

/// Where a server was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// What tells it from others.
    pub key: String,
    /// "on GB10", "at api.example.com".
    pub name: String,
}

/// Where a run's server was: the machine of the run, or, of a remote one, its address; `None` where
/// the file does not say.
pub fn place(meta: &Meta) -> Option<Place> {
    let rest = meta.base_url.split_once("://").map_or(meta.base_url.as_str(), |(_, rest)| rest);
    let address = rest.split('/').next().unwrap_or_default();
    let is_loopback = ["127.", "localhost", "[::1]"].iter().any(|start| address.starts_with(start));
    if !is_loopback && !address.is_empty() {
        return Some(Place { key: address.to_owned(), name: format!("at {address}") });
    }
    let host = meta.host.as_ref()?;
    let key = host.hostname_hash.clone()?;
    let gpu = host.gpus.iter().find_map(|gpu| gpu.name.clone());
    let machine = gpu.or_else(|| host.cpu.clone()).unwrap_or_else(|| "machine".into());
    Some(Place { key, name: format!("on {machine}") })
}

/// The places of several runs; nothing where all are in one, or the file does not say. Machines of
/// one kind have the key beside their name.
pub fn told_apart<'a>(runs: impl IntoIterator<Item = Option<&'a Meta>>) -> Vec<Option<String>> {
    let places: Vec<Option<Place>> = runs.into_iter().map(|meta| meta.and_then(place)).collect();
    let known: BTreeSet<&str> = places.iter().flatten().map(|place| place.key.as_str()).collect();
    if known.len() < 2 {
        return vec![None; places.len()];
    }
    let name = |place: &Place| {
        let is_double = |other: &Place| other.name == place.name && other.key != place.key;
        let double = places.iter().flatten().any(is_double);
        if double { format!("{} {}", place.name, place.key) } else { place.name.clone() }
    };
    places.iter().map(|place| place.as_ref().map(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::record::Host;

    #[test]
    fn places_are_named_where_there_are_several() {
        let on = |hash: &str, cpu: &str| Meta {
            base_url: "http://127.0.0.1:8080/v1".into(),
            host: Some(Host {
                hostname_hash: Some(hash.into()),
                cpu: Some(cpu.into()),
                ..Host::default()
            }),
            ..Meta::default()
        };
        let remote = Meta { base_url: "https://api.example.com/v1".into(), ..Meta::default() };
        let named = |all: &[&Meta]| told_apart(all.iter().map(|meta| Some(*meta)));
        let (one, same, other) = (on("aa", "Xeon"), on("aa", "Xeon"), on("bb", "Grace"));
        assert_eq!(named(&[&one, &same, &Meta::default()]), [None, None, None]);
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(named(&[&one, &other]), [text("on Xeon"), text("on Grace")]);
        assert_eq!(named(&[&one, &remote]), [text("on Xeon"), text("at api.example.com")]);
        assert_eq!(named(&[&one, &on("cc", "Xeon")]), [text("on Xeon aa"), text("on Xeon cc")]);
    }
}
