//! Large segments made and joined by the network card.

use record::conversation::Limit;

use super::{At, Change, Remedy, always, line};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "TSO and GRO",
    what: "hand large segments to the network card, and take them joined",
    at: At::Sender,
    findings: &[],
    limits: &[Limit::CongestionWindow, Limit::PathRate],
    possible: always,
    change: Change::Untried("it depends on the network card, which the twin has not got"),
    sysctls: &[],
    set: &[line("ethtool", "ethtool -K <interface> tso on gso on gro on")],
    undo: &[line("ethtool", "ethtool -K <interface> tso off gso off gro off")],
    costs: "bursts of up to 64 KiB at line rate, and frames that captures show joined",
    source: "ethtool(8)",
};
