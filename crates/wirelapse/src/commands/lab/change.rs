//! `wirelapse lab change`.

use std::io::Write as _;

use ::lab::registry::Description;
use ::lab::settings::{Setting, set_each};
use ::lab::{LinkReport, PathReport};
use anyhow::Context as _;
use serde_json::json;

use crate::exit::BadInput;
use crate::options::Json;
use crate::output;
use report::page;

/// Change the path of a lab while it runs; what is not named stays as it is
///
/// A value holds for both directions; `A_TO_B/B_TO_A` gives each its own, and `A_TO_B/` or `/B_TO_A` changes one alone: `--delay 80ms/`.
/// Packets under way arrive as they would have. The path that then holds is shown.
#[derive(clap::Args)]
pub struct Change {
    /// Which lab; may be omitted where only one runs
    name: Option<String>,
    /// Of a topology: the link between these hosts, from the first to the second
    #[arg(long, value_name = "HOST,HOST", value_delimiter = ',')]
    link: Vec<String>,
    /// One-way delay: 25ms, 200us, 1.5s
    #[arg(long, value_name = "TIME[/TIME]", allow_hyphen_values = true, value_parser = setting("delay"))]
    delay: Option<String>,
    /// How far the delay varies, see --jitter-shape
    #[arg(long, value_name = "TIME[/TIME]", allow_hyphen_values = true, value_parser = setting("jitter"))]
    jitter: Option<String>,
    /// How the jitter is distributed: uniform, normal, exponential, pareto
    #[arg(long, value_name = "SHAPE[/SHAPE]", value_parser = setting("jitter_shape"))]
    jitter_shape: Option<String>,
    /// How much of each segment's jitter is that of the segment before: 50%
    #[arg(long, value_name = "SHARE[/SHARE]", allow_hyphen_values = true, value_parser = setting("jitter_memory"))]
    jitter_memory: Option<String>,
    /// Bits a second on the wire: 1gbit, 10M, none
    #[arg(long, value_name = "RATE[/RATE]", allow_hyphen_values = true, value_parser = setting("rate"))]
    rate: Option<String>,
    /// Share of the segments lost, each by itself: 0.5%; 0 for none
    #[arg(long, value_name = "SHARE[/SHARE]", conflicts_with = "burst_loss", allow_hyphen_values = true, value_parser = setting("loss"))]
    loss: Option<String>,
    /// Loss in bursts: 1%x8, as in `lab up`; none
    #[arg(long, value_name = "SHARExLENGTH[/…]", allow_hyphen_values = true, value_parser = setting("burst_loss"))]
    burst_loss: Option<String>,
    /// Share of the segments held back, and by how much: 1%@2ms; none
    #[arg(long, value_name = "SHARE[@TIME][/…]", allow_hyphen_values = true, value_parser = setting("reorder"))]
    reorder: Option<String>,
    /// Share of the segments that arrive twice: 0.1%; 0 for none
    #[arg(long, value_name = "SHARE[/SHARE]", allow_hyphen_values = true, value_parser = setting("duplicate"))]
    duplicate: Option<String>,
    /// How much may wait for the wire: 64KiB, 20ms; none for 1,000 full segments
    #[arg(long, value_name = "BYTES|TIME[/…]", allow_hyphen_values = true, value_parser = setting("queue"))]
    queue: Option<String>,
    /// The queue discipline: fifo, codel, fq_codel, pie, with settings as in `lab up`
    #[arg(long, value_name = "DISCIPLINE[/…]", value_parser = setting("qdisc"))]
    qdisc: Option<String>,
    /// Mark ECN-capable segments that find more than this waiting: 30KB, 1ms; none
    #[arg(long, value_name = "BYTES|TIME[/…]", allow_hyphen_values = true, value_parser = setting("ecn"))]
    ecn: Option<String>,
    /// IP packets of more bytes than this vanish: 1400; none
    #[arg(long, value_name = "BYTES[/BYTES]", allow_hyphen_values = true, value_parser = setting("black_hole"))]
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
        writeln!(std::io::stdout(), "{line}")?;
        return Ok(());
    }
    let between = between(&lab.describe()?, link);
    output::document(&page::lab::changed(lab.name(), between.each_ref().map(String::as_str), &before, &after))
}

/// The hosts that a link joins, in the order of its report; `asked` may have them the other way round.
fn between(lab: &Description, asked: Option<[String; 2]>) -> [String; 2] {
    let Description::Network { links, .. } = lab else { return ["a", "b"].map(str::to_owned) };
    let is_asked = |link: &&LinkReport| asked.iter().flatten().all(|host| link.between.contains(host));
    links.iter().find(is_asked).map(|link| link.between.clone()).or(asked).unwrap_or_default()
}

fn asked(report: &PathReport) -> serde_json::Value {
    json!({"a_to_b": report.a_to_b.asked, "b_to_a": report.b_to_a.asked})
}
