//! What has to be asked of the machine: its names, its clock, and what the terminal's environment says.

use std::ffi::CStr;

use record::{Instant, Monotonic};
use store::Provenance;
use trace::{Receiving, Tracer};

use super::request::Request;

/// `CLOCK_MONOTONIC`, the clock of the stages.
pub fn monotonic() -> Instant<Monotonic> {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime writes one timespec, and every kernel has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut at) };
    Instant::from_nanos(at.tv_sec.cast_unsigned() * 1_000_000_000 + at.tv_nsec.cast_unsigned())
}

pub fn provenance(request: &Request, tracer: &Tracer) -> Provenance {
    let (kernel, machine) = names();
    Provenance {
        version: env!("CARGO_PKG_VERSION").into(),
        command_line: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        kernel,
        machine,
        cpus: std::thread::available_parallelism().map_or(0, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
        backend: tracer.backend().to_string(),
        target: request.words.clone(),
        sampling: request.config.sampling.into(),
        max_rate: request.config.max_rate.map(|rate| rate.get().into()),
        clock: tracer.clock().into(),
        start_ns: monotonic().as_nanos(),
        receiving: tracer.receiving().map(receiving),
        packets: tracer.packets().map(observing),
        path: None,
    }
}

/// Why no packet has a stamp of the NIC, where that is because one here is not set to give any.
pub fn no_nic() -> Option<String> {
    let interfaces = ::machine::interfaces().ok()?;
    let off: Vec<&str> = interfaces.iter().filter(|i| i.transmit_is_off()).map(|i| i.name.as_str()).collect();
    (!off.is_empty()).then(|| {
        format!(
            "hardware stamps of what is sent are switched off on {} (`wirelapse doctor` says how to switch them on)",
            off.join(", ")
        )
    })
}

/// How received bytes are observed, and what that does to programs outside the target.
fn receiving(by: &Receiving) -> store::Receiving {
    let tracepoints = "the tracepoints of the TCP receive path run for every TCP socket of this machine, and sk_data_ready for every \
                       socket; they return at the first look where the socket is not traced";
    let stamps = "the kernel stamps every packet that this machine receives, a reading of the clock each (driver_rx)";
    let host_wide = [Some(tracepoints), by.no_driver_rx().is_none().then_some(stamps)];
    store::Receiving {
        no_driver_rx: by.no_driver_rx().map(str::to_owned),
        no_ready: by.no_ready().map(str::to_owned),
        host_wide: host_wide.into_iter().flatten().map(str::to_owned).collect(),
    }
}

/// The same for people: a remark each.
pub fn remarks(by: &Receiving) -> Vec<String> {
    report::view::receiving_remarks(&receiving(by))
}

/// How packets and datagrams are observed, and what that does to programs outside the target.
fn observing(by: &trace::Packets) -> store::Observing {
    store::Observing {
        missing: by.missing().to_vec(),
        host_wide: by.host_wide().into_iter().map(str::to_owned).collect(),
    }
}

/// The same for people: a remark each.
pub fn packet_remarks(by: &trace::Packets) -> Vec<String> {
    report::view::packet_remarks(&observing(by))
}

/// Kernel release and hardware name.
fn names() -> (String, String) {
    // SAFETY: utsname is plain character arrays; all zeros is a value of it.
    let mut names: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: uname writes one utsname.
    if unsafe { libc::uname(&raw mut names) } != 0 {
        return ("unknown".into(), "unknown".into());
    }
    // SAFETY: the kernel ends each of its names with a zero within the array.
    let text = |name: &[libc::c_char]| unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
    (text(&names.release), text(&names.machine))
}

/// <https://no-color.org>, and terminals that say they have none.
pub fn colour_wanted() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether the locale's characters are Unicode: the first of these variables that is set decides (POSIX).
pub fn unicode() -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(std::env::var_os).find(|value| !value.is_empty()).is_some_and(
        |value| {
            let value = value.to_string_lossy().to_lowercase();
            value.contains("utf-8") || value.contains("utf8")
        },
    )
}
