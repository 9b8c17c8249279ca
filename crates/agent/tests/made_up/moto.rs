//! An S3-compatible store: moto of PyPI.

#![allow(dead_code)]

use std::process::Stdio;
use std::time::Duration;

use rusty_s3::{Bucket, Credentials, S3Action as _, UrlStyle};
use tier::Process;

use super::made_up::{free_port, get};

fn python() -> String {
    let venv = format!("{}/../../target/python/bin/python", env!("CARGO_MANIFEST_DIR"));
    if std::path::Path::new(&venv).exists() { venv } else { "python3".into() }
}

const SERVER: &str = r#"
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=int(sys.argv[1]), verbose=False)
server.start()
host, port = server.get_host_and_port()
print(port, flush=True)
sys.stdin.read()
server.stop()
"#;

/// A server with one bucket, `bucket`.
pub struct Moto {
    _process: Process,
    pub port: u16,
}

impl Moto {
    /// Starts it. Where moto is not installed, `test` is reported as skipped.
    pub fn or_skip(test: &str) -> Option<Self> {
        let has = tier::command(python()).args(["-c", "import moto.server"]).output();
        if !has.is_ok_and(|has| has.status.success()) {
            tier::skip(test, "needs moto of PyPI (setup/python)");
            return None;
        }
        Some(Self::start(free_port()))
    }

    /// Starts it at a port.
    pub fn start(port: u16) -> Self {
        let mut command = tier::command(python());
        command.args(["-c", SERVER, &port.to_string()]);
        let mut process = Process::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()));
        let (line, _) = process.first_line();
        let port = line.trim().parse().expect("moto says its port");
        let url = format!("http://127.0.0.1:{port}/bucket");
        ureq::put(&url).header("host", format!("127.0.0.1:{port}")).send_empty().unwrap();
        Self { _process: process, port }
    }

    /// The keys of the bucket.
    pub fn keys(&self) -> Vec<String> {
        let (mut keys, mut after) = (Vec::new(), String::new());
        loop {
            let url = format!("http://127.0.0.1:{}/bucket?list-type=2&max-keys=1000&start-after={after}", self.port);
            let list = get(&url);
            keys.extend(list.split("<Key>").skip(1).filter_map(|rest| Some(rest.split_once("</Key>")?.0.to_owned())));
            match keys.last() {
                Some(last) if list.contains("<IsTruncated>true") => after = last.replace('=', "%3D"),
                _ => return keys,
            }
        }
    }

    /// What the keys of runs that are over begin with. One that is still written has a `run.json`,
    /// too.
    pub fn finished(&self) -> Vec<String> {
        let is_finished =
            |run: &String| String::from_utf8_lossy(&self.object(&format!("{run}/run.json"))).contains("\"finished\"");
        let keys = self.keys();
        let runs = keys.iter().filter_map(|key| key.strip_suffix("/run.json").map(str::to_owned));
        runs.filter(is_finished).collect()
    }

    /// The bytes of an object.
    pub fn object(&self, key: &str) -> Vec<u8> {
        let endpoint = format!("http://127.0.0.1:{}", self.port).parse().unwrap();
        let bucket = Bucket::new(endpoint, UrlStyle::Path, "bucket", "us-east-1").unwrap();
        let url = bucket.get_object(Some(&Credentials::new("test", "test")), key).sign(Duration::from_secs(60));
        ureq::get(url.as_str()).call().unwrap().body_mut().with_config().limit(64 << 20).read_to_vec().unwrap()
    }
}
