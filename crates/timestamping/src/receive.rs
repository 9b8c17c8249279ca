//! Receiving with timestamps, in batches or one by one.

use std::net::SocketAddr;
use std::os::fd::AsFd;

use crate::batch::{Batch, Message};
use crate::control::{Control, PacketInfo, Times, controls};
use crate::{BatchSize, Error, ParseError};

/// One datagram, or what a stream had to give, with its stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// What came, as far as there was room.
    pub payload: &'a [u8],
    /// Whether more came than there was room for.
    pub cut: bool,
    /// Who sent it; none for a stream.
    pub from: Option<SocketAddr>,
    /// When it entered the stack, and when the NIC received it. For a stream: its last byte.
    pub times: Times,
    /// The interface the NIC's stamp was taken on, and the length there.
    pub packet_info: Option<PacketInfo>,
    /// The interface it came in by.
    pub interface: Option<u32>,
    /// Its TTL or hop limit, where [`crate::Request::ttl`] was asked for.
    pub ttl: Option<u8>,
    /// Datagrams this socket has dropped so far since its receive buffer was full, modulo 2³²,
    /// where [`crate::Request::count_drops`] was asked for. The kernel leaves it out until there is
    /// a first one.
    pub dropped: Option<u32>,
}

/// Receives with stamps, many messages a system call.
pub struct Receiver {
    batch: Batch,
}

impl Receiver {
    /// A receiver of batches of this size; `size.payload` is the largest datagram that is kept
    /// whole.
    pub fn new(size: BatchSize) -> Self {
        Self { batch: Batch::new(size.messages, size.payload, size.control, true) }
    }

    /// Receives what is there, at most a batch, and hands each message to `each`; gives how many
    /// there were. Never waits. A message with control messages that cannot be read is passed on as
    /// an error.
    ///
    /// A stream that has ended gives messages of length 0; room for one message is enough for a
    /// stream.
    ///
    /// # Errors
    /// [`Error::System`] where `recvmmsg` fails: among others with the error an ICMP message
    /// brought. Nothing to read is no failure.
    pub fn receive(
        &mut self,
        socket: impl AsFd,
        mut each: impl FnMut(Result<Received<'_>, ParseError>),
    ) -> Result<usize, Error> {
        let count = self
            .batch
            .receive(socket.as_fd(), libc::MSG_DONTWAIT)
            .map_err(|source| Error::System { call: "recvmmsg", source })?;
        for index in 0..count {
            each(received(self.batch.message(index)));
        }
        Ok(count)
    }
}

fn received(message: Message<'_>) -> Result<Received<'_>, ParseError> {
    message.whole_control()?;
    let mut out = Received {
        payload: message.payload,
        cut: message.payload_cut,
        from: message.address(),
        times: Times::default(),
        packet_info: None,
        interface: None,
        ttl: None,
        dropped: None,
    };
    for control in controls(message.control) {
        match control? {
            Control::Times(times) => out.times = times,
            Control::PacketInfo(info) => out.packet_info = Some(info),
            Control::Interface(index) => out.interface = Some(index),
            Control::Ttl(ttl) => out.ttl = Some(ttl),
            Control::Dropped(count) => out.dropped = Some(count),
            _ => {}
        }
    }
    Ok(out)
}
