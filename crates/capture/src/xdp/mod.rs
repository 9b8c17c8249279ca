//! The XDP programs on an interface.
//!
//! Everything hangs on file descriptors: when this process ends, by whatever way, the kernel takes
//! the programs off the interface.

#[cfg(test)]
pub(crate) mod layout;
pub(crate) mod offset;
pub(crate) mod samples;
pub(crate) mod socket;

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore as _, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, PrintLevel, libbpf_sys};

use crate::filter::Program;
use crate::filter::xdp::{ACCEPTED, FIRST, Instruction, translate};
use crate::link::Link;
use crate::{Error, Options, Technique};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/xdp.bpf.o"));

/// Receive queues that programs know sockets for: `sockets` of `xdp.bpf.c`.
pub(crate) const QUEUES: u32 = 64;

/// Where the programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// In the driver, before the kernel has made a packet buffer.
    Native,
    /// In the network stack, after that: on drivers without XDP.
    Generic,
}

/// Loaded programs, not yet attached.
pub(crate) struct Loaded {
    object: Object,
    technique: Technique,
    link: Link,
    first: &'static str,
    // The program array holds references to programs only as long as somebody holds the programs.
    _filter: Option<OwnedFd>,
}

/// Programs on an interface; they leave when this value is dropped.
pub(crate) struct Attached {
    _link: OwnedFd,
    pub mode: Mode,
}

impl Loaded {
    /// Loads the programs; `last` is what becomes of a frame that matches: `redirect` or `sample`.
    /// The ring buffer of samples takes `sample_bytes`.
    pub fn new(
        technique: Technique,
        link: &Link,
        options: &Options,
        last: &'static str,
        sample_bytes: u32,
    ) -> Result<Self, Error> {
        libbpf_rs::set_print(None::<(PrintLevel, fn(PrintLevel, String))>);
        if !link.is_ethernet() {
            return Err(refused(technique, link, "it is no Ethernet interface; use rx-ring or recvmmsg".into()));
        }
        let first = if options.stamps.hardware() { "stamp_hardware" } else { "stamp" };
        let object = opened(link, options, first, last, sample_bytes)?
            .load()
            .map_err(|error| load_failed(technique, link, &error))?;
        let mut this = Self { object, technique, link: link.clone(), first, _filter: None };
        this.step(ACCEPTED, this.descriptor(last)?)?;
        match &options.filter {
            None => this.step(FIRST, this.descriptor(last)?)?,
            Some(expression) => {
                let filter = this.filter(expression, options.snap_length)?;
                this.step(FIRST, filter.as_raw_fd())?;
                this._filter = Some(filter);
            }
        }
        Ok(this)
    }

    fn filter(&self, expression: &str, snap_length: u32) -> Result<OwnedFd, Error> {
        let steps = self.map("steps")?;
        let program = Program::for_wire(self.link.link_type, expression, snap_length)?;
        let code = translate(&program.0, steps.as_fd().as_raw_fd()).map_err(|reason| Error::Filter {
            expression: expression.to_owned(),
            reason: format!("XDP cannot run it: {reason}; use rx-ring or recvmmsg"),
        })?;
        load_raw(&code).map_err(Error::system("load a filter for XDP"))
    }

    /// A map by its name.
    pub fn map(&self, name: &'static str) -> Result<MapHandle, Error> {
        let map = self.object.maps().find(|m| m.name() == OsStr::new(name));
        let missing = || Error::System { what: name, source: io::Error::from_raw_os_error(libc::ENOENT) };
        MapHandle::try_from(&map.ok_or_else(missing)?).map_err(|e| system("hold a BPF map", &e))
    }

    /// Frames that the programs could not hand over: `counts` of `xdp.bpf.c`, over all CPUs.
    pub fn dropped(&self) -> u64 {
        let cpus = self
            .map("counts")
            .ok()
            .and_then(|counts| counts.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten());
        let of_cpu = |bytes: &Vec<u8>| bytes.first_chunk().copied().map_or(0, u64::from_ne_bytes);
        cpus.iter().flatten().map(of_cpu).sum()
    }

    fn descriptor(&self, name: &'static str) -> Result<RawFd, Error> {
        let program = self.object.progs().find(|p| p.name() == OsStr::new(name));
        let missing = || Error::System { what: name, source: io::Error::from_raw_os_error(libc::ENOENT) };
        Ok(program.ok_or_else(missing)?.as_fd().as_raw_fd())
    }

    fn step(&self, slot: u32, program: RawFd) -> Result<(), Error> {
        let steps = self.map("steps")?;
        let update = steps.update(&slot.to_ne_bytes(), &program.to_ne_bytes(), MapFlags::ANY);
        update.map_err(|e| system("put a program into the program array", &e))
    }

    /// Puts the programs on the interface.
    pub fn attach(&self) -> Result<Attached, Error> {
        attach_to(self.technique, &self.link, self.descriptor(self.first)?)
    }
}

/// Puts a program on an interface: in the driver where it can, else in the network stack.
pub(crate) fn attach_to(technique: Technique, link: &Link, program: RawFd) -> Result<Attached, Error> {
    let busy = || {
        let reason = "it has an XDP program already, and takes one: `ip link` shows it; rx-ring works beside it";
        refused(technique, link, reason.into())
    };
    let native = unless_busy(PROGRAM_LEAVES, || attach(program, link.index, Hook::Xdp(libbpf_sys::XDP_FLAGS_DRV_MODE)));
    let refused_by_driver = match native {
        Ok(attached) => return Ok(Attached { _link: attached, mode: Mode::Native }),
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => return Err(busy()),
        Err(error) => error,
    };
    match attach(program, link.index, Hook::Xdp(libbpf_sys::XDP_FLAGS_SKB_MODE)) {
        Ok(attached) => Ok(Attached { _link: attached, mode: Mode::Generic }),
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Err(busy()),
        Err(error) => Err(refused(
            technique,
            link,
            format!(
                "the driver refuses an XDP program ({refused_by_driver}), and so does the kernel in its place ({error})"
            ),
        )),
    }
}

fn opened(link: &Link, options: &Options, first: &str, last: &str, sample_bytes: u32) -> Result<OpenObject, Error> {
    let mut object = ObjectBuilder::default().open_memory(OBJECT).map_err(|e| system("open the XDP programs", &e))?;
    for mut program in object.progs_mut() {
        let name = program.name().to_owned();
        program.set_autoload(name == first || name == last);
        if name == "stamp_hardware" {
            // The NIC's timestamp is for programs that are bound to its device (Linux 6.3).
            program.set_ifindex(link.index);
            program.set_flags(libbpf_sys::BPF_F_XDP_DEV_BOUND_ONLY);
        }
    }
    for mut map in object.maps_mut() {
        if map.name() == OsStr::new("samples") {
            map.set_max_entries(sample_bytes).map_err(|e| system("size a ring buffer", &e))?;
        } else if map.name() == OsStr::new(".rodata.settings") {
            let settings = options.snap_length.to_ne_bytes();
            map.set_initial_value(&settings).map_err(|e| system("configure the XDP programs", &e))?;
        }
    }
    Ok(object)
}

/// Loads a program of instructions; where the verifier refuses it, with the verifier's last words.
fn load_raw(code: &[Instruction]) -> io::Result<OwnedFd> {
    let mut log = vec![0u8; 1 << 16];
    // SAFETY: all zeroes are valid options of this size.
    let mut options: libbpf_sys::bpf_prog_load_opts = unsafe { std::mem::zeroed() };
    options.sz = size_of_val(&options) as u64;
    options.log_buf = log.as_mut_ptr().cast();
    options.log_size = log.len() as u32;
    options.log_level = 1;
    // The programs of one array have to agree in it.
    options.expected_attach_type = libbpf_sys::BPF_XDP;
    // SAFETY: name and licence end in NUL, the instructions are as many as counted and laid out as
    // struct bpf_insn, and the options with their log live over the call.
    let fd = unsafe {
        libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_XDP,
            c"filter".as_ptr(),
            c"GPL".as_ptr(),
            code.as_ptr().cast(),
            code.len() as u64,
            &raw mut options,
        )
    };
    owned(fd).map_err(|error| {
        let log = String::from_utf8_lossy(&log);
        let lines = log.trim_end_matches('\0').lines().map(str::trim);
        match lines.rev().find(|line| !line.is_empty() && !line.starts_with("processed ")) {
            Some(last) => io::Error::new(error.kind(), format!("{last} ({error})")),
            None => error,
        }
    })
}

/// Where on an interface a program runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hook {
    /// As an XDP program, with the flags that say in which mode.
    Xdp(u32),
    /// As a tc program for what arrives (tcx, Linux 6.6).
    Arrival,
}

/// Puts a program on the interface with this index, until the descriptor is closed.
pub(crate) fn attach(program: RawFd, index: u32, hook: Hook) -> io::Result<OwnedFd> {
    // SAFETY: all zeroes are valid options of this size.
    let mut options: libbpf_sys::bpf_link_create_opts = unsafe { std::mem::zeroed() };
    options.sz = size_of_val(&options) as u64;
    let place = match hook {
        Hook::Xdp(flags) => {
            options.flags = flags;
            libbpf_sys::BPF_XDP
        }
        Hook::Arrival => libbpf_sys::BPF_TCX_INGRESS,
    };
    // SAFETY: a program's descriptor, an interface's index, and options that live over the call.
    let fd = unsafe { libbpf_sys::bpf_link_create(program, index as i32, place, &raw const options) };
    owned(fd)
}

/// How long a program may take to leave an interface.
const PROGRAM_LEAVES: Duration = Duration::from_millis(250);
/// How long a queue may take to be let go: that waits for the kernel's clean-up of other network
/// namespaces.
const QUEUE_LEAVES: Duration = Duration::from_secs(5);

/// Tries again for `patience` where a place is taken: the kernel takes a program off an interface,
/// and lets go of a queue, in a worker some time after the last descriptor was closed.
fn unless_busy<T>(patience: Duration, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    const PAUSE: Duration = Duration::from_millis(10);
    let until = Instant::now() + patience;
    while Instant::now() < until {
        match attempt() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => std::thread::sleep(PAUSE),
            other => return other,
        }
    }
    attempt()
}

/// A descriptor as libbpf gives it: negative numbers are errors.
fn owned(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: a descriptor that was just made and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn number(error: &libbpf_rs::Error) -> Option<i32> {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if let Some(number) = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return Some(number);
        }
        source = error.source();
    }
    None
}

pub(crate) fn system(what: &'static str, error: &libbpf_rs::Error) -> Error {
    let source = number(error).map_or_else(|| io::Error::other(error.to_string()), io::Error::from_raw_os_error);
    Error::System { what, source }
}

fn refused(technique: Technique, link: &Link, reason: String) -> Error {
    Error::Technique { technique, interface: link.name.clone(), reason }
}

pub(crate) fn load_failed(technique: Technique, link: &Link, error: &libbpf_rs::Error) -> Error {
    match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => {
            Error::NotPermitted { what: technique.name(), needs: "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN" }
        }
        _ => refused(technique, link, format!("the kernel refuses the XDP programs: {error:#}")),
    }
}
