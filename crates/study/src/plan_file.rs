//! Plans in TOML.
//!
//! ```toml
//! name = "delay"             # optional
//! workload = "stream"        # stream, rr, crr, ping-under-load or udp
//! measure = "goodput"        # what the verdict is on
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

use record::Nanos;
use record::trial::Response;
use settings::{At, Key, Table, Value, Wrong};

use crate::fit::{self, Misfit, Place};
use crate::named::{Known, Setting};
use crate::plan::{Factor, MOST_COMBINATIONS, Plan};
use crate::setting::{Refused, Setup, Workload};
use crate::{Error, brought};

/// Reads a plan. `file` is its name, for messages.
///
/// # Errors
/// [`Error::Plan`] with line and column: what is wrong there, and what would be right.
pub fn parse(file: &str, text: &str) -> Result<Plan, Error> {
    settings::read(file, text, "a plan", |keys| plan(keys).map_err(Error::from))
}

/// Where the settings of a plan are, so that what does not fit the rest is shown there.
type Places<'a> = Vec<(Place, At<'a>)>;

fn plan(keys: &mut Table<'_>) -> Result<Plan, Wrong> {
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
    let mut places: Places<'_> = Vec::new();
    if let Some(value) = keys.take("name") {
        plan.name = value.text()?;
    }
    if let Some(value) = keys.take("workload") {
        let text = value.text()?;
        let workload = Setting::from(Known::Workload);
        set(&workload, value.at(), (&text, value.at()))?;
        plan.fixed.push((workload, text));
    }
    if let Some(value) = keys.take("repetitions") {
        plan.repetitions = value.whole(1..=10_000)?;
    }
    if let Some(value) = keys.take("duration") {
        plan.duration = value.duration(Nanos::ZERO)?;
    }
    if let Some(value) = keys.take("warm_up") {
        plan.warm_up = value.duration(Nanos::ZERO)?;
        places.push((Place::WarmUp, value.at()));
    }
    // Plans used to call it by the name of a setting.
    let response = keys.take("measure").or_else(|| keys.take("response"));
    if let Some(value) = &response {
        places.push((Place::Response, value.at()));
    }
    if let Some(section) = keys.take("fixed") {
        let held =
            section.table("[fixed]", |keys| keys.leaves().into_iter().map(fixed).collect::<Result<Vec<_>, _>>())?;
        for (key, setting, text) in held {
            places.push((Place::Setting(setting.clone()), key.at()));
            plan.fixed.push((setting, text));
        }
    }
    if let Some(section) = keys.take("factors") {
        let varied =
            section.table("[factors]", |keys| keys.leaves().into_iter().map(factor).collect::<Result<Vec<_>, _>>())?;
        for (key, factor) in varied {
            places.push((Place::Setting(factor.name.clone()), key.at()));
            plan.factors.push(factor);
        }
    }
    if let Some((key, _)) = keys.rest().into_iter().next() {
        return Err(misplaced(&key));
    }
    let workload = plan.workload();
    let usual = match workload {
        Workload::Rr | Workload::Crr => Response::Transactions,
        Workload::Stream | Workload::PingUnderLoad | Workload::Udp => Response::Goodput,
    };
    // Datagrams are sent at their rate from the first one on.
    if workload == Workload::Udp && !places.iter().any(|(place, _)| *place == Place::WarmUp) {
        plan.warm_up = Nanos::ZERO;
    }
    plan.response = match &response {
        Some(value) => fit::response(&value.text()?).map_err(|problem| value.wrong(problem))?,
        None => usual,
    };
    if plan.combinations() <= MOST_COMBINATIONS
        && let Some(Misfit { place, problem }) = fit::misfit(&plan)
    {
        // Of two places the later one is shown: what is set first is there to be seen.
        let at = places.iter().rfind(|(known, _)| *known == place).map_or(keys.at(), |(_, at)| *at);
        return Err(at.wrong(problem));
    }
    plan.check().map_err(|error| match (error, &response) {
        (Error::Setting(problem), Some(response)) => response.wrong(problem),
        (other, _) => keys.at().wrong(other.to_string()),
    })?;
    Ok(plan)
}

/// The keys that stand above [fixed].
const ABOVE: [&str; 7] = ["name", "workload", "measure", "repetitions", "duration", "warm_up", "fixed"];

/// A key above [fixed] that does not belong there, or is none.
fn misplaced(key: &Key<'_>) -> Wrong {
    let name = key.name();
    if name.parse::<Setting>().is_ok() || name == "net" {
        let problem = format!("{name} is a setting: write it below [fixed], or with a list of levels below [factors]");
        return key.at().wrong(problem);
    }
    match brought::answer(name) {
        Some(answer) => key.at().wrong(format!("there is no key {name:?} in a plan: {answer}")),
        None => key.unknown("key", ABOVE.into_iter().chain(["factors"])),
    }
}

/// A setting that is held.
fn fixed<'a>((key, value): (Key<'a>, Value<'a>)) -> Result<(Key<'a>, Setting, String), Wrong> {
    let setting = setting(&key)?;
    let text = value.text_or_switch()?;
    set(&setting, key.at(), (&text, value.at()))?;
    accepted(&setting, (&text, value.at()))?;
    Ok((key, setting, text))
}

/// A setting that is varied.
fn factor<'a>((key, value): (Key<'a>, Value<'a>)) -> Result<(Key<'a>, Factor), Wrong> {
    const LIST: &str = "a factor has a list of levels, such as [1, 0]; what is held is below [fixed]";
    let at = value.at();
    let levels = value.list(LIST)?;
    if levels.is_empty() {
        return Err(at.wrong(LIST));
    }
    let mut factor = Factor { name: setting(&key)?, levels: Vec::new() };
    for level in levels {
        let text = level.text_or_switch()?;
        set(&factor.name, key.at(), (&text, level.at()))?;
        accepted(&factor.name, (&text, level.at()))?;
        if factor.levels.contains(&text) {
            return Err(level.wrong(format!("level {text:?} is there twice")));
        }
        factor.levels.push(text);
    }
    Ok((key, factor))
}

/// The setting that a key names; refuses one that there is not, and a sysctl that this kernel does
/// not have.
fn setting(key: &Key<'_>) -> Result<Setting, Wrong> {
    let setting: Setting = key.name().parse().map_err(|refused| wrong(refused, key.at(), key.at()))?;
    match setting.sysctl().and_then(fit::unknown_sysctl) {
        Some(problem) => Err(key.at().wrong(problem)),
        None => Ok(setting),
    }
}

/// Refuses a value that this kernel would refuse in each trial.
fn accepted(setting: &Setting, (value, at): (&str, At<'_>)) -> Result<(), Wrong> {
    let problem = match setting {
        Setting::Known(Known::Congestion) => fit::unknown_congestion(value),
        Setting::Known(Known::Rival) if value != "none" => fit::unknown_congestion(value),
        Setting::Sysctl(_, sysctl) => fit::unfit_sysctl(sysctl, value),
        Setting::Known(_) => None,
    };
    problem.map_or(Ok(()), |problem| Err(at.wrong(problem)))
}

/// Refuses a value that a setting cannot have.
fn set(setting: &Setting, name_at: At<'_>, (value, value_at): (&str, At<'_>)) -> Result<(), Wrong> {
    Setup::default().set(setting, value).map_err(|refused| match refused {
        Refused::Value(problem) => value_at.wrong(brought::value(&setting.to_string(), value).unwrap_or(problem)),
        name => wrong(name, name_at, value_at),
    })
}

/// What was refused, where it is.
fn wrong(refused: Refused, name_at: At<'_>, value_at: At<'_>) -> Wrong {
    match refused {
        Refused::Name(problem) => name_at.wrong(problem),
        Refused::Value(problem) => value_at.wrong(problem),
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
            plan.factors.iter().map(|f| f.name.to_string()).collect::<Vec<_>>(),
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
