//! The other backend: a veth pair with the kernel's netem qdisc for delay, loss and duplication,
//! and tbf under it, or alone, for rate and queue.
//!
//! It costs no user-space CPU, but it cannot do all that the built-in path can ([`impossible`]),
//! and of what it achieved it knows only what the devices and a tbf alone have counted. Where
//! segments are lost the hosts send without segmentation offload, because netem takes a frame of
//! many segments for one. A path that only has a high rate passes them whole ([`passes_whole`]).

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use machine::netlink::{Netlink, qdisc, veth};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_packet_route::tc::{TcHandle, TcMessage};

use crate::Error;
use crate::config::Config;
use crate::direction::{CodelSettings, DEFAULT_QUEUE_SEGMENTS, Depth, Direction, Discipline, JitterShape, Loss};
use crate::end::Side;
use crate::ethernet::{ETHERNET_OVERHEAD, SMALLEST_ON_WIRE};
use crate::forward::GATHER;
use crate::host::{Host, INTERFACE};
use crate::links::{counters, index_of, report_of_devices};
use crate::path::Backend;
use crate::report::DirectionReport;
use crate::shaper::Watch;

// linux/pkt_sched.h
const TCA_NETEM_LOSS: u16 = 5;
const NETEM_LOSS_GE: u16 = 2;
const TCA_NETEM_LATENCY64: u16 = 10;
const TCA_NETEM_JITTER64: u16 = 11;
/// Since Linux 6.6; older kernels pass over it.
const TCA_NETEM_PRNG_SEED: u16 = 13;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const TC_LINKLAYER_ETHERNET: u8 = 1;
const NLA_F_NESTED: u16 = 1 << 15;

/// Packets that netem holds, travelling ones among them: more than any path here has.
const LIMIT: u32 = 1_000_000;
const ROOT: TcHandle = TcHandle { major: 1, minor: 0 };
const SHAPER: TcHandle = TcHandle { major: 2, minor: 0 };
const INNER: TcHandle = TcHandle { major: 3, minor: 0 };
/// The shaper where it is the root: a discipline keeps its place as long as it has its handle.
const SHAPER_ALONE: TcHandle = TcHandle { major: 4, minor: 0 };
const INNER_ALONE: TcHandle = TcHandle { major: 5, minor: 0 };

/// The largest frame of many segments, bytes.
const LARGEST_FRAME: u64 = 65_536;
/// A bucket that such a frame fits in, headers of its segments included, with room for a late
/// timer.
const LARGEST_BURST: u64 = 2 * LARGEST_FRAME;
/// What a device has if nothing is set (`GSO_MAX_SEGS`).
const ANY_SEGMENTS: u32 = 65_535;

/// What of this direction netem cannot do, or `None` where it can do all of it.
pub(crate) fn impossible(asked: &Direction) -> Option<&'static str> {
    if asked.jitter.0 > 0 && asked.reorder.is_none() {
        Some("netem lets frames overtake each other under jitter; the built-in backend keeps their order")
    } else if asked.reorder.is_some_and(|r| r.share > 0.0) {
        Some("netem cannot hold segments back by a given time; the built-in backend can")
    } else if asked.jitter.0 > 0 && (asked.jitter_shape != JitterShape::Uniform || asked.jitter_memory > 0.0) {
        Some("netem's shapes and memory of jitter are others; the built-in backend has those of this page")
    } else if asked.recorded.is_some() {
        Some("netem plays no recorded link; the built-in backend does")
    } else if asked.ecn.is_some() {
        Some("netem has no marking threshold; the built-in backend has")
    } else if asked.black_hole.is_some() {
        Some("netem cannot drop packets by their size; the built-in backend can")
    } else {
        None
    }
}

/// Whether the direction takes netem: it does more than to shape.
fn needs_netem(asked: &Direction) -> bool {
    let shaped = Direction { rate: None, recorded: None, ecn: None, queue: None, ..asked.clone() };
    !shaped.is_plain()
}

/// Whether the direction takes tbf and nothing else.
fn shaped_alone(asked: &Direction) -> bool {
    asked.rate.is_some() && !needs_netem(asked)
}

/// Whether frames of many segments stay whole: the rate is all that is asked, and even the largest
/// frame is on the wire for no longer than the built-in path gathers segments for.
pub(crate) fn passes_whole(asked: &Direction) -> bool {
    let wire = |bits: u64| LARGEST_FRAME * 8 * 1_000_000_000 / bits;
    asked.rate.is_some_and(|rate| wire(rate.bits()) <= GATHER)
        && asked.qdisc == Discipline::Fifo
        && shaped_alone(asked)
        && impossible(asked).is_none()
}

/// A veth pair between the hosts, with the disciplines on each end.
#[derive(Debug)]
pub(crate) struct Netem {
    mtu: u32,
    seed: u64,
    ends: [End; 2],
}

#[derive(Debug)]
struct End {
    asked: Direction,
    changes: u64,
    net: OwnedFd,
    /// Where tbf is all there is: it knows segments, drops and how long frames waited.
    shaper: Option<Watch>,
}

impl Netem {
    pub(crate) fn up(config: &Config, hosts: [Host<'_>; 2]) -> Result<Self, Error> {
        let asked = [&config.a_to_b, &config.b_to_a];
        let no_plan = "netem follows no schedule and plays no recorded link; the built-in backend does";
        let planned = !config.schedule.steps().is_empty() || config.recorded.iter().any(Option::is_some);
        if let Some(reason) = asked.into_iter().find_map(impossible).or(planned.then_some(no_plan)) {
            return Err(Error::Backend { backend: "netem", reason: reason.into() });
        }
        let other = hosts[1].network_namespace().as_raw_fd();
        let peer = vec![LinkAttribute::IfName(INTERFACE.into()), LinkAttribute::NetNsFd(other)];
        hosts[0]
            .run(|| Netlink::open()?.request(veth(INTERFACE, peer), NLM_F_CREATE | NLM_F_EXCL))?
            .map_err(Error::system("make a veth pair"))?;
        let mut ends = Vec::with_capacity(2);
        for (host, asked) in hosts.into_iter().zip(asked) {
            let side = host.side();
            host.run(|| Host::configure(side, config.mtu))?
                .map_err(Error::system(format!("configure {INTERFACE} of host {}", side.name())))?;
            let net = host.network_namespace().try_clone_to_owned();
            let net = net.map_err(Error::system("keep a host's network namespace"))?;
            ends.push(End { asked: asked.clone(), changes: 0, net, shaper: None });
        }
        let Ok(ends) = <[End; 2]>::try_from(ends) else { return Err(Error::Gone) };
        let mut made = Self { mtu: config.mtu, seed: config.seed, ends };
        for side in Side::ALL {
            if !made.ends[side as usize].asked.is_plain() {
                made.apply(side)?;
            }
        }
        Ok(made)
    }

    /// Puts the disciplines of `side` in place, or changes those in place.
    fn apply(&mut self, side: Side) -> Result<(), Error> {
        let End { asked, net, shaper, .. } = &mut self.ends[side as usize];
        let (asked, mtu, whole) = (&*asked, self.mtu, passes_whole(asked));
        let seed = self.seed.wrapping_mul(2).wrapping_add(side as u64);
        let put = || -> io::Result<()> {
            let mut netlink = Netlink::open()?;
            let index = index_of(c"eth0")?;
            let flags = NLM_F_CREATE | NLM_F_REPLACE;
            let [above, handle, inner] = if needs_netem(asked) {
                netlink.request(qdisc(index, "netem", ROOT, TcHandle::ROOT, netem_options(asked, seed)), flags)?;
                [TcHandle { major: ROOT.major, minor: 1 }, SHAPER, INNER]
            } else {
                [TcHandle::ROOT, SHAPER_ALONE, INNER_ALONE]
            };
            match tbf_options(asked, mtu) {
                Some(options) => {
                    netlink.request(qdisc(index, "tbf", handle, above, options), flags)?;
                    let (kind, options) = discipline_options(asked, mtu);
                    let child = TcHandle { major: handle.major, minor: 1 };
                    netlink.request(qdisc(index, kind, inner, child, options), flags)?;
                }
                None => {
                    let mut gone = TcMessage::default();
                    gone.header.index = index as i32;
                    gone.header.parent = above;
                    // None there to delete is as well.
                    let _ = netlink.request(RouteNetlinkMessage::DelQueueDiscipline(gone), 0);
                }
            }
            largest_frame(&mut netlink, index, if whole || asked.is_plain() { ANY_SEGMENTS } else { 1 })
        };
        match crate::links::inside(net, put).and_then(|done| done) {
            Ok(()) => {
                if !shaped_alone(asked) {
                    *shaper = None;
                } else if shaper.is_none() {
                    *shaper = Some(Watch::start(net).map_err(Error::system("watch the path's shaper"))?);
                }
                Ok(())
            }
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => {
                let discipline = match asked.qdisc {
                    Discipline::Fifo => String::new(),
                    other => format!(" or sch_{}", other.name()),
                };
                let reason = format!(
                    "this kernel has no sch_netem, sch_tbf{discipline} (CONFIG_NET_SCH_NETEM, CONFIG_NET_SCH_TBF, …); use the built-in backend"
                );
                Err(Error::Backend { backend: "netem", reason })
            }
            Err(e) => Err(Error::system(format!("put netem on {INTERFACE} of host {}", side.name()))(e)),
        }
    }
}

impl Backend for Netem {
    fn name(&self) -> &'static str {
        let asked = || self.ends.iter().map(|end| &end.asked);
        if asked().any(shaped_alone) && !asked().any(needs_netem) { "tbf" } else { "netem" }
    }

    fn report(&self, from: Side) -> DirectionReport {
        let [sender, receiver] = [from, from.other()].map(|side| &self.ends[side as usize]);
        let nets = [&sender.net, &receiver.net];
        let mut report = report_of_devices(sender.asked.clone(), sender.changes, nets, INTERFACE);
        if let Some(shaper) = &sender.shaper {
            report.achieved = Some(shaper.achieved(counters(&sender.net, INTERFACE)));
        }
        report
    }

    fn change(&mut self, from: Side, to: &Direction) -> Result<(), Error> {
        if let Some(reason) = impossible(to) {
            return Err(Error::Backend { backend: "netem", reason: reason.into() });
        }
        let end = &mut self.ends[from as usize];
        let before = std::mem::replace(&mut end.asked, to.clone());
        let applied = self.apply(from);
        match &applied {
            Ok(()) => self.ends[from as usize].changes += 1,
            Err(_) => {
                self.ends[from as usize].asked = before;
                // Where only a part was refused.
                let _ = self.apply(from);
            }
        }
        applied
    }
}

/// Has the host send frames of so many segments at most.
fn largest_frame(netlink: &mut Netlink, index: u32, segments: u32) -> io::Result<()> {
    let mut link = LinkMessage::default();
    link.header.index = index;
    link.attributes = vec![LinkAttribute::GsoMaxSegs(segments)];
    netlink.request(RouteNetlinkMessage::SetLink(link), 0)
}

/// netem's scale for chances: the whole of 32 bits.
fn chance(p: f64) -> u32 {
    (p * f64::from(u32::MAX)).round() as u32
}

fn attribute(to: &mut Vec<u8>, kind: u16, value: &[u8]) {
    to.extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
    to.extend_from_slice(&kind.to_ne_bytes());
    to.extend_from_slice(value);
    to.resize(to.len().next_multiple_of(4), 0);
}

/// `struct tc_netem_qopt` (latency, limit, loss, gap, duplicate, jitter) and its attributes.
fn netem_options(asked: &Direction, seed: u64) -> Vec<u8> {
    let independent = if let Loss::Independent(p) = asked.loss { chance(p) } else { 0 };
    let words = [0, LIMIT, independent, 0, chance(asked.duplicate), 0];
    let mut options: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
    attribute(&mut options, TCA_NETEM_LATENCY64, &asked.delay.0.to_ne_bytes());
    attribute(&mut options, TCA_NETEM_JITTER64, &asked.jitter.0.to_ne_bytes());
    if let Loss::GilbertElliott { good_to_bad, bad_to_good, loss_in_good, loss_in_bad } = asked.loss {
        // struct tc_netem_gemodel: p, r, h (what passes in the bad state), k1 (what is lost in the
        // good one).
        let model = [good_to_bad, bad_to_good, 1.0 - loss_in_bad, loss_in_good];
        let model: Vec<u8> = model.into_iter().flat_map(|p| chance(p).to_ne_bytes()).collect();
        let mut nested = Vec::new();
        attribute(&mut nested, NETEM_LOSS_GE, &model);
        attribute(&mut options, TCA_NETEM_LOSS | NLA_F_NESTED, &nested);
    }
    attribute(&mut options, TCA_NETEM_PRNG_SEED, &seed.to_ne_bytes());
    options
}

/// The discipline under the shaper and its attributes: times in microseconds, the limit in full
/// segments (bytes for a bfifo).
fn discipline_options(asked: &Direction, mtu: u32) -> (&'static str, Vec<u8>) {
    let limit = queue_bytes(asked, mtu);
    let segments = u32::try_from(limit / u64::from(mtu + ETHERNET_OVERHEAD)).unwrap_or(u32::MAX).max(1);
    let microseconds = |time: clock::Nanos| u32::try_from(time.0 / 1_000).unwrap_or(u32::MAX);
    let mut options = Vec::new();
    let mut put = |values: &[(u16, u32)]| {
        for (kind, value) in values {
            attribute(&mut options, *kind, &value.to_ne_bytes());
        }
    };
    let codel = |c: &CodelSettings| [microseconds(c.target), microseconds(c.interval), u32::from(c.ecn)];
    match &asked.qdisc {
        // struct tc_fifo_qopt.
        Discipline::Fifo => return ("bfifo", u32::try_from(limit).unwrap_or(u32::MAX).to_ne_bytes().to_vec()),
        // TCA_CODEL_TARGET, _LIMIT, _INTERVAL, _ECN.
        Discipline::Codel(settings) => {
            let [target, interval, ecn] = codel(settings);
            put(&[(1, target), (2, segments), (3, interval), (4, ecn)]);
        }
        // TCA_FQ_CODEL_TARGET, _LIMIT, _INTERVAL, _ECN, _FLOWS.
        Discipline::FqCodel(settings) => {
            let [target, interval, ecn] = codel(&settings.codel);
            put(&[(1, target), (2, segments), (3, interval), (4, ecn), (5, settings.flows)]);
        }
        // TCA_PIE_TARGET, _LIMIT, _TUPDATE, and _ECN.
        Discipline::Pie(settings) => {
            let ecn = u32::from(settings.ecn);
            put(&[(1, microseconds(settings.target)), (2, segments), (3, microseconds(settings.update)), (6, ecn)]);
        }
    }
    (asked.qdisc.name(), options)
}

/// How many bytes may wait, of a direction with a rate.
fn queue_bytes(asked: &Direction, mtu: u32) -> u64 {
    let full = u64::from(mtu + ETHERNET_OVERHEAD);
    let bytes_per_second = asked.rate.map_or(0, |rate| rate.bits().div_ceil(8));
    match asked.queue {
        None => DEFAULT_QUEUE_SEGMENTS * full,
        Some(Depth::Bytes(n)) => n,
        Some(Depth::Time(t)) => ((u128::from(bytes_per_second) * u128::from(t.0) / 1_000_000_000) as u64).max(full),
    }
}

/// `struct tc_tbf_qopt` and its attributes; `None` without a rate.
fn tbf_options(asked: &Direction, mtu: u32) -> Option<Vec<u8>> {
    let mut bytes_per_second = asked.rate?.bits().div_ceil(8);
    let full = u64::from(mtu + ETHERNET_OVERHEAD);
    // What a full segment takes on the wire beyond the frame that tbf sees, which has its Ethernet
    // header of 14 bytes already.
    let mut added = (ETHERNET_OVERHEAD - 14) as u16;
    let mut least = SMALLEST_ON_WIRE as u16;
    let within = |ns: u64| (u128::from(bytes_per_second) * u128::from(ns) / 1_000_000_000) as u64;
    let limit = queue_bytes(asked, mtu);
    // The bucket has to hold what the rate gives while a timer is late.
    let mut burst = full.max(within(GATHER));
    if passes_whole(asked) {
        // It charges what is added once for a frame of many segments, so the rate has to be less by
        // their share instead. Small packets are charged too little by up to that.
        bytes_per_second = (u128::from(bytes_per_second) * u128::from(mtu + 14) / u128::from(full)) as u64;
        burst = burst.max(LARGEST_BURST);
        (added, least) = (0, 0);
    }
    let short = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    // struct tc_ratespec: cell_log, linklayer, overhead, cell_align, mpu, rate.
    let mut parameters = vec![0, TC_LINKLAYER_ETHERNET];
    parameters.extend_from_slice(&added.to_ne_bytes());
    parameters.extend_from_slice(&0i16.to_ne_bytes());
    parameters.extend_from_slice(&least.to_ne_bytes());
    parameters.extend_from_slice(&short(bytes_per_second).to_ne_bytes());
    // No peak rate; then limit, buffer (given in bytes below) and mtu.
    parameters.extend_from_slice(&[0; 12]);
    parameters.extend_from_slice(&short(limit).to_ne_bytes());
    parameters.extend_from_slice(&[0; 8]);
    let mut options = Vec::new();
    attribute(&mut options, TCA_TBF_PARMS, &parameters);
    attribute(&mut options, TCA_TBF_BURST, &short(burst).to_ne_bytes());
    attribute(&mut options, TCA_TBF_RATE64, &bytes_per_second.to_ne_bytes());
    Some(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethernet::BitRate;
    use clock::Nanos;

    fn attributes(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let length = usize::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
            found.push((u16::from_ne_bytes([bytes[2], bytes[3]]), bytes[4..length].to_vec()));
            bytes = &bytes[length.next_multiple_of(4)..];
        }
        found
    }

    #[test]
    fn netem_gets_delay_loss_and_duplicates_in_its_own_units() {
        let asked = Direction {
            delay: Nanos::from_millis(25),
            loss: Loss::Independent(0.5),
            duplicate: 1.0,
            ..Direction::default()
        };
        let options = netem_options(&asked, 9);
        let words: Vec<u32> = options[..24].chunks(4).map(|c| u32::from_ne_bytes(c.try_into().unwrap())).collect();
        assert_eq!(words, [0, 1_000_000, 1 << 31, 0, u32::MAX, 0]);
        let rest = attributes(&options[24..]);
        assert_eq!(rest[0], (10, 25_000_000u64.to_ne_bytes().to_vec()));
        assert_eq!(rest.last(), Some(&(13, 9u64.to_ne_bytes().to_vec())));
    }

    #[test]
    fn bursts_become_the_kernels_chain() {
        let asked = Direction { loss: Loss::bursts(0.5, 4.0).unwrap(), ..Direction::default() };
        let options = netem_options(&asked, 1);
        assert_eq!(options[8..12], [0; 4]);
        let chain = attributes(&options[24..]).into_iter().find(|(kind, _)| kind & 0xff == 5).unwrap();
        let nested = attributes(&chain.1);
        let model: Vec<u32> = nested[0].1.chunks(4).map(|c| u32::from_ne_bytes(c.try_into().unwrap())).collect();
        assert_eq!((nested[0].0, model), (2, vec![1 << 30, 1 << 30, 0, 0]));
    }

    #[test]
    fn the_shaper_charges_what_ethernet_adds() {
        let direction = |queue| Direction { rate: Some(BitRate::mbit(1_000)), queue, ..Direction::default() };
        let at = |options: &[u8], from: usize| u32::from_ne_bytes(options[from..from + 4].try_into().unwrap());
        let options = tbf_options(&direction(Some(Depth::Time(Nanos::from_millis(2)))), 1_500).unwrap();
        let found = attributes(&options);
        let parameters = &found[0].1;
        assert_eq!((found[0].0, parameters.len()), (1, 36));
        assert_eq!(parameters[..8], [0, 1, 24, 0, 0, 0, 84, 0]);
        assert_eq!((at(parameters, 8), at(parameters, 24)), (125_000_000, 250_000));
        assert_eq!(found[1], (6, 12_500u32.to_ne_bytes().to_vec()));
        assert_eq!(found[2], (4, 125_000_000u64.to_ne_bytes().to_vec()));
        assert_eq!(tbf_options(&Direction::default(), 1_500), None);
    }

    #[test]
    fn a_shaper_of_whole_frames_charges_a_full_segment_what_ethernet_does() {
        let asked = |mbit| Direction { rate: Some(BitRate::mbit(mbit)), ..Direction::default() };
        assert!(passes_whole(&asked(10_000)) && !passes_whole(&asked(5_000)));
        assert!(!passes_whole(&Direction { delay: Nanos(1), ..asked(10_000) }));
        let found = attributes(&tbf_options(&asked(10_000), 1_500).unwrap());
        let parameters = &found[0].1;
        assert_eq!(parameters[..8], [0, 1, 0, 0, 0, 0, 0, 0]);
        let rate = u64::from_ne_bytes(found[2].1[..].try_into().unwrap());
        assert!((rate as f64 / 1_514.0 * 1_538.0 / 1.25e9 - 1.0).abs() < 1e-8, "{rate}");
        assert!(u32::from_ne_bytes(found[1].1[..].try_into().unwrap()) >= 128 << 10);
    }

    #[test]
    fn what_netem_cannot_do_is_said() {
        let jitter = Direction { delay: Nanos(9), jitter: Nanos(5), ..Direction::default() };
        assert!(impossible(&jitter).is_some());
        let ecn = Direction { rate: Some(BitRate::mbit(1)), ecn: Some(Depth::Bytes(1)), ..Direction::default() };
        assert!(impossible(&ecn).is_some());
        assert!(impossible(&Direction { black_hole: Some(1_400), ..Direction::default() }).is_some());
        assert_eq!(impossible(&Direction { delay: Nanos(9), ..Direction::default() }), None);
    }
}
