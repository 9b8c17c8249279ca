//! `--watch`: what was set is put back as soon as it no longer does what was promised.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use ::advise::{BROKEN, Left, Look, Watch};
use quantity::{change, counted};
use record::{Nanos, Utc};
use serde::Serialize;

use super::apply::InForce;
use super::traced::Traced;
use super::{Args, conditions, once};
use crate::exit::BadInput;
use crate::interrupt::Interrupt;
use crate::output::{self, note};

/// Advises, sets, looks, and advises anew where it was put back or there was nothing to set, until
/// the process ends or a signal comes.
pub(super) fn watch(args: &Args, pid: u32, interrupt: Interrupt) -> anyhow::Result<()> {
    let mut first = true;
    loop {
        match once(args, interrupt) {
            Ok(Some(set)) => hold(args, pid, set, interrupt)?,
            Ok(None) => {}
            // It may have opened no connection this time.
            Err(error) if !first && error.is::<BadInput>() => note(&format!("nothing is advised now: {error:#}")),
            Err(error) => return Err(error),
        }
        first = false;
        if !wait(args.every, pid, interrupt) {
            return Ok(());
        }
    }
}

/// Looks until the promise is broken, and then puts it back.
fn hold(args: &Args, pid: u32, set: InForce, interrupt: Interrupt) -> anyhow::Result<()> {
    let mut watch = Watch::new(set.applied.clone());
    let mut held = true;
    while wait(args.every, pid, interrupt) {
        let look = watch.look(&times(args, pid)?);
        held = look.held.unwrap_or(held);
        show(args, &watch, look)?;
        if watch.is_broken() {
            note(&format!("{BROKEN} looks in a row without what was promised: {} is put back", watch.applied().remedy));
            return set.over(Left::PutBack);
        }
    }
    set.over(if args.keep && held { Left::Set } else { Left::PutBack })
}

/// How long a byte took, ns, on each connection that the process opens meanwhile.
fn times(args: &Args, pid: u32) -> anyhow::Result<Vec<f64>> {
    let traced = Traced::of(pid, args.lasts)?;
    match conditions::read(&traced.run().display().to_string(), args.budget) {
        Ok(chosen) => Ok(chosen.byte_ns),
        // It opened none.
        Err(error) if error.is::<BadInput>() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// A look and when it was.
#[derive(Serialize)]
struct At {
    time: String,
    remedy: String,
    #[serde(flatten)]
    look: Look,
    promised: f64,
}

fn show(args: &Args, watch: &Watch, look: Look) -> anyhow::Result<()> {
    let time = Utc::from_nanos(traffic::realtime().as_nanos()).to_string();
    let (promised, ..) = watch.applied().promised;
    if args.json.json {
        let remedy = watch.applied().remedy.clone();
        return output::json_event("advice_look", &At { time, remedy, look, promised });
    }
    let said = match (look.change, look.held) {
        (Some(by), Some(held)) => {
            let promise = if held { "the promise holds" } else { "the promise does not hold" };
            let n = counted(look.n as u64, "connection");
            format!("a byte took {} ({n}), promised was {}: {promise}", change(by), change(promised))
        }
        _ => "the process opened no connection: nothing to compare".to_owned(),
    };
    writeln!(output::stdout(), "{time}  {}: {said}", watch.applied().remedy)?;
    Ok(())
}

/// Whether to look again: that time is over, and neither did the process end nor a signal come.
fn wait(every: Nanos, pid: u32, interrupt: Interrupt) -> bool {
    let until = traffic::now().after(every);
    while traffic::now() < until && !interrupt.came() {
        if !Path::new("/proc").join(pid.to_string()).exists() {
            note(&format!("process {pid} has ended"));
            return false;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    !interrupt.came()
}
