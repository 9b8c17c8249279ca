//! What can be seen of one side's datagrams whatever they carry: how many, how large, how marked.

use wire::Ecn;

/// The datagrams of one side.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    pub(super) datagrams: u64,
    pub(super) bytes: u64,
    /// The largest until the handshake was over, of all, and how many had that size.
    pub(super) first_size: u32,
    pub(super) size: u32,
    pub(super) of_size: u64,
    /// Those marked as capable of ECN, and as having met congestion.
    pub(super) ect: u64,
    pub(super) ce: u64,
}

impl Flow {
    pub(super) fn take(&mut self, bytes: u32, ecn: Ecn, is_over: bool) {
        self.datagrams += 1;
        self.bytes += u64::from(bytes);
        match ecn {
            Ecn::NotEct => {}
            Ecn::Ect0 | Ecn::Ect1 => self.ect += 1,
            Ecn::Ce => self.ce += 1,
        }
        if !is_over {
            self.first_size = self.first_size.max(bytes);
        }
        if bytes > self.size {
            (self.size, self.of_size) = (bytes, 0);
        }
        self.of_size += u64::from(bytes == self.size);
    }
}
