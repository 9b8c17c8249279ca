//! Every trial as a row of figures, in base units: what the points of the plots link to.

use std::collections::BTreeSet;

use crate::engine::Study;
use crate::outcome::Trial;
use record::trial::Response;

use super::row_of;
use paper::document::{Column, Row, Table};

/// A table of the trials for each plan; a trial's number is that of the run's tables.
pub fn trials(study: &Study, trials: &[Trial]) -> Vec<Table> {
    study
        .plans
        .iter()
        .enumerate()
        .map(|(part, plan)| {
            let own = || (0..).zip(trials).filter(move |(_, t): &(usize, &Trial)| t.part == part);
            let measured: BTreeSet<Response> = own().flat_map(|(_, t)| t.responses.keys().copied()).collect();
            let mut columns = Vec::from(["trial", "block", "position"].map(Column::figures));
            columns.extend(plan.factors.iter().map(|f| Column::text(f.name.to_string())));
            columns.extend(measured.iter().map(|response| match response.measure().unit() {
                "" => Column::figures(response.name()),
                unit => Column::figures(format!("{} ({unit})", response.name())),
            }));
            columns.extend([Column::figures("took (ns)"), Column::text("does not count because")]);
            let mut table = Table::new(format!("{}: trials", plan.name), columns);
            for (number, trial) in own() {
                let mut row = vec![number.to_string(), trial.block.to_string(), trial.position.to_string()];
                row.extend((0..plan.factors.len()).map(|i| trial.labels.get(i).cloned().unwrap_or_default()));
                row.extend(
                    measured
                        .iter()
                        .map(|response| trial.response(*response).map_or_else(String::new, |v| v.to_string())),
                );
                row.extend([trial.took.0.to_string(), trial.broken.join("; ")]);
                table.push(Row { anchor: Some(row_of(number)), ..Row::of(row) });
            }
            table
        })
        .filter(|table| !table.rows.is_empty())
        .collect()
}
