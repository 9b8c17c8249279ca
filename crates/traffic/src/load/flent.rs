//! The data format of flent (<https://flent.org>), version 4: JSON in gzip, with the series on one grid of times.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::Path;

use clock::Nanos;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Config, Outcome};
use crate::error::{Error, WireError};
use crate::stream::Sample;

/// The newest version of the format that is read and written.
const VERSION: u64 = 4;
/// Longest text that is unpacked: a small file can hold a very large one.
const LIMIT: u64 = 512 << 20;

/// A data file of flent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flent {
    /// Version of the format.
    pub version: u64,
    /// What was measured, when and between whom; flent's own keys.
    pub metadata: Map<String, Value>,
    /// The grid, in seconds since the start.
    pub x_values: Vec<f64>,
    /// Each series on the grid; its unit follows from its name: `(ms)`, or Mbit/s for TCP.
    pub results: BTreeMap<String, Vec<Option<f64>>>,
    /// Each series as it was measured: objects with `t` in seconds since 1970 and `val`.
    #[serde(default)]
    pub raw_values: Map<String, Value>,
}

impl Flent {
    /// Reads a text that has been unpacked.
    ///
    /// # Errors
    /// [`WireError::Malformed`] for what is not of the format, [`WireError::Unsupported`] for a newer version.
    pub fn parse(text: &[u8]) -> Result<Self, WireError> {
        let what = "a flent data file";
        let flent: Self =
            serde_json::from_slice(text).map_err(|e| WireError::Malformed { what, why: e.to_string() })?;
        if flent.version > VERSION {
            return Err(WireError::Unsupported { what, found: format!("version {}", flent.version) });
        }
        if let Some((name, _)) = flent.results.iter().find(|(_, series)| series.len() != flent.x_values.len()) {
            let why = format!("series {name:?} is not as long as x_values");
            return Err(WireError::Malformed { what, why });
        }
        Ok(flent)
    }

    /// Reads a `.flent.gz`, or the same unpacked.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| Error::File { path: path.into(), source };
        let packed = std::fs::read(path).map_err(|e| failed(e.into()))?;
        let mut text = Vec::new();
        if packed.starts_with(&[0x1f, 0x8b]) {
            let mut reader = flate2::read::GzDecoder::new(&packed[..]).take(LIMIT + 1);
            reader.read_to_end(&mut text).map_err(|e| failed(e.into()))?;
        } else {
            text = packed;
        }
        if text.len() as u64 > LIMIT {
            let (length, limit) = (text.len(), LIMIT as usize);
            return Err(failed(WireError::TooLong { what: "a flent data file", length, limit }.into()));
        }
        Self::parse(&text).map_err(|e| failed(e.into()))
    }

    /// Writes a `.flent.gz`.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let write = || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
            let mut packer =
                flate2::write::GzEncoder::new(std::fs::File::create(path)?, flate2::Compression::default());
            packer.write_all(&serde_json::to_vec(self)?)?;
            packer.finish()?.sync_all()?;
            Ok(())
        };
        write().map_err(|source| Error::File { path: path.into(), source })
    }

    /// A run in flent's words, as its test `rrul_be` names them. `started` is the start as an ISO 8601 text in UTC.
    pub fn of(config: &Config, outcome: &Outcome, started: &str) -> Self {
        let step = config.probe_interval.as_secs_f64();
        let rows = outcome.elapsed.0.div_ceil(config.probe_interval.0) as usize;
        let began = outcome.started_realtime.as_nanos() as f64 / 1e9;
        let (mut results, mut raw_values) = (BTreeMap::new(), Map::new());
        for probed in &outcome.probes {
            let name = match probed.probe {
                "icmp" => "Ping (ms) ICMP",
                "udp" => "Ping (ms) UDP BE1",
                _ => "Ping (ms) TCP",
            };
            let mut series = vec![None; rows];
            let mut raw = Vec::new();
            for (seq, round) in probed.rounds.iter().enumerate() {
                let Some(round_trip) = round.round_trip else { continue };
                let ms = round_trip.as_millis_f64();
                if let Some(row) = series.get_mut((round.at.0 / config.probe_interval.0) as usize) {
                    *row = Some(ms);
                }
                raw.push(json!({ "seq": seq, "t": began + round.at.as_secs_f64(), "val": ms }));
            }
            results.insert(name.to_owned(), series);
            raw_values.insert(name.to_owned(), raw.into());
        }
        let pings: Vec<&Vec<Option<f64>>> = results.values().collect();
        let average = mean_of(&pings, rows, false);
        results.insert("Ping (ms) avg".into(), average);
        if let Some(stream) = &outcome.stream {
            for (way, sends) in [("upload", true), ("download", false)] {
                let of: Vec<_> = stream.flows.iter().filter(|f| f.client_sends == sends).collect();
                let mut columns = Vec::new();
                for (index, flow) in of.iter().enumerate() {
                    let name = match index {
                        0 => format!("TCP {way} BE"),
                        n => format!("TCP {way} BE{}", n + 1),
                    };
                    let samples = || stream.series.iter().filter(|s| s.flow == flow.flow);
                    columns.push(on_grid(samples(), rows, config.probe_interval, outcome.load_started));
                    let raw = samples().map(|s| {
                        let t = began + (outcome.load_started + s.end).as_secs_f64();
                        json!({ "t": t, "dur": s.end.saturating_sub(s.start).as_secs_f64(), "val": s.bits_per_second / 1e6 })
                    });
                    raw_values.insert(name.clone(), raw.collect());
                    results.insert(name, columns[index].clone());
                }
                if !columns.is_empty() {
                    let columns: Vec<_> = columns.iter().collect();
                    results.insert(format!("TCP {way} avg"), mean_of(&columns, rows, false));
                    results.insert(format!("TCP {way} sum"), mean_of(&columns, rows, true));
                }
            }
        }
        let length = config.before + config.load + config.after;
        let metadata = json!({
            "NAME": "rrul_be",
            "TITLE": "wirelapse ping-under-load",
            "NOTE": null,
            "HOST": config.target.server.ip(),
            "HOSTS": [config.target.server.ip()],
            "LOCAL_HOST": config.target.local,
            "TIME": started,
            "T0": started,
            "LENGTH": config.load.0 / 1_000_000_000,
            "TOTAL_LENGTH": length.0 / 1_000_000_000,
            "STEP_SIZE": step,
            "IP_VERSION": if config.target.server.is_ipv4() { 4 } else { 6 },
            "FAILED_RUNNERS": 0,
            "TEST_PARAMETERS": {},
            "SERIES_META": {},
        });
        Self {
            version: VERSION,
            metadata: metadata.as_object().cloned().unwrap_or_default(),
            x_values: (0..rows).map(|i| i as f64 * step).collect(),
            results,
            raw_values,
        }
    }
}

/// What a flow carried at each moment of the grid, in Mbit/s; nothing where there was no load.
fn on_grid<'a>(
    samples: impl Iterator<Item = &'a Sample>,
    rows: usize,
    step: Nanos,
    load_started: Nanos,
) -> Vec<Option<f64>> {
    let mut column = vec![None; rows];
    for sample in samples {
        let first = (load_started + sample.start).0.div_ceil(step.0) as usize;
        let end = (load_started + sample.end).0.div_ceil(step.0) as usize;
        for row in column.iter_mut().take(end).skip(first) {
            *row = Some(sample.bits_per_second / 1e6);
        }
    }
    column
}

/// The mean (or sum) of the columns that have a value, row by row.
fn mean_of(columns: &[&Vec<Option<f64>>], rows: usize, sum: bool) -> Vec<Option<f64>> {
    (0..rows)
        .map(|row| {
            let values: Vec<f64> = columns.iter().filter_map(|c| c.get(row).copied().flatten()).collect();
            let total: f64 = values.iter().sum();
            (!values.is_empty()).then_some(if sum { total } else { total / values.len() as f64 })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn files_come_back_and_newer_ones_are_told() {
        let flent = Flent {
            version: 3,
            metadata: Map::new(),
            x_values: vec![0.0, 0.2],
            results: BTreeMap::from([("Ping (ms) ICMP".to_owned(), vec![Some(1.5), None])]),
            raw_values: Map::new(),
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.flent.gz");
        flent.write(&path).unwrap();
        assert_eq!(Flent::read(&path).unwrap(), flent);
        std::fs::write(&path, serde_json::to_vec(&Flent { version: 9, ..flent.clone() }).unwrap()).unwrap();
        assert!(Flent::read(&path).unwrap_err().to_string().contains("version 9"));
        std::fs::write(&path, b"\x1f\x8bno gzip").unwrap();
        assert!(Flent::read(&path).unwrap_err().is_wrong_use());
        let short = serde_json::to_vec(&Flent { x_values: vec![0.0], ..flent }).unwrap();
        assert!(matches!(Flent::parse(&short), Err(WireError::Malformed { .. })));
    }

    proptest! {
        #[test]
        fn foreign_texts_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Flent::parse(&bytes);
        }
    }
}
