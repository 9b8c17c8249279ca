//! Runs in a bucket, served by moto: an S3 that is not ours.

use crate::fleet;
use crate::program;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Serves the files below a directory as the bucket `runs`, and prints its port.
const SERVER: &str = r"
import os, sys
import boto3
from moto.server import ThreadedMotoServer
root = sys.argv[1]
server = ThreadedMotoServer(port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
client = boto3.client('s3', endpoint_url=f'http://127.0.0.1:{port}', region_name='us-east-1', aws_access_key_id='a', aws_secret_access_key='b')
client.create_bucket(Bucket='runs')
for directory, _, files in os.walk(root):
    for name in files:
        path = os.path.join(directory, name)
        client.upload_file(path, 'runs', 'fleet/' + os.path.relpath(path, root))
print(port, flush=True)
sys.stdin.read()
";

struct Bucket {
    server: Child,
    port: String,
}

impl Drop for Bucket {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Bucket {
    fn of(root: &Path) -> Option<Self> {
        let own = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/python/bin/python"));
        let python = if own.exists() { own } else { Path::new("python3") };
        let has = Command::new(python).args(["-c", "import boto3, moto.server"]).output();
        if !has.is_ok_and(|has| has.status.success()) {
            tier::skip(&format!("{}::s3", module_path!()), "needs the Python module moto[server]");
            return None;
        }
        let mut server = Command::new(python)
            .args(["-c", SERVER])
            .arg(root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Some(Self { server, port: port.trim().to_owned() })
    }

    fn ask(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let done = program::command()
            .args(words)
            .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port))
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", "a")
            .env("AWS_SECRET_ACCESS_KEY", "b")
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (done.status.code(), text(done.stdout), text(done.stderr))
    }
}

#[test]
fn a_bucket_is_read_as_a_directory_is() {
    tier::needs!(tier::Need::Program("python3"));
    let dir = tempfile::tempdir().unwrap();
    fleet::write(dir.path(), fleet::Size { hosts: 4, hours: 5, sends: 40, connections: 2 });
    let Some(bucket) = Bucket::of(dir.path()) else { return };
    let sql = "SELECT host, run, count(*) AS n, sum(total_ns) AS t, min(time) AS f FROM sends GROUP BY host, run ORDER BY host, run";
    let (status, out, said) = bucket.ask(&["--runs", "s3://runs/fleet", "--format", "csv", sql]);
    assert_eq!((status, said.as_str()), (Some(0), ""));
    assert_eq!(out.lines().collect::<Vec<_>>(), program::lines(dir.path(), sql));
    let (_, plan, _) =
        bucket.ask(&["--runs", "s3://runs/fleet/", "--explain", "SELECT max(bytes) FROM sends WHERE host = 'web-001'"]);
    assert!(plan.contains("sends: reads 200 rows in 5 parts, of 5 of 20 runs"), "{plan}");
    let (status, _, said) = bucket.ask(&["--runs", "s3://missing/fleet", "SELECT 1"]);
    assert!(status == Some(2) && said.contains("s3://missing/fleet: ") && said.contains("no such bucket"), "{said}");
    let (status, _, said) = bucket.ask(&["--runs", "s3://runs/nothing", "SELECT 1"]);
    assert!(status == Some(2) && said.contains("no runs in s3://runs/nothing"), "{said}");
}

/// What is said of a bucket that cannot be asked.
fn refused(settings: &[(&str, &str)]) -> String {
    let mut command = program::command();
    ["AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"].iter().for_each(|name| {
        command.env_remove(name);
    });
    let done = command.args(["--runs", "s3://runs/fleet", "SELECT 1"]).envs(settings.iter().copied()).output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    String::from_utf8(done.stderr).unwrap()
}

#[test]
fn a_store_that_cannot_be_asked_is_named_with_what_to_do() {
    // A port that nobody listens at: it was free a moment ago, and is not given to another soon.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let at = format!("http://{free}");
    let keys = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")];
    let said = refused(&[("AWS_ENDPOINT_URL", at.as_str()), keys[0], keys[1]]);
    assert!(said.contains(&format!("s3://runs/fleet: {at} does not answer")), "{said}");
    let said = refused(&[("AWS_METADATA_ENDPOINT", at.as_str())]);
    assert!(said.contains("no credentials: set AWS_ACCESS_KEY_ID"), "{said}");
}
