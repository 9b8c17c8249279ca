//! Every trial as a row of figures, in base units: what the points of the plots link to.

use std::collections::BTreeSet;

use record::trial::Response;
use study::{Study, Trial};

use super::plots::row_of;
use paper::document::Table;

/// A table of the trials for each plan; a trial's number is that of the run's tables.
pub(super) fn tables(study: &Study, trials: &[Trial]) -> Vec<Table> {
    study
        .plans
        .iter()
        .enumerate()
        .map(|(part, plan)| {
            let own = || (0..).zip(trials).filter(move |(_, t): &(usize, &Trial)| t.part == part);
            let measured: BTreeSet<Response> = own().flat_map(|(_, t)| t.responses.keys().copied()).collect();
            let mut head: Vec<String> = ["trial", "block", "position"].map(String::from).to_vec();
            head.extend(plan.factors.iter().map(|f| f.name.clone()));
            head.extend(measured.iter().map(|response| format!("{} ({})", response.name(), response.measure().unit())));
            head.extend(["took (ns)", "does not count because"].map(String::from));
            let mut table = Table { title: format!("{}: trials", plan.name), head, ..Table::default() };
            for (number, trial) in own() {
                let mut row = vec![number.to_string(), trial.block.to_string(), trial.position.to_string()];
                row.extend((0..plan.factors.len()).map(|i| trial.labels.get(i).cloned().unwrap_or_default()));
                row.extend(
                    measured
                        .iter()
                        .map(|response| trial.response(*response).map_or_else(String::new, |v| v.to_string())),
                );
                row.extend([trial.took.0.to_string(), trial.broken.join("; ")]);
                table.rows.push(row);
                table.anchors.push(row_of(number));
            }
            table
        })
        .filter(|table| !table.rows.is_empty())
        .collect()
}
