//! What is fixed before the programs are loaded: the table of buckets, what series are kept apart
//! by, and the sizes of the maps.

use libbpf_rs::OpenObject;
use record::Leg;

use super::bounds;
use super::{Histograms, Ports};
use crate::error::within;
use crate::layout::{
    CONFIG_HISTOGRAMS, CONFIG_NO_RECORDS, HISTOGRAM_BLOCKS, HISTOGRAM_BLOCKS_EACH, HISTOGRAM_CALL, HISTOGRAM_CGROUP,
    HISTOGRAM_FOLDS, HISTOGRAM_LEGS, HISTOGRAM_NETWORK, HISTOGRAM_NO_LEG, HISTOGRAM_PORTS_ALL,
    HISTOGRAM_PORTS_LISTENING, HISTOGRAM_PROGRAM, HISTOGRAM_QDISC, HISTOGRAM_ROUND_TRIP, HISTOGRAM_TCP,
    HISTOGRAM_TOTAL, Plain as _, RawHistogramBlock, RawHistogramConfig, RawLegHistogram, RawRowSeries,
    RawSeriesFigures, RawSeriesKey,
};
use crate::memory::Memory;
use crate::sizes::{NUMBER, Sizes};
use crate::{Error, object};

const _: () = {
    assert!(HISTOGRAM_CALL == Leg::Call as u32);
    assert!(HISTOGRAM_TCP == Leg::Tcp as u32);
    assert!(HISTOGRAM_QDISC == Leg::Qdisc as u32);
    assert!(HISTOGRAM_NETWORK == Leg::Network as u32);
    assert!(HISTOGRAM_TOTAL == Leg::Total as u32);
    assert!(HISTOGRAM_ROUND_TRIP as usize == Leg::ALL.len());
};

/// The flags of the programs' configuration.
pub(crate) fn flags(histograms: Option<&Histograms>) -> u32 {
    match histograms {
        None => 0,
        Some(Histograms { records: true, .. }) => CONFIG_HISTOGRAMS,
        Some(Histograms { records: false, .. }) => CONFIG_HISTOGRAMS | CONFIG_NO_RECORDS,
    }
}

/// The legs that have a histogram, in the order of their places.
pub(super) fn legs(histograms: &Histograms) -> Vec<Leg> {
    Leg::ALL.into_iter().filter(|leg| *leg != Leg::Nic && histograms.legs.contains(leg)).collect()
}

/// How many histograms a series has: those of the legs, and after them that of round trips.
pub(super) fn places(histograms: &Histograms) -> u32 {
    legs(histograms).len() as u32 + u32::from(histograms.round_trips)
}

/// Sets the sizes of the maps and the configuration of histograms in an object that is not loaded
/// yet.
pub(crate) fn set_up(object: &mut OpenObject, histograms: Option<&Histograms>, sizes: Sizes) -> Result<(), Error> {
    let Some(histograms) = histograms else { return Ok(()) };
    let most = within("the number of series", histograms.max_series, 1, MOST)?;
    let peer = histograms.dimensions.peer.unwrap_or_default();
    within("the number of bits of an IPv4 address", peer.ipv4.into(), 0, 32)?;
    within("the number of bits of an IPv6 address", peer.ipv6.into(), 0, 128)?;
    let (config, all) = (configuration(histograms), numbers(histograms));
    object::set_maps(object, |name, map| match name {
        "row_series" => map.set_max_entries(sizes.rows),
        "free_series" => map.set_max_entries(most),
        "free_with_peer" | "free_without_peer" if histograms.folds => map.set_max_entries(FOLDED),
        "series" => map.set_max_entries(all),
        "figures" => map.set_max_entries(all + 1),
        "histograms" => map.set_max_entries((all + 1) * config.legs.max(1)),
        "blocks" => map.set_max_entries(blocks(all, config.legs) + 1),
        "free_blocks" => map.set_max_entries(blocks(all, config.legs)),
        "listening" if listening(histograms) => map.set_max_entries(LISTENING),
        ".rodata.histograms" => map.set_initial_value(config.as_bytes()),
        _ => Ok(()),
    })
}

/// The most series.
const MOST: u32 = 65_536;

/// Series that what finds no room has with peers, and as many without.
pub const FOLDED: u32 = 128;

/// All series beside that of what finds no room at all: their numbers begin with 1.
pub(super) fn numbers(histograms: &Histograms) -> u32 {
    histograms.max_series.min(MOST) + if histograms.folds { 2 * FOLDED } else { 0 }
}

/// The most ports that a socket listens at.
const LISTENING: u32 = 65_536;

/// Whether series are kept apart by the ports that a socket listens at.
fn listening(histograms: &Histograms) -> bool {
    histograms.dimensions.ports == Ports::Listening
}

/// The kernel memory of the maps of series.
pub(crate) fn memory(histograms: &Histograms, sizes: Sizes) -> Memory {
    let (most, places) = (numbers(histograms), places(histograms));
    let series = u64::from(most);
    // Values of arrays are rounded up to eight bytes.
    let of_one =
        size_of::<RawSeriesFigures>() + places.max(1) as usize * size_of::<RawLegHistogram>().next_multiple_of(8);
    let of_block = size_of::<RawHistogramBlock>() as u64 + NUMBER;
    let remembered = u64::from(sizes.rows) * size_of::<RawRowSeries>() as u64;
    let arrays =
        remembered + (series + 1) * of_one as u64 + series * NUMBER + u64::from(blocks(most, places)) * of_block;
    let ports = if listening(histograms) { LISTENING.into() } else { 0 };
    Memory::fixed(arrays)
        + Memory::of_whole_table(series, size_of::<RawSeriesKey>() as u64, 8)
        + Memory::of_table::<u16, u8>(ports, ports)
}

/// How many blocks of buckets there are: all that the series of what finds no room can have, and
/// the others' share.
pub(super) fn blocks(most: u32, places: u32) -> u32 {
    places.max(1) * (HISTOGRAM_BLOCKS + most * HISTOGRAM_BLOCKS_EACH)
}

fn configuration(histograms: &Histograms) -> RawHistogramConfig {
    let dimensions = &histograms.dimensions;
    let legs = legs(histograms);
    let mut places = [HISTOGRAM_NO_LEG as u8; HISTOGRAM_LEGS as usize];
    for (place, leg) in legs.iter().enumerate() {
        places[*leg as usize] = place as u8;
    }
    if histograms.round_trips {
        places[HISTOGRAM_ROUND_TRIP as usize] = legs.len() as u8;
    }
    let flag = |on: bool, flag: u32| if on { flag } else { 0 };
    RawHistogramConfig {
        edges: bounds::edges(),
        peer_ipv4: dimensions.peer.map_or([0; 16], |bits| mask(96 + u32::from(bits.ipv4))),
        peer_ipv6: dimensions.peer.map_or([0; 16], |bits| mask(bits.ipv6.into())),
        flags: flag(dimensions.cgroup, HISTOGRAM_CGROUP)
            | flag(dimensions.program, HISTOGRAM_PROGRAM)
            | flag(dimensions.ports == Ports::Listening, HISTOGRAM_PORTS_LISTENING)
            | flag(dimensions.ports == Ports::All, HISTOGRAM_PORTS_ALL)
            | flag(histograms.folds, HISTOGRAM_FOLDS),
        legs: self::places(histograms),
        places,
        pad: 0,
    }
}

/// The first `bits` bits of 16 bytes.
fn mask(bits: u32) -> [u8; 16] {
    u128::MAX.checked_shl(128 - bits).unwrap_or(0).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histograms::{Dimensions, Prefixes};

    #[test]
    fn masks_have_as_many_bits_as_are_asked_for() {
        let bits = |of: [u8; 16]| u128::from_be_bytes(of).leading_ones();
        assert!(
            [0, 1, 24, 96, 120, 128]
                .into_iter()
                .all(|n| bits(mask(n)) == n && mask(n).iter().map(|b| b.count_ones()).sum::<u32>() == n)
        );
    }

    #[test]
    fn legs_have_places_in_their_own_order_and_that_of_the_nic_has_none() {
        let config = configuration(&Histograms {
            legs: vec![Leg::Total, Leg::Nic, Leg::Tcp, Leg::Tcp],
            dimensions: Dimensions { peer: Some(Prefixes { ipv4: 24, ipv6: 48 }), ..Dimensions::default() },
            ..Histograms::default()
        });
        let more = configuration(&Histograms { legs: vec![Leg::Tcp], round_trips: true, ..Histograms::default() });
        let none = HISTOGRAM_NO_LEG as u8;
        assert_eq!((config.legs, config.places), (2, [none, 0, none, none, none, 1, none]));
        assert_eq!(config.peer_ipv4[12..], [255, 255, 255, 0]);
        assert_eq!(config.peer_ipv6[5..7], [255, 0]);
        assert_eq!((more.legs, more.places), (2, [none, 0, none, none, none, none, 1]));
    }
}
