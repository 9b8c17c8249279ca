//! The compiled BPF objects, and their maps by name.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, AsRawFd as _};

use libbpf_rs::{
    Iter, Link, MapCore as _, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, PrintLevel, ProgramMut,
};

use crate::Error;
use crate::layout::{Plain, RawConfig};

/// The object of the BPF timestamping backend.
pub(crate) const TIMESTAMPING: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/timestamping.bpf.o"));

/// The object of the tracepoints backend.
pub(crate) const TRACEPOINTS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tracepoints.bpf.o"));

/// What the cost of tracing is held against.
pub(crate) const BASELINES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/baselines.bpf.o"));

/// One program of each type, to be tried.
pub(crate) const CAPABILITIES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/capabilities.bpf.o"));

/// The receiving side.
pub(crate) const RECEIVE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/receive.bpf.o"));

/// Every packet, and UDP.
pub(crate) const PACKETS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/packets.bpf.o"));

/// How large the maps are to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub rows: u32,
    pub slots: u32,
    pub ring: u32,
}

/// Opens an object and sets its sizes and its configuration.
pub(crate) fn open(bytes: &[u8], name: &str, config: &RawConfig, sizes: Sizes) -> Result<OpenObject, Error> {
    let mut object = ObjectBuilder::default()
        .name(name)
        .and_then(|builder| builder.open_memory(bytes))
        .map_err(Error::bpf("cannot open the BPF object"))?;
    for mut map in object.maps_mut() {
        let entries = match map.name().to_str() {
            Some("rows" | "free_rows") => sizes.rows,
            Some("slots") => sizes.rows * sizes.slots,
            Some("records") => sizes.ring,
            Some(".rodata.config") => {
                map.set_initial_value(config.as_bytes()).map_err(Error::bpf("cannot configure the BPF programs"))?;
                continue;
            }
            _ => continue,
        };
        map.set_max_entries(entries).map_err(Error::bpf("cannot size a BPF map"))?;
    }
    Ok(object)
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

/// Has libbpf say nothing on standard error; what it says while an object is loaded is kept for [`load`].
pub(crate) fn quiet() {
    libbpf_rs::set_print(Some((PrintLevel::Info, listen)));
}

/// Loads an object; where that fails, the reason in one line: the verifier's own, where it has one.
pub(crate) fn load(object: OpenObject) -> Result<Object, String> {
    quiet();
    SAID.set(Some(String::new()));
    let loaded = object.load();
    let said = SAID.take().unwrap_or_default();
    loaded.map_err(|error| match reason(&said) {
        Some(reason) => format!("{reason} ({error})"),
        None => format!("{error:#}"),
    })
}

/// The line that tells most in what libbpf printed: the end of the verifier's log, before its statistics, or else the first
/// complaint; with the program that it is about.
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

/// A map of a loaded object as a handle of its own.
pub(crate) fn map(object: &Object, name: &'static str) -> Result<MapHandle, Error> {
    let map = object.maps().find(|map| map.name() == OsStr::new(name));
    let map = map.ok_or(Error::Bpf {
        what: name,
        source: libbpf_rs::Error::from(std::io::Error::from_raw_os_error(libc::ENOENT)),
    })?;
    MapHandle::try_from(&map).map_err(Error::bpf("cannot hold a BPF map"))
}

/// A program of a loaded object, by name.
pub(crate) fn program<'a>(object: &'a Object, name: &'static str) -> Result<ProgramMut<'a>, Error> {
    object.progs_mut().find(|program| program.name() == OsStr::new(name)).ok_or(Error::Bpf {
        what: name,
        source: libbpf_rs::Error::from(std::io::Error::from_raw_os_error(libc::ENOENT)),
    })
}

/// The kernel's number of a loaded program.
pub(crate) fn program_id(object: &Object, name: &'static str) -> Result<u32, Error> {
    libbpf_rs::Program::id_from_fd(program(object, name)?.as_fd()).map_err(Error::bpf(name))
}

/// Attaches a program by its section name.
pub(crate) fn attach(object: &Object, name: &'static str) -> Result<Link, Error> {
    program(object, name)?.attach().map_err(Error::bpf(name))
}

/// Attaches a program to a cgroup.
pub(crate) fn attach_cgroup(object: &Object, name: &'static str, cgroup: &File) -> Result<Link, Error> {
    program(object, name)?.attach_cgroup(cgroup.as_raw_fd()).map_err(Error::bpf("cannot attach to the cgroup"))
}

/// Runs an iterator over the sockets of the caller's network namespace; gives what it wrote.
pub(crate) fn iterate(iterator: &Link) -> Result<Vec<u8>, Error> {
    let mut written = Vec::new();
    let mut iter = Iter::new(iterator).map_err(Error::bpf("cannot iterate over the sockets"))?;
    iter.read_to_end(&mut written).map_err(Error::system("cannot iterate over the sockets"))?;
    Ok(written)
}

/// The only entry of a per-CPU array of counters, each summed over the CPUs; `None` where it cannot be read. `T` is of 64-bit
/// counters only.
pub(crate) fn sum_per_cpu<T: Plain>(map: &MapHandle) -> Option<T> {
    let per_cpu = map.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten()?;
    let mut sum = vec![0u64; size_of::<T>() / 8];
    for cpu in per_cpu {
        for (total, part) in sum.iter_mut().zip(cpu.chunks_exact(8)) {
            *total += u64::from_ne_bytes(part.try_into().unwrap_or_default());
        }
    }
    let bytes: Vec<u8> = sum.iter().flat_map(|n| n.to_ne_bytes()).collect();
    T::from_bytes(&bytes)
}

/// Fills a queue of free rows with their numbers; gives it.
pub(crate) fn free_list(object: &Object, name: &'static str, rows: u32) -> Result<MapHandle, Error> {
    let free = map(object, name)?;
    for number in 0..rows {
        free.update(&[], &number.to_ne_bytes(), MapFlags::ANY).map_err(Error::bpf("cannot fill the free list"))?;
    }
    Ok(free)
}

/// Writes the only entry of an array map.
pub(crate) fn write_only<T: Plain>(map: &MapHandle, value: &T) -> Result<(), Error> {
    map.update(&0u32.to_ne_bytes(), value.as_bytes(), MapFlags::ANY).map_err(Error::bpf("cannot write a BPF map"))
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
