//! Reads the configuration: every key is known, and what is wrong is shown with its line.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use record::histogram::bucket_of;
use record::{Leg, Nanos, Question, Ratio};
use settings::{Table, Value, Wrong};
use summary::Trigger;

use super::{Asked, Config, Histograms, Kubernetes, Otlp, Place, Port, Prometheus, Recorder, Store, Target, Tls};

const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9956);
const SPOOL: &str = "/var/lib/wirelapse/spool";
const RECORDED: &str = "/var/lib/wirelapse/recorded";

/// Where the kubelet puts what a container needs to ask the API.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
const AUTHORITY: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

/// Classic buckets at most.
const MOST_BUCKETS: usize = 100;
/// The shortest duration that any setting takes.
const LEAST: Nanos = Nanos::from_secs(1);

/// Reads a configuration. `file` is its name, for messages.
///
/// # Errors
/// [`Wrong`]: the first thing that is wrong.
pub fn parse(file: &str, text: &str) -> Result<Config, Wrong> {
    settings::read(file, text, "the configuration", |file| {
        let mut config = Config::default();
        if let Some(host) = file.take("host") {
            config.host = Some(host.name()?);
        }
        if let Some(section) = file.take("target") {
            section.table("[target]", |keys| target(&mut config.target, keys))?;
        }
        if let Some(section) = file.take("histograms") {
            section.table("[histograms]", |keys| histograms(&mut config.histograms, config.target.sample, keys))?;
        }
        if let Some(section) = file.take("prometheus") {
            config.prometheus = Some(section.table("[prometheus]", prometheus)?);
        }
        if let Some(section) = file.take("otlp") {
            config.otlp = Some(section.table("[otlp]", otlp)?);
        }
        if let Some(section) = file.take("store") {
            config.store = Some(section.table("[store]", store)?);
        }
        if let Some(section) = file.take("kubernetes") {
            config.kubernetes = Some(section.table("[kubernetes]", kubernetes)?);
        }
        if let Some(section) = file.take("recorder") {
            config.recorder = Some(section.table("[recorder]", recorder)?);
        }
        Ok(config)
    })
}

/// The TCP port of a URL.
pub(crate) fn port(url: &str) -> Option<u16> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let address = quantity::parse::address(authority).ok()?;
    address.port.or(match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    })
}

/// A list, or one alone, each read by `parse`.
fn each<T>(value: Option<Value<'_>>, parse: impl Fn(&Value<'_>, String) -> Result<T, Wrong>) -> Result<Vec<T>, Wrong> {
    let values = value.map(Value::list_or_one).unwrap_or_default();
    values.iter().map(|value| parse(value, value.name()?)).collect()
}

fn target(target: &mut Target, keys: &mut Table<'_>) -> Result<(), Wrong> {
    let names = |value| each(value, |_, name| Ok(name));
    target.ports = each(keys.take("port"), |value, text| {
        ports(&text).ok_or_else(|| value.wrong(format!("{text:?} is not a port: write 443, or \"8000-8100\"")))
    })?;
    target.peers =
        each(keys.take("peer"), |value, text| {
            let address = text.split_once('/').map_or(text.as_str(), |(address, _)| address);
            match address.parse::<IpAddr>() {
                Ok(_) => Ok(text),
                Err(_) => Err(value
                    .wrong(format!("{text:?} is not a network: write an address, or ADDRESS/BITS as in 10.0.0.0/8"))),
            }
        })?;
    target.cgroups = each(keys.take("cgroup"), |_, path| Ok(path.into()))?;
    target.programs = names(keys.take("program"))?;
    target.units = names(keys.take("unit"))?;
    target.containers = names(keys.take("container"))?;
    if let Some(sample) = keys.take("sample") {
        target.sample = ratio(&sample)?;
    }
    if let Some(most) = keys.take("max_connections") {
        target.max_connections = Some(most.whole(1..=1 << 20)?);
    }
    Ok(())
}

fn histograms(histograms: &mut Histograms, sample: Ratio, keys: &mut Table<'_>) -> Result<(), Wrong> {
    if let Some(value) = keys.take("stages") {
        histograms.stages = stages(value)?;
    }
    if let Some(bits) = keys.take("ipv4_prefix") {
        histograms.ipv4_prefix = bits.whole(0..=32)? as u8;
    }
    if let Some(bits) = keys.take("ipv6_prefix") {
        histograms.ipv6_prefix = bits.whole(0..=128)? as u8;
    }
    if let Some(value) = keys.take("port") {
        histograms.port = match value.name()?.as_str() {
            "none" | "off" => Port::None,
            "listening" => Port::Listening,
            "all" => Port::All,
            _ => return Err(value.wrong("port is \"none\", \"listening\" or \"all\"")),
        };
    }
    let Histograms { peer, cgroup, program, connections, .. } = histograms;
    for (key, by) in [("peer", peer), ("cgroup", cgroup), ("program", program), ("connections", connections)] {
        if let Some(value) = keys.take(key) {
            *by = value.flag()?;
        }
    }
    if let Some(value) = keys.take("requests") {
        histograms.requests = match value.name()?.as_str() {
            "none" | "off" => Asked::None,
            "times" => Asked::Times,
            "http" => Asked::Http,
            _ => return Err(value.wrong("requests is \"none\", \"times\" or \"http\"")),
        };
        if histograms.requests != Asked::None && sample != Ratio::ALL {
            return Err(value.wrong("requests are known where every send is: leave out sample in [target]"));
        }
    }
    if let Some(value) = keys.take("dns") {
        histograms.dns = dns_ports(value)?;
    }
    if let Some(most) = keys.take("max_series") {
        histograms.max_series = most.whole(1..=65_536)?;
    }
    if let Some(most) = keys.take("busiest") {
        histograms.busiest = most.whole(1..=65_536)?;
    }
    if let Some(idle) = keys.take("idle") {
        histograms.idle = idle.duration(LEAST)?;
    }
    Ok(())
}

/// Ports of servers of DNS.
fn dns_ports(value: Value<'_>) -> Result<Vec<u16>, Wrong> {
    let at = value.at();
    let ports = value.list_or_one();
    if ports.len() > Question::MOST_PORTS {
        return Err(at.wrong(format!("at most {} ports can be named", Question::MOST_PORTS)));
    }
    ports.iter().map(|port| port.whole(1..=u16::MAX.into()).map(|port| port as u16)).collect()
}

fn stages(value: Value<'_>) -> Result<Vec<Leg>, Wrong> {
    // The NIC's clock is not that of the others.
    let known = || Leg::ALL.into_iter().filter(|leg| *leg != Leg::Nic);
    let at = value.at();
    let mut stages = Vec::new();
    for value in value.list_or_one() {
        let text = value.name()?;
        let leg = known().find(|leg| leg.name() == text).ok_or_else(|| {
            let near = quantity::nearest(&text, known().map(Leg::name)).unwrap_or_default();
            value.wrong(format!("there is no stage {text:?}: did you mean `{near}`?"))
        })?;
        if !stages.contains(&leg) {
            stages.push(leg);
        }
    }
    if stages.is_empty() {
        return Err(at.wrong("at least one stage is needed, such as [\"total\"]"));
    }
    Ok(stages)
}

fn prometheus(keys: &mut Table<'_>) -> Result<Prometheus, Wrong> {
    let mut prometheus =
        Prometheus { listen: LISTEN, token_file: None, tls: None, buckets: metrics::text::usual_bounds() };
    if let Some(value) = keys.take("listen") {
        let text = value.name()?;
        prometheus.listen = text.parse().map_err(|_| {
            value.wrong(format!("{text:?} is not an address with a port: write one as in \"{LISTEN}\""))
        })?;
    }
    if let Some(path) = keys.take("token_file") {
        prometheus.token_file = Some(path.name()?.into());
    }
    if let Some(value) = keys.take("tls") {
        prometheus.tls = Some(value.table("tls", |keys| {
            const BOTH: &str = "tls needs both: certificate and key, two PEM files";
            let certificate = keys.need("certificate", BOTH)?.name()?.into();
            Ok::<_, Wrong>(Tls { certificate, key: keys.need("key", BOTH)?.name()?.into() })
        })?);
    }
    if let Some(value) = keys.take("buckets") {
        let at = value.at();
        let values = value.list_or_one();
        let bounds = values.iter().map(|value| {
            let bound = value.duration(Nanos(1))?;
            bucket_of(bound).ok_or_else(|| value.wrong("a bound is longer than 0"))
        });
        prometheus.buckets = bounds.collect::<Result<_, Wrong>>()?;
        prometheus.buckets.sort_unstable();
        prometheus.buckets.dedup();
        if !(1..=MOST_BUCKETS).contains(&prometheus.buckets.len()) {
            return Err(at.wrong(format!("give 1 to {MOST_BUCKETS} bounds, as [\"100us\", \"1ms\", \"10ms\"]")));
        }
    }
    Ok(prometheus)
}

fn otlp(keys: &mut Table<'_>) -> Result<Otlp, Wrong> {
    let interval = keys.take("interval").map_or(Ok(Nanos::from_secs(60)), |value| value.duration(LEAST))?;
    let mut headers = BTreeMap::new();
    if let Some(value) = keys.take("headers") {
        value.table("headers", |keys| {
            for (key, value) in keys.rest() {
                let text = value.name()?;
                if key.name().bytes().any(|b| !b.is_ascii_graphic() || b == b':')
                    || text.bytes().any(|b| b < 0x20 || b == 0x7f)
                {
                    return Err(key.at().wrong("a header's name or value has a character that it cannot have"));
                }
                headers.insert(key.name().to_owned(), text);
            }
            Ok::<_, Wrong>(())
        })?;
    }
    let value = keys.need("endpoint", "[otlp] needs endpoint, as in \"http://127.0.0.1:4318\"")?;
    let text = value.name()?;
    let (scheme, rest) = text.split_once("://").unwrap_or(("", ""));
    if !matches!(scheme, "http" | "https") || port(&text).is_none() {
        return Err(
            value.wrong(format!("{text:?} is not the URL of a collector: write one as in \"http://127.0.0.1:4318\""))
        );
    }
    // As the OTLP exporters do: a URL without a path is that of the collector.
    let path = rest.split_once('/').map_or("", |(_, path)| path);
    let endpoint = match path {
        "" => format!("{}/v1/metrics", text.trim_end_matches('/')),
        _ => text,
    };
    Ok(Otlp { endpoint, interval, headers })
}

fn store(keys: &mut Table<'_>) -> Result<Store, Wrong> {
    let spool = keys.take("spool");
    let rotate = keys.take("rotate");
    let duration = |value: Option<Value<'_>>| value.map(|value| value.duration(LEAST)).transpose();
    let mut store = Store {
        place: Place::Directory(PathBuf::new()),
        rotate: Nanos::from_secs(7200),
        join: duration(keys.take("join"))?.unwrap_or(Nanos::from_secs(300)),
        interval: duration(keys.take("interval"))?.unwrap_or(Nanos::from_secs(60)),
        keep: duration(keys.take("keep"))?,
        max_bytes: keys.take("max_bytes").map_or(Ok(1 << 30), |value| value.parsed(quantity::parse::bytes))?,
        sample: keys.take("sample").map(|value| ratio(&value)).transpose()?,
    };
    if let Some(value) = &rotate {
        store.rotate = value.duration(LEAST)?;
    }
    if store.rotate < store.interval {
        let at = rotate.map_or(keys.at(), |value| value.at());
        return Err(at.wrong("a run (rotate) is at least as long as an interval"));
    }
    let value = keys.need("url", "[store] needs url: a directory, or s3://BUCKET/PREFIX")?;
    let url = value.name()?;
    store.place = if let Some(rest) = url.strip_prefix("s3://") {
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(value.wrong(format!("{url:?} names no bucket: write s3://BUCKET/PREFIX")));
        }
        let spool = spool.map_or(Ok(SPOOL.into()), |spool| spool.name())?;
        Place::S3 { bucket: bucket.into(), prefix: prefix.trim_matches('/').into(), spool: spool.into() }
    } else {
        if let Some(spool) = spool {
            return Err(spool.wrong("spool is where runs wait for s3://…: a directory needs none"));
        }
        let path = url.strip_prefix("file://").unwrap_or(&url);
        if path.contains("://") || !path.starts_with('/') {
            return Err(
                value.wrong(format!("{url:?} is neither an absolute path of a directory nor s3://BUCKET/PREFIX"))
            );
        }
        Place::Directory(path.into())
    };
    Ok(store)
}

fn kubernetes(keys: &mut Table<'_>) -> Result<Kubernetes, Wrong> {
    let path = |value: Option<Value<'_>>, usual: &str| value.map_or(Ok(usual.to_owned()), |value| value.name());
    let url = match keys.take("url") {
        None => None,
        Some(value) => {
            let text = value.name()?;
            if !(text.starts_with("http://") || text.starts_with("https://")) || port(&text).is_none() {
                return Err(value.wrong(format!("{text:?} is not the URL of an API: write https://HOST:PORT")));
            }
            Some(text)
        }
    };
    Ok(Kubernetes {
        url,
        token_file: path(keys.take("token_file"), TOKEN)?.into(),
        authority: path(keys.take("ca_file"), AUTHORITY)?.into(),
        labels: each(keys.take("labels"), |_, name| Ok(name))?,
    })
}

fn recorder(keys: &mut Table<'_>) -> Result<Recorder, Wrong> {
    let duration = |value: Option<Value<'_>>, usual| value.map_or(Ok(usual), |value| value.duration(LEAST));
    let bytes = |value: Option<Value<'_>>, usual| value.map_or(Ok(usual), |value| value.parsed(quantity::parse::bytes));
    let keep = duration(keys.take("keep"), Nanos::from_secs(30))?;
    let memory = bytes(keys.take("memory"), 128 << 20)?;
    let packets = keys.take("packets").map_or(Ok(false), |value| value.flag())?;
    let pause = duration(keys.take("pause"), Nanos::from_secs(600))?;
    let max_bytes = bytes(keys.take("max_bytes"), 1 << 30)?;
    let mut directory = PathBuf::from(RECORDED);
    if let Some(value) = keys.take("directory") {
        directory = value.name()?.into();
        if !directory.is_absolute() {
            return Err(value.wrong(format!("{:?} is not an absolute path of a directory", directory.display())));
        }
    }
    let value = keys.need("until", "[recorder] needs until, as in \"send > 40ms\"")?;
    let at = value.at();
    let until = each(Some(value), |value, text| Trigger::parse(&text).map_err(|why| value.wrong(why.to_string())))?;
    if until.is_empty() {
        return Err(at.wrong("at least one trigger is needed, such as [\"send > 40ms\"]"));
    }
    Ok(Recorder { until, keep, memory, packets, directory, pause, max_bytes })
}

fn ratio(value: &Value<'_>) -> Result<Ratio, Wrong> {
    value.parsed(quantity::parse::ratio)
}

fn ports(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first > 0 && first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
host = "web-1"
[target]
port = [443, "8000-8100"]
peer = "10.0.0.0/8"
sample = "1/100"
max_connections = 5000
[histograms]
stages = ["tcp", "total"]
peer = true
ipv4_prefix = 24
port = "listening"
max_series = 100
busiest = 50
idle = "5m"
dns = [53, 5353]
[prometheus]
listen = "127.0.0.1:9999"
buckets = ["1s", "125ms", "1ms", "1001us"]
token_file = "/etc/wirelapse/token"
tls = { certificate = "/a.pem", key = "/b.pem" }
[otlp]
endpoint = "http://127.0.0.1:4318"
interval = "30s"
headers = { authorization = "Bearer x" }
[store]
url = "s3://bucket/some/prefix/"
rotate = "1h"
keep = "30d"
max_bytes = "10GiB"
sample = "1/1000"
[recorder]
until = ["send > 40ms", "reset"]
keep = "10s"
memory = "64MiB"
packets = true
directory = "/srv/rare"
pause = "1m"
max_bytes = "5GiB"
"#;

    #[test]
    fn everything_is_read() {
        let config = parse("c.toml", WHOLE).unwrap();
        assert_eq!(config.target.ports, [(443, 443), (8000, 8100)]);
        assert_eq!(config.target.sample, "1/100".parse::<Ratio>().unwrap());
        assert_eq!(config.target.max_connections, Some(5000));
        assert_eq!(config.histograms.stages, [Leg::Tcp, Leg::Total]);
        assert_eq!((config.histograms.ipv4_prefix, config.histograms.port), (24, Port::Listening));
        let prometheus = config.prometheus.as_ref().unwrap();
        // A millisecond is below 2^(-79/8) s.
        assert_eq!((prometheus.listen.port(), &prometheus.buckets[..]), (9999, &[-79, -24, 0][..]));
        assert_eq!((config.histograms.max_series, config.histograms.busiest), (100, 50));
        assert_eq!(config.histograms.dns, [53, 5353]);
        let otlp = config.otlp.as_ref().unwrap();
        assert_eq!((otlp.endpoint.as_str(), config.otlp_port()), ("http://127.0.0.1:4318/v1/metrics", Some(4318)));
        assert!(!format!("{config:?}").contains("Bearer"), "a secret in a message");
        let store = config.store.as_ref().unwrap();
        assert_eq!((store.keep, store.max_bytes), (Some(Nanos::from_secs(30 * 86_400)), 10 << 30));
        assert_eq!(
            store.place,
            Place::S3 { bucket: "bucket".into(), prefix: "some/prefix".into(), spool: SPOOL.into() }
        );
        let until: Vec<_> = ["send > 40ms", "reset"].map(|text| Trigger::parse(text).unwrap()).into();
        let recorder = Recorder {
            until,
            keep: Nanos::from_secs(10),
            memory: 64 << 20,
            packets: true,
            directory: "/srv/rare".into(),
            pause: Nanos::from_secs(60),
            max_bytes: 5 << 30,
        };
        assert_eq!(config.recorder, Some(recorder));
    }

    #[test]
    fn an_empty_file_is_a_configuration() {
        assert_eq!(parse("c.toml", ""), Ok(Config::default()));
        let listen = parse("c.toml", "[prometheus]").unwrap().prometheus.unwrap().listen;
        assert!(listen.ip().is_loopback(), "loopback by default");
    }

    #[test]
    fn what_is_wrong_is_shown_with_its_line_and_the_nearest_name() {
        for (text, shown) in [
            (
                "[histogram]\n",
                "c.toml:1:2: there is no key \"histogram\" in the configuration: did you mean `histograms`?",
            ),
            (
                "[histograms]\npeer = true\nmax_serie = 3\n",
                "c.toml:3:1: there is no key \"max_serie\" in [histograms]: did you mean `max_series`?",
            ),
            (
                "[histograms]\nrequests = \"http\"\n[target]\nsample = \"1/10\"\n",
                "c.toml:2:12: requests are known where every send is: leave out sample in [target]",
            ),
            (
                "[histograms]\nstages = [\"tcp\", \"totl\"]\n",
                "c.toml:2:18: there is no stage \"totl\": did you mean `total`?",
            ),
            ("[histograms]\nmax_series = 0\n", "c.toml:2:14: a whole number from 1 to 65536 is needed here"),
            ("[histograms]\nidle = \"0\"\n", "c.toml:2:8: \"0\" is too short: at least 1s"),
            ("[histograms]\ndns = 70000\n", "c.toml:2:7: a whole number from 1 to 65535 is needed here"),
            ("[histograms]\ndns = [1, 2, 3, 4, 5, 6, 7, 8, 9]\n", "c.toml:2:7: at most 8 ports can be named"),
            ("[prometheus]\nlisten = \"9956\"\n", "c.toml:2:10: \"9956\" is not an address with a port"),
            ("[prometheus]\ntls = { key = \"a\" }\n", "c.toml:2:1: tls needs both"),
            ("[otlp]\ninterval = \"5s\"\n", "c.toml:1:2: [otlp] needs endpoint"),
            ("[otlp]\nendpoint = \"collector:4318\"\n", "c.toml:2:12: \"collector:4318\" is not the URL"),
            ("[store]\nrotate = \"1h\"\n", "c.toml:1:2: [store] needs url"),
            ("[store]\nurl = \"gs://x\"\n", "c.toml:2:7: \"gs://x\" is neither an absolute path of a directory"),
            (
                "[store]\nurl = \"/x\"\nrotate = \"5s\"\n",
                "c.toml:3:10: a run (rotate) is at least as long as an interval",
            ),
            ("[store]\nurl = \"/x\"\nspool = \"/y\"\n", "c.toml:3:9: spool is where runs wait"),
            ("[target]\nport = \"8100-8000\"\n", "c.toml:2:8: \"8100-8000\" is not a port"),
            ("[target]\npeer = [\"x\"]\n", "c.toml:2:9: \"x\" is not a network"),
            ("[target]\nmax_connections = 0\n", "c.toml:2:19: a whole number from 1 to 1048576 is needed here"),
            ("[recorder]\nkeep = \"5s\"\n", "c.toml:1:2: [recorder] needs until"),
            ("[recorder]\nuntil = [\"sned > 1s\"]\n", "c.toml:2:10: there is no trigger \"sned\""),
            ("[recorder]\nuntil = []\n", "c.toml:2:9: at least one trigger is needed"),
            (
                "[recorder]\nuntil = \"reset\"\ndirectory = \"x\"\n",
                "c.toml:3:13: \"x\" is not an absolute path of a directory",
            ),
            ("[target\n", "c.toml:1:"),
        ] {
            let error = parse("c.toml", text).unwrap_err().to_string();
            assert!(error.starts_with(shown), "{text:?}: {error}");
        }
    }

    #[test]
    fn what_needs_a_restart_is_known() {
        let old = parse("c", WHOLE).unwrap();
        let changed = |from: &str, to: &str| {
            assert!(WHOLE.contains(from));
            old.needs_restart(&parse("c", &WHOLE.replace(from, to)).unwrap())
        };
        assert_eq!(changed("\"30s\"", "\"40s\""), [""; 0]);
        assert_eq!(changed("10GiB", "1GiB"), [""; 0]);
        assert_eq!(changed("4318", "4319"), ["[otlp] the port of endpoint"]);
        assert_eq!(changed("max_series = 100", "max_series = 101"), ["[histograms]"]);
        assert_eq!(changed("5GiB", "6GiB"), ["[recorder]"]);
        assert_eq!(changed(":9999", ":9998"), ["[prometheus] listen, token_file, tls and buckets"]);
    }
}
