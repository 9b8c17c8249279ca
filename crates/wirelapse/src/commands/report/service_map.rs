//! `wirelapse report --runs --map`: who talks to whom in a fleet, from the rows and histograms of
//! its runs.

use std::ops::Range;

use paper::document::Document;
use record::fleet::FleetEnd;
use record::service_map::{MapEdge, MapRuns};
use record::table::{Record, object};

use super::fleet::When;
use crate::commands::query;
use crate::exit::BadInput;
use crate::output;

/// The edges of a period.
pub struct Map {
    hours: Range<u64>,
    runs: MapRuns,
    edges: Vec<MapEdge>,
}

impl Map {
    /// Asks for the edges of these hours.
    ///
    /// # Errors
    /// [`BadInput`] for a place without runs, for hours that cannot be asked about, and where no
    /// run has a send or an attempt to connect in them.
    pub fn of(runs: &str, when: When) -> anyhow::Result<Self> {
        let hour = |rows: Vec<FleetEnd>| rows.first().and_then(|end| end.hour);
        let nothing = |what: &str| {
            BadInput(format!(
                "{runs}: {what}; histograms of `wirelapse agent` give sends, and `sample` in its section [store] keeps \
                 connections too, with their bytes, ports and failed attempts"
            ))
        };
        let told = hour(query::weeks(runs, &["end-of-runs".into()])?);
        let told = told.ok_or_else(|| nothing("no run is of a trace or an agent"))?;
        // A run that is still being written tells of its beginning only.
        let seen = hour(query::weeks(runs, &["end-of-rows".into(), format!("--start={told}")])?);
        let hours = when.asked(told.max(seen.unwrap_or(told)) + 1)?.hours().clone();
        let within = [format!("--start={}", hours.start), format!("--end={}", hours.end)];
        let mut edges: Vec<MapEdge> = rows(runs, "map-edges", &within)?;
        if edges.is_empty() {
            return Err(nothing("no run has a send or an attempt to connect in these hours").into());
        }
        edges.sort_by_key(|edge| (edge.place, edge.sends_of));
        let of_runs = rows(runs, "map-runs", &within)?.pop().unwrap_or_default();
        Ok(Self { hours, runs: of_runs, edges })
    }

    /// The page.
    pub fn document(&self, place: &str) -> Document {
        let (hours, runs, edges) = (self.hours.clone(), &self.runs, &self.edges);
        report::page::service_map::document(&report::page::service_map::Map { place, hours, runs, edges })
    }

    /// A line for the runs, and one for each edge.
    pub fn json(&self) -> anyhow::Result<()> {
        output::json_event("map", &object::of(&self.runs))?;
        self.edges.iter().try_for_each(|edge| output::json_event("edge", &object::of(edge)))
    }
}

fn rows<R: Record>(runs: &str, rows: &str, within: &[String]) -> anyhow::Result<Vec<R>> {
    let ask: Vec<String> = [rows.to_owned()].into_iter().chain(within.iter().cloned()).collect();
    query::weeks(runs, &ask)
}
