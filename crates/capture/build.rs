//! Compiles the XDP programs with clang into `OUT_DIR`, where `src/xdp/` and `src/generate/` embed
//! them.

use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo::rerun-if-changed=src/bpf/types.h");
    // Line information holds paths: without those of this machine the same sources give the same
    // bytes anywhere.
    let paths = format!("-ffile-prefix-map={}=.", env!("CARGO_MANIFEST_DIR"));
    for program in ["xdp", "generate", "delay"] {
        let source = format!("src/bpf/{program}.bpf.c");
        println!("cargo::rerun-if-changed={source}");
        let built = SkeletonBuilder::new()
            .source(&source)
            .obj(out.join(format!("{program}.bpf.o")))
            .clang_args(["-Wall", "-Werror", "-mcpu=v3", &paths])
            .build();
        if let Err(error) = built {
            panic!("cannot compile {source}: {error:#}\nclang (11 or later) has to be installed");
        }
    }
}
