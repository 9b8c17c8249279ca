//! The data format of flent (<https://flent.org>), version 4: JSON in gzip, with the series on one
//! grid of times.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Write};
use std::path::Path;

use clock::Nanos;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::bounded::{self, Parts};
use super::{Config, Outcome, ProbeKind};
use crate::error::{Error, WireError};
use crate::stream::Sample;

/// The newest version of the format that is read and written.
const VERSION: u64 = 4;
/// Longest text that is decompressed: a small file can hold a very large one.
const LIMIT: u64 = 64 << 20;

/// A data file of flent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flent {
    /// Version of the format.
    pub version: u64,
    /// What was measured, when and between whom; flent's own keys.
    pub metadata: Map<String, Value>,
    /// The grid, in seconds since the start.
    pub x_values: Vec<f64>,
    /// Each series on the grid; its unit follows from its name: `(ms)`, or Mbit/s for TCP.
    pub results: BTreeMap<String, Vec<Option<f64>>>,
    /// Each series as it was measured: objects with `t` in seconds since 1970 and `val`. Written,
    /// and not read back: they are most of a file, and no figure is made from them.
    pub raw_values: Map<String, Value>,
}

impl Flent {
    /// Reads a text that is not compressed.
    ///
    /// # Errors
    /// [`WireError::Malformed`] for what is not of the format, [`WireError::Unsupported`] for a
    /// newer version.
    pub fn parse(text: &[u8]) -> Result<Self, WireError> {
        Self::parse_from(text)
    }

    fn parse_from(text: impl Read) -> Result<Self, WireError> {
        let what = "a flent data file";
        let Parts { version, metadata, x_values, results } = bounded::read(text.take(LIMIT)).map_err(|e| {
            let limit = if e.is_eof() { format!(" (at most {LIMIT} bytes of text are read)") } else { String::new() };
            WireError::Malformed { what, why: format!("{e}{limit}") }
        })?;
        let flent = Self { version, metadata, x_values, results, raw_values: Map::new() };
        if flent.version > VERSION {
            return Err(WireError::Unsupported { what, found: format!("version {}", flent.version) });
        }
        if let Some((name, _)) = flent.results.iter().find(|(_, series)| series.len() != flent.x_values.len()) {
            let why = format!("series {name:?} is not as long as x_values");
            return Err(WireError::Malformed { what, why });
        }
        Ok(flent)
    }

    /// Reads a `.flent.gz`, or the same decompressed.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| Error::File { path: path.into(), source };
        let mut file = BufReader::new(File::open(path).map_err(|e| failed(e.into()))?);
        let compressed = file.fill_buf().map_err(|e| failed(e.into()))?.starts_with(&[0x1f, 0x8b]);
        let read = if compressed { Self::parse_from(GzDecoder::new(file)) } else { Self::parse_from(file) };
        read.map_err(|e| failed(e.into()))
    }

    /// Writes the content of a `.flent.gz`.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        let mut gzip = GzEncoder::new(BufWriter::new(out), Compression::default());
        serde_json::to_writer(&mut gzip, self)?;
        gzip.finish()?.flush()
    }

    /// A run in flent's words, as its test `rrul_be_nflows` names them (its `rrul_be` gives three
    /// series one name). `started` is the start as an ISO 8601 text in UTC.
    pub fn of(config: &Config, outcome: &Outcome, started: &str) -> Self {
        let step = config.probe_interval.as_secs_f64();
        let rows = outcome.elapsed.0.div_ceil(config.probe_interval.0) as usize;
        let began = outcome.started_realtime.as_nanos() as f64 / 1e9;
        let (mut results, mut raw_values) = (BTreeMap::new(), Map::new());
        for probed in &outcome.probes {
            let name = match probed.probe {
                ProbeKind::Icmp => "Ping (ms) ICMP",
                ProbeKind::Udp => "Ping (ms) UDP BE",
                ProbeKind::Tcp => "Ping (ms) TCP",
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
                    let name = format!("TCP {way} BE::{}", index + 1);
                    let samples = || stream.series.iter().filter(|s| s.flow == flow.flow);
                    columns.push(on_grid(samples(), rows, config.probe_interval, outcome.load_started));
                    let raw = samples().map(|s| {
                        let t = began + (outcome.load_started + s.end).as_secs_f64();
                        json!({ "t": t, "dur": s.end.saturating_sub(s.start).as_secs_f64(), "val": s.goodput_bits_per_second() / 1e6 })
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
        let streams = |sends: bool| {
            outcome.stream.iter().flat_map(|s| &s.flows).filter(|flow| flow.client_sends == sends).count()
        };
        let length = config.before + config.load + config.after;
        let metadata = json!({
            "NAME": "rrul_be_nflows",
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
            "TEST_PARAMETERS": {"upload_streams": streams(true), "download_streams": streams(false)},
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
            *row = Some(sample.goodput_bits_per_second() / 1e6);
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
    fn files_come_back_and_newer_ones_are_reported() {
        let flent = Flent {
            version: 3,
            metadata: Map::new(),
            x_values: vec![0.0, 0.2],
            results: BTreeMap::from([("Ping (ms) ICMP".to_owned(), vec![Some(1.5), None])]),
            raw_values: Map::new(),
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.flent.gz");
        flent.write(File::create(&path).unwrap()).unwrap();
        assert_eq!(Flent::read(&path).unwrap(), flent);
        std::fs::write(&path, serde_json::to_vec(&Flent { version: 9, ..flent.clone() }).unwrap()).unwrap();
        assert!(Flent::read(&path).unwrap_err().to_string().contains("version 9"));
        std::fs::write(&path, b"\x1f\x8bno gzip").unwrap();
        assert!(Flent::read(&path).unwrap_err().is_wrong_use());
        let short = serde_json::to_vec(&Flent { x_values: vec![0.0], ..flent }).unwrap();
        assert!(matches!(Flent::parse(&short), Err(WireError::Malformed { .. })));
    }

    #[test]
    fn a_text_without_end_is_read_to_its_bound() {
        let endless =
            br#"{"version":4,"metadata":{},"x_values":[],"results":{},"raw_values":{"a":""#.chain(io::repeat(b'x'));
        let refused = Flent::parse_from(endless).unwrap_err().to_string();
        assert!(refused.contains(&LIMIT.to_string()), "{refused}");
    }

    proptest! {
        #[test]
        fn foreign_texts_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Flent::parse(&bytes);
        }
    }
}
