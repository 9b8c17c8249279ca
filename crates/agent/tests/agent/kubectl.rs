//! `kubectl wirelapse`, with a made-up `kubectl` that notes how it is called: no cluster is needed.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tier::{Need, needs};

/// Has a pod of two containers. The debug container ends with its input, and what runs in it writes
/// bytes that are no text and ends with status 3.
const KUBECTL: &str = r#"#!/bin/sh
echo "$*" >>"$0.log"
case " $* " in
*" get pod web-0 "*) printf 'web side' ;;
*" get pod "*) echo 'Error from server (NotFound)' >&2; exit 1 ;;
*"=none "*) echo 'ErrImagePull' >&2; exit 1 ;;
*" debug -i "*) : >"$0.up"; cat >/dev/null; echo ended >>"$0.log" ;;
*" --version "*) test -e "$0.up" ;;
*" exec "*) printf 'a\000\r\n\377'; exit 3 ;;
esac
"#;

struct Made(tempfile::TempDir);

impl Made {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let kubectl = folder.path().join("kubectl");
        std::fs::write(&kubectl, KUBECTL).unwrap();
        std::fs::set_permissions(&kubectl, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self(folder)
    }

    /// The plugin, or a program that runs it, which finds this `kubectl` first.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = tier::command(program);
        command.env("PATH", format!("{}:{path}", self.0.path().display())).stdin(std::process::Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(plugin()).args(words).output().unwrap()
    }

    /// How `kubectl` was called, with the name of the debug container as NAME; how often it was
    /// asked whether that is up is a matter of time.
    fn calls(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.0.path().join("kubectl.log")).unwrap_or_default();
        let name = log.split("--container=").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap_or("NAME");
        let lines = log.lines().filter(|line| !line.ends_with(" -- wirelapse --version"));
        lines.map(|line| line.replace(name, "NAME")).collect()
    }
}

fn plugin() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubectl/kubectl-wirelapse")
}

#[test]
fn into_a_pipe_every_byte_comes_and_the_debug_container_ends() {
    let made = Made::new();
    let out = made.run(&["-n", "shop", "-c", "side", "--image=r/w:1", "pod/web-0", "capture", "-i", "eth0", "-w", "-"]);
    assert_eq!((out.status.code(), &out.stdout[..]), (Some(3), &b"a\0\r\n\xff"[..]), "{}", tier::text(&out.stderr));
    assert_eq!(
        made.calls(),
        [
            "--namespace shop get pod web-0 -o jsonpath={.spec.containers[*].name}",
            "--namespace shop debug -i --quiet web-0 --image=r/w:1 --target=side --profile=sysadmin --container=NAME -- wirelapse analyze -",
            "--namespace shop exec web-0 --container=NAME -- wirelapse capture -i eth0 -w -",
            "ended",
        ]
    );
}

#[test]
fn on_a_terminal_the_debug_container_is_attached_to() {
    needs!(Need::Program("script"));
    let made = Made::new();
    let line = format!("'{}' web-0 top --by peer", plugin().display());
    let out = made.command("script").args(["--quiet", "--return", "--command", &line, "/dev/null"]).output().unwrap();
    assert!(out.status.success(), "{}", tier::text(&out.stdout));
    assert_eq!(
        made.calls(),
        [
            "get pod web-0 -o jsonpath={.spec.containers[*].name}",
            "debug -it web-0 --image=wirelapse:latest --target=web --profile=sysadmin -- wirelapse top --by peer",
        ]
    );
}

#[test]
fn what_cannot_be_run_is_refused_with_what_to_do() {
    let made = Made::new();
    for (words, why) in [
        (&[][..], "give a pod, and what to run there"),
        (&["web-0"], "give a pod, and what to run there"),
        (&["web-0", "lab"], "give trace, top or capture"),
        (&["--port", "80", "web-0", "trace"], "--port is no option of this plugin"),
        (&["web-0", "-n"], "-n cannot be run in a pod"),
        (&["-n"], "-n needs a value"),
        (&["-c", "nginx", "web-0", "trace"], "pod web-0 has no container nginx: it has web side"),
        (&["-n", "shop", "web-1", "trace"], "cannot read pod web-1 of namespace shop"),
    ] {
        let out = made.run(words);
        let said = tier::text(&out.stderr);
        assert!(out.status.code() == Some(2) && said.contains(why), "{words:?}: {:?} {said}", out.status);
    }
    // What the shell itself needs, and no kubectl.
    let alone = tempfile::tempdir().unwrap();
    let sh = ["/bin/sh", "/usr/bin/sh"].into_iter().find(|path| Path::new(path).exists()).unwrap();
    let mut command = tier::command(sh);
    let out = command.arg(plugin()).args(["web-0", "trace"]).env("PATH", alone.path()).output().unwrap();
    let said = tier::text(&out.stderr);
    assert!(out.status.code() == Some(2) && said.contains("there is no kubectl in PATH"), "{said}");
}

#[test]
fn a_debug_container_that_does_not_come_up_is_said_with_the_reason() {
    let made = Made::new();
    let out = made.run(&["--image", "none", "web-0", "trace"]);
    let said = tier::text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("ErrImagePull") && said.contains("image none in pod web-0 does not run"), "{said}");
}
