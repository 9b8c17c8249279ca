//! Runs of workloads on disk: what was asked for and what came of it, as tables and `run.json`, and
//! back.
//!
//! What is read back equals what was written, so a report of the run says what the workload said
//! when it ended.

mod records;

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, to_value};
use store::workload::{Head, Provenance, Writer};

use crate::target::Target;
use crate::workload::Workload;
use crate::{load, responsiveness, rr, stream, udp};

pub use records::{Bucket, Flow, Interval, Probe};

/// A workload with what came of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Run {
    /// `stream`.
    Stream(stream::Config, Box<stream::Outcome>),
    /// `rr` or `crr`.
    Transactions(rr::Config, Box<rr::Outcome>),
    /// `udp`.
    Udp(udp::Config, Box<udp::Outcome>),
    /// `ping-under-load`.
    Load(load::Config, Box<load::Outcome>),
    /// `responsiveness`.
    Responsiveness(responsiveness::Config, Box<responsiveness::Outcome>),
}

impl Run {
    /// Which workload it is of.
    pub fn workload(&self) -> Workload {
        match self {
            Self::Stream(..) => Workload::Stream,
            Self::Transactions(rr::Config { connect_each: false, .. }, _) => Workload::Rr,
            Self::Transactions(..) => Workload::Crr,
            Self::Udp(..) => Workload::Udp,
            Self::Load(..) => Workload::PingUnderLoad,
            Self::Responsiveness(..) => Workload::Responsiveness,
        }
    }

    /// What was asked for, as `run.json` has it: without the server's token.
    ///
    /// # Errors
    /// What JSON cannot hold.
    pub fn asked(&self) -> serde_json::Result<Value> {
        match self {
            Self::Stream(config, _) => without_token(config, |c| &mut c.target),
            Self::Transactions(config, _) => without_token(config, |c| &mut c.target),
            Self::Udp(config, _) => without_token(config, |c| &mut c.target),
            Self::Load(config, _) => without_token(config, |c| &mut c.target),
            Self::Responsiveness(config, _) => to_value(responsiveness::Config { token: None, ..config.clone() }),
        }
    }

    /// Writes it as a new run directory, whole or not at all. The server's token is in none.
    ///
    /// # Errors
    /// [`store::Error::Exists`], [`store::Error::Create`], [`store::Error::Keep`].
    pub fn write(&self, path: &Path, provenance: Provenance) -> Result<(), store::Error> {
        let writer = Writer::create(path)?;
        let refused = |why: serde_json::Error| store::Error::Keep { path: path.join("run.json"), why: why.into() };
        let config = self.asked().map_err(refused)?;
        let rest = match self {
            Self::Stream(_, outcome) => {
                let mut rest = outcome.clone();
                put_stream(&mut rest, &writer)?;
                to_value(rest)
            }
            Self::Transactions(_, outcome) => {
                let mut rest = outcome.clone();
                writer.table(&std::mem::take(&mut rest.series))?;
                writer.table(&std::mem::take(&mut rest.slowest))?;
                writer.table(&buckets(&std::mem::take(&mut rest.latency_buckets)))?;
                to_value(rest)
            }
            Self::Udp(_, outcome) => {
                let mut rest = outcome.clone();
                writer.table(&std::mem::take(&mut rest.series))?;
                writer.table(&buckets(&std::mem::take(&mut rest.one_way_delay_buckets)))?;
                to_value(rest)
            }
            Self::Responsiveness(_, outcome) => {
                let mut rest = outcome.clone();
                writer.table(&std::mem::take(&mut rest.intervals))?;
                writer.table(&std::mem::take(&mut rest.probes))?;
                to_value(rest).map(|mut rest| {
                    rest.as_object_mut()
                        .into_iter()
                        .for_each(|o| o.retain(|key, _| !["intervals", "probes"].contains(&key.as_str())));
                    rest
                })
            }
            Self::Load(config, outcome) => {
                let mut rest = outcome.clone();
                let mut probes = Vec::new();
                let parts = rest.parts(config);
                for probed in &mut rest.probes {
                    let phase = |at| parts.iter().find(|(_, range)| range.contains(&at)).map_or("", |(name, _)| *name);
                    probes.extend(std::mem::take(&mut probed.rounds).into_iter().map(|round| Probe {
                        probe: probed.probe,
                        phase: phase(round.at).to_owned(),
                        round,
                    }));
                }
                writer.table(&probes)?;
                if let Some(stream) = &mut rest.stream {
                    put_stream(stream, &writer)?;
                }
                to_value(rest)
            }
        };
        let mut outcome = rest.map_err(refused)?;
        strip(&mut outcome);
        writer.finish(Head { provenance, workload: self.workload().name().into(), config, outcome })
    }

    /// Reads it back, with what made it.
    ///
    /// # Errors
    /// Those of [`store::workload::head`], and [`store::Error::Malformed`] for a workload that this
    /// version does not know.
    pub fn read(path: &Path) -> Result<(Self, Provenance), store::Error> {
        use store::workload::rows;
        let Head { provenance, workload, config, outcome } = store::workload::head(path)?;
        let malformed = |detail: String| store::Error::Malformed { path: path.join("run.json"), detail };
        let run = match Workload::named(&workload) {
            Some(Workload::Stream) => {
                let mut outcome: Box<stream::Outcome> = parsed(outcome).map_err(malformed)?;
                take_stream(&mut outcome, path)?;
                Self::Stream(parsed(config).map_err(malformed)?, outcome)
            }
            Some(Workload::Rr | Workload::Crr) => {
                let mut outcome: Box<rr::Outcome> = parsed(outcome).map_err(malformed)?;
                (outcome.series, outcome.slowest) = (rows(path)?, rows(path)?);
                outcome.latency_buckets = pairs(rows(path)?);
                Self::Transactions(parsed(config).map_err(malformed)?, outcome)
            }
            Some(Workload::Udp) => {
                let mut outcome: Box<udp::Outcome> = parsed(outcome).map_err(malformed)?;
                (outcome.series, outcome.one_way_delay_buckets) = (rows(path)?, pairs(rows(path)?));
                Self::Udp(parsed(config).map_err(malformed)?, outcome)
            }
            Some(Workload::PingUnderLoad) => {
                let mut outcome: Box<load::Outcome> = parsed(outcome).map_err(malformed)?;
                let probes: Vec<Probe> = rows(path)?;
                for probed in &mut outcome.probes {
                    let own = probes.iter().filter(|p| p.probe == probed.probe);
                    probed.rounds = own.map(|p| p.round).collect();
                }
                if let Some(stream) = &mut outcome.stream {
                    take_stream(stream, path)?;
                }
                Self::Load(parsed(config).map_err(malformed)?, outcome)
            }
            Some(Workload::Responsiveness) => {
                let mut outcome: Box<responsiveness::Outcome> = parsed(outcome).map_err(malformed)?;
                (outcome.intervals, outcome.probes) = (rows(path)?, rows(path)?);
                Self::Responsiveness(parsed(config).map_err(malformed)?, outcome)
            }
            Some(Workload::Echo) | None => {
                return Err(malformed(format!("its workload is {workload:?}, which this version does not know")));
            }
        };
        Ok((run, provenance))
    }
}

/// The configuration, without what the server wants to be shown.
fn without_token<T: Clone + Serialize>(config: &T, target: fn(&mut T) -> &mut Target) -> serde_json::Result<Value> {
    let mut config = config.clone();
    target(&mut config).token = None;
    to_value(config)
}

fn parsed<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|e| e.to_string())
}

/// What tables hold.
const IN_TABLES: [&str; 6] =
    ["series", "server_series", "slowest", "latency_buckets_ns", "one_way_delay_buckets_ns", "rounds"];

/// Removes the keys of what is in tables.
fn strip(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|key, _| !IN_TABLES.contains(&key.as_str()));
            object.values_mut().for_each(strip);
        }
        Value::Array(list) => list.iter_mut().for_each(strip),
        _ => {}
    }
}

fn put_stream(outcome: &mut stream::Outcome, writer: &Writer) -> Result<(), store::Error> {
    let of =
        |at_server, samples: Vec<stream::Sample>| samples.into_iter().map(move |sample| Interval { at_server, sample });
    let (ours, theirs) = (std::mem::take(&mut outcome.series), std::mem::take(&mut outcome.server_series));
    writer.table(&of(false, ours).chain(of(true, theirs)).collect::<Vec<_>>())?;
    writer.table(&outcome.flows.iter().cloned().map(Flow).collect::<Vec<_>>())
}

fn take_stream(outcome: &mut stream::Outcome, path: &Path) -> Result<(), store::Error> {
    let rows: Vec<Interval> = store::workload::rows(path)?;
    let (theirs, ours): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.at_server);
    outcome.series = ours.into_iter().map(|row| row.sample).collect();
    outcome.server_series = theirs.into_iter().map(|row| row.sample).collect();
    Ok(())
}

fn buckets(pairs: &[(clock::Nanos, u64)]) -> Vec<Bucket> {
    pairs.iter().map(|&(at_most, n)| Bucket { at_most, n }).collect()
}

fn pairs(buckets: Vec<Bucket>) -> Vec<(clock::Nanos, u64)> {
    buckets.into_iter().map(|b| (b.at_most, b.n)).collect()
}
