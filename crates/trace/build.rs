//! Compiles the BPF programs with clang into `OUT_DIR`, where `src/object.rs` embeds them.

use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

/// `src/bpf/NAME.bpf.c` each.
const PROGRAMS: &[&str] = &["timestamping", "tracepoints", "capabilities", "baselines"];

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo::rerun-if-changed=src/bpf");
    for program in PROGRAMS {
        let source = format!("src/bpf/{program}.bpf.c");
        let object = out.join(format!("{program}.bpf.o"));
        let built =
            SkeletonBuilder::new().source(&source).obj(&object).clang_args(["-Wall", "-Werror", "-mcpu=v3"]).build();
        if let Err(error) = built {
            panic!("cannot compile {source}: {error:#}\nclang (11 or later) has to be installed");
        }
    }
}
