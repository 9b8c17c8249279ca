//! Where the time of typical requests goes, and where that of the slowest.

use std::collections::BTreeMap;

use record::{Component, Nanos, Request, WaitReason, Waits};

/// Requests that are needed to speak of the slowest hundredth.
const HUNDREDTH: u64 = 100;

/// Requests by how long they took, in groups of an eighth of a power of two, with sums of their
/// components: of any part of the distribution it is known where its time went, in bounded memory.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    groups: BTreeMap<u32, Part>,
    n: u64,
}

/// Requests that took about as long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// How many.
    pub n: u64,
    whole: u128,
    components: [u128; Component::ALL.len()],
    waits: Waits,
    /// Those with a time in the program that was asked for them and on the network to it, and the
    /// sums of both.
    upstream: (u64, [u128; 2]),
}

/// The group of a time: larger ones have larger numbers.
fn group(time: Nanos) -> u32 {
    let time = time.0.max(8);
    let power = time.ilog2();
    power * 8 + ((time >> (power - 3)) & 7) as u32
}

impl Profile {
    pub(crate) fn add(&mut self, request: &Request) {
        let Some((components, whole)) = request.components.as_ref().zip(request.whole()) else { return };
        let part = self.groups.entry(group(whole)).or_default();
        self.n += 1;
        part.n += 1;
        part.whole += u128::from(whole.0);
        for (sum, component) in part.components.iter_mut().zip(Component::ALL) {
            *sum += components.get(component).map_or(0, |time| u128::from(time.0));
        }
        part.waits += components.tcp.unwrap_or_default();
        if let Some((program, network)) = request.joined().and_then(|upstream| upstream.program.zip(upstream.network)) {
            part.upstream.0 += 1;
            part.upstream.1[0] += u128::from(program.0);
            part.upstream.1[1] += u128::from(network.0);
        }
    }

    /// The middle half: without the fastest and the slowest quarter, to within a group. `None` of
    /// no requests.
    pub fn typical(&self) -> Option<Part> {
        let (from, to) = (self.n / 4, self.n - self.n / 4);
        let mut before = 0;
        let mut typical = Part::default();
        for part in self.groups.values() {
            if before < to && before + part.n > from {
                typical.merge(part);
            }
            before += part.n;
        }
        (typical.n > 0).then_some(typical)
    }

    /// The slowest hundredth, to within a group; `None` of fewer than a hundred.
    pub fn slowest(&self) -> Option<Part> {
        let mut slowest = Part::default();
        for part in self.groups.values().rev() {
            if slowest.n * HUNDREDTH >= self.n {
                break;
            }
            slowest.merge(part);
        }
        (self.n >= HUNDREDTH).then_some(slowest)
    }
}

impl Part {
    fn merge(&mut self, other: &Self) {
        self.n += other.n;
        self.whole += other.whole;
        self.components.iter_mut().zip(other.components).for_each(|(mine, theirs)| *mine += theirs);
        self.waits += other.waits;
        self.upstream.0 += other.upstream.0;
        self.upstream.1.iter_mut().zip(other.upstream.1).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// How long one of them took, in the mean.
    pub fn whole(&self) -> Nanos {
        self.mean(self.whole)
    }

    fn mean(&self, sum: u128) -> Nanos {
        Nanos(u64::try_from(sum / u128::from(self.n.max(1))).unwrap_or(u64::MAX))
    }

    /// The component that took most of their time, with what one of them spent in it, in the mean.
    pub fn chief(&self) -> (Component, Nanos) {
        let all = Component::ALL.into_iter().zip(self.components);
        let most = all.fold((Component::Connect, 0), |most, next| if next.1 > most.1 { next } else { most });
        (most.0, self.mean(most.1))
    }

    /// What one of them spent in a component, in the mean.
    pub fn mean_of(&self, component: Component) -> Nanos {
        let at = Component::ALL.into_iter().position(|each| each == component);
        self.mean(at.map_or(0, |at| self.components[at]))
    }

    /// Of [`Component::Upstream`], what one of them spent in the program that was asked and on the
    /// network to it, in the mean; `None` where that is not known of each.
    pub fn upstream(&self) -> Option<[Nanos; 2]> {
        let (known, sums) = self.upstream;
        (self.n > 0 && known == self.n).then(|| sums.map(|sum| self.mean(sum)))
    }

    /// What held them for the largest part of their waits for TCP.
    pub fn reason(&self) -> WaitReason {
        self.waits.reason()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Components, Instant, Moments};

    const MS: u64 = 1_000_000;

    fn request(components: Components) -> Request {
        let moments = Moments {
            sent: Some(Instant::from_nanos(0)),
            read: Some(Instant::from_nanos(components.sum().0)),
            ..Moments::default()
        };
        let mut request = <Request as record::table::Record>::blank();
        (request.components, request.moments) = (Some(components), moments);
        request
    }

    #[test]
    fn typical_requests_and_the_slowest_hundredth_have_their_own_account() {
        let mut profile = Profile::default();
        let nagle = Some(Waits::of(WaitReason::Nagle, Nanos(40 * MS)));
        let fast = request(Components { tcp: nagle, network: Some(Nanos(2 * MS)), ..Components::default() });
        let slow = request(Components { peer_application: Some(Nanos(120 * MS)), tcp: nagle, ..Components::default() });
        (0..97).for_each(|_| profile.add(&fast));
        assert_eq!(profile.slowest(), None);
        (0..3).for_each(|_| profile.add(&slow));
        let (typical, slowest) = (profile.typical().unwrap(), profile.slowest().unwrap());
        assert_eq!(
            (typical.n, typical.whole(), typical.chief()),
            (97, Nanos(42 * MS), (Component::Tcp, Nanos(40 * MS)))
        );
        assert_eq!(typical.reason(), WaitReason::Nagle);
        let peer = (Component::PeerApplication, Nanos(120 * MS));
        assert_eq!((slowest.n, slowest.whole(), slowest.chief()), (3, Nanos(160 * MS), peer));
        assert_eq!(Profile::default().typical(), None);
    }

    #[test]
    fn groups_are_in_the_order_of_time() {
        let times = [0, 1, 7, 8, 9, 15, 16, 17, 100, 1_000, 1_000_000, u64::MAX / 2, u64::MAX];
        assert!(times.map(|t| group(Nanos(t))).is_sorted());
        assert!(group(Nanos(1_000)) < group(Nanos(1_130)));
    }
}
