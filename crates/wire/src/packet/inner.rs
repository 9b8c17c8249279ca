//! What an IP header says of the packet inside, whichever its version.

use std::net::IpAddr;

use super::fragment::FragmentKey;
use super::span::Span;
use crate::segment::{Ecn, Network};

/// What an IP header, of either version, says and carries.
pub(super) struct Inner<'a> {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) network: Network,
    pub(super) protocol: u8,
    /// Which packet this is a fragment of, its offset in bytes, and whether more follow.
    pub(super) fragment: Option<(FragmentKey, u32, bool)>,
    pub(super) payload: Span<'a>,
    /// The addresses and the length here are those that a transport checksum covers: no source
    /// route, and no length that is missing or that the layer around contradicts.
    pub(super) summed: bool,
}

/// The ECN bits of a traffic class.
#[inline]
pub(super) fn ecn(traffic_class: u8) -> Ecn {
    match traffic_class & 3 {
        0 => Ecn::NotEct,
        1 => Ecn::Ect1,
        2 => Ecn::Ect0,
        _ => Ecn::Ce,
    }
}
