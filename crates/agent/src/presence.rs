//! Whether what the target names is there: said once when it goes, and once when it comes back.

use std::time::{Duration, Instant};

use metrics::Rule;

/// What is away for no longer is not spoken of: so long a restart may take.
const RESTART: Duration = Duration::from_secs(2);

/// The rules of the target, and since when each has named nothing.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    rules: Vec<Rule>,
    away: Vec<Option<Away>>,
}

#[derive(Clone, Copy, Debug)]
struct Away {
    since: Instant,
    said: bool,
}

impl Presence {
    /// What the rules name now.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Takes what they name at `now`, and gives what is to be said of it.
    pub fn take(&mut self, rules: Vec<Rule>, now: Instant) -> Vec<String> {
        let begins = self.away.len() != rules.len();
        if begins {
            self.away = vec![None; rules.len()];
        }
        let mut news = Vec::new();
        for (rule, away) in rules.iter().zip(&mut self.away) {
            let name: Vec<&str> = rule.labels.iter().map(|(_, value)| value.as_str()).collect();
            let name = name.join(" ");
            if rule.cgroups > 0 {
                if away.take().is_some_and(|away| away.said) {
                    news.push(format!("{name} is there, with {}", quantity::counted(rule.cgroups, "cgroup")));
                }
                continue;
            }
            let away = away.get_or_insert(Away { since: now, said: false });
            if !away.said && (begins || now.duration_since(away.since) >= RESTART) {
                away.said = true;
                news.push(format!("{name} is not there: nothing of it is followed until it comes"));
            }
        }
        self.rules = rules;
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(cgroups: u64) -> Vec<Rule> {
        let labels = vec![("kind", "unit".to_owned()), ("name", "web.service".to_owned())];
        vec![Rule { labels, cgroups, ..Rule::default() }]
    }

    const GONE: &str = "unit web.service is not there: nothing of it is followed until it comes";

    #[test]
    fn going_and_coming_are_said_once_and_a_restart_is_not() {
        let mut presence = Presence::default();
        let begin = Instant::now();
        let mut at = |second: u64, cgroups| presence.take(named(cgroups), begin + Duration::from_secs(second));
        assert!(at(0, 1).is_empty());
        assert!(at(1, 0).is_empty() && at(2, 1).is_empty(), "a restart");
        assert!(at(3, 0).is_empty());
        assert_eq!(at(5, 0), [GONE]);
        assert!(at(60, 0).is_empty());
        assert_eq!(at(61, 2), ["unit web.service is there, with 2 cgroups"]);
        assert!(at(62, 1).is_empty());
    }

    #[test]
    fn what_is_missing_at_the_start_is_said_at_once() {
        let mut presence = Presence::default();
        assert_eq!(presence.take(named(0), Instant::now()), [GONE]);
        assert_eq!(presence.rules()[0].cgroups, 0);
    }
}
