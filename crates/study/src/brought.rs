//! Names that people bring from other tools, and what they are called here.

/// A name of another tool and what says the same in a plan.
const KNOWN: [(&str, &str); 56] = [
    // iperf3, by its options and by the keys of its JSON.
    ("parallel", "`flows`"),
    ("num_streams", "`flows`"),
    ("streams", "`flows`"),
    ("connections", "`flows`, which stream and ping-under-load have"),
    ("len", "`write` for a stream, `datagram` for datagrams"),
    ("length", "`write` for a stream, `datagram` for datagrams"),
    ("blksize", "`write` for a stream, `datagram` for datagrams"),
    ("block_size", "`write` for a stream, `datagram` for datagrams"),
    ("window", "`send_buffer` and `receive_buffer`"),
    ("sndbuf", "`send_buffer`"),
    ("rcvbuf", "`receive_buffer`"),
    ("so_sndbuf", "`send_buffer`"),
    ("so_rcvbuf", "`receive_buffer`"),
    ("bitrate", "`rate` for the path, `datagram_rate` for the sender of datagrams"),
    ("bandwidth", "`rate` for the path, `datagram_rate` for the sender of datagrams"),
    ("set_mss", "`mss`"),
    ("mtu_size", "`mtu`"),
    ("tos", "`dscp`, the upper six bits of it"),
    ("traffic_class", "`dscp`, the upper six bits of it"),
    ("congestion_control", "`congestion`"),
    ("cc", "`congestion`"),
    ("tcp_congestion", "`congestion`"),
    ("nodelay", "`socket = [\"default\", \"nodelay\"]`"),
    ("no_delay", "`socket = [\"default\", \"nodelay\"]`"),
    ("tcp_nodelay", "`socket = [\"default\", \"nodelay\"]`"),
    ("nagle", "`socket = [\"default\", \"nodelay\"]`"),
    ("cork", "`socket = [\"default\", \"cork\"]`"),
    ("tcp_cork", "`socket = [\"default\", \"cork\"]`"),
    ("quickack", "`socket = [\"default\", \"quickack\"]`"),
    ("tcp_quickack", "`socket = [\"default\", \"quickack\"]`"),
    ("udp", "`workload = \"udp\"`"),
    ("reverse", "`direction = \"down\"`"),
    ("bidir", "`direction = \"both\"`"),
    ("bidirectional", "`direction = \"both\"`"),
    ("version4", "`family = \"ipv4\"`"),
    ("version6", "`family = \"ipv6\"`"),
    ("ipv6", "`family = \"ipv6\"`"),
    ("ip_version", "`family = \"ipv4\"` or `family = \"ipv6\"`"),
    // netem and tbf.
    ("latency", "`delay`, which is one way"),
    ("rtt", "`delay`, which is one way: half of the round trip for both directions"),
    ("round_trip", "`delay`, which is one way: half of the round trip for both directions"),
    ("distribution", "`jitter_shape`"),
    ("correlation", "`jitter_memory`"),
    ("limit", "`queue`, in bytes or in time"),
    ("buffer", "`queue`, in bytes or in time"),
    ("gemodel", "`burst_loss`"),
    ("loss_burst", "`burst_loss`"),
    ("packet_loss", "`loss`"),
    ("dup", "`duplicate`"),
    ("aqm", "`qdisc`"),
    ("gso", "`offloads`"),
    ("tso", "`offloads`"),
    // What stands above [fixed].
    ("time", "`duration`, above [fixed]"),
    ("omit", "`warm_up`, above [fixed]"),
    ("runs", "`repetitions`, above [fixed]"),
    ("metric", "`measure`, above [fixed]"),
];

/// What says in a plan what `name` says elsewhere.
pub fn answer(name: &str) -> Option<String> {
    let plain = name.trim_start_matches('-').to_ascii_lowercase().replace('-', "_");
    if let Some((_, here)) = KNOWN.iter().find(|(known, _)| *known == plain) {
        return Some(format!("it is {here} here"));
    }
    // A sysctl without the way to it.
    ["net.ipv4", "net.core", "net.ipv6"].into_iter().find_map(|group| {
        let file = std::path::Path::new("/proc/sys").join(group.replace('.', "/")).join(&plain);
        let is_name = !plain.is_empty() && !plain.contains('/');
        (is_name && file.is_file()).then(|| format!("the sysctl is \"{group}.{plain}\", within quotation marks"))
    })
}

/// A sysctl with dots, where it is written with slashes as in `/proc/sys`.
pub fn dotted(name: &str) -> Option<String> {
    let path = name.trim_start_matches("/proc/sys/");
    (path.starts_with("net/") || ["a.net/", "b.net/"].iter().any(|start| path.starts_with(start)))
        .then(|| path.replace('/', "."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::{Setup, names};

    #[test]
    fn every_answer_names_a_setting_that_there_is() {
        let above = ["duration", "warm_up", "repetitions", "measure"];
        for (known, here) in KNOWN {
            assert!(!names().any(|setting| setting == known), "{known}");
            let said = here.split('`').nth(1).unwrap();
            let (name, value) = said.split_once(" = ").unwrap_or((said, ""));
            assert!(names().any(|setting| setting == name) || above.contains(&name), "{known}: {name}");
            for value in value.trim_matches(['[', ']']).split(", ").filter(|value| !value.is_empty()) {
                assert_eq!(Setup::default().set(name, value.trim_matches('"')), Ok(()), "{known}: {said}");
            }
        }
        assert_eq!(answer("--parallel"), Some("it is `flows` here".into()));
        assert_eq!(
            answer("tcp_timestamps").unwrap(),
            "the sysctl is \"net.ipv4.tcp_timestamps\", within quotation marks"
        );
        assert_eq!(answer("somaxconn").unwrap(), "the sysctl is \"net.core.somaxconn\", within quotation marks");
        assert_eq!((answer("zzzz"), answer("")), (None, None));
        assert_eq!(dotted("net/ipv4/tcp_sack").as_deref(), Some("net.ipv4.tcp_sack"));
        assert_eq!(
            (dotted("/proc/sys/net/core/somaxconn").as_deref(), dotted("delay")),
            (Some("net.core.somaxconn"), None)
        );
    }
}
