//! One exchange, out and back, with the time at every stage.

use clock::{Clock, Disorder, Instant, Nanos, Phc, Realtime};
use timestamping::{TransmitStage, TransmitStamp};

/// What answers at the other end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Answerer {
    /// The peer's kernel, without delay: a SYN-ACK, a reset, an echo reply, an ICMP error.
    #[default]
    Kernel,
    /// A program at the peer, which takes the time that it takes.
    Program,
}

/// By how much an ACK later than the handshake's may have been delayed by the peer: half of the
/// least that Linux waits (`TCP_DELACK_MIN`, `include/net/tcp.h`), so that the jitter of a path is
/// not taken for it.
const DELAYED: Nanos = Nanos::from_millis(20);

/// When one exchange passed each stage. A stage that this machine could not give is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// What answered.
    pub answerer: Answerer,
    /// Right before the call that sends, by the program's clock.
    pub send: Option<Instant<Realtime>>,
    /// Into the packet scheduler.
    pub sched: Option<Instant<Realtime>>,
    /// To the driver.
    pub driver: Option<Instant<Realtime>>,
    /// On the wire, by the NIC's clock.
    pub nic: Option<Instant<Phc>>,
    /// TCP: the last byte was acknowledged.
    pub ack: Option<Instant<Realtime>>,
    /// Back at the NIC, by its clock.
    pub nic_rx: Option<Instant<Phc>>,
    /// Into the stack.
    pub driver_rx: Option<Instant<Realtime>>,
    /// Right after the call that received returned, by the program's clock.
    pub read: Option<Instant<Realtime>>,
    /// Of a TCP request: what was beyond this host in the handshake of its connection, which the
    /// peer's kernel answered.
    pub handshake: Option<Nanos>,
    /// TCP's own measure of the round trip of this handshake, where no stamp gives what passed
    /// beyond this host.
    pub tcp_rtt: Option<Nanos>,
}

impl Exchange {
    /// The stages on the system's clock, in the order they are passed.
    pub fn stages(&self) -> [(&'static str, Option<Instant<Realtime>>); 6] {
        [
            ("send", self.send),
            ("sched", self.sched),
            ("driver", self.driver),
            ("driver_rx", self.driver_rx),
            ("ack", self.ack),
            ("read", self.read),
        ]
    }

    /// How long it took as the program sees it.
    ///
    /// # Errors
    /// [`Disorder`], as for all of these, where the later stage has the earlier time.
    pub fn total(&self) -> Result<Option<Nanos>, Disorder> {
        between(self.send, self.read)
    }

    /// On this host, on the way out: from the call to the driver.
    ///
    /// # Errors
    /// [`Disorder`].
    pub fn kernel_out(&self) -> Result<Option<Nanos>, Disorder> {
        between(self.send, self.driver)
    }

    /// Beyond this host, network and peer together: between the NIC's own stamps where there are
    /// both, else from driver to stack, else what TCP itself measured.
    ///
    /// # Errors
    /// [`Disorder`].
    pub fn network_and_peer(&self) -> Result<Option<Nanos>, Disorder> {
        if let (Some(out), Some(back)) = (self.nic, self.nic_rx) {
            return back.since(out).map(Some);
        }
        Ok(between(self.driver, self.driver_rx)?.or(self.tcp_rtt))
    }

    /// The network's part: all that is beyond this host where the peer's kernel answers. Where a
    /// program answers, the time from the driver to TCP's ACK, if the ACK came before the answer:
    /// at most that long, as the peer may delay the ACK. `None` where the ACK came with the answer,
    /// came so much later than the handshake's that the peer may have delayed it, or where there is
    /// none (UDP): then network and program cannot be separated.
    ///
    /// # Errors
    /// [`Disorder`].
    pub fn network(&self) -> Result<Option<Nanos>, Disorder> {
        match self.answerer {
            Answerer::Kernel => self.network_and_peer(),
            Answerer::Program => match self.peer()? {
                Some(_) => between(self.driver, self.ack),
                None => Ok(None),
            },
        }
    }

    /// The part of the program at the peer: from TCP's ACK of the request to the answer, at least
    /// that long. `None` as for [`Self::network`].
    ///
    /// # Errors
    /// [`Disorder`].
    pub fn peer(&self) -> Result<Option<Nanos>, Disorder> {
        match (self.answerer, self.driver, self.ack, self.driver_rx) {
            (Answerer::Program, Some(driver), Some(ack), Some(back)) if ack < back => {
                let prompt = self.handshake.unwrap_or_default() + DELAYED;
                if ack.since(driver)? < prompt { back.since(ack).map(Some) } else { Ok(None) }
            }
            _ => Ok(None),
        }
    }

    /// On this host, on the way in: from the stack to the program.
    ///
    /// # Errors
    /// [`Disorder`].
    pub fn kernel_in(&self) -> Result<Option<Nanos>, Disorder> {
        between(self.driver_rx, self.read)
    }

    /// Whether all stages that there are come in order.
    pub fn is_in_order(&self) -> bool {
        let chain = [self.send, self.sched, self.driver, self.driver_rx, self.read];
        let times: Vec<_> = chain.into_iter().flatten().collect();
        times.is_sorted()
            && self.network_and_peer().is_ok()
            && self.ack.is_none_or(|a| self.driver.is_none_or(|d| d <= a))
    }

    /// Notes a stamp of what was sent.
    pub(crate) fn transmitted(&mut self, stamp: &TransmitStamp<'_>) {
        let slot = match stamp.stage {
            TransmitStage::Sched => Some(&mut self.sched),
            TransmitStage::Driver => Some(&mut self.driver),
            TransmitStage::Ack => Some(&mut self.ack),
            TransmitStage::Nic | TransmitStage::Completion => None,
        };
        if let (Some(slot), Some(at)) = (slot, stamp.software()) {
            slot.get_or_insert(at);
        }
        if let Some(at) = stamp.hardware() {
            self.nic.get_or_insert(at);
        }
    }
}

fn between<C: Clock>(a: Option<Instant<C>>, b: Option<Instant<C>>) -> Result<Option<Nanos>, Disorder> {
    match (a, b) {
        (Some(a), Some(b)) => b.since(a).map(Some),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Option<Instant<Realtime>> {
        Some(Instant::from_nanos(ns))
    }

    const PASSED: [u64; 5] = [10, 12, 15, 115, 130];

    fn exchange(answerer: Answerer, ack: Option<u64>) -> Exchange {
        let [send, sched, driver, driver_rx, read] = PASSED.map(at);
        let ack = ack.map(Instant::from_nanos);
        Exchange { answerer, send, sched, driver, ack, driver_rx, read, ..Exchange::default() }
    }

    fn sum(shares: &[Result<Option<Nanos>, Disorder>]) -> Nanos {
        shares.iter().map(|s| s.unwrap().expect("a share")).sum()
    }

    #[test]
    fn the_shares_add_up_to_the_total() {
        let e = exchange(Answerer::Kernel, None);
        assert_eq!(sum(&[e.kernel_out(), e.network(), e.kernel_in()]), Nanos(120));
        assert_eq!((e.total(), e.network(), e.peer()), (Ok(Some(Nanos(120))), Ok(Some(Nanos(100))), Ok(None)));
        assert!(e.is_in_order());
    }

    #[test]
    fn an_ack_before_the_answer_separates_the_network_from_the_program() {
        let e = exchange(Answerer::Program, Some(18));
        assert_eq!((e.network(), e.peer()), (Ok(Some(Nanos(3))), Ok(Some(Nanos(97)))));
        assert_eq!(sum(&[e.kernel_out(), e.network(), e.peer(), e.kernel_in()]), Nanos(120));
        assert!(e.is_in_order());
    }

    #[test]
    fn an_ack_that_the_peer_may_have_delayed_separates_nothing() {
        let ms = |ms: u64| at(1_000_000 * ms);
        let mut e = Exchange {
            answerer: Answerer::Program,
            driver: ms(1),
            ack: ms(41),
            driver_rx: ms(46),
            ..Exchange::default()
        };
        assert_eq!((e.network(), e.peer()), (Ok(None), Ok(None)));
        // On a path as long as that it was not delayed.
        e.handshake = Some(Nanos::from_millis(39));
        assert_eq!((e.network(), e.peer()), (Ok(Some(Nanos::from_millis(40))), Ok(Some(Nanos::from_millis(5)))));
    }

    #[test]
    fn an_ack_with_the_answer_or_none_leaves_them_together() {
        for ack in [Some(116), Some(115), None] {
            let e = exchange(Answerer::Program, ack);
            assert_eq!((e.network(), e.peer()), (Ok(None), Ok(None)), "{ack:?}");
            assert_eq!(e.network_and_peer(), Ok(Some(Nanos(100))));
        }
    }

    #[test]
    fn hardware_stamps_come_first_and_disorder_is_said() {
        let hw = |ns| Some(Instant::<Phc>::from_nanos(ns));
        let e =
            Exchange { driver: at(15), driver_rx: at(115), nic: hw(1_000), nic_rx: hw(1_070), ..Exchange::default() };
        assert_eq!(e.network(), Ok(Some(Nanos(70))));
        let wrong = Exchange { driver: at(15), driver_rx: at(11), ..Exchange::default() };
        assert!(wrong.network().is_err() && !wrong.is_in_order());
    }
}
