//! The two requests of rtnetlink(7) that trying needs: make a veth pair, put a queue on a device.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use crate::sockets::socket;

const NLMSG_ERROR: u16 = libc::NLMSG_ERROR as u16;
/// `VETH_INFO_PEER` of `<linux/veth.h>`.
const VETH_INFO_PEER: u16 = 1;

/// Bytes of a message under construction. Attributes are aligned to four bytes, as netlink(7) has it.
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16) -> Self {
        let mut bytes = vec![0; 16];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        Self(bytes)
    }

    fn put(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    /// An attribute with the content that `fill` writes; its length is set afterwards.
    fn attribute(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let start = self.0.len();
        self.put(&[0; 4]);
        self.0[start + 2..start + 4].copy_from_slice(&kind.to_ne_bytes());
        fill(self);
        let length = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
    }

    fn text(&mut self, kind: u16, text: &str) {
        self.attribute(kind, |message| message.put(format!("{text}\0").as_bytes()));
    }

    fn finish(mut self) -> Vec<u8> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0
    }
}

/// The kernel's answer: an `NLMSG_ERROR`; its code 0 means done.
fn outcome(answer: &[u8]) -> io::Result<()> {
    let kind = answer.get(4..6).and_then(|b| b.try_into().ok()).map(u16::from_ne_bytes);
    let code = answer.get(16..20).and_then(|b| b.try_into().ok()).map(i32::from_ne_bytes);
    match (kind, code) {
        (Some(NLMSG_ERROR), Some(0)) => Ok(()),
        (Some(NLMSG_ERROR), Some(code)) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "an answer of rtnetlink that is no acknowledgement")),
    }
}

/// A connection to rtnetlink in the network namespace of the calling thread.
pub struct Netlink(OwnedFd);

impl Netlink {
    pub fn open() -> io::Result<Self> {
        socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE).map(Self)
    }

    fn request(&self, message: Message) -> io::Result<()> {
        let bytes = message.finish();
        // SAFETY: the pointer and the length describe `bytes`.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut answer = [0u8; 4096];
        // SAFETY: the pointer and the length describe `answer`, of which the kernel fills at most that much.
        let got = unsafe { libc::recv(self.0.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
        if got < 0 {
            return Err(io::Error::last_os_error());
        }
        outcome(&answer[..got as usize])
    }

    /// Makes a veth pair with these names, both ends in this namespace.
    pub fn veth(&self, name: &str, peer: &str) -> io::Result<()> {
        let mut message = Message::new(libc::RTM_NEWLINK);
        message.put(&[0; 16]); // struct ifinfomsg: no family, no index yet, no flags
        message.text(libc::IFLA_IFNAME, name);
        message.attribute(libc::IFLA_LINKINFO, |message| {
            message.text(libc::IFLA_INFO_KIND, "veth");
            message.attribute(libc::IFLA_INFO_DATA, |message| {
                message.attribute(VETH_INFO_PEER, |message| {
                    message.put(&[0; 16]);
                    message.text(libc::IFLA_IFNAME, peer);
                });
            });
        });
        self.request(message)
    }

    /// Puts a queue of this kind under `parent` of the device with this index; `options` is the kind's own structure.
    pub fn qdisc(&self, index: u32, parent: u32, kind: &str, options: &[u8]) -> io::Result<()> {
        let mut message = Message::new(libc::RTM_NEWQDISC);
        let mut tcmsg = [0u8; 20]; // struct tcmsg: family, padding, ifindex, handle, parent, info
        tcmsg[4..8].copy_from_slice(&index.to_ne_bytes());
        tcmsg[12..16].copy_from_slice(&parent.to_ne_bytes());
        message.put(&tcmsg);
        message.text(libc::TCA_KIND, kind);
        if !options.is_empty() {
            message.attribute(libc::TCA_OPTIONS, |message| message.put(options));
        }
        self.request(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_nest_and_are_aligned() {
        let mut message = Message::new(1);
        message.attribute(5, |message| message.text(6, "ab"));
        let bytes = message.finish();
        assert_eq!(u32::from_ne_bytes(bytes[..4].try_into().unwrap()), 28);
        assert_eq!(u16::from_ne_bytes(bytes[16..18].try_into().unwrap()), 12);
        assert_eq!(u16::from_ne_bytes(bytes[20..22].try_into().unwrap()), 8);
        assert_eq!(&bytes[24..28], b"ab\0\0");
    }

    #[test]
    fn short_and_foreign_answers_are_errors() {
        assert!(outcome(&[]).is_err());
        assert!(outcome(&[0; 19]).is_err());
        let mut answer = [0u8; 20];
        answer[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        assert!(outcome(&answer).is_ok());
        answer[16..20].copy_from_slice(&(-libc::ENOENT).to_ne_bytes());
        assert_eq!(outcome(&answer).unwrap_err().raw_os_error(), Some(libc::ENOENT));
        answer[16..20].copy_from_slice(&i32::MIN.to_ne_bytes());
        assert!(outcome(&answer).is_err());
    }
}
