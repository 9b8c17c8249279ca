//! Plans in TOML.
//!
//! ```toml
//! name = "delay"             # optional
//! workload = "stream"        # stream, rr, crr, ping-under-load or udp
//! response = "goodput"
//! repetitions = 10
//! duration = "2s"
//! warm_up = "1s"
//!
//! [fixed]                    # held: setting = value
//! rate = "1gbit"
//!
//! [factors]                  # varied: setting = [levels]; the first is what others are compared with
//! delay = ["0", "5ms"]
//! "net.ipv4.tcp_timestamps" = [1, 0]
//! ```

use record::trial::Response;
use std::borrow::Cow;
use std::ops::Range;

use record::Nanos;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::Error;
use crate::fit::{self, Misfit, Place};
use crate::plan::{Factor, MOST_COMBINATIONS, Plan};
use crate::setting::{Refused, Setup};

const KEYS: [&str; 8] = ["name", "workload", "response", "repetitions", "duration", "warm_up", "fixed", "factors"];

/// Reads a plan. `file` is its name, for messages.
///
/// # Errors
/// [`Error::Plan`] with line and column: what is wrong there, and what would be right.
pub fn parse(file: &str, text: &str) -> Result<Plan, Error> {
    Reader { file, text }.plan()
}

/// A key and its value, each with its place in the file.
type Entry<'t, 'i> = (&'t Spanned<Cow<'i, str>>, &'t Spanned<DeValue<'i>>);

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
}

impl Reader<'_> {
    fn wrong(&self, at: Range<usize>, problem: impl Into<String>) -> Error {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        Error::Plan { file: self.file.into(), line, column, problem: problem.into() }
    }

    fn plan(&self) -> Result<Plan, Error> {
        let table = DeTable::parse(self.text)
            .map_err(|e| self.wrong(e.span().unwrap_or(0..0), e.message().to_owned()))?
            .into_inner();
        let mut plan = Plan {
            name: "plan".into(),
            factors: Vec::new(),
            fixed: Vec::new(),
            response: Response::Goodput,
            repetitions: 10,
            duration: Nanos::from_secs(2),
            warm_up: Nanos::from_secs(1),
            frames: 20_000,
            until: None,
        };
        let mut response = None;
        // Where each setting is, so that what does not fit the rest is shown there.
        let mut places: Vec<(Place, Range<usize>)> = Vec::new();
        for (key, value) in self.in_order(&table) {
            let name: &str = key.get_ref();
            match name {
                "fixed" | "factors" => {}
                "name" => plan.name = self.text_of(value)?,
                "workload" => {
                    let text = self.text_of(value)?;
                    self.set(&mut Setup::default(), ("workload", key.span()), (&text, value.span()))?;
                    plan.fixed.push(("workload".into(), text));
                }
                "response" => {
                    response = Some((self.text_of(value)?, value.span()));
                    places.push((Place::Response, value.span()));
                }
                "repetitions" => {
                    let text = self.text_of(value)?;
                    plan.repetitions = text.parse().ok().filter(|n| (1..=10_000).contains(n)).ok_or_else(|| {
                        self.wrong(value.span(), "repetitions must be a whole number from 1 to 10000")
                    })?;
                }
                "duration" => plan.duration = self.duration("duration", value)?,
                "warm_up" => {
                    plan.warm_up = self.duration("warm_up", value)?;
                    places.push((Place::WarmUp, value.span()));
                }
                _ => {
                    let nearest = quantity::nearest(name, KEYS).unwrap_or("name");
                    let problem = format!("there is no key {name:?} in a plan: did you mean `{nearest}`?");
                    return Err(self.wrong(key.span(), problem));
                }
            }
        }
        for (key, value) in self.section(&table, "fixed")? {
            let text = self.text_of(value)?;
            self.set(&mut Setup::default(), (key.get_ref(), key.span()), (&text, value.span()))?;
            self.sysctl(key)?;
            self.of_this_kernel(key, (&text, value.span()))?;
            places.push((Place::Setting(key.get_ref().to_string()), key.span()));
            plan.fixed.push((key.get_ref().to_string(), text));
        }
        for (key, value) in self.section(&table, "factors")? {
            let levels = value
                .get_ref()
                .as_array()
                .filter(|a| !a.is_empty())
                .ok_or_else(|| self.wrong(value.span(), "a factor has a list of levels, such as [1, 0]"))?;
            let mut factor = Factor { name: key.get_ref().to_string(), levels: Vec::new() };
            self.sysctl(key)?;
            places.push((Place::Setting(factor.name.clone()), key.span()));
            for level in levels {
                let text = self.text_of(level)?;
                self.set(&mut Setup::default(), (&factor.name, key.span()), (&text, level.span()))?;
                self.of_this_kernel(key, (&text, level.span()))?;
                if factor.levels.contains(&text) {
                    return Err(self.wrong(level.span(), format!("level {text:?} is there twice")));
                }
                factor.levels.push(text);
            }
            plan.factors.push(factor);
        }
        let workload = plan.fixed.iter().find(|(name, _)| name == "workload").map_or("stream", |(_, v)| v.as_str());
        let usual = if matches!(workload, "rr" | "crr") { Response::Transactions } else { Response::Goodput };
        // Datagrams are sent at their rate from the first one on.
        if workload == "udp" && !places.iter().any(|(place, _)| *place == Place::WarmUp) {
            plan.warm_up = Nanos::ZERO;
        }
        let (name, span) = response.unwrap_or_else(|| (usual.name().into(), 0..0));
        plan.response = fit::response(&name).map_err(|problem| self.wrong(span.clone(), problem))?;
        if plan.combinations() <= MOST_COMBINATIONS
            && let Some(Misfit { place, problem }) = fit::misfit(&plan)
        {
            // Of two places the later one is shown: what is set first is there to be seen.
            let at = places.iter().rfind(|(known, _)| *known == place).map_or(0..0, |(_, at)| at.clone());
            return Err(self.wrong(at, problem));
        }
        plan.check().map_err(|e| match e {
            Error::Setting(problem) => self.wrong(span.clone(), problem),
            other => self.wrong(0..0, other.to_string()),
        })?;
        Ok(plan)
    }

    /// A table's entries in the order of the file.
    fn in_order<'t, 'i>(&self, table: &'t DeTable<'i>) -> Vec<Entry<'t, 'i>> {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        entries
    }

    fn section<'t, 'i>(&self, table: &'t DeTable<'i>, name: &str) -> Result<Vec<Entry<'t, 'i>>, Error> {
        let Some((_, value)) = table.iter().find(|(key, _)| key.get_ref() == name) else { return Ok(Vec::new()) };
        let inner =
            value.get_ref().as_table().ok_or_else(|| self.wrong(value.span(), format!("[{name}] must be a table")))?;
        Ok(self.in_order(inner))
    }

    fn text_of(&self, value: &Spanned<DeValue<'_>>) -> Result<String, Error> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(n) => Ok(n.to_string()),
            DeValue::Float(n) => Ok(n.to_string()),
            DeValue::Boolean(b) => Ok(if *b { "on" } else { "off" }.into()),
            other => {
                Err(self.wrong(value.span(), format!("text or a number is needed here, not {}", other.type_str())))
            }
        }
    }

    fn duration(&self, name: &str, value: &Spanned<DeValue<'_>>) -> Result<Nanos, Error> {
        let text = self.text_of(value)?;
        let read = quantity::parse::duration(&text);
        read.map_err(|e| self.wrong(value.span(), format!("{name} {text:?}: {e}")))
    }

    /// Refuses a sysctl that this kernel does not have.
    fn sysctl(&self, key: &Spanned<Cow<'_, str>>) -> Result<(), Error> {
        let name: &str = key.get_ref();
        let is_one = name.trim_start_matches("a.").trim_start_matches("b.").starts_with("net.");
        match fit::unknown_sysctl(name).filter(|_| is_one) {
            Some(problem) => Err(self.wrong(key.span(), problem)),
            None => Ok(()),
        }
    }

    /// Refuses a value that this kernel would refuse in each trial.
    fn of_this_kernel(&self, key: &Spanned<Cow<'_, str>>, (value, at): (&str, Range<usize>)) -> Result<(), Error> {
        let name: &str = key.get_ref();
        let problem = match name {
            "congestion" => fit::unknown_congestion(value),
            "rival" if value != "none" => fit::unknown_congestion(value),
            _ if name.trim_start_matches("a.").trim_start_matches("b.").starts_with("net.") => {
                fit::unfit_sysctl(name, value)
            }
            _ => None,
        };
        problem.map_or(Ok(()), |problem| Err(self.wrong(at, problem)))
    }

    fn set(
        &self,
        setup: &mut Setup,
        (name, name_at): (&str, Range<usize>),
        (value, value_at): (&str, Range<usize>),
    ) -> Result<(), Error> {
        setup.set(name, value).map_err(|refused| match refused {
            Refused::Name(problem) => self.wrong(name_at, problem),
            Refused::Value(problem) => self.wrong(value_at, problem),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "workload = \"rr\"\nrepetitions = 4\nduration = \"500ms\"\n\n[fixed]\nrate = \"1gbit\"\n\n[factors]\n\
                        response = [1, 724]\n\"net.ipv4.tcp_timestamps\" = [1, 0]\n";

    #[test]
    fn a_plan_is_read_in_the_order_of_the_file() {
        let plan = parse("p.toml", GOOD).unwrap();
        assert_eq!(
            plan.factors.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(),
            ["response", "net.ipv4.tcp_timestamps"]
        );
        assert_eq!(
            (plan.repetitions, plan.duration, plan.response),
            (4, Nanos::from_millis(500), Response::Transactions)
        );
        assert_eq!(plan.factors[0].levels, ["1", "724"]);
    }

    #[test]
    fn what_is_wrong_is_reported_with_its_place_and_the_nearest_name() {
        for (from, to, place, advice) in [
            ("rate =", "rtae =", "p.toml:6:1", "`rate`"),
            ("response = [1", "respones = [1", "p.toml:9:1", "`response`"),
            ("repetitions", "repetition", "p.toml:2:1", "`repetitions`"),
            ("\"1gbit\"", "\"1 horse\"", "p.toml:6:8", "bit"),
            ("[1, 724]", "[1, 0]", "p.toml:9:16", "whole number"),
            ("[1, 724]", "[1, 1]", "p.toml:9:16", "twice"),
            ("[1, 724]", "7", "p.toml:9:12", "list"),
            ("[fixed]", "[fixed", "p.toml:5:7", ""),
        ] {
            let text = GOOD.replacen(from, to, 1);
            let error = parse("p.toml", &text).unwrap_err();
            assert!(error.is_wrong_use());
            let message = error.to_string();
            assert!(message.starts_with(place) && message.contains(advice), "{message}");
        }
    }

    #[test]
    fn what_does_not_fit_the_rest_of_the_plan_is_refused_where_it_is() {
        for (from, to, place, advice) in [
            // An rr plan measures no goodput, and a stream no transactions.
            ("repetitions = 4", "response = \"goodput\"", "p.toml:2:12", "needs workload = \"stream\""),
            (
                "workload = \"rr\"\n",
                "response = \"transactions\"\n",
                "p.toml:1:12",
                "needs workload = \"rr\" or \"crr\"",
            ),
            ("repetitions = 4", "response = \"transactoins\"", "p.toml:2:12", "did you mean `transactions`?"),
            ("rate = \"1gbit\"", "response = 5", "p.toml:9:1", "response is both held and varied"),
            ("rate = \"1gbit\"", "workload = \"crr\"", "p.toml:6:1", "workload is set twice"),
            (
                "rate = \"1gbit\"",
                "delay = \"5ms\"\nover = \"loopback\"",
                "p.toml:6:1",
                "delay changes nothing over loopback",
            ),
            ("\"net.ipv4.tcp_timestamps\"", "\"net.ipv4.tcp_timestmaps\"", "p.toml:10:1", "`net.ipv4.tcp_timestamps`"),
            ("workload = \"rr\"\n", "warm_up = \"100ms\"\n", "p.toml:1:11", "whole seconds, not 100ms"),
            (
                "rate = \"1gbit\"",
                "response_writes = 2",
                "p.toml:6:1",
                "2 writes need as many bytes, and a response here has 1",
            ),
            ("rate = \"1gbit\"", "request_writes = 2", "p.toml:6:1", "set request too"),
            ("rate = \"1gbit\"", "congestion = \"cubik\"", "p.toml:6:14", "did you mean `cubic`?"),
            ("[1, 0]", "[1, \"off\"]", "p.toml:10:33", "net.ipv4.tcp_timestamps holds numbers"),
        ] {
            let text = GOOD.replacen(from, to, 1);
            assert_ne!(text, GOOD, "{from}");
            let message = parse("p.toml", &text).unwrap_err().to_string();
            assert!(message.starts_with(&format!("{place}: ")) && message.contains(advice), "{text}\n{message}");
        }
        for (from, to, place, advice) in [
            ("rate = \"1gbit\"", "congestion = \"bbr\"", "p.toml:6:1", "congestion changes nothing of workload"),
            ("duration = \"500ms\"", "warm_up = \"1s\"", "p.toml:3:11", "without a warm-up"),
            ("rate = \"1gbit\"", "direction = \"both\"", "p.toml:6:1", "up or down"),
            ("duration = \"500ms\"", "response = \"transactions\"", "p.toml:3:12", "needs requests"),
            ("\"udp\"", "\"stream\"", "p.toml:9:1", "datagram_rate changes nothing without"),
        ] {
            let udp = GOOD.replacen("\"rr\"", "\"udp\"", 1).split("response = [1").next().unwrap().to_owned();
            let udp = udp + "datagram_rate = [\"1M\", \"2M\"]\n";
            assert!(
                parse("p.toml", &udp)
                    .is_ok_and(|plan| plan.response == Response::Goodput && plan.warm_up == Nanos::ZERO)
            );
            let message = parse("p.toml", &udp.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(message.starts_with(&format!("{place}: ")) && message.contains(advice), "{from}\n{message}");
        }
        // With exchanges the warm-up is as fine as the duration.
        assert!(parse("p.toml", &GOOD.replacen("repetitions = 4", "warm_up = \"100ms\"", 1)).is_ok());
    }
}
