//! Which test programs there are, which are built first, and which may go beside others.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Crates of which no test looks at traffic or at the kernel, or bounds a time closely: whatever
/// else the machine does changes nothing for them.
const APART: [&str; 13] = [
    "agent", "clock", "diagnose", "export", "metrics", "quantity", "query", "record", "report", "stats", "store",
    "summary", "wire",
];
/// Such test programs of other crates.
const APART_PROGRAMS: [&str; 3] = ["honesty", "pure", "report_fleet"];
/// Of the rest, what needs more than is built first: `wirelapse-query`, and the Python readers.
const LATER: [&str; 1] = ["docs"];

/// A test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub path: PathBuf,
    /// That of its package, where cargo runs it.
    pub folder: PathBuf,
    pub target: String,
}

impl Program {
    fn crate_folder(&self) -> &str {
        name_of(&self.folder)
    }

    /// Crate and target: `wirelapse/trace`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.crate_folder(), self.target)
    }

    /// Whether it may go beside others.
    pub fn is_apart(&self) -> bool {
        APART.contains(&self.crate_folder()) || APART_PROGRAMS.contains(&self.target.as_str())
    }

    /// Whether it is of the crate of queries.
    pub fn is_of_queries(&self) -> bool {
        self.crate_folder() == "query"
    }

    /// The program as cargo would run it, raised to root where `tests/run` has set that for cargo.
    pub fn command(&self) -> Command {
        let runner = format!("CARGO_TARGET_{}_UNKNOWN_LINUX_GNU_RUNNER", std::env::consts::ARCH.to_uppercase());
        let runner = std::env::var(runner).unwrap_or_default();
        let mut words = runner.split_whitespace();
        let mut command = match words.next() {
            Some(first) => {
                let mut raised = Command::new(first);
                raised.args(words).arg(&self.path);
                raised
            }
            None => Command::new(&self.path),
        };
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }
}

fn name_of(folder: &Path) -> &str {
    folder.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Names of targets, as words for cargo: those of crates that are not apart, without the tests
/// inside the libraries, which cargo takes for all crates or none.
///
/// # Errors
/// What cargo says.
pub fn built_first() -> Result<Vec<String>, String> {
    let words = ["metadata", "--locked", "--no-deps", "--format-version", "1"];
    let done = Command::new("cargo").args(words).output().map_err(|e| format!("cargo metadata: {e}"))?;
    if !done.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&done.stderr)));
    }
    let metadata: Value = serde_json::from_slice(&done.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    Ok(targets_built_first(&metadata))
}

fn targets_built_first(metadata: &Value) -> Vec<String> {
    let mut words = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        if manifest.parent().is_none_or(|folder| APART.contains(&name_of(folder))) {
            continue;
        }
        for target in package["targets"].as_array().into_iter().flatten() {
            let (kind, name) = (target["kind"][0].as_str().unwrap_or_default(), target["name"].as_str());
            if let ("bin" | "test" | "example", Some(name)) = (kind, name)
                && !APART_PROGRAMS.contains(&name)
                && !LATER.contains(&name)
            {
                words.extend([format!("--{kind}"), name.to_owned()]);
            }
        }
    }
    words
}

/// The test programs in what `cargo test --message-format=json` prints.
pub fn programs(json: &str) -> Vec<Program> {
    let read = |line: &str| {
        let made: Value = serde_json::from_str(line).ok()?;
        let path = made["executable"].as_str().filter(|_| made["profile"]["test"] == true)?;
        let folder = Path::new(made["manifest_path"].as_str()?).parent()?;
        Some(Program { path: path.into(), folder: folder.into(), target: made["target"]["name"].as_str()?.into() })
    };
    json.lines().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn programs_are_those_with_tests() {
        let made = |name: &str, executable: Value, test: bool| {
            json!({"reason": "compiler-artifact", "manifest_path": "/r/crates/lab/Cargo.toml", "target": {"name": name},
                "profile": {"test": test}, "executable": executable})
            .to_string()
        };
        let lines = [
            made("kernel", json!("/r/target/debug/deps/kernel-1"), true),
            made("pure", json!("/r/target/debug/deps/pure-1"), true),
            made("throughput", json!("/r/target/debug/examples/throughput"), false),
            made("lab", Value::Null, true),
            "{\"reason\":\"build-finished\",\"success\":true}".into(),
        ];
        let programs = programs(&lines.join("\n"));
        let names: Vec<_> = programs.iter().map(|program| (program.name(), program.is_apart())).collect();
        assert_eq!(names, [("lab/kernel".into(), false), ("lab/pure".into(), true)]);
    }

    #[test]
    fn what_is_apart_or_later_is_not_built_first() {
        let package = |folder: &str, targets: &[(&str, &str)]| {
            let targets: Vec<_> = targets.iter().map(|(kind, name)| json!({"kind": [kind], "name": name})).collect();
            json!({"manifest_path": format!("/r/crates/{folder}/Cargo.toml"), "targets": targets})
        };
        let metadata = json!({"packages": [
            package("query", &[("bin", "wirelapse-query"), ("test", "query")]),
            package("study", &[("lib", "study"), ("test", "honesty"), ("test", "study"), ("example", "aa")]),
            package("wirelapse", &[("bin", "wirelapse"), ("test", "docs"), ("custom-build", "build-script-build")]),
        ]});
        let words = ["--test", "study", "--example", "aa", "--bin", "wirelapse"];
        assert_eq!(targets_built_first(&metadata), words);
    }
}
