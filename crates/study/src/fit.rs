//! Whether the settings of a plan go together: found before anything is run, and said of the
//! setting that is wrong.

use record::Nanos;
use record::trial::Response;
use traffic::stream::Direction;

use crate::Error;
use crate::named::{Known, Setting, Sysctl};
use crate::plan::{MOST_COMBINATIONS, Plan};
use crate::setting::{Setup, Workload};

/// Where in a plan something does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A setting, held or varied.
    Setting(Setting),
    /// What the verdict is on; there is a setting of that name too.
    Response,
    /// The warm-up.
    WarmUp,
}

/// What does not fit, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Where.
    pub place: Place,
    /// What is wrong with it, and what would be right.
    pub problem: String,
}

/// What a stream always measures.
const OF_STREAMS: [Response; 12] = [
    Response::Goodput,
    Response::Retransmitted,
    Response::RoundTrip,
    Response::MinRoundTrip,
    Response::Queueing,
    Response::RttDeviation,
    Response::ReceiveWindow,
    Response::ReceiveSpace,
    Response::ReceiveBuffer,
    Response::ReceiveUsed,
    Response::SendBuffer,
    Response::CpuPerGigabyte,
];

/// What datagrams measure.
const OF_DATAGRAMS: [Response; 4] =
    [Response::Goodput, Response::DatagramsLost, Response::OneWayP50, Response::OneWayP99];

/// Settings that datagrams do not have.
const NOT_OF_DATAGRAMS: [Known; 12] = [
    Known::Socket,
    Known::Congestion,
    Known::Rival,
    Known::Flows,
    Known::Write,
    Known::Request,
    Known::Response,
    Known::RequestWrites,
    Known::ResponseWrites,
    Known::Think,
    Known::NotsentLowat,
    Known::Mss,
];
/// Settings that only datagrams have.
const ONLY_OF_DATAGRAMS: [Known; 2] = [Known::Datagram, Known::DatagramRate];

/// What requests and responses measure.
const OF_EXCHANGES: [Response; 3] = [Response::Transactions, Response::LatencyP50, Response::LatencyP99];

impl Plan {
    /// Whether every setting can be, before anything is run.
    ///
    /// # Errors
    /// [`Error::Setting`] with the first that cannot.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |text: &str| Err(Error::Setting(format!("{}: {text}", self.name)));
        if self.repetitions == 0 || self.duration == Nanos::ZERO {
            return wrong("at least one repetition of more than no time is needed");
        }
        if self.combinations() == 0 || self.combinations() > MOST_COMBINATIONS {
            return wrong("1 to 10,000 combinations of levels are needed");
        }
        for place in self.block(0, 0) {
            let setup = self.setup(&place.levels)?;
            setup.path.check()?;
            setup.options.validate()?;
        }
        match misfit(self) {
            Some(misfit) => wrong(&misfit.problem),
            None => Ok(()),
        }
    }
}

/// Finds the first thing of a plan that does not fit the rest of it. Settings by themselves, and
/// their number, are taken to be right.
pub fn misfit(plan: &Plan) -> Option<Misfit> {
    twice(plan)
        .or_else(|| over_loopback(plan))
        .or_else(|| datagrams(plan))
        .or_else(|| warm_up(plan))
        .or_else(|| writes(plan))
        .or_else(|| unmeasured(plan))
}

fn misfit_of(setting: impl Into<Setting>, problem: String) -> Option<Misfit> {
    Some(Misfit { place: Place::Setting(setting.into()), problem })
}

/// The response of a name.
///
/// # Errors
/// That there is none, with the nearest name.
pub fn response(name: &str) -> Result<Response, String> {
    let known = || Response::ALL.into_iter().map(Response::name);
    let near = || crate::brought::measure(name).or_else(|| quantity::near(name, known()));
    Response::from_name(name).ok_or_else(|| match near() {
        Some(near) => format!("no response {name:?}: did you mean `{near}`?"),
        None => format!("no response {name:?}: there are {}", known().collect::<Vec<_>>().join(", ")),
    })
}

/// A setting that is set in two places, of which one would win unseen.
fn twice(plan: &Plan) -> Option<Misfit> {
    let settings: Vec<&Setting> = plan.settings().collect();
    for factor in &plan.factors {
        if plan.fixed.iter().any(|(setting, _)| *setting == factor.name) {
            let name = &factor.name;
            let problem = format!("{name} is both held and varied: take it out of [fixed] or out of [factors]");
            return misfit_of(name.clone(), problem);
        }
    }
    let again = settings.iter().enumerate().find(|(i, setting)| settings[..*i].contains(setting))?.1;
    misfit_of((*again).clone(), format!("{again} is set twice: keep one of them"))
}

fn setups(plan: &Plan) -> impl Iterator<Item = Setup> {
    plan.block(0, 0).into_iter().filter_map(|place| plan.setup(&place.levels).ok())
}

/// A setting of the path that acts nowhere, or levels of one that are the same over loopback.
fn over_loopback(plan: &Plan) -> Option<Misfit> {
    let all = setups(plan).all(|setup| setup.loopback);
    let any = setups(plan).any(|setup| setup.loopback);
    let held = plan.fixed.iter().map(|(setting, _)| setting).filter(|_| all);
    let varied = plan.factors.iter().map(|f| &f.name).filter(|_| any);
    let of_the_path = |s: &&Setting| matches!(s, Setting::Known(known) if Known::OF_THE_PATH.contains(known));
    let setting = varied.chain(held).find(of_the_path)?;
    let problem = format!(
        "{setting} changes nothing over loopback, which does not pass the path: leave it out, or measure over = \"path\""
    );
    misfit_of(setting.clone(), problem)
}

/// Settings of TCP where all is datagrams, settings of datagrams where there are none, and
/// datagrams both ways at once.
fn datagrams(plan: &Plan) -> Option<Misfit> {
    let all = setups(plan).all(|setup| setup.workload == Workload::Udp);
    let any = setups(plan).any(|setup| setup.workload == Workload::Udp);
    let of_tcp = |setting: &Setting| match setting {
        Setting::Known(known) => NOT_OF_DATAGRAMS.contains(known),
        Setting::Sysctl(_, sysctl) => sysctl.is_of_tcp(),
    };
    if let Some(setting) = plan.settings().find(|setting| all && of_tcp(setting)) {
        let problem = format!("{setting} changes nothing of workload = \"udp\": leave it out");
        return misfit_of(setting.clone(), problem);
    }
    let of_datagrams = |s: &Setting| matches!(s, Setting::Known(known) if ONLY_OF_DATAGRAMS.contains(known));
    if let Some(setting) = plan.settings().find(|setting| !any && of_datagrams(setting)) {
        let problem = format!("{setting} changes nothing without workload = \"udp\": leave it out");
        return misfit_of(setting.clone(), problem);
    }
    if all && plan.warm_up > Nanos::ZERO {
        let problem = "udp sends at its rate from the first datagram on, without a warm-up: leave it out".to_owned();
        return Some(Misfit { place: Place::WarmUp, problem });
    }
    let both = setups(plan).any(|s| s.workload == Workload::Udp && s.direction == Some(Direction::Both));
    let problem = "udp sends one way at a time: direction is up or down".to_owned();
    if both { misfit_of(Known::Direction, problem) } else { None }
}

/// The protocol of a stream counts its warm-up in seconds.
fn warm_up(plan: &Plan) -> Option<Misfit> {
    let streams = setups(plan).any(|setup| setup.workload == Workload::Stream);
    let whole = plan.warm_up.0.is_multiple_of(1_000_000_000);
    if !streams || whole {
        return None;
    }
    let text = quantity::exact_duration(plan.warm_up);
    let problem = format!("the warm-up of a stream takes whole seconds, not {text}: write 0s, 1s or 2s");
    Some(Misfit { place: Place::WarmUp, problem })
}

/// A message that has fewer bytes than the writes it is split into.
fn writes(plan: &Plan) -> Option<Misfit> {
    let exchanges = setups(plan).filter(|setup| matches!(setup.workload, Workload::Rr | Workload::Crr));
    exchanges.map(|setup| setup.exchange).find_map(|e| {
        let request = (Known::Request, e.request_bytes, Known::RequestWrites, e.request_writes);
        let response = (Known::Response, e.response_bytes, Known::ResponseWrites, e.response_writes);
        let (what, bytes, split, writes) =
            [request, response].into_iter().find(|(_, bytes, _, writes)| writes > bytes)?;
        let (what, name) = (what.name(), split.name());
        let problem =
            format!("{name}: {writes} writes need as many bytes, and a {what} here has {bytes}: set {what} too");
        misfit_of(split, problem)
    })
}

/// A response that some combination does not give.
fn unmeasured(plan: &Plan) -> Option<Misfit> {
    let response = plan.response;
    let (problem, workload) = setups(plan).find_map(|setup| Some((lacks(&setup, response)?, setup.workload)))?;
    let of = match workload {
        Workload::Rr | Workload::Crr => OF_EXCHANGES.to_vec(),
        Workload::Stream => OF_STREAMS.to_vec(),
        Workload::Udp => OF_DATAGRAMS.to_vec(),
        Workload::PingUnderLoad => OF_STREAMS.into_iter().chain([Response::LatencyP50, Response::LatencyP99]).collect(),
    };
    let of: Vec<&str> = of.into_iter().map(Response::name).collect();
    let problem = format!("response {:?} {problem}; this workload always measures {}", response.name(), of.join(", "));
    Some(Misfit { place: Place::Response, problem })
}

/// Why a combination has no such response.
fn lacks(setup: &Setup, response: Response) -> Option<&'static str> {
    let streams = matches!(setup.workload, Workload::Stream | Workload::PingUnderLoad);
    let both = match (setup.direction, setup.workload) {
        (Some(direction), _) => direction == Direction::Both,
        (None, workload) => workload == Workload::PingUnderLoad,
    };
    let rival = setup.rival.is_some() && setup.workload == Workload::Stream;
    let datagrams = setup.workload == Workload::Udp;
    match response {
        Response::Goodput if datagrams => None,
        Response::OneWayP50 | Response::OneWayP99 if datagrams && setup.real => {
            Some("needs one clock for both ends, which two hosts do not have")
        }
        Response::DatagramsLost | Response::OneWayP50 | Response::OneWayP99 if datagrams => None,
        Response::DatagramsLost | Response::OneWayP50 | Response::OneWayP99 => Some("needs workload = \"udp\""),
        Response::Transactions | Response::LatencyP50 | Response::LatencyP99 if datagrams => {
            Some("needs requests, which udp has not")
        }
        Response::Transactions if streams => Some("needs workload = \"rr\" or \"crr\""),
        Response::LatencyP50 | Response::LatencyP99 if setup.workload == Workload::Stream => {
            Some("needs workload = \"rr\", \"crr\" or \"ping-under-load\"")
        }
        Response::Transactions | Response::LatencyP50 | Response::LatencyP99 => None,
        _ if !streams => Some("needs workload = \"stream\" or \"ping-under-load\""),
        Response::GoodputDown if !both => Some("needs direction = \"both\""),
        Response::RivalShare if !rival => Some("needs a rival and workload = \"stream\""),
        Response::Fairness if !rival && (setup.flows < 2 || both) => {
            Some("needs a rival, or several flows in one direction")
        }
        _ => None,
    }
}

/// Why this kernel does not have a sysctl, with the nearest name that it has. `None` where it has
/// it, or cannot be asked.
///
/// Settings of an interface are looked up for all interfaces, as a host of a lab has others than
/// this machine.
pub fn unknown_sysctl(sysctl: &Sysctl) -> Option<String> {
    let sysctl = sysctl.name();
    let mut steps: Vec<&str> = sysctl.split('.').collect();
    if let ["net", "ipv4" | "ipv6", "conf" | "neigh", interface, ..] = steps[..]
        && interface != "all"
        && steps.len() > 4
    {
        steps[3] = "default";
    }
    let mut directory = std::path::PathBuf::from("/proc/sys");
    for (i, step) in steps.iter().enumerate() {
        let path = directory.join(step);
        if path.exists() {
            directory = path;
            continue;
        }
        let entries = std::fs::read_dir(&directory).ok()?;
        let names: Vec<String> = entries.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
        let advice = match quantity::near(step, names.iter().map(String::as_str)) {
            Some(near) => {
                let whole = [&steps[..i], &[near], &steps[i + 1..]].concat().join(".");
                format!("did you mean `{whole}`?")
            }
            None => "`sysctl -a` lists those that there are".into(),
        };
        return Some(format!("this kernel has no sysctl {sysctl:?}: {advice}"));
    }
    directory.is_dir().then(|| format!("{sysctl:?} is a group of sysctls: name one in it"))
}

/// Why this kernel has no such congestion control, with the nearest name. `None` where it has it,
/// loads it, or cannot be asked.
pub fn unknown_congestion(name: &str) -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").ok()?;
    if text.split_whitespace().any(|known| known == name) {
        return None;
    }
    // One that is a module comes with the first socket of root that asks for it; a plan that is
    // only looked at loads none.
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let modules = std::fs::read_to_string(format!("/lib/modules/{release}/modules.dep")).unwrap_or_default();
    if modules.contains(&format!("/tcp_{name}.ko")) {
        return None;
    }
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).ok()?;
    if rustix::net::sockopt::set_tcp_congestion(&socket, name) != Err(rustix::io::Errno::NOENT) {
        return None;
    }
    let advice = match quantity::near(name, text.split_whitespace()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", text.split_whitespace().collect::<Vec<_>>().join(", ")),
    };
    Some(format!("this kernel has no congestion control {name:?}: {advice}"))
}

/// Why a sysctl cannot have a value: text for one that holds whole numbers, or a congestion control
/// that there is not. What else the kernel refuses shows when it is set.
pub fn unfit_sysctl(sysctl: &Sysctl, value: &str) -> Option<String> {
    if *sysctl == Sysctl::CONGESTION_CONTROL {
        return unknown_congestion(value);
    }
    let now = std::fs::read_to_string(sysctl.path()).ok()?;
    let mut held = now.split_whitespace().peekable();
    held.peek()?;
    // Ranges, lists and masks of some sysctls are written with these too, and may be one plain
    // number now.
    let number = |c: char| c.is_ascii_hexdigit() || c.is_whitespace() || "xX,-+".contains(c);
    if !held.all(|text| text.parse::<i64>().is_ok()) || (value.chars().all(number) && !value.trim().is_empty()) {
        return None;
    }
    let now = now.split_whitespace().collect::<Vec<_>>().join(" ");
    let switch = match value {
        "on" => ": write 1",
        "off" => ": write 0",
        _ => "",
    };
    Some(format!("{sysctl} holds numbers ({now} on this machine), not {value:?}{switch}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sysctl(name: &str) -> Sysctl {
        Sysctl::new(name).unwrap()
    }

    #[test]
    fn sysctls_are_those_of_this_kernel() {
        assert_eq!(unknown_sysctl(&sysctl("net.ipv4.tcp_timestamps")), None);
        assert_eq!(unknown_sysctl(&sysctl("net.ipv4.conf.some_interface.rp_filter")), None);
        let said = unknown_sysctl(&sysctl("net.ipv4.tcp_timestmaps")).unwrap();
        assert!(said.contains("did you mean `net.ipv4.tcp_timestamps`?"), "{said}");
        assert!(unknown_sysctl(&sysctl("net.ipv4")).unwrap().contains("group"));
        assert!(unknown_sysctl(&sysctl("net.zzzzzzzzzzzz.x")).unwrap().contains("sysctl -a"));
    }

    #[test]
    fn congestion_controls_and_values_of_sysctls_are_those_that_this_kernel_takes() {
        for name in ["reno", "cubic"] {
            assert_eq!(unknown_congestion(name), None);
        }
        assert!(unknown_congestion("renp").unwrap().contains("did you mean `reno`?"));
        assert!(unknown_congestion("zzzzzzzzzzzz").unwrap().contains("there are "));
        for (name, value) in [
            ("net.ipv4.tcp_sack", "0"),
            ("net.ipv4.tcp_rmem", "4096 131072 6291456"),
            ("net.ipv4.ip_local_port_range", "0x8000 61000"),
            ("net.ipv4.tcp_congestion_control", "reno"),
            ("net.core.default_qdisc", "fq"),
            ("net.ipv4.no_such", "text"),
        ] {
            assert_eq!(unfit_sysctl(&sysctl(name), value), None, "{name}");
        }
        for (name, value, advice) in [
            ("net.ipv4.tcp_sack", "on", "holds numbers (1 on this machine), not \"on\""),
            ("net.ipv4.tcp_rmem", "small", "net.ipv4.tcp_rmem holds numbers"),
            ("net.ipv4.tcp_sack", "", "not \"\""),
            ("net.ipv4.tcp_congestion_control", "renp", "`reno`"),
        ] {
            let said = unfit_sysctl(&sysctl(name), value).unwrap();
            assert!(said.contains(advice), "{said}");
        }
    }
}
