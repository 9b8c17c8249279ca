//! Compiles the BPF programs with clang into `OUT_DIR`, where `src/object.rs` embeds them.

use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

/// The sources, `src/FOLDER/NAME.bpf.c` each.
const PROGRAMS: &[(&str, &str)] = &[
    ("bpf", "timestamping"),
    ("bpf", "tracepoints"),
    ("bpf", "capabilities"),
    ("bpf", "baselines"),
    ("watch", "watch"),
    ("receive", "receive"),
    ("packets", "packets"),
];

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for (folder, program) in PROGRAMS {
        println!("cargo::rerun-if-changed=src/{folder}");
        let source = format!("src/{folder}/{program}.bpf.c");
        let object = out.join(format!("{program}.bpf.o"));
        let built = SkeletonBuilder::new()
            .source(&source)
            .obj(&object)
            .clang_args(["-Wall", "-Werror", "-mcpu=v3", "-Isrc/bpf"])
            .build();
        if let Err(error) = built {
            panic!("cannot compile {source}: {error:#}\nclang (11 or later) has to be installed");
        }
    }
}
