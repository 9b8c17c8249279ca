//! The memory of a socket (`SO_MEMINFO`, the `skmem` of `ss -m`; `sk_get_meminfo()` in net/core/sock.c).

use std::os::fd::AsFd;

use serde::{Deserialize, Serialize};

/// What a socket takes of memory, and what it may. Packets count with all that the kernel keeps for them, not with their
/// payload alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketMemory {
    /// In packets that were received and not read.
    pub receive_used_bytes: u32,
    /// The most of that: tuned by the kernel unless `SO_RCVBUF` is set.
    pub receive_buffer_bytes: u32,
    /// In packets that are written and not acknowledged.
    pub send_used_bytes: u32,
    /// The most of that.
    pub send_buffer_bytes: u32,
    /// Charged to the socket ahead of use.
    pub forward_bytes: u32,
    /// Packets dropped for lack of buffer.
    pub drops: u32,
}

impl SocketMemory {
    /// Asks the kernel (Linux 4.12); `None` where it does not say.
    pub fn of(socket: impl AsFd) -> Option<Self> {
        let memory = timestamping::socket_memory(socket).ok()?;
        Some(Self {
            receive_used_bytes: memory.receive_queue,
            receive_buffer_bytes: memory.receive_limit,
            send_used_bytes: memory.send_queue,
            send_buffer_bytes: memory.send_limit,
            forward_bytes: memory.forward,
            drops: memory.drops,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn unread_bytes_take_memory() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut a = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (b, _) = listener.accept().unwrap();
        assert_eq!(SocketMemory::of(&b).unwrap().receive_used_bytes, 0);
        a.write_all(&[0; 5_000]).unwrap();
        let mut one = [0];
        b.peek(&mut one).unwrap();
        let memory = SocketMemory::of(&b).unwrap();
        assert!(memory.receive_used_bytes >= 5_000, "{memory:?}");
        assert_eq!(memory.receive_buffer_bytes as usize, socket2::SockRef::from(&b).recv_buffer_size().unwrap());
        assert_eq!(memory.send_buffer_bytes as usize, socket2::SockRef::from(&b).send_buffer_size().unwrap());
    }
}
