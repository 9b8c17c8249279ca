//! The Python package: built to the same bytes twice, typed, installed where nothing else of it is,
//! used there, and removed without a trace. The notebooks of the documentation run with it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::done::python;
use crate::programs::{at, done};

/// The program and the library that cargo has built for this test, without their symbols, which
/// are most of them.
fn built(folder: &Path) -> [PathBuf; 2] {
    let library = std::env::current_exe().unwrap().with_file_name("libwirelapse_timestamping.so");
    [Path::new(env!("CARGO_BIN_EXE_wirelapse")), &library].map(|file| {
        let stripped = folder.join(file.file_name().unwrap());
        done(tier::command("strip").arg("-o").arg(&stripped).arg(file));
        stripped
    })
}

fn wheel(python: &Path, built: &[PathBuf; 2], folder: &Path, time_zone: &str) -> PathBuf {
    let mut build = tier::command(at("packaging/wheel"));
    build.env("WIRELAPSE_PROGRAM", &built[0]).env("WIRELAPSE_LIBRARY", &built[1]).env("WHEEL_PYTHON", python);
    done(build.env("CARGO_TARGET_DIR", folder).env("TZ", time_zone));
    let made = fs::read_dir(folder.join("package")).unwrap().map(|entry| entry.unwrap().path());
    made.into_iter().find(|path| path.extension().is_some_and(|is| is == "whl")).expect("a wheel")
}

/// Everything below a folder.
fn listed(folder: &Path, into: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            listed(&path, into);
        }
        into.insert(path);
    }
}

#[test]
fn the_package_is_built_installed_used_and_removed() {
    let Some(python) = python("cffi, hatchling, pyarrow, mypy, nbclient, ipykernel") else { return };
    let folder = tempfile::tempdir().unwrap();
    let built = built(folder.path());
    let first = wheel(&python, &built, &folder.path().join("first"), "UTC");
    let second = wheel(&python, &built, &folder.path().join("second"), "Pacific/Chatham");
    assert_eq!(first.file_name(), second.file_name());
    assert!(fs::read(&first).unwrap() == fs::read(&second).unwrap(), "two builds are not the same bytes");

    done(tier::command(&python).current_dir(at("python")).args(["-m", "mypy", "--no-incremental", "src/wirelapse"]));

    // What it needs comes from the environment that it was built with.
    let own = folder.path().join("own");
    done(tier::command(&python).args(["-m", "venv", "--without-pip"]).arg(&own));
    let own_python = own.join("bin/python");
    let purelib = |python: &Path| {
        let asked = "import sysconfig; print(sysconfig.get_path('purelib'))";
        PathBuf::from(done(tier::command(python).args(["-c", asked])).trim())
    };
    let packages = purelib(&own_python);
    fs::write(packages.join("needed.pth"), purelib(&python).to_str().unwrap()).unwrap();
    let mut before = BTreeSet::new();
    listed(&own, &mut before);
    let pip = |words: &[&str]| {
        let mut pip = tier::command(&python);
        pip.args(["-m", "pip", "--disable-pip-version-check", "--python"]).arg(&own_python).args(words);
        done(&mut pip)
    };
    pip(&["install", "--quiet", "--no-index", "--no-deps", first.to_str().unwrap()]);

    let (run, capture) = (at("docs/pictures/run"), at("crates/truth/known/333-0-sender-0.pcap.zst"));
    let mut use_it = tier::command(&own_python);
    done(use_it.arg("-I").arg(at("python/tests/installed.py")).args([&run, &capture]));

    // The kernel of a notebook is the Python that was built with, so it is shown the way.
    let path = format!("{}:{}", own.join("bin").display(), std::env::var("PATH").unwrap());
    let mut notebooks = 0;
    for entry in fs::read_dir(at("docs/notebooks")).unwrap() {
        let notebook = entry.unwrap().path();
        if notebook.extension().is_none_or(|is| is != "ipynb") {
            continue;
        }
        let code = "import sys, nbformat, nbclient
book = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(book, timeout=120, resources={'metadata': {'path': sys.argv[2]}}).execute()
print(sum(bool(cell.get('outputs')) for cell in book.cells))";
        let mut run = tier::command(&python);
        run.args(["-c", code]).arg(&notebook).arg(at("docs/notebooks"));
        let said = done(run.env("PYTHONPATH", &packages).env("PATH", &path).env("PYTHONWARNINGS", "ignore"));
        let shown: usize = said.lines().next().unwrap().parse().unwrap_or_else(|_| panic!("{said}"));
        assert!(shown > 0, "{} shows nothing", notebook.display());
        notebooks += 1;
    }
    assert!(notebooks > 0, "there is no notebook");

    pip(&["uninstall", "--quiet", "--yes", "wirelapse"]);
    let mut after = BTreeSet::new();
    listed(&own, &mut after);
    assert_eq!(after, before, "what is left, or gone, after it was removed");
}
