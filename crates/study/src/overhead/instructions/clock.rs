//! Whether the machine's clock counts instructions, as that of an emulated guest can.

use std::hint::black_box;

use crate::Error;

/// How far a trial may be off, as a share of its instructions: reading the clock takes some.
const TOLERANCE: f64 = 0.01;

/// Instructions of a trial: fewer than the kernel lets pass between two of its ticks.
const TRIAL: u64 = 100_000;

/// Trials of each kind, of which the fastest counts: a tick can fall into any.
const TRIALS: u32 = 8;

/// Runs a loop of two instructions that need each other's result `turns` times; with `slow`, of
/// three, of which one takes a CPU several cycles.
#[cfg(target_arch = "x86_64")]
fn spin(turns: u64, slow: bool) {
    // SAFETY: the loops read and write their own registers and the flags, and nothing else.
    unsafe {
        if slow {
            std::arch::asm!("2:", "imul {x}, {x}", "dec {n}", "jnz 2b", n = inout(reg) turns => _, x = inout(reg) 3_u64 => _, options(nomem, nostack));
        } else {
            std::arch::asm!("2:", "dec {n}", "jnz 2b", n = inout(reg) turns => _, options(nomem, nostack));
        }
    }
}

/// As for `x86_64`.
#[cfg(target_arch = "aarch64")]
fn spin(turns: u64, slow: bool) {
    // SAFETY: the loops read and write their own registers and the flags, and nothing else.
    unsafe {
        if slow {
            std::arch::asm!("2:", "udiv {x}, {x}, {x}", "subs {n}, {n}, #1", "b.ne 2b", n = inout(reg) turns => _, x = inout(reg) 3_u64 => _, options(nomem, nostack));
        } else {
            std::arch::asm!("2:", "subs {n}, {n}, #1", "b.ne 2b", n = inout(reg) turns => _, options(nomem, nostack));
        }
    }
}

/// What one loop took by the clock, ns.
fn took(turns: u64, slow: bool) -> u64 {
    let one = || {
        let begin = traffic::now();
        spin(black_box(turns), slow);
        traffic::now().as_nanos() - begin.as_nanos()
    };
    (0..TRIALS).map(|_| one()).min().unwrap_or(0)
}

/// Whether a nanosecond of the clock is an instruction: of loops of which a CPU would run one
/// several times as fast as the other.
pub(super) fn is_counted() -> Result<(), Error> {
    let off = |turns: u64, slow: bool| {
        let instructions = turns * if slow { 3 } else { 2 };
        (took(turns, slow) as f64 / instructions as f64 - 1.0).abs() > TOLERANCE
    };
    if off(TRIAL / 2, false) || off(TRIAL / 3, true) {
        return Err(Error::Setting(
            "this machine's clock does not count instructions: --instructions is for a guest of QEMU with `-icount shift=0,sleep=off` \
             (vm/run SUITE --instructions boots one)"
                .into(),
        ));
    }
    Ok(())
}
