//! `--apply`: what was advised is set on this host, the program traced again, and the promise
//! compared with what came of it.

use std::fs;

use ::advise::{Advice, Applied, Left, Outcome};
use anyhow::Context as _;
use record::Nanos;
use stats::median;
use study::{Sysctl, ThisHost};

use super::conditions::{self, Chosen};
use super::traced::Traced;
use crate::exit::BadInput;
use crate::output::note;

/// Refuses a process whose settings are not those of this network namespace.
pub(super) fn check(pid: u32) -> anyhow::Result<()> {
    let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/net"));
    let theirs = namespace(&pid.to_string()).map_err(|e| BadInput(format!("process {pid}: {e}")))?;
    if theirs != namespace("self").context("find out which network namespace this is")? {
        return Err(BadInput(format!(
            "process {pid} is in another network namespace, whose settings are its own: run wirelapse there (nsenter -t {pid} -n)"
        ))
        .into());
    }
    Ok(())
}

/// A setting of this host, which is given back when this is dropped.
pub(super) struct InForce {
    host: ThisHost,
    pub(super) applied: Applied,
}

impl InForce {
    /// Puts the old value back, or leaves the new one until the next boot.
    pub(super) fn over(self, left: Left) -> anyhow::Result<()> {
        match left {
            Left::Set => self.host.keep()?,
            Left::PutBack | Left::Watched => self.host.give_back()?,
        }
        Ok(())
    }
}

/// Sets the best remedy, where this host can, and looks what it does to the program. `then` is what
/// becomes of it where the promise holds; where it does not, it is to be put back.
pub(super) fn apply(
    advice: &Advice,
    before: &Chosen,
    (pid, lasts, budget): (u32, Nanos, Nanos),
    then: Left,
) -> anyhow::Result<Option<InForce>> {
    let Some(best) = advice.best() else { return Ok(None) };
    let is_here = best.side.as_deref() == Some(&before.conditions.near);
    if best.sysctls.is_empty() || !is_here {
        note(&format!("{} is not a sysctl of this host: nothing was set", best.remedy));
        return Ok(None);
    }
    let sysctls = sysctls(best)?;
    let host = ThisHost::take(&sysctls)?;
    for (sysctl, (_, value)) in sysctls.iter().zip(&best.sysctls) {
        host.set(sysctl, value)?;
        note(&format!("set: {sysctl} = {value}; the process is traced again for {lasts}"));
    }
    let again = Traced::of(pid, lasts)?;
    let after = conditions::read(&again.run().display().to_string(), budget)?;
    let (low, high) = best.within.unwrap_or_default();
    let promised = (best.change.unwrap_or_default(), low, high);
    let byte = |of: &Chosen| median(&of.byte_ns).unwrap_or(f64::NAN);
    let byte_ns = [byte(before), byte(&after)];
    let n = [before.byte_ns.len(), after.byte_ns.len()];
    let mut applied =
        Applied { remedy: best.remedy.clone(), set: best.sysctls.clone(), byte_ns, n, promised, left: Left::PutBack };
    if applied.held() {
        applied.left = then;
    }
    Ok(Some(InForce { host, applied }))
}

fn sysctls(best: &Outcome) -> anyhow::Result<Vec<Sysctl>> {
    let known = |name: &String| Sysctl::new(name).with_context(|| format!("{name} is no sysctl"));
    best.sysctls.iter().map(|(name, _)| known(name)).collect()
}
