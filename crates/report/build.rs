//! Gathers the charting library that pages bear within them: modules of D3, as Debian packages them (BSD-3-Clause).

use std::path::{Path, PathBuf};
use std::{env, fs};

/// In the order in which they need each other.
const MODULES: [&str; 16] = [
    "d3-array",
    "d3-collection",
    "d3-color",
    "d3-format",
    "d3-interpolate",
    "d3-time",
    "d3-time-format",
    "d3-scale",
    "d3-dispatch",
    "d3-timer",
    "d3-ease",
    "d3-selection",
    "d3-drag",
    "d3-transition",
    "d3-axis",
    "d3-brush",
];

fn main() {
    println!("cargo::rerun-if-env-changed=WIRELAPSE_D3");
    let folder = env::var_os("WIRELAPSE_D3").map_or_else(|| PathBuf::from("/usr/share/nodejs"), PathBuf::from);
    let mut library = String::new();
    for module in MODULES {
        let path = folder.join(module).join("dist").join(format!("{module}.min.js"));
        println!("cargo::rerun-if-changed={}", path.display());
        match fs::read_to_string(&path) {
            // A page has no source maps to look for, and would ask for them.
            Ok(text) => library.extend(text.lines().filter(|l| !l.starts_with("//# source")).flat_map(|l| [l, "\n"])),
            Err(error) => {
                println!(
                    "cargo::error={}: {error}. Reports bear D3 within them: install Debian's node-d3-scale, node-d3-axis, \
                     node-d3-selection and node-d3-brush (`setup/install build` does), or name with WIRELAPSE_D3 a folder \
                     that holds d3-array/dist/d3-array.min.js and its siblings",
                    path.display()
                );
                return;
            }
        }
    }
    assert!(!library.contains("</script"), "D3 would end the script element that it stands in");
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    if let Err(error) = fs::write(Path::new(&out).join("d3.js"), library) {
        println!("cargo::error=cannot write the charting library into OUT_DIR: {error}");
    }
}
