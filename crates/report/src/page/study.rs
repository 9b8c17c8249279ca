//! The page of a study: verdict, effects beside predictions, trials block by block, series, and the
//! proof that settings and path were what was asked.

mod between;
pub mod plan;

use record::Nanos;
use study::drawn::Plots;
use study::ledger::Provenance;
use study::{Plan, Sentence, Trial, Workload, analysis, builtin, drawn, plan_text};
use traffic::SocketOptions;

pub use between::document as between;

use super::{command, facts};
use paper::document::{Block, Document, Row, Section, Table, Text, clauses, columns};

/// The page of a study; `name` is what the run is called, where it is kept. `wirelapse study` ends
/// with the same document that `wirelapse report` shows of its run.
pub fn document(name: Option<&str>, provenance: &Provenance, trials: &[Trial]) -> Document {
    let study = &provenance.study;
    let said = builtin::conclude(study, trials, provenance.seed);
    let planned: usize = study.plans.iter().map(|p| p.combinations() * p.repetitions as usize).sum();
    let counted = trials.iter().filter(|t| t.counts()).count();
    let took: Nanos = trials.iter().map(|t| t.took).sum();
    let mut warnings = Vec::new();
    if provenance.state == store::State::Unfinished {
        let there = [trials.len(), planned].map(|n| quantity::count(n as u64));
        warnings.push(
            Text::from(format!(
                "This study did not come to its end: {} of {} planned trials are there. ",
                there[0], there[1]
            ))
            .and(Text::code("wirelapse study --resume"))
            .and(" goes on with it."),
        );
    }
    if counted < trials.len() {
        let fewer = format!(
            "{} of {} are excluded, because a setting did not take effect or the path was not what was asked for; each is named below.",
            quantity::count((trials.len() - counted) as u64),
            quantity::counted(trials.len() as u64, "trial")
        );
        warnings.push(fewer.into());
    }
    let mut verdict = said.verdict.clone();
    if verdict.is_empty() {
        verdict.push("There are too few trials to say anything".into());
    }
    // A long verdict hides its own beginning; the rest stands with the effects, and so does a long
    // sentence, whole.
    let rest = verdict.split_off(verdict.len().min(6));
    let long = verdict.iter().filter(|sentence| sentence.beginning(WORDS).is_some()).chain(&rest);
    let long: Vec<String> = long.map(|sentence| format!("{sentence}.")).collect();
    let draw = |(part, plan)| drawn::of_plan(part, plan, trials, provenance.seed, &said);
    let mut plots: Vec<Plots> = study.plans.iter().enumerate().map(draw).collect();
    let mut told = said.tables.iter().cloned();
    let mut worth = Section { plot_first: true, ..Section::new("What it is worth") };
    told.next().into_iter().for_each(|table| worth.table(table));
    worth.plot(drawn::comparisons(&said).or_else(|| plots.first_mut()?.response.take()));
    worth.list(long);
    let mut sections = vec![worth, for_a_ticket(provenance, said.verdict.first(), trials)];
    sections.extend(study.plans.iter().zip(plots).map(|(plan, plots)| of_plan(plan, plots)));
    let mut tables = Section::new("Tables");
    told.for_each(|table| tables.table(table));
    if !said.steps.is_empty() {
        let mut steps =
            Table::new("Steps along a swept factor", columns(["curve"], ["after", "at", "95 % interval", "jump"]));
        for (curve, s) in &said.steps {
            let row =
                [s.after.to_string(), s.at.to_string(), format!("{} … {}", s.low, s.high), format!("× {:.3}", s.ratio)];
            steps.push(Row::of(std::iter::once(curve.clone()).chain(row)));
        }
        tables.table(steps);
    }
    for table in drawn::trials(study, trials) {
        tables.blocks.push(Block::OnPage(table));
    }
    sections.push(tables);
    let mut settings = Section::new("Proof that the settings took effect");
    settings.table(drawn::proof::settings(&study.plans, trials));
    settings.list(&said.checked);
    sections.push(settings);
    let mut path = Section::new("The path, and whether it was what was asked for");
    path.table(drawn::proof::path(&study.plans, trials));
    sections.push(path);
    let mut lost = Section::new("What was lost, and what to know");
    if said.lost.is_empty() {
        lost.say("Nothing was lost: every frame that was to be read was read, and every trial counts.");
    } else {
        lost.list(&said.lost);
    }
    lost.list(&said.notes);
    sections.push(lost);
    sections.push(environment(provenance, took));
    let mut plans = Section::new("Plan");
    for plan in &study.plans {
        plans.blocks.push(Block::Code { title: plan.name.clone(), text: plan_text::text(plan) });
    }
    sections.push(plans);
    sections.retain(|s| !s.blocks.is_empty());
    let ran = ran(trials);
    let ran = if ran.is_empty() { String::new() } else { format!(" Congestion control: {}.", ran.join(", ")) };
    let about = format!(
        "The study {}: {} of {} planned, in randomised blocks, {} of measuring; seed {}.{ran}",
        study.name,
        quantity::counted(trials.len() as u64, "trial"),
        quantity::count(planned as u64),
        took,
        provenance.seed
    );
    let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
    Document {
        title: format!("Study {}{name}", study.name).into(),
        about,
        verdict: clauses(verdict.iter().map(headline)),
        warnings,
        sections,
        ..Document::default()
    }
}

/// Words of a sentence that comes first, at most.
const WORDS: usize = 30;

/// A sentence as it comes first: of a long one its beginning.
fn headline(sentence: &Sentence) -> String {
    match sentence.beginning(WORDS) {
        Some(beginning) => format!("{beginning} (in full below)."),
        None => format!("{sentence}."),
    }
}

/// What was found and under which conditions, in two sentences that stand by themselves.
fn for_a_ticket(provenance: &Provenance, found: Option<&Sentence>, trials: &[Trial]) -> Section {
    let mut section = Section::new("For a ticket");
    let Some(first) = found else { return section };
    let found = first.beginning(WORDS).unwrap_or_else(|| first.clone());
    let study = &provenance.study;
    let counted = trials.iter().filter(|t| t.counts()).count();
    let place = match &study.host {
        Some((host, _)) => format!("between {} and {host}", provenance.hostname.as_deref().unwrap_or("this host")),
        None => "in a lab on one machine".to_owned(),
    };
    let ran = ran(trials);
    let ran = if ran.is_empty() { String::new() } else { format!(" with {}", ran.join(", ")) };
    section.say(format!(
        "{found}. That is by {counted} of {} in randomised blocks, {place}{ran}, Linux {}, {}, wirelapse {} (study {}, seed {}).",
        quantity::counted(trials.len() as u64, "trial"),
        provenance.kernel,
        quantity::counted(provenance.cpus.into(), "CPU"),
        provenance.version,
        study.name,
        provenance.seed,
    ));
    section
}

/// The congestion controls that ran.
fn ran(trials: &[Trial]) -> Vec<&str> {
    let mut ran: Vec<&str> = trials.iter().filter_map(|t| t.congestion_control.as_deref()).collect();
    ran.sort_unstable();
    ran.dedup();
    ran
}

fn of_plan(plan: &Plan, plots: Plots) -> Section {
    let mut section = Section::new(format!("{}: {}", plan.name, plan.response));
    section.plot(plots.response);
    if let Some(sockets) = sockets(plan, &analysis::combinations(plan)) {
        section.say(sockets);
    }
    plots.others.into_iter().for_each(|plot| section.plot(Some(plot)));
    section
}

/// What is set on the TCP sockets of a plan's trials; `None` where it has none.
fn sockets(plan: &Plan, combinations: &[Vec<usize>]) -> Option<String> {
    let mut all: Vec<SocketOptions> = Vec::new();
    for setup in combinations.iter().filter_map(|levels| plan.setup(levels).ok()) {
        if setup.workload != Workload::Udp && !all.contains(&setup.options) {
            all.push(setup.options);
        }
    }
    match &all[..] {
        [] => None,
        [one] if *one == SocketOptions::default() => {
            Some("The sockets at both ends are as the kernel has them: Nagle's algorithm is on.".into())
        }
        all => {
            let all: Vec<String> = all.iter().map(ToString::to_string).collect();
            Some(format!(
                "Options of the sockets at both ends: {}. All else is as the kernel has it.",
                all.join("; or ")
            ))
        }
    }
}

fn environment(provenance: &Provenance, took: Nanos) -> Section {
    let mut section = Section::new("Environment");
    section.table(facts(
        "",
        [
            ("command", command(&provenance.command_line)),
            ("version", provenance.version.clone()),
            ("kernel", provenance.kernel.clone()),
            ("machine", format!("{}, {}", provenance.machine, quantity::counted(provenance.cpus.into(), "CPU"))),
            ("seed", provenance.seed.to_string()),
            ("measuring took", took.to_string()),
            ("state", if provenance.state == store::State::Finished { "finished" } else { "unfinished" }.into()),
        ],
    ));
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_sentence_comes_first_only_with_its_beginning() {
        assert_eq!(
            headline(&"delay 5ms against 1ms: no difference seen".into()),
            "delay 5ms against 1ms: no difference seen."
        );
        let long = Sentence::from("rr, 2 writes: the rate falls by 30 at 10 bytes").and("words ".repeat(50));
        assert_eq!(headline(&long), "rr, 2 writes: the rate falls by 30 at 10 bytes (in full below).");
    }

    #[test]
    fn what_was_found_is_two_sentences_with_its_conditions() {
        let plan = study::plan_file::parse("p.toml", "repetitions = 2\n[factors]\nflows = [1, 2]\n").unwrap();
        let study = study::Study { name: "p".into(), builtin: false, plans: vec![plan], host: None };
        let provenance =
            Provenance { version: "9.9".into(), cpus: 2, seed: 7, ..Provenance::here(&study, 7, Vec::new()) };
        let verdict = Sentence::from("flows 2 against 1: goodput 76 % higher (95 % interval 75 to 77 %, 5 blocks)");
        let section = for_a_ticket(&provenance, Some(&verdict), &[]);
        let [Block::Words(text)] = &section.blocks[..] else { panic!("{section:?}") };
        let text = text.to_string();
        assert!(text.starts_with("flows 2 against 1: goodput 76 % higher"), "{text}");
        assert!(
            text.contains("in a lab on one machine, Linux ") && text.ends_with("wirelapse 9.9 (study p, seed 7)."),
            "{text}"
        );
        assert_eq!(text.matches(". ").count(), 1, "{text}");
        assert!(for_a_ticket(&provenance, None, &[]).blocks.is_empty());
    }

    #[test]
    fn socket_options_are_said() {
        let said = |text: &str| {
            let plan = study::plan_file::parse("p.toml", &format!("repetitions = 2\n{text}")).unwrap();
            sockets(&plan, &analysis::combinations(&plan))
        };
        assert_eq!(
            said("[factors]\nsocket = [\"default\", \"nodelay\"]\n").unwrap(),
            "Options of the sockets at both ends: nodelay off; or nodelay on. All else is as the kernel has it."
        );
        assert_eq!(
            said("[factors]\ndelay = [\"1ms\", \"2ms\"]\n").unwrap(),
            "The sockets at both ends are as the kernel has them: Nagle's algorithm is on."
        );
        assert_eq!(said("workload = \"udp\"\n[factors]\ndelay = [\"1ms\", \"2ms\"]\n"), None);
    }
}
