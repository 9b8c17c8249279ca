//! Command lines of the manual pages: the page, the line, and what it is for. A test parses each.

/// All of them.
pub const EXAMPLES: &[(&str, &str, &str)] = &[
    ("wirelapse", "wirelapse doctor", "what this kernel and machine can do"),
    ("wirelapse", "sudo wirelapse trace --comm nginx --for 10s", "where the time of nginx's sends goes"),
    ("wirelapse", "wirelapse analyze slow.pcapng", "why the transfer in a capture is slow"),
    ("wirelapse-doctor", "wirelapse doctor --json", "the same for programs"),
    (
        "wirelapse-trace",
        "sudo wirelapse trace --unit nginx --for 10s",
        "where the time of a unit's sends goes, and why they wait",
    ),
    (
        "wirelapse-trace",
        "sudo wirelapse trace --port 80,443 --min-latency 50ms",
        "a line for each send that takes 50 ms or longer, as it happens",
    ),
    (
        "wirelapse-trace",
        "sudo wirelapse trace --all --sample 1/100 -o run",
        "a hundredth of all connections' time, kept for report and compare",
    ),
    (
        "wirelapse-trace",
        "sudo wirelapse trace --requests -- curl -so /dev/null http://192.0.2.1/",
        "one program from its first byte, request by request",
    ),
    ("wirelapse-top", "sudo wirelapse top --by peer", "which peer waits, live, and for what"),
    (
        "wirelapse-agent",
        "wirelapse agent --config /etc/wirelapse/agent.toml --check",
        "whether the configuration is right, and what is wrong in it",
    ),
    (
        "wirelapse-agent",
        "sudo wirelapse agent --config /etc/wirelapse/agent.toml",
        "histograms of all connections, for Prometheus",
    ),
    (
        "wirelapse-query",
        "wirelapse query --runs /var/lib/wirelapse/runs --list",
        "tables, views and named queries of a fleet's runs",
    ),
    (
        "wirelapse-query",
        "wirelapse query --runs /var/lib/wirelapse/runs --named slow-peers",
        "the peers with the longest p99",
    ),
    ("wirelapse-watch", "sudo wirelapse watch srtt --by peer --for 10s", "the smoothed round-trip time by peer"),
    ("wirelapse-probe", "wirelapse probe tcp example.com:443", "what a new connection meets on the path"),
    ("wirelapse-analyze", "wirelapse analyze slow.pcapng --json", "verdicts for programs"),
    ("wirelapse-compare", "wirelapse compare before after", "what differs between two runs, and in which leg"),
    ("wirelapse-capture", "sudo wirelapse capture -i eth0 -w minute.pcapng --for 1m", "a capture with every timestamp"),
    ("wirelapse-generate", "sudo wirelapse generate -i eth0 --size 64 --count 1000", "a thousand frames"),
    (
        "wirelapse-delay",
        "sudo wirelapse delay --before eth0 --after eth1 --for 10s",
        "the delay that a device between two taps adds",
    ),
    ("wirelapse-report", "wirelapse report run --html run.html", "a page for a colleague"),
    (
        "wirelapse-lab",
        "sudo wirelapse lab up --delay 20ms --rate 10mbit",
        "two hosts on a path of known delay and rate",
    ),
    ("wirelapse-study", "sudo wirelapse study timestamps --quick", "what a packet's timestamps are worth"),
    ("wirelapse-serve", "wirelapse serve", "the other end of stream, rr, crr, udp and iperf3"),
    ("wirelapse-stream", "wirelapse stream 192.0.2.1", "a bulk transfer"),
    ("wirelapse-rr", "wirelapse rr 192.0.2.1", "requests and responses, one after the other"),
    ("wirelapse-crr", "wirelapse crr 192.0.2.1", "a connection for each request"),
    ("wirelapse-udp", "wirelapse udp 192.0.2.1", "datagrams at a rate"),
    ("wirelapse-ping-under-load", "wirelapse ping-under-load 192.0.2.1", "what a full link does to round trips"),
    ("wirelapse-responsiveness", "wirelapse responsiveness 192.0.2.1", "round trips a minute under load"),
];
