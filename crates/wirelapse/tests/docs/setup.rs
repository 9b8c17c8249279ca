//! `setup/install` on systems that are not Debian: stand-ins for their package managers say what it
//! would have them do. What they cannot show is whether a name exists there.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

/// A system with the programs that the script itself uses, and these scripts.
fn system(scripts: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["bash", "awk", "sed", "grep", "sort", "head", "xargs", "dirname", "cat", "env", "echo"] {
        let found = ["/usr/bin", "/bin"].map(|at| Path::new(at).join(name)).into_iter().find(|path| path.exists());
        symlink(found.unwrap_or_else(|| panic!("no {name}")), folder.path().join(name)).unwrap();
    }
    for (name, script) in scripts {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/bash\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

/// Its exit status, and all that it printed.
fn install(system: &tempfile::TempDir, groups: &[&str]) -> (Option<i32>, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../setup/install");
    let mut command = tier::command(script);
    let done = command.args(groups).env_clear().env("PATH", system.path()).output().unwrap();
    (done.status.code(), tier::text(&done.stdout) + &tier::text(&done.stderr))
}

const CARGO: (&str, &str) = ("cargo", "");
const RUSTC: (&str, &str) = ("rustc", "echo 'rustc 1.99.0 (stand-in)'");
const ROOT: (&str, &str) = ("id", "echo 0");
const NOBODY: (&str, &str) = ("id", "echo 1000");

#[test]
fn without_rust_or_with_an_old_one_it_says_what_to_run() {
    let (status, said) = install(&system(&[ROOT]), &["build"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("there is no cargo on PATH") && said.contains("rustup"), "{said}");

    let old = ("rustc", "echo 'rustc 1.63.0 (897e37553 2022-08-02)'");
    let (status, said) = install(&system(&[ROOT, CARGO, old, ("apt-cache", "echo Package: rustup")]), &["build"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("Rust is 1.63 here") && said.contains("apt-get install rustup"), "{said}");
}

#[test]
fn fedora_and_alpine_get_what_is_missing_by_their_names() {
    let rpm = ("rpm", "[ \"${!#}\" = gcc ]");
    let (status, said) = install(&system(&[ROOT, CARGO, RUSTC, rpm, ("dnf", "echo dnf got \"$@\"")]), &["build"]);
    assert_eq!(status, Some(0), "{said}");
    let got = said.lines().find(|line| line.starts_with("dnf got")).unwrap_or_else(|| panic!("{said}"));
    assert!(got.contains(" install ") && got.contains(" elfutils-libelf-devel") && !got.contains(" gcc"), "{said}");

    let apk = ("apk", "[ \"$1\" = add ] && echo apk got \"$@\"");
    let (status, said) = install(&system(&[ROOT, CARGO, RUSTC, apk]), &["build", "demo"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("apk got add") && said.contains(" elfutils-dev") && said.contains(" nginx"), "{said}");

    let (status, said) = install(&system(&[NOBODY, CARGO, RUSTC, apk]), &["build"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("not root and no sudo. As root, run: apk add "), "{said}");
}

#[test]
fn where_it_cannot_go_on_it_fails_with_the_reason() {
    let rpm = ("rpm", "exit 1");
    let (status, said) = install(&system(&[ROOT, CARGO, RUSTC, rpm, ("dnf", "echo dnf got")]), &["build", "vm"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("need Debian") && !said.contains("dnf got"), "{said}");

    let (status, said) = install(&system(&[ROOT, CARGO, RUSTC]), &["build"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("neither Debian, Fedora nor Alpine") && said.contains("not found: gcc"), "{said}");
}

#[test]
fn what_builds_and_shows_it_has_a_name_everywhere() {
    let read =
        |file: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../setup").join(file)).unwrap();
    let names = read("names");
    for line in read("packages").lines() {
        let mut words = line.split_whitespace();
        if let (Some("build" | "demo"), Some(package)) = (words.next(), words.next()) {
            let named = names.lines().find(|line| line.split_whitespace().next() == Some(package));
            assert_eq!(named.map(|line| line.split_whitespace().count()), Some(3), "{package}");
        }
    }
}
