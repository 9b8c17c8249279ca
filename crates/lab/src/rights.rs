//! Giving up rights: each process and thread of a lab keeps what its work takes and no more. System
//! calls alone, on memory of the stack, so that it may run in a process that was forked from one
//! with several threads.

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};

/// Gives up, for the calling thread and for good, every capability but `kept`, and the rights of
/// programs that it would start. Where the kernel refuses, the thread goes on as it was: a lab
/// without that is a lab still.
pub(crate) fn keep(kept: CapabilitySet) {
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    let _ = set_capabilities(None, sets);
    let _ = set_no_new_privs(true);
}

/// Gives up every capability, and every system call but those of waiting and ending: all that is
/// left to a process that holds namespaces. Other calls fail with `EPERM`.
pub(crate) fn only_wait() {
    keep(CapabilitySet::empty());
    let program = libc::sock_fprog { len: FILTER.len() as u16, filter: FILTER.as_ptr().cast_mut() };
    // SAFETY: the program and its instructions live over the call, which only reads them. A kernel
    // without seccomp refuses it. rustix and nix install no such filter.
    unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
}

#[cfg(target_arch = "x86_64")]
const WAITING: [libc::c_long; 7] = [
    libc::SYS_poll,
    libc::SYS_pause,
    libc::SYS_ppoll,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
];
#[cfg(not(target_arch = "x86_64"))]
const WAITING: [libc::c_long; 5] =
    [libc::SYS_ppoll, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_rt_sigreturn, libc::SYS_restart_syscall];

/// `AUDIT_ARCH_X86_64`, `AUDIT_ARCH_AARCH64`: include/uapi/linux/audit.h. Numbers of another
/// architecture's calls mean other calls.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(not(target_arch = "x86_64"))]
const ARCHITECTURE: u32 = 0xc000_00b7;

const FILTER: [libc::sock_filter; WAITING.len() + 6] = filter();

/// The filter over `struct seccomp_data`: the number of the call is its first word, the
/// architecture its second.
const fn filter() -> [libc::sock_filter; WAITING.len() + 6] {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    const fn op(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
        libc::sock_filter { code: code as u16, jt, jf, k }
    }
    let denied = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut program = [op(RETURN, 0, 0, denied); WAITING.len() + 6];
    program[0] = op(LOAD, 0, 0, 4);
    program[1] = op(EQUAL, 1, 0, ARCHITECTURE);
    program[2] = op(RETURN, 0, 0, denied);
    program[3] = op(LOAD, 0, 0, 0);
    let mut i = 0;
    while i < WAITING.len() {
        // To the last instruction, over what is left of the list and the refusal.
        program[4 + i] = op(EQUAL, (WAITING.len() - i) as u8, 0, WAITING[i] as u32);
        i += 1;
    }
    program[WAITING.len() + 5] = op(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW);
    program
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{Timespec, poll};
    use rustix::io::Errno;
    use rustix::net::{AddressFamily, SocketType, socket};
    use rustix::process::{Pid, WaitOptions, getsid, waitpid};

    #[test]
    fn what_waits_can_do_nothing_else() {
        // A separate process: the filter is for good, and this one has more to do.
        let all = machine::forked::block_signals();
        // SAFETY: the child makes system calls alone and never returns.
        let child = unsafe { crate::anchor::clone_process(0, libc::SIGCHLD, std::ptr::null_mut()) };
        if child == 0 {
            only_wait();
            let waited = poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 1_000_000 })) == Ok(0);
            let refused = socket(AddressFamily::INET, SocketType::STREAM, None)
                .is_err_and(|error| error == Errno::PERM)
                && getsid(None) == Err(Errno::PERM);
            machine::forked::end(if waited && refused { 7 } else { 8 });
        }
        machine::forked::restore_signals(all);
        let (_, status) = waitpid(Pid::from_raw(child), WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(status.exit_status(), Some(7), "{status:?}");
    }
}
