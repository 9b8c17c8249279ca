//! The built-in studies. One file each, and one line in [`ALL`].

mod congestion;
mod small_messages;
mod timestamps;
mod window_scaling;

use crate::account;
use crate::conclusion::Conclusion;
use crate::engine::Study;
use crate::outcome::Trial;
use crate::plan::Plan;

/// A study that is known by its name.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// What it asks, in one line.
    pub about: &'static str,
    /// Its plans; the quick form asks the same with fewer levels and repetitions.
    plans: fn(quick: bool) -> Vec<Plan>,
    /// What it says.
    conclude: fn(study: &Study, trials: &[Trial], seed: u64) -> Conclusion,
    /// Its plans between real hosts, without what only the lab can set.
    between_hosts: fn(quick: bool) -> Vec<Plan>,
    /// Whether `conclude` is for those too; what any plan concludes with is used otherwise.
    concludes_between_hosts: bool,
}

/// All of them.
pub static ALL: [Builtin; 4] =
    [timestamps::BUILTIN, small_messages::BUILTIN, window_scaling::BUILTIN, congestion::BUILTIN];

/// The built-in study of that name.
pub fn find(name: &str) -> Option<&'static Builtin> {
    ALL.iter().find(|b| b.name == name)
}

impl Builtin {
    /// As something to run.
    pub fn study(&self, quick: bool) -> Study {
        Study { name: self.name.into(), builtin: true, plans: (self.plans)(quick), host: None }
    }

    /// As something to run between this host and the server at `host`, with sysctls of this host
    /// changed or not.
    pub fn study_between_hosts(&self, quick: bool, host: &str, sysctls: bool) -> Study {
        let plans = (self.between_hosts)(quick);
        Study { name: self.name.into(), builtin: true, plans, host: Some((host.into(), sysctls)) }
    }
}

/// The conclusion of any study, finished or not.
pub fn conclude(study: &Study, trials: &[Trial], seed: u64) -> Conclusion {
    let special = |b: &&Builtin| study.builtin && (study.host.is_none() || b.concludes_between_hosts);
    match find(&study.name).filter(special) {
        Some(builtin) => (builtin.conclude)(study, trials, seed),
        None => account::of_plan(study, trials, seed),
    }
}

/// Frames analysed in a trial of bulk transfer: more than any of these sends.
const ALL_FRAMES: u64 = 2_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_can_be_and_concludes_from_nothing() {
        for builtin in &ALL {
            for quick in [true, false] {
                let study = builtin.study(quick);
                study.check().unwrap_or_else(|e| panic!("{}: {e}", builtin.name));
                let said = conclude(&study, &[], 1);
                assert!(said.compared.is_empty() && !said.checked.is_empty());
            }
            for quick in [true, false] {
                let study = builtin.study_between_hosts(quick, "192.0.2.1", true);
                study.check().unwrap_or_else(|e| panic!("{}: {e}", builtin.name));
                assert!(conclude(&study, &[], 1).compared.is_empty());
                let needs = !study.sysctls_of_this_host().is_empty();
                let refused = Study { host: Some(("192.0.2.1".into(), false)), ..study }.check().is_err();
                assert_eq!(needs, refused, "{}", builtin.name);
            }
            let minutes = builtin.study(true).forecast().0 / record::Nanos::from_secs(60).0;
            assert!(minutes < 4, "{} --quick takes {minutes} minutes", builtin.name);
        }
    }
}
