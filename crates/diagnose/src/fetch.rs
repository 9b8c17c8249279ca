//! Memory that will soon be needed, fetched while other packets are taken.
//!
//! Where a thousand connections take turns, the state of each has left the caches beside the core
//! by the time of its next packet, and to wait for one line of it after the other takes longer than
//! to follow the packet.

/// Fetches memory into the nearest cache without waiting for it. CPUs have an instruction for
/// that, which this crate cannot name, as it has no unsafe code.
pub trait Fetch: Copy {
    /// Fetches the line of the cache that an address lies in, if there is one: nothing else is to
    /// come of it, whatever the address.
    fn line(self, at: *const u8);
}

/// Fetches nothing: packets are taken as well without, and slower.
impl Fetch for () {
    fn line(self, _: *const u8) {}
}

/// The distance of two lines, at most.
const LINE: usize = 64;

/// Fetches all of a value, but not what it points to.
#[inline(always)]
pub(crate) fn all<T>(value: &T, with: impl Fetch) {
    let at = std::ptr::from_ref(value).cast::<u8>();
    (0..size_of::<T>()).step_by(LINE).for_each(|offset| with.line(at.wrapping_add(offset)));
    // It need not begin where a line does.
    with.line(at.wrapping_add(size_of::<T>().saturating_sub(1)));
}

/// The same of each value that is there.
#[inline(always)]
pub(crate) fn each<'a, T: 'a>(values: impl IntoIterator<Item = &'a T>, with: impl Fetch) {
    values.into_iter().for_each(|value| all(value, with));
}
