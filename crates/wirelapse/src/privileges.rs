//! Giving up rights once everything that takes them is open.

use anyhow::Context as _;
use rustix::thread::CapabilitySet;

/// `CAP_NET_ADMIN`.
pub const NET_ADMIN: CapabilitySet = CapabilitySet::NET_ADMIN;

/// Drops every capability of the calling thread but these, for good: no program that it starts gets any back. Threads that are
/// there already keep theirs, so this comes before threads are started.
pub fn drop_all_but(kept: &[CapabilitySet]) -> anyhow::Result<()> {
    let kept = kept.iter().fold(CapabilitySet::empty(), |all, one| all | *one);
    let have = rustix::thread::capabilities(None).context("cannot read this process's capabilities")?;
    let kept = kept & have.permitted;
    rustix::thread::set_no_new_privs(true).context("cannot set no_new_privs")?;
    let sets = rustix::thread::CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).context("cannot drop capabilities")
}
