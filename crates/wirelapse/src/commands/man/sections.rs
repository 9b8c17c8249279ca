//! What clap does not know of a command: its exit status beside what all have, its files, and the
//! pages to go on with. A command that is not named here has what all have.

/// The status of every command.
const STATUS: [(&str, &str); 3] = [
    ("0", "done, by Ctrl-C too: what was gathered until then is reported"),
    ("1", "failed while running"),
    ("2", "wrong use or bad input: the message says what, where, and what to do"),
];

/// The exit status of a page's command.
pub fn exit_status(page: &str) -> Vec<(&'static str, &'static str)> {
    let mut all = STATUS.to_vec();
    match page {
        "wirelapse-trace" => all.push(("with CMD", "that of CMD, or 128 and the number of the signal that ended it")),
        "wirelapse-lab-exec" => all.push(("else", "that of CMD, or 128 and the number of the signal that ended it")),
        "wirelapse-query" => all.push(("130", "cancelled by Ctrl-C")),
        "wirelapse-probe" => {
            all[0].1 = "something came back: an answer, a refusal, an ICMP error";
            all[1].1 = "nothing came back, or this host may not do it";
        }
        "wirelapse-doctor" => all[1].1 = "no trace is possible on this machine as this user",
        "wirelapse-delay" => all[2].1 = "wrong use, or taps that cannot be compared",
        _ => {}
    }
    all
}

/// The files of a page's command, before those of all.
pub fn files(page: &str) -> &'static [(&'static str, &'static str)] {
    const TYPES: (&str, &str) = ("/sys/kernel/btf/vmlinux", "the types of the running kernel, which tracing needs");
    const LABS: (&str, &str) = ("/run/wirelapse/labs", "the labs that are up, by name");
    match page {
        "wirelapse" | "wirelapse-trace" | "wirelapse-watch" | "wirelapse-doctor" => &[TYPES],
        "wirelapse-top" => &[TYPES, ("wirelapse-top-PID-N", "in the working directory: the run that `r` records")],
        "wirelapse-agent" => &[
            ("/etc/wirelapse/agent.toml", "the configuration of the service that the Debian package has"),
            ("/var/lib/wirelapse/spool", "where runs wait for a bucket"),
            TYPES,
        ],
        "wirelapse-query" => &[("$XDG_CACHE_HOME/wirelapse, ~/.cache/wirelapse", "the roll-up of the table hours")],
        "wirelapse-lab"
        | "wirelapse-lab-up"
        | "wirelapse-lab-down"
        | "wirelapse-lab-list"
        | "wirelapse-lab-exec"
        | "wirelapse-lab-change" => &[LABS],
        "wirelapse-study" => &[("/run/wirelapse", "what --on-this-host has changed, until it is set back")],
        _ => &[],
    }
}

/// The pages to go on with.
pub fn see_also(page: &str) -> &'static [&'static str] {
    match page {
        "wirelapse" => &[
            "wirelapse-doctor(1)",
            "wirelapse-trace(1)",
            "wirelapse-analyze(1)",
            "wirelapse-study(1)",
            "ss(8)",
            "tc(8)",
            "tcp(7)",
            "tcpdump(8)",
        ],
        "wirelapse-trace" => &[
            "wirelapse(1)",
            "wirelapse-report(1)",
            "wirelapse-compare(1)",
            "wirelapse-top(1)",
            "wirelapse-doctor(1)",
            "ss(8)",
            "tcp(7)",
        ],
        "wirelapse-top" => &["wirelapse(1)", "wirelapse-trace(1)", "wirelapse-agent(1)", "ss(8)"],
        "wirelapse-watch" => &["wirelapse(1)", "wirelapse-trace(1)", "ss(8)", "tcp(7)"],
        "wirelapse-agent" => {
            &["wirelapse(1)", "wirelapse-query(1)", "wirelapse-report(1)", "wirelapse-top(1)", "systemd(1)"]
        }
        "wirelapse-query" => &["wirelapse(1)", "wirelapse-agent(1)", "wirelapse-report(1)"],
        "wirelapse-probe" => &["wirelapse(1)", "wirelapse-trace(1)", "ping(8)"],
        "wirelapse-analyze" => {
            &["wirelapse(1)", "wirelapse-capture(1)", "wirelapse-compare(1)", "tcpdump(8)", "tcp(7)"]
        }
        "wirelapse-compare" => &["wirelapse(1)", "wirelapse-trace(1)", "wirelapse-analyze(1)", "wirelapse-study(1)"],
        "wirelapse-capture" => {
            &["wirelapse(1)", "wirelapse-analyze(1)", "wirelapse-generate(1)", "tcpdump(8)", "pcap-filter(7)"]
        }
        "wirelapse-generate" => &["wirelapse(1)", "wirelapse-capture(1)", "wirelapse-delay(1)"],
        "wirelapse-delay" => &["wirelapse(1)", "wirelapse-generate(1)", "wirelapse-capture(1)", "pcap-filter(7)"],
        "wirelapse-report" => &["wirelapse(1)", "wirelapse-trace(1)", "wirelapse-compare(1)", "wirelapse-query(1)"],
        "wirelapse-study" => {
            &["wirelapse(1)", "wirelapse-lab(1)", "wirelapse-compare(1)", "wirelapse-report(1)", "sysctl(8)"]
        }
        "wirelapse-lab" => &[
            "wirelapse(1)",
            "wirelapse-lab-up(1)",
            "wirelapse-lab-exec(1)",
            "wirelapse-study(1)",
            "ip-netns(8)",
            "tc-netem(8)",
        ],
        "wirelapse-lab-up"
        | "wirelapse-lab-down"
        | "wirelapse-lab-list"
        | "wirelapse-lab-exec"
        | "wirelapse-lab-change" => &["wirelapse(1)", "wirelapse-lab(1)", "wirelapse-study(1)"],
        "wirelapse-serve" => &["wirelapse(1)", "wirelapse-stream(1)", "wirelapse-rr(1)", "iperf3(1)"],
        "wirelapse-stream"
        | "wirelapse-rr"
        | "wirelapse-crr"
        | "wirelapse-udp"
        | "wirelapse-ping-under-load"
        | "wirelapse-responsiveness" => {
            &["wirelapse(1)", "wirelapse-serve(1)", "wirelapse-report(1)", "wirelapse-compare(1)", "wirelapse-study(1)"]
        }
        _ => &["wirelapse(1)", "wirelapse-doctor(1)"],
    }
}
