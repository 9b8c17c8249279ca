//! Reads the configuration: every key is known, and what is wrong is shown with its line.

use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;

use record::{Leg, Nanos, Ratio};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Config, Otlp, Place, Port, Prometheus, Store, Tls};

/// What is wrong with a configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The file's name.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
    /// What is wrong there, and what would be right.
    pub problem: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.problem)
    }
}

impl std::error::Error for Wrong {}

const LISTEN: &str = "127.0.0.1:9956";
const SPOOL: &str = "/var/lib/wirelapse/spool";

/// Reads a configuration. `file` is its name, for messages.
///
/// # Errors
/// [`Wrong`]: the first thing that is wrong.
pub fn parse(file: &str, text: &str) -> Result<Config, Wrong> {
    let reader = Reader { file, text };
    let table =
        DeTable::parse(text).map_err(|e| reader.wrong(e.span().unwrap_or(0..0), e.message().to_owned()))?.into_inner();
    reader.config(&table)
}

/// The TCP port of a URL.
pub(super) fn port(url: &str) -> Option<u16> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let address = quantity::parse::address(authority).ok()?;
    address.port.or(match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    })
}

type Entry<'t, 'i> = (&'t Spanned<Cow<'i, str>>, &'t Spanned<DeValue<'i>>);

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
}

impl Reader<'_> {
    fn wrong(&self, at: Range<usize>, problem: impl Into<String>) -> Wrong {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        Wrong { file: self.file.into(), line, column, problem: problem.into() }
    }

    fn config(&self, table: &DeTable<'_>) -> Result<Config, Wrong> {
        const SECTIONS: [&str; 6] = ["host", "target", "histograms", "prometheus", "otlp", "store"];
        let mut config = Config::default();
        for (key, value) in self.entries(table, "in the configuration", &SECTIONS)? {
            match key.get_ref().as_ref() {
                "host" => config.host = Some(self.text_of(value)?),
                "target" => self.target(&mut config, self.table(key, value)?)?,
                "histograms" => self.histograms(&mut config, self.table(key, value)?)?,
                "prometheus" => config.prometheus = Some(self.prometheus(self.table(key, value)?)?),
                "otlp" => config.otlp = Some(self.otlp(key.span(), self.table(key, value)?)?),
                _ => config.store = Some(self.store(key.span(), self.table(key, value)?)?),
            }
        }
        Ok(config)
    }

    fn target(&self, config: &mut Config, table: &DeTable<'_>) -> Result<(), Wrong> {
        const KEYS: [&str; 8] = ["port", "peer", "cgroup", "program", "unit", "container", "sample", "max_connections"];
        let target = &mut config.target;
        for (key, value) in self.entries(table, "in [target]", &KEYS)? {
            let texts = || self.list(value);
            match key.get_ref().as_ref() {
                "port" => {
                    for (text, at) in texts()? {
                        target.ports.push(ports(&text).ok_or_else(|| {
                            self.wrong(at, format!("{text:?} is no port: write 443, or \"8000-8100\""))
                        })?);
                    }
                }
                "peer" => {
                    for (text, at) in texts()? {
                        let address = text.split_once('/').map_or(text.as_str(), |(address, _)| address);
                        if address.parse::<std::net::IpAddr>().is_err() {
                            return Err(self.wrong(
                                at,
                                format!("{text:?} is no network: write an address, or ADDRESS/BITS as in 10.0.0.0/8"),
                            ));
                        }
                        target.peers.push(text);
                    }
                }
                "cgroup" => target.cgroups = texts()?.into_iter().map(|(text, _)| PathBuf::from(text)).collect(),
                "program" => target.programs = texts()?.into_iter().map(|(text, _)| text).collect(),
                "unit" => target.units = texts()?.into_iter().map(|(text, _)| text).collect(),
                "container" => target.containers = texts()?.into_iter().map(|(text, _)| text).collect(),
                "sample" => target.sample = self.ratio(value)?,
                _ => target.max_connections = Some(self.whole(value, 1, 1 << 20)? as u32),
            }
        }
        Ok(())
    }

    fn histograms(&self, config: &mut Config, table: &DeTable<'_>) -> Result<(), Wrong> {
        const KEYS: [&str; 9] =
            ["stages", "peer", "ipv4_prefix", "ipv6_prefix", "port", "cgroup", "program", "max_series", "idle"];
        let histograms = &mut config.histograms;
        for (key, value) in self.entries(table, "in [histograms]", &KEYS)? {
            match key.get_ref().as_ref() {
                "stages" => {
                    // The NIC's clock is not that of the others.
                    let known: Vec<Leg> = Leg::ALL.into_iter().filter(|leg| *leg != Leg::Nic).collect();
                    let names: Vec<&str> = known.iter().map(|leg| leg.name()).collect();
                    histograms.stages.clear();
                    for (text, at) in self.list(value)? {
                        let leg = known.iter().find(|leg| leg.name() == text).ok_or_else(|| {
                            self.wrong(
                                at,
                                format!(
                                    "there is no stage {text:?}: did you mean `{}`?",
                                    quantity::nearest(&text, names.iter().copied()).unwrap_or_default()
                                ),
                            )
                        })?;
                        if !histograms.stages.contains(leg) {
                            histograms.stages.push(*leg);
                        }
                    }
                    if histograms.stages.is_empty() {
                        return Err(self.wrong(value.span(), "at least one stage is needed, such as [\"total\"]"));
                    }
                }
                "peer" => histograms.peer = self.flag(value)?,
                "ipv4_prefix" => histograms.ipv4_prefix = self.whole(value, 0, 32)? as u8,
                "ipv6_prefix" => histograms.ipv6_prefix = self.whole(value, 0, 128)? as u8,
                "port" => {
                    let text = self.text_of(value)?;
                    histograms.port = match text.as_str() {
                        "none" | "off" => Port::None,
                        "listening" => Port::Listening,
                        "all" => Port::All,
                        _ => return Err(self.wrong(value.span(), "port is \"none\", \"listening\" or \"all\"")),
                    };
                }
                "cgroup" => histograms.cgroup = self.flag(value)?,
                "program" => histograms.program = self.flag(value)?,
                "max_series" => histograms.max_series = self.whole(value, 1, 65_536)? as u32,
                _ => histograms.idle = self.duration(value, Nanos::from_secs(1))?,
            }
        }
        Ok(())
    }

    fn prometheus(&self, table: &DeTable<'_>) -> Result<Prometheus, Wrong> {
        let mut listen = None;
        let (mut token_file, mut tls) = (None, None);
        for (key, value) in self.entries(table, "in [prometheus]", &["listen", "token_file", "tls"])? {
            match key.get_ref().as_ref() {
                "listen" => {
                    let text = self.text_of(value)?;
                    listen = Some(text.parse::<SocketAddr>().map_err(|_| {
                        self.wrong(value.span(), format!("{text:?} is no address and port: write one as in {LISTEN:?}"))
                    })?);
                }
                "token_file" => token_file = Some(self.text_of(value)?.into()),
                _ => {
                    let table = self.table(key, value)?;
                    let (mut certificate, mut private) = (None, None);
                    for (key, value) in self.entries(table, "in tls", &["certificate", "key"])? {
                        let path = Some(PathBuf::from(self.text_of(value)?));
                        if key.get_ref() == "key" {
                            private = path;
                        } else {
                            certificate = path;
                        }
                    }
                    let (Some(certificate), Some(key)) = (certificate, private) else {
                        return Err(self.wrong(value.span(), "tls needs both: certificate and key, two PEM files"));
                    };
                    tls = Some(Tls { certificate, key });
                }
            }
        }
        let listen = match listen {
            Some(listen) => listen,
            None => LISTEN.parse().map_err(|_| self.wrong(0..0, "no address"))?,
        };
        Ok(Prometheus { listen, token_file, tls })
    }

    fn otlp(&self, at: Range<usize>, table: &DeTable<'_>) -> Result<Otlp, Wrong> {
        let (mut endpoint, mut interval) = (None, Nanos::from_secs(60));
        let mut headers = std::collections::BTreeMap::new();
        for (key, value) in self.entries(table, "in [otlp]", &["endpoint", "interval", "headers"])? {
            match key.get_ref().as_ref() {
                "endpoint" => {
                    let text = self.text_of(value)?;
                    let (scheme, rest) = text.split_once("://").unwrap_or(("", ""));
                    if !matches!(scheme, "http" | "https") || port(&text).is_none() {
                        return Err(self.wrong(
                            value.span(),
                            format!("{text:?} is no URL of a collector: write one as in \"http://127.0.0.1:4318\""),
                        ));
                    }
                    // As the OTLP exporters do: a URL without a path is that of the collector.
                    let path = rest.split_once('/').map_or("", |(_, path)| path);
                    endpoint = Some(match path {
                        "" => format!("{}/v1/metrics", text.trim_end_matches('/')),
                        _ => text,
                    });
                }
                "interval" => interval = self.duration(value, Nanos::from_secs(1))?,
                _ => {
                    for (name, value) in self.in_order(self.table(key, value)?) {
                        let text = self.text_of(value)?;
                        if name.get_ref().bytes().any(|b| !b.is_ascii_graphic() || b == b':')
                            || text.bytes().any(|b| b < 0x20 || b == 0x7f)
                        {
                            return Err(
                                self.wrong(name.span(), "a header's name or value has a character that it cannot have")
                            );
                        }
                        headers.insert(name.get_ref().to_string(), text);
                    }
                }
            }
        }
        let endpoint =
            endpoint.ok_or_else(|| self.wrong(at, "[otlp] needs endpoint, as in \"http://127.0.0.1:4318\""))?;
        Ok(Otlp { endpoint, interval, headers })
    }

    fn store(&self, at: Range<usize>, table: &DeTable<'_>) -> Result<Store, Wrong> {
        const KEYS: [&str; 7] = ["url", "spool", "rotate", "interval", "keep", "max_bytes", "sample"];
        let (mut url, mut spool) = (None, None);
        let mut store = Store {
            place: Place::Directory(PathBuf::new()),
            rotate: Nanos::from_secs(3600),
            interval: Nanos::from_secs(60),
            keep: None,
            max_bytes: 1 << 30,
            sample: None,
        };
        let mut rotate_at = at.clone();
        for (key, value) in self.entries(table, "in [store]", &KEYS)? {
            match key.get_ref().as_ref() {
                "url" => url = Some((self.text_of(value)?, value.span())),
                "spool" => spool = Some((PathBuf::from(self.text_of(value)?), key.span())),
                "rotate" => {
                    store.rotate = self.duration(value, Nanos::from_secs(1))?;
                    rotate_at = value.span();
                }
                "interval" => store.interval = self.duration(value, Nanos::from_secs(1))?,
                "keep" => store.keep = Some(self.duration(value, Nanos::from_secs(1))?),
                "max_bytes" => {
                    let text = self.text_of(value)?;
                    store.max_bytes = quantity::parse::bytes(&text)
                        .map_err(|e| self.wrong(value.span(), format!("{text:?}: {e}")))?;
                }
                _ => store.sample = Some(self.ratio(value)?),
            }
        }
        let (url, url_at) =
            url.ok_or_else(|| self.wrong(at, "[store] needs url: a directory, or s3://BUCKET/PREFIX"))?;
        store.place = if let Some(rest) = url.strip_prefix("s3://") {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            if bucket.is_empty() {
                return Err(self.wrong(url_at, format!("{url:?} names no bucket: write s3://BUCKET/PREFIX")));
            }
            let spool = spool.map_or_else(|| PathBuf::from(SPOOL), |(path, _)| path);
            Place::S3 { bucket: bucket.into(), prefix: prefix.trim_matches('/').into(), spool }
        } else {
            if let Some((_, at)) = spool {
                return Err(self.wrong(at, "spool is where runs wait for s3://…: a directory needs none"));
            }
            let path = url.strip_prefix("file://").unwrap_or(&url);
            if path.contains("://") || !path.starts_with('/') {
                return Err(self.wrong(
                    url_at,
                    format!("{url:?} is neither a directory, with its whole path, nor s3://BUCKET/PREFIX"),
                ));
            }
            Place::Directory(path.into())
        };
        if store.rotate < store.interval {
            return Err(self.wrong(rotate_at, "a run (rotate) is at least as long as an interval"));
        }
        Ok(store)
    }

    /// The entries of a table in the order of the file, each with a key that is known.
    fn entries<'t, 'i>(
        &self,
        table: &'t DeTable<'i>,
        place: &str,
        known: &[&str],
    ) -> Result<Vec<Entry<'t, 'i>>, Wrong> {
        let entries = self.in_order(table);
        match entries.iter().find(|(key, _)| !known.contains(&key.get_ref().as_ref())) {
            None => Ok(entries),
            Some((key, _)) => {
                let name: &str = key.get_ref();
                let nearest = quantity::nearest(name, known.iter().copied()).unwrap_or_default();
                Err(self.wrong(key.span(), format!("there is no key {name:?} {place}: did you mean `{nearest}`?")))
            }
        }
    }

    fn in_order<'t, 'i>(&self, table: &'t DeTable<'i>) -> Vec<Entry<'t, 'i>> {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        entries
    }

    fn table<'t, 'i>(
        &self,
        key: &Spanned<Cow<'i, str>>,
        value: &'t Spanned<DeValue<'i>>,
    ) -> Result<&'t DeTable<'i>, Wrong> {
        let table = value.get_ref().as_table();
        table.ok_or_else(|| self.wrong(value.span(), format!("{} is a table", key.get_ref())))
    }

    fn text_of(&self, value: &Spanned<DeValue<'_>>) -> Result<String, Wrong> {
        match value.get_ref() {
            DeValue::String(text) if text.is_empty() => Err(self.wrong(value.span(), "this is empty")),
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(n) => Ok(n.to_string()),
            DeValue::Float(n) => Ok(n.to_string()),
            other => {
                Err(self.wrong(value.span(), format!("text or a number is needed here, not {}", other.type_str())))
            }
        }
    }

    /// A list of texts; a single text is a list of one.
    fn list(&self, value: &Spanned<DeValue<'_>>) -> Result<Vec<(String, Range<usize>)>, Wrong> {
        match value.get_ref().as_array() {
            Some(array) => array.iter().map(|one| Ok((self.text_of(one)?, one.span()))).collect(),
            None => Ok(vec![(self.text_of(value)?, value.span())]),
        }
    }

    fn flag(&self, value: &Spanned<DeValue<'_>>) -> Result<bool, Wrong> {
        value.get_ref().as_bool().ok_or_else(|| self.wrong(value.span(), "true or false is needed here"))
    }

    fn whole(&self, value: &Spanned<DeValue<'_>>, least: u64, most: u64) -> Result<u64, Wrong> {
        let number = self.text_of(value)?.parse().ok().filter(|n| (least..=most).contains(n));
        number.ok_or_else(|| self.wrong(value.span(), format!("a whole number from {least} to {most} is needed here")))
    }

    fn duration(&self, value: &Spanned<DeValue<'_>>, least: Nanos) -> Result<Nanos, Wrong> {
        let text = self.text_of(value)?;
        let duration =
            quantity::parse::duration(&text).map_err(|e| self.wrong(value.span(), format!("{text:?}: {e}")))?;
        if duration < least {
            return Err(self
                .wrong(value.span(), format!("{text:?} is too short: at least {}", quantity::exact_duration(least))));
        }
        Ok(duration)
    }

    fn ratio(&self, value: &Spanned<DeValue<'_>>) -> Result<Ratio, Wrong> {
        let text = self.text_of(value)?;
        quantity::parse::ratio(&text).map_err(|e| self.wrong(value.span(), format!("{text:?}: {e}")))
    }
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
idle = "5m"
[prometheus]
listen = "127.0.0.1:9999"
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
"#;

    #[test]
    fn everything_is_read() {
        let config = parse("c.toml", WHOLE).unwrap();
        assert_eq!(config.target.ports, [(443, 443), (8000, 8100)]);
        assert_eq!(config.target.sample, "1/100".parse::<Ratio>().unwrap());
        assert_eq!(config.target.max_connections, Some(5000));
        assert_eq!(config.histograms.stages, [Leg::Tcp, Leg::Total]);
        assert_eq!((config.histograms.ipv4_prefix, config.histograms.port), (24, Port::Listening));
        assert_eq!(config.prometheus.as_ref().unwrap().listen.port(), 9999);
        let otlp = config.otlp.as_ref().unwrap();
        assert_eq!((otlp.endpoint.as_str(), config.otlp_port()), ("http://127.0.0.1:4318/v1/metrics", Some(4318)));
        assert!(!format!("{config:?}").contains("Bearer"), "a secret in a message");
        let store = config.store.as_ref().unwrap();
        assert_eq!((store.keep, store.max_bytes), (Some(Nanos::from_secs(30 * 86_400)), 10 << 30));
        assert_eq!(
            store.place,
            Place::S3 { bucket: "bucket".into(), prefix: "some/prefix".into(), spool: SPOOL.into() }
        );
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
                "[histograms]\nstages = [\"tcp\", \"totl\"]\n",
                "c.toml:2:18: there is no stage \"totl\": did you mean `total`?",
            ),
            ("[histograms]\nmax_series = 0\n", "c.toml:2:14: a whole number from 1 to 65536 is needed here"),
            ("[histograms]\nidle = \"0\"\n", "c.toml:2:8: \"0\" is too short: at least 1s"),
            ("[prometheus]\nlisten = \"9956\"\n", "c.toml:2:10: \"9956\" is no address and port"),
            ("[prometheus]\ntls = { key = \"a\" }\n", "c.toml:2:7: tls needs both"),
            ("[otlp]\ninterval = \"5s\"\n", "c.toml:1:2: [otlp] needs endpoint"),
            ("[otlp]\nendpoint = \"collector:4318\"\n", "c.toml:2:12: \"collector:4318\" is no URL"),
            ("[store]\nrotate = \"1h\"\n", "c.toml:1:2: [store] needs url"),
            ("[store]\nurl = \"gs://x\"\n", "c.toml:2:7: \"gs://x\" is neither a directory"),
            (
                "[store]\nurl = \"/x\"\nrotate = \"5s\"\n",
                "c.toml:3:10: a run (rotate) is at least as long as an interval",
            ),
            ("[store]\nurl = \"/x\"\nspool = \"/y\"\n", "c.toml:3:1: spool is where runs wait"),
            ("[target]\nport = \"8100-8000\"\n", "c.toml:2:8: \"8100-8000\" is no port"),
            ("[target]\npeer = [\"x\"]\n", "c.toml:2:9: \"x\" is no network"),
            ("[target]\nmax_connections = 0\n", "c.toml:2:19: a whole number from 1 to 1048576 is needed here"),
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
        assert_eq!(changed(":9999", ":9998"), ["[prometheus] listen, token_file and tls"]);
    }
}
