//! `wirelapse lab change`.

use std::io::Write as _;

use ::lab::registry::Description;
use ::lab::settings::{Setting, set_each};
use ::lab::{LinkReport, PathReport};
use anyhow::Context as _;
use clap_complete::engine::ArgValueCandidates;
use serde_json::json;

use crate::commands::completions::values;
use crate::exit::BadInput;
use crate::options::Json;
use crate::output;
use report::page;

/// Change the path of a running lab; settings that are not given stay as they are
///
/// A value is for both directions, `A_TO_B/B_TO_A` for each, `A_TO_B/` or `/B_TO_A` for one:
/// `--delay 80ms/`. Packets in flight are not affected. The new path is shown.
#[derive(clap::Args)]
pub struct Change {
    /// The lab; not needed if only one is up
    #[arg(add = ArgValueCandidates::new(values::labs))]
    name: Option<String>,
    /// In a topology: the link between these two hosts, in the direction from the first to the
    /// second
    #[arg(long, value_name = "HOST,HOST", value_delimiter = ',', help_heading = "Lab")]
    link: Vec<String>,
    /// One-way delay: 25ms, 200us, 1.5s
    #[arg(long, value_name = "TIME[/TIME]", allow_hyphen_values = true, value_parser = setting("delay"), help_heading = "Path")]
    delay: Option<String>,
    /// How far the delay varies, see --jitter-shape
    #[arg(long, value_name = "TIME[/TIME]", allow_hyphen_values = true, value_parser = setting("jitter"), help_heading = "Path")]
    jitter: Option<String>,
    /// How the jitter is distributed: uniform, normal, exponential, pareto
    #[arg(long, value_name = "SHAPE[/SHAPE]", value_parser = setting("jitter_shape"), help_heading = "Path")]
    jitter_shape: Option<String>,
    /// How much the jitter of a segment depends on the segment before: 50%
    #[arg(long, value_name = "SHARE[/SHARE]", allow_hyphen_values = true, value_parser = setting("jitter_memory"), help_heading = "Path")]
    jitter_memory: Option<String>,
    /// Bits a second on the wire: 1gbit, 10M, none
    #[arg(long, value_name = "RATE[/RATE]", allow_hyphen_values = true, value_parser = setting("rate"), help_heading = "Path")]
    rate: Option<String>,
    /// Share of segments lost, independently: 0.5%; 0 for none
    #[arg(long, value_name = "SHARE[/SHARE]", conflicts_with = "burst_loss", allow_hyphen_values = true, value_parser = setting("loss"), help_heading = "Path")]
    loss: Option<String>,
    /// Loss in bursts: 1%x8, as in `lab up`; none
    #[arg(long, value_name = "SHARExLENGTH[/…]", allow_hyphen_values = true, value_parser = setting("burst_loss"), help_heading = "Path")]
    burst_loss: Option<String>,
    /// Share of segments held back, and for how long: 1%@2ms; none
    #[arg(long, value_name = "SHARE[@TIME][/…]", allow_hyphen_values = true, value_parser = setting("reorder"), help_heading = "Path")]
    reorder: Option<String>,
    /// Share of segments that arrive twice: 0.1%; 0 for none
    #[arg(long, value_name = "SHARE[/SHARE]", allow_hyphen_values = true, value_parser = setting("duplicate"), help_heading = "Path")]
    duplicate: Option<String>,
    /// How much may wait for the wire: 64KiB, 20ms; none for 1,000 full segments
    #[arg(long, value_name = "BYTES|TIME[/…]", allow_hyphen_values = true, value_parser = setting("queue"), help_heading = "Path")]
    queue: Option<String>,
    /// The queue discipline: fifo, codel, fq_codel, pie, with settings as in `lab up`
    #[arg(long, value_name = "DISCIPLINE[/…]", value_parser = setting("qdisc"), help_heading = "Path")]
    qdisc: Option<String>,
    /// Mark ECN-capable segments that find more than this waiting: 30KB, 1ms; none
    #[arg(long, value_name = "BYTES|TIME[/…]", allow_hyphen_values = true, value_parser = setting("ecn"), help_heading = "Path")]
    ecn: Option<String>,
    /// Silently drop IP packets larger than this: 1400; none
    #[arg(long, value_name = "BYTES[/BYTES]", allow_hyphen_values = true, value_parser = setting("black_hole"), help_heading = "Path")]
    black_hole: Option<String>,
    #[command(flatten)]
    json: Json,
}

/// Takes a value of this setting as it is written.
fn setting(name: &'static str) -> impl Fn(&str) -> anyhow::Result<String> + Clone {
    move |text| {
        Setting::named(name).context("no such setting")?.check(text)?;
        Ok(text.to_owned())
    }
}

impl Change {
    fn settings(&self) -> [(&'static str, &Option<String>); 13] {
        [
            ("delay", &self.delay),
            ("jitter", &self.jitter),
            ("jitter_shape", &self.jitter_shape),
            ("jitter_memory", &self.jitter_memory),
            ("rate", &self.rate),
            ("loss", &self.loss),
            ("burst_loss", &self.burst_loss),
            ("reorder", &self.reorder),
            ("duplicate", &self.duplicate),
            ("queue", &self.queue),
            ("qdisc", &self.qdisc),
            ("ecn", &self.ecn),
            ("black_hole", &self.black_hole),
        ]
    }
}

pub fn run(args: &Change) -> anyhow::Result<()> {
    let mut changes = <[::lab::Change; 2]>::default();
    for (name, text) in args.settings() {
        if let Some(text) = text {
            set_each(&mut changes, Setting::named(name).context("no such setting")?, text)?;
        }
    }
    if changes.iter().all(::lab::Change::is_empty) {
        let problem = "nothing to change: name a setting, such as --delay 50ms or --loss 1%/";
        return Err(BadInput(problem.into()).into());
    }
    let lab = super::find(args.name.as_deref())?;
    let link = match &args.link[..] {
        [] => None,
        [a, b] => Some([a.clone(), b.clone()]),
        _ => return Err(BadInput("--link names two hosts, such as client,router".into()).into()),
    };
    let [before, after] = lab.change(link.clone(), changes)?;
    if args.json.json {
        let line = json!({
            "kind": "change", "name": lab.name(),
            "before": asked(&before), "after": asked(&after),
        });
        writeln!(output::stdout(), "{line}")?;
        return Ok(());
    }
    let between = between(&lab.describe()?, link);
    output::document(&page::lab::changed(lab.name(), between.each_ref().map(String::as_str), &before, &after))
}

/// The hosts that a link joins, in the order of its report; `asked` may have them the other way
/// round.
fn between(lab: &Description, asked: Option<[String; 2]>) -> [String; 2] {
    let Description::Network { links, .. } = lab else { return ["a", "b"].map(str::to_owned) };
    let is_asked = |link: &&LinkReport| asked.iter().flatten().all(|host| link.between.contains(host));
    links.iter().find(is_asked).map(|link| link.between.clone()).or(asked).unwrap_or_default()
}

fn asked(report: &PathReport) -> serde_json::Value {
    json!({"a_to_b": report.a_to_b.asked, "b_to_a": report.b_to_a.asked})
}
