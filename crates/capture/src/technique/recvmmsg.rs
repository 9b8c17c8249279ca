//! `recvmmsg`: one system call a batch.

use std::time::Duration;

use super::about;
use crate::hardware::HardwareStamps;
use crate::link::Link;
use crate::packet::PacketSocket;
use crate::packet::messages::{self, Messages};
use crate::{About, Counts, Error, Frame, Options, Receiver, Stamps, Technique};

pub(super) struct Recvmmsg {
    socket: PacketSocket,
    messages: Messages,
    stamps: Stamps,
    about: About,
    _hardware: Option<HardwareStamps>,
}

impl Recvmmsg {
    pub fn open(link: &Link, options: &Options, hardware: Option<HardwareStamps>) -> Result<Self, Error> {
        let socket = PacketSocket::open(Technique::Recvmmsg, link, options)?;
        socket.buffer(options.buffer_bytes)?;
        messages::ask(&socket, options.stamps)?;
        socket.bind(options)?;
        Ok(Self {
            socket,
            messages: Messages::new(options.batch, options),
            stamps: options.stamps,
            about: about(Technique::Recvmmsg, link, options, Vec::new()),
            _hardware: hardware,
        })
    }
}

impl Receiver for Recvmmsg {
    fn next_batch(&mut self, wait: Duration, each: &mut dyn FnMut(&Frame<'_>)) -> Result<usize, Error> {
        let mut count = self.messages.receive_batch(&self.socket)?;
        if count == 0 && self.socket.wait(wait)? {
            count = self.messages.receive_batch(&self.socket)?;
        }
        for index in 0..count {
            let frame = self.messages.frame(index);
            self.socket.received(messages::stamped(&frame, self.stamps));
            each(&frame);
        }
        Ok(count)
    }

    fn counts(&mut self) -> Counts {
        self.socket.counts()
    }

    fn about(&self) -> &About {
        &self.about
    }
}
