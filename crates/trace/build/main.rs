//! Compiles the BPF programs, `src/FOLDER/NAME.bpf.c` each, with clang to `OUT_DIR/NAME.bpf.o`, and
//! makes Rust types of those that they share with user space.

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
        let built = SkeletonBuilder::new()
            .source(&source)
            .obj(&object)
            .clang_args(["-Wall", "-Werror", "-mcpu=v3", "-Isrc/bpf", &paths])
            .build();
        if let Err(error) = built {
            panic!("cannot compile {}: {error:#}\nclang (11 or later) has to be installed", source.display());
        }
        if let Err(problem) = bindings.add(&object) {
            panic!("{}: {problem}", source.display());
        }
    }
    std::fs::write(out.join("layout.rs"), bindings.to_string()).expect("OUT_DIR can be written to");
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
