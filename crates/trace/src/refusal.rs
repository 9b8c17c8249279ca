//! Why the kernel does not load programs: as types to choose by, and in words for people.

use std::cell::RefCell;
use std::fmt;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Typedef;
use libbpf_rs::{ErrorKind, Object, OpenObject, PrintLevel};

/// Why programs did not load.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The kernel has no such tracepoint.
    NoTracepoint {
        /// Its name.
        name: &'static str,
        /// The version of Linux that brought it.
        since: &'static str,
    },
    /// The caller may not load them, or the kernel lets no one do so.
    NotPermitted {
        /// What the loader said.
        words: String,
    },
    /// The loader or the kernel's verifier refused them.
    Refused {
        /// What it said.
        words: String,
    },
    /// The kernel takes none but the programs for older kernels, and these are not among them.
    NotForOlder,
    /// No other way loads either.
    All(Vec<Self>),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTracepoint { name, since } => {
                write!(f, "the kernel has no tracepoint {name} (Linux {since} brought it)")
            }
            Self::NotPermitted { words } | Self::Refused { words } => f.write_str(words),
            Self::NotForOlder => f.write_str(
                "its programs are for kernels with bpf_loop() and storage of sockets in tracepoints (Linux 5.17), which this one lacks",
            ),
            Self::All(all) => {
                for (index, refusal) in all.iter().enumerate() {
                    write!(f, "{}{refusal}", if index > 0 { "; " } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

impl Refusal {
    /// The first of these tracepoints, each with the version that brought it, that the running
    /// kernel lacks; where it has them all, what was said.
    pub(crate) fn or_missing(self, tracepoints: &[(&'static str, &'static str)]) -> Self {
        let Ok(types) = Btf::from_vmlinux() else { return self };
        // The kernel has such a type for each tracepoint that programs can be attached to.
        let missing = |name| types.type_by_name::<Typedef<'_>>(&format!("btf_trace_{name}")).is_none();
        match tracepoints.iter().find(|(name, _)| missing(name)) {
            Some(&(name, since)) => Self::NoTracepoint { name, since },
            None => self,
        }
    }
}

thread_local! {
    /// What libbpf says while this thread loads an object; `None` at other times.
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

fn listen(_: PrintLevel, text: String) {
    SAID.with_borrow_mut(|said| {
        if let Some(said) = said {
            said.push_str(&text);
        }
    });
}

/// Has libbpf say nothing on standard error; what it says while an object is loaded is kept for
/// [`load`].
pub(crate) fn quiet() {
    libbpf_rs::set_print(Some((PrintLevel::Info, listen)));
}

/// Loads an object.
///
/// # Errors
/// The reason in one line: the verifier's own, where it has one.
pub(crate) fn load(object: OpenObject) -> Result<Object, Refusal> {
    quiet();
    SAID.set(Some(String::new()));
    let loaded = object.load();
    let said = SAID.take().unwrap_or_default();
    loaded.map_err(|error| {
        let words = match reason(&said) {
            Some(reason) => format!("{reason} ({error})"),
            None => format!("{error:#}"),
        };
        match error.kind() {
            ErrorKind::PermissionDenied => Refusal::NotPermitted { words },
            _ => Refusal::Refused { words },
        }
    })
}

/// The line that explains most of what libbpf printed: the end of the verifier's log, before its
/// statistics, or else the first complaint; with the program that it is about. For people alone:
/// nothing is chosen by it.
fn reason(said: &str) -> Option<String> {
    let mut log = said.lines().skip_while(|line| !line.contains("-- BEGIN PROG LOAD LOG --"));
    let begins = log.next().unwrap_or_default();
    let verdict = log
        .take_while(|line| !line.contains("-- END PROG LOAD LOG --"))
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .take_while(|line| !line.starts_with("processed ") || !line.contains(" insns "))
        .last();
    match verdict {
        Some(verdict) => {
            let program = begins.split('\'').nth(1).unwrap_or("a program");
            Some(format!("program {program}: {verdict}"))
        }
        None => said
            .lines()
            .map(|line| line.trim().trim_start_matches("libbpf: "))
            .find(|line| !line.is_empty())
            .map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn the_verifiers_last_word_is_the_reason() {
        let said = "libbpf: prog 'queued': BPF program load failed: Permission denied\n\
                    libbpf: prog 'queued': -- BEGIN PROG LOAD LOG --\n\
                    0: R1=ctx(off=0,imm=0) R10=fp0\n; struct sock *sk = skb->sk;\n0: (79) r6 = *(u64 *)(r1 +0)\n\
                    R1 invalid mem access 'scalar'\n\
                    processed 12 insns (limit 1000000) max_states_per_insn 0 total_states 1 peak_states 1 mark_read 1\n\
                    -- END PROG LOAD LOG --\nlibbpf: prog 'queued': failed to load: -13\n";
        assert_eq!(reason(said).unwrap(), "program queued: R1 invalid mem access 'scalar'");
    }

    #[test]
    fn without_a_log_the_first_complaint_is() {
        let said = "libbpf: prog 'written_round': failed to find kernel BTF type ID of 'tcp_sendmsg_locked': -3\n\
                    libbpf: prog 'written_round': failed to prepare load attributes: -3\n";
        let reason = reason(said).unwrap();
        assert_eq!(reason, "prog 'written_round': failed to find kernel BTF type ID of 'tcp_sendmsg_locked': -3");
        assert_eq!(super::reason(""), None);
    }
}
