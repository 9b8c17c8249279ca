//! Plans as people write them who know iperf3, netem, tc, flent, netperf, sysctl and TOML, but not
//! the plans of this program: each is read, or answered with what to write, and reads once that is
//! written.

use study::plan_file::parse;

/// What is said of a plan, and what is written then: parts of it and what takes their place.
type Answer<'a> = (&'a str, &'a [(&'a str, &'a str)]);

fn answered(plan: &str, (said, instead): Answer<'_>) {
    match parse("p.toml", plan) {
        Ok(_) => assert_eq!("", said, "{plan}"),
        Err(error) => assert_eq!(error.to_string(), said, "{plan}"),
    }
    let mended = instead.iter().fold(plan.to_owned(), |plan, (from, to)| {
        assert!(plan.contains(from), "{plan}: {from}");
        plan.replacen(from, to, 1)
    });
    assert!(parse("p.toml", &mended).is_ok(), "{mended}: {:?}", parse("p.toml", &mended).err());
}

const PATH: &str = "[fixed]\nrate = \"1gbit\"\ndelay = \"5ms\"\n";

#[test]
fn plans_of_people_who_know_iperf3_and_netperf() {
    for (plan, said, instead) in [
        (
            "time = 10\nparallel = 4\n[factors]\ndelay = [\"1ms\", \"10ms\"]\n",
            "p.toml:1:1: there is no key \"time\" in a plan: here it is `duration`, above [fixed]",
            &[("time = 10", "duration = \"10s\""), ("parallel = 4\n", "[fixed]\nflows = 4\n")][..],
        ),
        (
            "[fixed]\nnum_streams = 4\n[factors]\nblksize = [\"8K\", \"128K\"]\n",
            "p.toml:2:1: there is no setting \"num_streams\": here it is `flows`",
            &[("num_streams", "flows"), ("blksize", "write")],
        ),
        (
            "workload = \"udp\"\n[fixed]\nbitrate = \"10M\"\n[factors]\nlen = [200, 1200]\n",
            "p.toml:3:1: there is no setting \"bitrate\": here it is `rate` for the path, `datagram_rate` for the sender of datagrams",
            &[("bitrate", "datagram_rate"), ("len", "datagram")],
        ),
        (
            "[fixed]\nreverse = true\n[factors]\ncongestion = [\"cubic\", \"reno\"]\n",
            "p.toml:2:1: there is no setting \"reverse\": here it is `direction = \"down\"`",
            &[("reverse = true", "direction = \"down\"")],
        ),
        (
            "duration = 10\n[factors]\ndelay = [\"1ms\", \"10ms\"]\n",
            "p.toml:1:12: \"10\": the unit is missing; write a time such as 500ms, 10s, 5m, 1h or 30d",
            &[("10\n", "\"10s\"\n")],
        ),
        (
            "[factors]\nwindow = [\"64K\", \"1M\"]\n",
            "p.toml:2:1: there is no setting \"window\": here it is `send_buffer` and `receive_buffer`",
            &[("window", "receive_buffer")],
        ),
        (
            "workload = \"TCP_RR\"\n[factors]\nrequest_size = [1, 1000]\n",
            "p.toml:1:12: workload \"TCP_RR\": here that is `workload = \"rr\"`",
            &[("TCP_RR", "rr"), ("request_size", "request")],
        ),
        (
            "workload = \"rr\"\n[factors]\nTCP_NODELAY = [0, 1]\n",
            "p.toml:3:1: there is no setting \"TCP_NODELAY\": here it is `socket = [\"default\", \"nodelay\"]`",
            &[("TCP_NODELAY = [0, 1]", "socket = [\"default\", \"nodelay\"]")],
        ),
        (
            "measure = \"throughput\"\n[factors]\ndelay = [\"1ms\", \"10ms\"]\n",
            "p.toml:1:11: no response \"throughput\": did you mean `goodput`?",
            &[("throughput", "goodput")],
        ),
        (
            "workload = \"rr\"\nmeasure = \"p99\"\n[factors]\ndelay = [\"1ms\", \"10ms\"]\n",
            "p.toml:2:11: no response \"p99\": did you mean `latency_p99`?",
            &[("p99", "latency_p99")],
        ),
    ] {
        answered(plan, (said, instead));
    }
}

#[test]
fn plans_of_people_who_know_netem_tc_and_flent() {
    for (plan, said, instead) in [
        (
            "[fixed]\ndelay = \"10ms 2ms 25% distribution normal\"\n",
            "p.toml:2:9: each has a setting here: `delay = \"10ms\"`, `jitter = \"2ms\"`, `jitter_memory = \"25%\"`, `jitter_shape = \"normal\"`",
            &[(
                "delay = \"10ms 2ms 25% distribution normal\"",
                "delay = \"10ms\"\njitter = \"2ms\"\njitter_memory = \"25%\"\njitter_shape = \"normal\"",
            )][..],
        ),
        (
            "[fixed]\nnetem = \"delay 20ms loss 1%\"\n",
            "p.toml:2:1: there is no setting \"netem\": each of its words is a setting: `delay`, `jitter`, `loss`, `duplicate`, `reorder`, `rate`",
            &[("netem = \"delay 20ms loss 1%\"", "delay = \"20ms\"\nloss = \"1%\"")],
        ),
        (
            "[factors]\nloss = [\"0%\", \"gemodel 1% 10%\"]\n",
            "p.toml:2:15: here that is `burst_loss = \"1%,10%,100%,0%\"`",
            &[("loss = [\"0%\", \"gemodel 1% 10%\"]", "burst_loss = [\"none\", \"1%,10%,100%,0%\"]")],
        ),
        (
            "[fixed]\ndelay = 10\n",
            "p.toml:2:9: delay \"10\": the unit is missing; write a time such as 500ms, 10s, 5m, 1h or 30d",
            &[("10", "\"10ms\"")],
        ),
        (
            "[factors]\nloss = [0, 0.1]\n",
            "p.toml:2:12: loss \"0.1\": the unit is missing; write a share from 0% to 100% such as 0.5%",
            &[("0.1", "\"0.1%\"")],
        ),
        (
            "[fixed]\nrate = \"10mbit\"\nburst = \"32kbit\"\nlatency = \"400ms\"\n",
            "p.toml:3:1: there is no setting \"burst\": a path's rate has no burst: leave it out, and set `queue`",
            &[("burst = \"32kbit\"\n", ""), ("latency", "queue")],
        ),
        (
            "[factors]\nrtt = [\"10ms\", \"100ms\"]\n",
            "p.toml:2:1: there is no setting \"rtt\": here it is `delay`, which is one way: half of the round trip for both directions",
            &[("rtt = [\"10ms\", \"100ms\"]", "delay = [\"5ms\", \"50ms\"]")],
        ),
        (
            "[fixed]\nrate = \"20mbit\"\ndelay = \"5ms\"\n[factors]\nqdisc = [\"pfifo_fast\", \"fq_codel\"]\n",
            "p.toml:5:10: qdisc \"pfifo_fast\": here that is `qdisc = \"fifo\"`, with `queue` for its limit",
            &[("pfifo_fast", "fifo")],
        ),
        (
            "workload = \"rrul\"\n[fixed]\nrate = \"20mbit\"\n[factors]\nqdisc = [\"fifo\", \"fq_codel\"]\n",
            "p.toml:1:12: workload \"rrul\": here that is `workload = \"ping-under-load\"`",
            &[("rrul", "ping-under-load")],
        ),
        (
            "[fixed]\nrate = \"20mbit\"\necn = true\n",
            "p.toml:3:7: ecn is how full the queue of the path is when it begins to mark, such as `ecn = \"20ms\"`, or \"none\"; hosts ask for \
             it with `\"net.ipv4.tcp_ecn\" = 1`",
            &[("true", "\"20ms\"")],
        ),
        (
            "[fixed]\nrate = \"20mbit\"\n[factors]\nlimit = [\"100K\", \"1M\"]\n",
            "p.toml:4:1: there is no setting \"limit\": here it is `queue`, in bytes or in time",
            &[("limit", "queue")],
        ),
    ] {
        answered(plan, (said, instead));
    }
}

#[test]
fn plans_of_people_who_know_sysctl_and_toml() {
    let sysctl = |rest: &str| format!("{PATH}[factors]\n{rest}\n");
    for (plan, said, instead) in [
        (sysctl("net.ipv4.tcp_sack = [1, 0]"), "", &[][..]),
        (sysctl("\"net/ipv4/tcp_sack\" = [1, 0]"), "", &[]),
        (format!("{PATH}[factors.net.ipv4]\ntcp_sack = [1, 0]\n"), "", &[]),
        (
            sysctl("tcp_sack = [1, 0]"),
            "p.toml:5:1: there is no setting \"tcp_sack\": the sysctl is \"net.ipv4.tcp_sack\", within quotation marks",
            &[("tcp_sack", "\"net.ipv4.tcp_sack\"")],
        ),
        (
            sysctl("\"sysctl -w net.ipv4.tcp_sack\" = [1, 0]"),
            "p.toml:5:1: there is no setting \"sysctl -w net.ipv4.tcp_sack\": the sysctl is \"net.ipv4.tcp_sack\", within quotation marks",
            &[("sysctl -w ", "")],
        ),
        (
            "[factors]\ndelay = \"10ms\"\n".into(),
            "p.toml:2:9: a factor has a list of levels, such as [1, 0]; what is held is below [fixed]",
            &[("[factors]", "[fixed]")],
        ),
        (
            "[[factors]]\nname = \"delay\"\nlevels = [\"1ms\", \"10ms\"]\n".into(),
            "p.toml:1:1: [factors] is a table: write [factors] once, and its keys in lines below it",
            &[("[[factors]]\nname = \"delay\"\nlevels", "[factors]\ndelay")],
        ),
        (
            "delay = [\"1ms\", \"10ms\"]\n".into(),
            "p.toml:1:1: delay is a setting: write it below [fixed], or with a list of levels below [factors]",
            &[("delay", "[factors]\ndelay")],
        ),
        (
            "[fixed]\ndelay = 10ms # one way\n".into(),
            "p.toml:2:9: text is in quotation marks in TOML: \"10ms\"",
            &[("10ms", "\"10ms\"")],
        ),
        (
            "name: test\n".into(),
            "p.toml:1:7: key with no value, expected `=`: a line of TOML is `name = value`, with text in quotation marks",
            &[("name: test", "name = \"test\"")],
        ),
        ("[fixed]\nrate = \"1gbit\",\n".into(), "p.toml:2:15: a line of TOML ends without a comma", &[(",", "")]),
        (
            sysctl("\"net.ipv4.tcp_rmem\" = [[4096, 131072, 6291456], [4096, 131072, 67108864]]"),
            "p.toml:5:24: text or a number is needed here, not array: several numbers are one text, \"4096 131072 6291456\"",
            &[
                ("[4096, 131072, 6291456]", "\"4096 131072 6291456\""),
                ("[4096, 131072, 67108864]", "\"4096 131072 67108864\""),
            ],
        ),
    ] {
        answered(&plan, (said, instead));
    }
    let now = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_sack").unwrap();
    let said =
        format!("p.toml:5:22: net.ipv4.tcp_sack holds numbers ({} on this machine), not \"on\": write 1", now.trim());
    answered(&sysctl("net.ipv4.tcp_sack = [true, false]"), (&said, &[("true", "1"), ("false", "0")]));
}
