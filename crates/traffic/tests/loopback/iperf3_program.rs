//! Debian's iperf3 as a child process.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The arguments of a stock client of the server at `to`.
fn client(to: SocketAddr, extra: &[&str]) -> Command {
    let mut command = Command::new("iperf3");
    command.args(["-c", &to.ip().to_string(), "-p", &to.port().to_string(), "--json"]).args(extra);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// Runs a stock client to its end, and gives its report.
pub fn stock_client(to: SocketAddr, extra: &[&str]) -> Value {
    let output = client(to, extra).output().unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stdout)))
}

/// The same with a password in its environment.
pub fn stock_client_as(to: SocketAddr, password: &str, extra: &[&str]) -> Value {
    let output = client(to, extra).env("IPERF3_PASSWORD", password).output().unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stdout)))
}

/// Starts one.
pub fn spawn_client(to: SocketAddr, extra: &[&str]) -> Child {
    client(to, extra).stdout(Stdio::null()).spawn().unwrap()
}

/// Connections to the server at `to`, beside a test's control connection.
pub fn flows_to(to: SocketAddr) -> usize {
    let port = format!(":{:04X}", to.port());
    let connected = |file: &str, state: &str| {
        let text = std::fs::read_to_string(file).unwrap();
        text.lines()
            .filter(|l| {
                let f: Vec<&str> = l.split_whitespace().collect();
                f.len() > 3 && f[2].ends_with(&port) && f[3] == state
            })
            .count()
    };
    connected("/proc/net/tcp", "01").saturating_sub(1) + connected("/proc/net/udp", "01")
}

/// A stock server that is killed when dropped.
pub struct StockServer {
    child: Child,
    pub address: SocketAddr,
}

impl StockServer {
    pub fn start(host: &str) -> Self {
        Self::start_with(host, &[])
    }

    /// With more options.
    pub fn start_with(host: &str, extra: &[&str]) -> Self {
        let ip = host.parse().unwrap();
        let port = TcpListener::bind(SocketAddr::new(ip, 0)).unwrap().local_addr().unwrap().port();
        let child = Command::new("iperf3")
            .args(["-s", "-B", host, "-p", &port.to_string()])
            .args(extra)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let address = SocketAddr::new(ip, port);
        // Looked for in the kernel's list: a connection would be taken for a client.
        let file = if ip.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
        let listening = format!(":{port:04X} ");
        tier::until("iperf3 to listen", || {
            std::fs::read_to_string(file).unwrap().lines().any(|l| l.contains(&listening) && l.contains(" 0A "))
        });
        Self { child, address }
    }

    /// A stock server needs a moment between two clients; what it says meanwhile is that it is
    /// busy.
    pub fn retry<T>(&self, mut run: impl FnMut() -> Result<T, traffic::Error>) -> T {
        let begun = Instant::now();
        loop {
            match run() {
                Err(traffic::Error::Busy { .. } | traffic::Error::Connect { .. } | traffic::Error::Gone { .. })
                    if begun.elapsed() < Duration::from_secs(30) =>
                {
                    std::thread::sleep(Duration::from_millis(50));
                }
                other => return other.unwrap(),
            }
        }
    }

    pub fn kill(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for StockServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The keys of `theirs` that `ours` has not, arrays by their first element.
pub fn missing_keys(theirs: &Value, ours: &Value, at: &str, missing: &mut Vec<String>) {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            for (key, value) in theirs {
                let path = format!("{at}.{key}");
                match ours.get(key) {
                    Some(mine) => missing_keys(value, mine, &path, missing),
                    None => missing.push(path),
                }
            }
        }
        (Value::Array(theirs), Value::Array(ours)) => {
            if let (Some(theirs), Some(ours)) = (theirs.first(), ours.first()) {
                missing_keys(theirs, ours, at, missing);
            }
        }
        _ => {}
    }
}
