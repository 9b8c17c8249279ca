//! A veth pair in a network namespace that one thread holds: it goes with the thread.

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::process::Command;

/// Two ends of a wire: frames sent into one come out of the other.
pub struct WirePair {
    socket: OwnedFd,
}

/// The interface that sends.
pub const SENDER: &str = "left";
const TAP: &str = "right";

pub fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status().unwrap();
    assert!(status.success(), "ip {words}");
}

fn described(interface: &str) -> String {
    let output = Command::new("ip").args(["-o", "link", "show", interface]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

impl WirePair {
    /// Runs `test` on a thread in a namespace of its own, with the pair up and nothing else on it.
    pub fn run(test: impl FnOnce(&WirePair) + Send) {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // SAFETY: moves the calling thread alone into a new network namespace.
                assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
                ip(&format!("link add {SENDER} type veth peer name {TAP}"));
                for end in [SENDER, TAP] {
                    // Without addresses of its own the host sends nothing by itself.
                    ip(&format!("link set {end} addrgenmode none"));
                    ip(&format!("link set {end} up"));
                }
                // Until the kernel has noticed that the wire is there, it drops what is sent into
                // it.
                tier::until("both ends to be up", || {
                    [SENDER, TAP].iter().all(|end| described(end).contains("state UP"))
                });
                test(&WirePair { socket: packet_socket(SENDER) });
            });
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        });
    }

    /// The interface that receives.
    pub fn tap(&self) -> &'static str {
        TAP
    }

    /// Sends a frame into the other end.
    pub fn send(&self, frame: &[u8]) {
        // SAFETY: a buffer that lives over the call, with its true length.
        let sent = unsafe { libc::send(self.socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(sent, frame.len() as isize, "{}", std::io::Error::last_os_error());
    }

    /// Frames that the tap's interface has received so far: a busy machine drops some on the wire,
    /// and counts them apart.
    pub fn arrived(&self) -> u64 {
        let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        let line = table.lines().find_map(|line| line.trim().strip_prefix("right:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Has the receiving end take frames that XDP redirects to the wire: veth wants NAPI on it,
    /// which GRO switches on.
    pub fn take_xdp_frames(&self) {
        let status = Command::new("ethtool").args(["-K", TAP, "gro", "on"]).status().unwrap();
        assert!(status.success());
    }

    /// Takes the pair away.
    pub fn remove(&self) {
        ip(&format!("link del {TAP}"));
    }
}

fn packet_socket(interface: &str) -> OwnedFd {
    let name = std::ffi::CString::new(interface).unwrap();
    // SAFETY: plain calls with values that live over them; the descriptor is owned once.
    unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        assert!(fd >= 0);
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
        let size = size_of_val(&address) as libc::socklen_t;
        assert_eq!(libc::bind(fd, (&raw const address).cast(), size), 0);
        OwnedFd::from_raw_fd(fd)
    }
}

/// A frame of `length` bytes with `id` behind its Ethernet header, of a type that no protocol has.
pub fn frame_of(length: usize, id: u64) -> Vec<u8> {
    let mut frame = vec![0; length];
    frame[..6].copy_from_slice(&[0x02, 0, 0, 0, 0, 2]);
    frame[6..12].copy_from_slice(&[0x02, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame[14..18].copy_from_slice(&(id as u32).to_be_bytes());
    frame
}
