//! Compiles the BPF programs, `src/FOLDER/NAME.bpf.c` each, with clang to `OUT_DIR/NAME.bpf.o`, and
//! once more for older kernels (`bpf/older.h`) to `OUT_DIR/NAME.older.o`. Makes Rust types of those
//! that they share with user space.

mod bindings;

use std::path::{Path, PathBuf};

use bindings::Bindings;
use libbpf_cargo::SkeletonBuilder;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut bindings = Bindings::default();
    // Line information holds paths: without those of this machine the same sources give the same
    // bytes anywhere.
    let paths = format!("-ffile-prefix-map={}=.", env!("CARGO_MANIFEST_DIR"));
    for source in sources() {
        let name = source.file_name().and_then(|name| name.to_str()).expect("file names of sources are ASCII");
        let object = out.join(name).with_extension("o");
        compile(&source, &object, &[&paths]);
        let mut objects = vec![object];
        if !TODAY.contains(&name) {
            // Kernels before 5.12 take no type information of a section without a variable, as of
            // the tables that a switch becomes.
            let older = out.join(name.replace(".bpf.c", ".older.o"));
            compile(&source, &older, &[&paths, "-DOLDER=1", "-fno-jump-tables"]);
            objects.push(older);
        }
        for object in objects {
            if let Err(problem) = bindings.add(&object) {
                panic!("{}: {problem}", source.display());
            }
        }
    }
    std::fs::write(out.join("layout.rs"), bindings.to_string()).expect("OUT_DIR can be written to");
}

/// Sources that are not built for older kernels.
const TODAY: [&str; 5] =
    ["baselines.bpf.c", "capabilities.bpf.c", "copies.bpf.c", "packets.bpf.c", "timestamping.bpf.c"];

fn compile(source: &Path, object: &Path, flags: &[&str]) {
    let arguments = ["-Wall", "-Werror", "-mcpu=v3", "-Isrc/bpf"].iter().chain(flags);
    if let Err(error) = SkeletonBuilder::new().source(source).obj(object).clang_args(arguments).build() {
        panic!("cannot compile {}: {error:#}\nclang (11 or later) has to be installed", source.display());
    }
}

/// Every BPF source of the crate, in the order of their names.
fn sources() -> Vec<PathBuf> {
    let mut sources: Vec<_> = files(Path::new("src"))
        .into_iter()
        .filter(|path| path.is_dir())
        .inspect(|folder| println!("cargo::rerun-if-changed={}", folder.display()))
        .flat_map(|folder| files(&folder))
        .filter(|path| path.to_string_lossy().ends_with(".bpf.c"))
        .collect();
    sources.sort();
    sources
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the crate's folders can be read");
    entries.map(|entry| entry.expect("the crate's folders can be read").path()).collect()
}
