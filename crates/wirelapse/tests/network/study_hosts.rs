//! `wirelapse study --host`: between two hosts that know nothing of each other's settings. Host `a`
//! of a lab stands for "this host", so that no sysctl of the machine is touched.

use std::path::Path;
use std::process::{Child, Output, Stdio};

use lab::{Config, Lab, Side};
use tier::Process;

const NAME: &str = "net.ipv4.tcp_timestamps";

fn plan(factor: &str, more: &str) -> String {
    format!("repetitions = 3\nduration = \"400ms\"\nwarm_up = \"0\"\n{more}\n[factors]\n{factor}\n")
}

/// A lab with `serve` in host b.
struct Hosts {
    lab: Lab,
    folder: tempfile::TempDir,
    serve: Process,
}

impl Hosts {
    fn up() -> Self {
        let lab = Lab::up(&Config::default()).unwrap();
        // Not the kernel's default, so that "put back" cannot be mistaken for "as a new host has
        // it".
        lab.host(Side::A).set_sysctl(NAME, 2).unwrap();
        let serve = serve(&lab);
        Self { lab, folder: tempfile::tempdir().unwrap(), serve }
    }

    fn study(&self, plan: &str, args: &[&str]) -> Child {
        let file = self.folder.path().join("plan.toml");
        std::fs::write(&file, plan).unwrap();
        let mut command = tier::limit(self.lab.host(Side::A).command(env!("CARGO_BIN_EXE_wirelapse")).unwrap());
        command.arg("study").arg(file).args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    fn finished(&self, plan: &str, args: &[&str]) -> (Option<i32>, String) {
        words(self.study(plan, args).wait_with_output().unwrap())
    }

    fn value(&self) -> String {
        self.lab.host(Side::A).sysctl(NAME).unwrap()
    }

    /// Waits for a value: a study sets it within seconds, a guardian puts it back at once.
    fn wait_for(&self, value: &str) {
        assert!(tier::wait_for(|| self.value() == value), "{NAME} stays {}, not {value}", self.value());
    }
}

fn serve(lab: &Lab) -> Process {
    serve_with(lab, &["--listen", "10.77.0.2:5201", "--token", "t"])
}

fn serve_with(lab: &Lab, args: &[&str]) -> Process {
    let mut command = tier::limit(lab.host(Side::B).command(env!("CARGO_BIN_EXE_wirelapse")).unwrap());
    command.args(["serve", "--json"]).args(args);
    let mut child = Process::from(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap());
    let (line, _output) = child.first_line();
    assert!(line.contains("listening"), "{line}");
    child
}

fn words(output: Output) -> (Option<i32>, String) {
    (output.status.code(), tier::text(&output.stdout) + &tier::text(&output.stderr))
}

fn end(child: &Child, signal: i32) {
    let pid = lab::program_pid(child).expect("the study is running");
    // SAFETY: a signal to a process that this test started.
    assert_eq!(unsafe { libc::kill(pid.cast_signed(), signal) }, 0);
}

const TO_B: [&str; 4] = ["--host", "10.77.0.2", "--token", "t"];

#[test]
fn a_sysctl_of_this_host_is_studied_and_put_back() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let hosts = Hosts::up();
    let args = [&TO_B[..], &["--on-this-host"]].concat();
    let (status, said) = hosts.finished(&plan("\"net.ipv4.tcp_timestamps\" = [1, 0]", ""), &args);
    assert_eq!(status, Some(0), "{said}");
    // What the packets showed, and that all trials counted, is in the conclusion.
    for text in ["6 of 6 trials count", "TCP headers of 20 bytes", "TCP headers of 32 bytes", "this host's net.ipv4"] {
        assert!(said.contains(text), "no {text:?} in {said}");
    }
    assert_eq!(hosts.value(), "2");
}

#[test]
fn a_server_that_takes_tests_within_tls_alone_is_studied() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let hosts = Hosts::up();
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["10.77.0.2".to_owned()]).unwrap();
    let file = |name: &str, text: &str| {
        let path = hosts.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (chain, key) = (file("cert.pem", &cert.pem()), file("key.pem", &signing_key.serialize_pem()));
    let mut private = serve_with(&hosts.lab, &["--listen", "10.77.0.2:5202", "--tls-cert", &chain, "--tls-key", &key]);
    let plan = plan("socket = [\"default\", \"nodelay\"]", "workload = \"rr\"");
    let to = ["--host", "10.77.0.2:5202"];
    let (status, said) = hosts.finished(&plan, &[&to[..], &["--tls-ca", &chain]].concat());
    assert!(status == Some(0) && said.contains("6 of 6 trials count"), "{said}");
    let (status, said) = hosts.finished(&plan, &to);
    assert!(status != Some(0) && said.contains("--tls-ca"), "{said}");
    let (status, said) = hosts.finished(&plan, &["--tls-ca", &chain]);
    assert!(status == Some(2) && said.contains("--host"), "{said}");
    private.kill().unwrap();
    private.wait().unwrap();
}

#[test]
fn however_it_ends_the_old_value_comes_back() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let hosts = Hosts::up();
    let long = plan("\"a.net.ipv4.tcp_timestamps\" = [0]", "").replace("repetitions = 3", "repetitions = 500");
    let args = [&TO_B[..], &["--on-this-host"]].concat();
    for (signal, status) in [(libc::SIGKILL, None), (libc::SIGTERM, Some(0)), (libc::SIGINT, Some(0))] {
        let child = hosts.study(&long, &args);
        hosts.wait_for("0");
        // A second study may neither change them meanwhile nor put back what it finds.
        let (refused, said) = hosts.finished(&long, &args);
        assert_eq!(refused, Some(2), "{said}");
        assert!(said.contains("wait until it has ended"), "{said}");
        assert_eq!(hosts.value(), "0");
        end(&child, signal);
        let (ended, said) = words(child.wait_with_output().unwrap());
        assert_eq!(ended, status, "signal {signal}: {said}");
        hosts.wait_for("2");
    }
}

#[test]
fn what_needs_the_lab_or_leave_is_refused_by_name() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let hosts = Hosts::up();
    let sysctl = "\"net.ipv4.tcp_timestamps\" = [1, 0]";
    let with = |more: &'static str| [&TO_B[..], &[more]].concat();
    for (text, args, wanted) in [
        (plan("delay = [\"1ms\", \"2ms\"]", "[fixed]\nrate = \"1gbit\""), TO_B.to_vec(), ["delay, rate", "--host"]),
        (plan(sysctl, ""), TO_B.to_vec(), [NAME, "--on-this-host"]),
        (
            plan("\"b.net.ipv4.tcp_sack\" = [1, 0]", ""),
            with("--on-this-host"),
            ["b.net.ipv4.tcp_sack", "server's host"],
        ),
        (
            plan("\"net.ipv4.no_such\" = [1, 0]", ""),
            with("--on-this-host"),
            ["net.ipv4.no_such", "this kernel has no sysctl"],
        ),
        (plan("flows = [1, 2]", ""), vec!["--host", "10.77.0.2"], ["token", "--token"]),
    ] {
        let (status, said) = hosts.finished(&text, &args);
        assert_eq!(status, Some(2), "{said}");
        assert!(wanted.iter().all(|w| said.contains(w)), "no {wanted:?} in {said}");
    }
    assert_eq!(hosts.value(), "2");
}

#[test]
fn a_server_that_goes_ends_the_study_and_resume_finishes_it() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let mut hosts = Hosts::up();
    let run = hosts.folder.path().join("run");
    let run_text = run.to_str().unwrap().to_owned();
    let trials = |run: &Path| std::fs::read_to_string(run.join("trials.ndjson")).map_or(0, |t| t.lines().count());
    let text = plan("response = [10, 1000]", "workload = \"rr\"");
    let child = hosts.study(&text, &[&TO_B[..], &["-o", &run_text]].concat());
    tier::until("two trials to be kept", || trials(&run) >= 2);
    hosts.serve.kill().unwrap();
    hosts.serve.wait().unwrap();
    let (status, said) = words(child.wait_with_output().unwrap());
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("trials count") && said.contains("ended early"), "{said}");
    let before = trials(&run);
    assert!((2..6).contains(&before), "{before}");
    hosts.serve = serve(&hosts.lab);
    let resumed = tier::limit(hosts.lab.host(Side::A).command(env!("CARGO_BIN_EXE_wirelapse")).unwrap());
    let (status, said) = {
        let mut c = resumed;
        words(c.args(["study", "--token", "t", "--resume", &run_text]).output().unwrap())
    };
    assert_eq!((status, trials(&run)), (Some(0), 6), "{said}");
    assert!(said.contains("6 of 6 trials count"), "{said}");
}
