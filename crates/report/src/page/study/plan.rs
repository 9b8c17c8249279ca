//! What a study would do: `--dry-run`.

use quantity::counted;
use study::{Known, Study, Sysctl, Workload};

use paper::document::{Document, Section, Table};

/// What is varied, held and done, a row each.
#[derive(Debug, Default)]
pub(crate) struct Steps(Vec<Vec<String>>);

impl Steps {
    /// Adds a row: what is done, with which setting, and how.
    pub(crate) fn step(&mut self, what: &str, setting: &str, how: impl Into<String>) {
        self.0.push(vec![what.into(), setting.into(), how.into()]);
    }

    /// As a section of this heading.
    pub(crate) fn section(self, title: impl Into<String>) -> Section {
        let mut section = Section::new(title);
        let mut table = Table::new("", ["", "", ""]);
        table.extend(self.0);
        section.table(table);
        section
    }
}

/// The plans of a study.
pub fn planned(study: &Study, seed: u64) -> Document {
    let place = study.host.as_ref().map(|(host, _)| format!(" between this host and {host}")).unwrap_or_default();
    let changed = |sysctl: Sysctl| format!("{sysctl} of this host is changed, and restored.").into();
    Document {
        title: format!("Plan of study {}{place}", study.name).into(),
        about: format!("Seed {seed}, takes about {}.", study.forecast()),
        warnings: study.sysctls_of_this_host().into_iter().map(changed).collect(),
        sections: study.plans.iter().map(plan).collect(),
        ..Document::default()
    }
}

fn plan(plan: &study::Plan) -> Section {
    let mut steps = Steps::default();
    for factor in &plan.factors {
        steps.step("vary", &factor.name.to_string(), factor.levels.join(", "));
    }
    for (setting, value) in &plan.fixed {
        steps.step("hold", &setting.to_string(), value);
    }
    let datagrams = plan.setup(&vec![0; plan.factors.len()]).is_ok_and(|setup| setup.workload == Workload::Udp);
    if !datagrams && !plan.settings().any(|setting| *setting == Known::Socket) {
        steps.step("hold", "socket", "default (as the kernel has it: Nagle's algorithm on)");
    }
    let (warm_up, measured) = (plan.warm_up, plan.duration);
    steps.step("each", "", format!("{warm_up} of warm-up discarded, then {measured}; verdict on {}", plan.response));
    let (n, blocks) = (plan.combinations(), plan.repetitions);
    let takes = plan.forecast();
    steps.section(format!(
        "{}: {} of {}, about {takes}",
        plan.name,
        counted(blocks.into(), "block"),
        counted(n as u64, "trial")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use paper::{Canvas, terminal};

    #[test]
    fn a_plan_shows_what_is_varied_and_what_is_held() {
        let text = "repetitions = 3\n[factors]\ndelay = [\"1ms\", \"5ms\"]\n[fixed]\nrate = \"100mbit\"\n";
        let plan = study::plan_file::parse("p.toml", text).unwrap();
        let study = Study { name: "p".into(), builtin: false, plans: vec![plan], host: None };
        let canvas = Canvas { width: 100, colour: false, unicode: true };
        let text = terminal::text(&canvas, &[planned(&study, 7)]);
        let rows: Vec<String> = text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for row in ["vary delay 1ms, 5ms", "hold rate 100mbit"] {
            assert!(rows.iter().any(|r| r == row), "{row}\n{text}");
        }
        assert!(
            text.contains("Seed 7") && text.contains("3 blocks of 2 trials") && text.contains("hold  socket"),
            "{text}"
        );
        let datagrams = "workload = \"udp\"\n[factors]\ndelay = [\"1ms\", \"5ms\"]\n";
        let plan = study::plan_file::parse("p.toml", datagrams).unwrap();
        let study = Study { plans: vec![plan], ..study };
        assert!(!terminal::text(&canvas, &[planned(&study, 7)]).contains("Nagle"));
    }
}
