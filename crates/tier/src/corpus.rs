//! The inputs that fuzzing has gathered, and changed copies of them: what `cargo test` replays in
//! seconds.
//!
//! A crate that reads foreign bytes has a module `fuzzed` with one function a target, which takes
//! any bytes and must not panic. The same functions run under libFuzzer (`fuzz/`), which keeps what
//! reaches new code in `fuzz/corpus/TARGET`.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

/// Copies of each input with a few bytes changed.
const CHANGED: u64 = 5;

/// Gives `run` every input of a target and its changed copies, which are the same in every test.
///
/// # Panics
/// Where the corpus cannot be read or is nearly empty, and where `run` does: the input is printed
/// then.
pub fn replay(target: &str, run: impl Fn(&[u8])) {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus")).join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut inputs: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    inputs.sort();
    assert!(inputs.len() >= 5, "{} inputs in {}", inputs.len(), folder.display());
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    let try_one = |path: &Path, bytes: &[u8]| {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(bytes))) {
            eprintln!("{target} panics on {} bytes, from {}: {}", bytes.len(), path.display(), bytes.escape_ascii());
            resume_unwind(panic);
        }
    };
    for path in inputs {
        let input = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        try_one(&path, &input);
        for _ in 0..if input.is_empty() { 0 } else { CHANGED } {
            let mut changed = input.clone();
            for _ in 0..1 + random() % 4 {
                let at = random() % changed.len();
                changed[at] = [random() as u8, 0, 0xff, changed[at] ^ (1 << (random() % 8))][random() % 4];
            }
            changed.truncate(changed.len() - random() % 8 * (changed.len() / 16));
            try_one(&path, &changed);
        }
    }
}
