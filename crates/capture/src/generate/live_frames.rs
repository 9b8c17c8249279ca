//! XDP live frames: the kernel makes frames from a template, runs an XDP program on each, and
//! redirects them to the interface.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};

use libbpf_rs::{MapCore as _, MapFlags, MapHandle, Object, ObjectBuilder, PrintLevel, libbpf_sys};
use machine::netlink::LOOPBACK;

use super::template::{Layout, Template};
use super::{GapSums, Sender};
use crate::Error;
use crate::link::Link;
use crate::xdp::{Hook, attach};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/generate.bpf.o"));

/// Frames of a system call: some milliseconds' worth. The kernel runs them in groups of [`GROUP`].
const BATCH: u32 = 1 << 16;
/// Frames that the kernel redirects together (net/bpf/test_run.c), at most 256: more of them fall
/// out of the nearest cache.
const GROUP: u32 = 64;
/// Frames that the kernel hands to an interface at a time (`DEV_MAP_BULK_SIZE`, include/net/xdp.h),
/// a power of two.
const BULK: u32 = 16;

pub(super) struct LiveFrames {
    object: Object,
    state: MapHandle,
    template: Vec<u8>,
    link: Link,
    next: u64,
    _dispatched: Option<Dispatched>,
    _watching: Vec<libbpf_rs::Link>,
}

/// The program on the loopback device of an empty network namespace, where it never runs.
///
/// Each run of a program that is on no interface changes the kernel's XDP dispatcher twice
/// (`bpf_prog_test_run_xdp`), and each change waits for all CPUs (`synchronize_rcu` in
/// `bpf_dispatcher_update`): milliseconds. One that is on an interface is in the dispatcher
/// already.
struct Dispatched {
    _attached: OwnedFd,
    _namespace: std::fs::File,
}

impl Dispatched {
    /// `None` where this process may not make a network namespace: then runs take longer.
    fn put(program: RawFd) -> Option<Self> {
        let put = || {
            machine::enter_new_network().ok()?;
            let namespace = std::fs::File::open("/proc/thread-self/ns/net").ok()?;
            let attached = attach(program, LOOPBACK, Hook::Xdp(libbpf_sys::XDP_FLAGS_SKB_MODE)).ok()?;
            Some(Self { _attached: attached, _namespace: namespace })
        };
        // The namespace is that of a thread that ends here.
        std::thread::scope(|scope| std::thread::Builder::new().spawn_scoped(scope, put).ok()?.join().ok().flatten())
    }
}

/// `struct state` of `generate.bpf.c`: words in this order.
const STATE_WORDS: usize = 10;
const NEXT: usize = 0;
const REFUSED: usize = 7;
const ERROR: usize = 8;

/// The programs that see which frames the interface does not take.
const WATCHING: [&str; 2] = ["handed_over", "not_redirected"];

impl LiveFrames {
    /// `at_line_rate` reads the clock for every sixteenth frame, as it is much of what a frame
    /// costs: the kernel hands frames to the interface sixteen at a time anyway
    /// (`DEV_MAP_BULK_SIZE`).
    pub fn open(link: &Link, template: &Template, at_line_rate: bool) -> Result<Self, Error> {
        libbpf_rs::set_print(None::<(PrintLevel, fn(PrintLevel, String))>);
        let refused = |reason: String| Error::Sending { way: "live-frames", interface: link.name.clone(), reason };
        let failed = |error: libbpf_rs::Error| match error.kind() {
            libbpf_rs::ErrorKind::PermissionDenied => {
                Error::NotPermitted { what: "sending", needs: "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN" }
            }
            _ => refused(error.to_string()),
        };
        let mut object = ObjectBuilder::default().open_memory(OBJECT).map_err(failed)?;
        for mut map in object.maps_mut() {
            if map.name() == OsStr::new(".rodata.settings") {
                map.set_initial_value(&settings(link.index, template.layout(), at_line_rate)).map_err(failed)?;
            }
        }
        let object = object.load().map_err(failed)?;
        let watching =
            object.progs_mut().filter(|program| WATCHING.iter().any(|name| program.name() == OsStr::new(name)));
        let watching = watching.map(|program| program.attach()).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let state = object.maps().find(|map| map.name() == OsStr::new("states"));
        let state = state.ok_or_else(|| refused("its program has no state".into()))?;
        let state = MapHandle::try_from(&state).map_err(failed)?;
        let program = object.progs().find(|p| p.name() == OsStr::new("generate"));
        let dispatched = program.and_then(|program| Dispatched::put(program.as_fd().as_raw_fd()));
        let mut this = Self {
            object,
            state,
            template: template.bytes().to_vec(),
            link: link.clone(),
            next: u64::MAX,
            _dispatched: dispatched,
            _watching: watching,
        };
        // A run of no frame: whether this kernel knows live frames at all.
        this.run(1, true)?;
        this.next = u64::MAX;
        Ok(this)
    }

    fn words(&self) -> [u64; STATE_WORDS] {
        let bytes = self.state.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten().unwrap_or_default();
        let mut words = [0; STATE_WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = bytes.try_into().map_or(0, u64::from_ne_bytes);
        }
        words
    }

    /// Runs the program on `frames` frames; `dry` has none of them leave.
    fn run(&mut self, frames: u32, dry: bool) -> Result<(), Error> {
        let program = self.object.progs().find(|p| p.name() == OsStr::new("generate"));
        let Some(program) = program else { return Ok(()) };
        // SAFETY: all zeroes are valid options of this size.
        let mut options: libbpf_sys::bpf_test_run_opts = unsafe { std::mem::zeroed() };
        options.sz = size_of_val(&options) as u64;
        // A frame too short for the program is dropped by it: nothing leaves in a dry run.
        let data: &[u8] = if dry { &self.template[..14] } else { &self.template };
        options.data_in = data.as_ptr().cast();
        options.data_size_in = data.len() as u32;
        options.repeat = frames as i32;
        options.flags = libbpf_sys::BPF_F_TEST_XDP_LIVE_FRAMES;
        options.batch_size = frames.min(GROUP);
        // SAFETY: the options and the template they point to live over the call.
        let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_fd().as_raw_fd(), &raw mut options) };
        match -result {
            0 => Ok(()),
            libc::EINTR | libc::EAGAIN => Ok(()),
            number => Err(self.refused(std::io::Error::from_raw_os_error(number).to_string())),
        }
    }

    fn refused(&self, reason: String) -> Error {
        Error::Sending { way: "live-frames", interface: self.link.name.clone(), reason }
    }
}

/// `struct settings` of `generate.bpf.c`.
fn settings(interface: u32, layout: Layout, at_line_rate: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [interface, layout.udp, layout.mark, layout.fixed_sum.unwrap_or(0)] {
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    bytes.extend_from_slice(&layout.flows.to_ne_bytes());
    bytes.extend_from_slice(&layout.port.to_ne_bytes());
    bytes.extend_from_slice(&u32::from(layout.fixed_sum.is_some()).to_ne_bytes());
    let stale: u32 = if at_line_rate { BULK - 1 } else { 0 };
    bytes.extend_from_slice(&stale.to_ne_bytes());
    bytes
}

impl Sender for LiveFrames {
    fn send(&mut self, first: u64, count: u32) -> Result<u32, Error> {
        if self.next != first {
            let mut words = self.words();
            words[NEXT] = first;
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            self.state.update(&0u32.to_ne_bytes(), &bytes, MapFlags::ANY).map_err(|e| Error::System {
                what: "set the id of the next frame",
                source: std::io::Error::other(e),
            })?;
        }
        let wanted = count.min(BATCH);
        let refused = self.dropped();
        self.run(wanted, false)?;
        let words = self.words();
        self.next = words[NEXT];
        let (went, refused) = (self.next - first, words[REFUSED] - refused);
        let number = i32::try_from(words[ERROR]).unwrap_or(0);
        if went > 0 && refused == went && number != 0 {
            if !self.link.is_up() {
                return Err(Error::InterfaceGone(self.link.name.clone()));
            }
            // Later ones may be taken again: a peer that is down for a moment is no error.
            if first == 0 {
                return Err(self.refused(why(number)));
            }
        }
        Ok(went as u32)
    }

    fn dropped(&self) -> u64 {
        self.words()[REFUSED]
    }

    fn batch(&self) -> u32 {
        BATCH
    }

    fn gaps(&self) -> GapSums {
        gaps(self.words())
    }
}

/// Why an interface takes no frame.
fn why(number: i32) -> String {
    let error = std::io::Error::from_raw_os_error(number);
    match number {
        libc::EOPNOTSUPP | libc::ENXIO => format!(
            "it takes no frames from XDP ({error}); one end of a veth pair does where the other has an XDP program or GRO (ethtool -K IFACE \
             gro on)"
        ),
        libc::EMSGSIZE => format!("the frames are longer than its MTU allows ({error})"),
        _ => format!("it does not take the frames: {error}"),
    }
}

/// The gaps between frames that the program has summed up.
fn gaps([_next, _last, n, sum, high, low, max, ..]: [u64; STATE_WORDS]) -> GapSums {
    GapSums { n, sum: sum as f64, squares: high as f64 * 2f64.powi(64) + low as f64, max }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_is_written_to_the_field_of_its_name() {
        let layout = Layout { udp: 2, mark: 3, fixed_sum: Some(4), flows: 5, port: 6 };
        let bytes = settings(1, layout, true);
        let word = |at: usize| u32::from_ne_bytes(*bytes[at..].first_chunk().unwrap());
        let half = |at: usize| u16::from_ne_bytes(*bytes[at..].first_chunk().unwrap()).into();
        let fields = crate::xdp::layout::fields(concat!(env!("OUT_DIR"), "/generate.bpf.o"), "settings");
        let written: Vec<(&str, u32)> = fields
            .iter()
            .map(|(name, at)| {
                (name.as_str(), if ["flows", "port"].contains(&name.as_str()) { half(*at) } else { word(*at) })
            })
            .collect();
        let expected = [("interface", 1), ("udp", 2), ("mark", 3), ("fixed_sum", 4), ("flows", 5), ("port", 6)];
        assert_eq!(written[..6], expected);
        assert_eq!(written[6..], [("checksum", 1), ("stale", 15)]);
    }

    #[test]
    fn each_word_of_the_state_is_read_as_itself() {
        let gaps = gaps([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!((gaps.n, gaps.sum, gaps.max), (3, 4.0, 7));
        assert_eq!(gaps.squares, 5.0 * 2f64.powi(64) + 6.0);
    }
}
