//! `recvmsg`: one system call a frame.

use std::time::Duration;

use super::about;
use crate::hardware::HardwareStamps;
use crate::link::Link;
use crate::packet::PacketSocket;
use crate::packet::messages::{self, Messages};
use crate::{About, Counts, Error, Frame, Options, Receiver, Technique};

pub(super) struct Recvmsg {
    socket: PacketSocket,
    messages: Messages,
    options: Options,
    about: About,
    _hardware: Option<HardwareStamps>,
}

impl Recvmsg {
    pub fn open(link: &Link, options: &Options, hardware: Option<HardwareStamps>) -> Result<Self, Error> {
        let socket = PacketSocket::open(Technique::Recvmsg, link, options)?;
        socket.buffer(options.buffer_bytes)?;
        messages::ask(&socket, options.stamps)?;
        socket.bind(options)?;
        Ok(Self {
            socket,
            messages: Messages::new(1, options),
            options: options.clone(),
            about: about(Technique::Recvmsg, link, options, Vec::new()),
            _hardware: hardware,
        })
    }
}

impl Receiver for Recvmsg {
    fn next_batch(&mut self, wait: Duration, each: &mut dyn FnMut(&Frame<'_>)) -> Result<usize, Error> {
        let mut count = 0;
        while count < self.options.batch as usize {
            let came = self.messages.receive_one(&self.socket)?
                || (count == 0 && self.socket.wait(wait)? && self.messages.receive_one(&self.socket)?);
            if !came {
                break;
            }
            let frame = self.messages.frame(0);
            self.socket.received(messages::stamped(&frame, self.options.stamps));
            each(&frame);
            count += 1;
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
