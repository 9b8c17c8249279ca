//! The compiled BPF objects: how they are opened, sized and configured, and their maps by name.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};

use libbpf_rs::{MapCore as _, MapFlags, MapHandle, Object, ObjectBuilder, OpenMapMut, OpenObject, ProgramMut};

use crate::layout::{CHUNK, Plain, RawConfig};
use crate::programs::{At, LoadError, Planned};
use crate::refusal::Refusal;
use crate::sizes::Sizes;
use crate::{Error, capabilities};

/// What was built of `src/FOLDER/NAME.bpf.c`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compiled {
    /// The object for kernels of today.
    pub today: &'static [u8],
    /// That for older ones.
    pub older: Option<&'static [u8]>,
}

/// The object that was built of `src/FOLDER/NAME.bpf.c`.
macro_rules! compiled {
    ($name:literal) => {
        $crate::object::Compiled {
            today: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".bpf.o")),
            older: Some(include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".older.o"))),
        }
    };
}
pub(crate) use compiled;

/// That which is built for kernels of today alone.
macro_rules! compiled_for_today {
    ($name:literal) => {
        $crate::object::Compiled { today: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".bpf.o")), older: None }
    };
}
pub(crate) use compiled_for_today;

/// Opens the object that is for this kernel. `name` is the prefix by which the kernel lists its
/// maps.
pub(crate) fn open(compiled: Compiled, name: &str) -> Result<OpenObject, Error> {
    let bytes = compiled.older.filter(|_| capabilities::older()).unwrap_or(compiled.today);
    ObjectBuilder::default()
        .name(name)
        .and_then(|builder| builder.open_memory(bytes))
        .map_err(Error::bpf("cannot open the BPF object"))
}

/// Opens an object of programs that are aimed at a target, and sets its sizes and its
/// configuration.
pub(crate) fn open_aimed(
    compiled: Compiled,
    name: &str,
    config: &RawConfig,
    sizes: Sizes,
) -> Result<OpenObject, LoadError> {
    if compiled.older.is_none() && capabilities::older() {
        return Err(Refusal::NotForOlder.into());
    }
    let mut object = open(compiled, name)?;
    set_maps(&mut object, |name, map| match name {
        "rows" | "free_rows" => map.set_max_entries(sizes.rows),
        "queues" | "free_queues" => map.set_max_entries(sizes.queues),
        "slots" => map.set_max_entries(sizes.chunks * CHUNK),
        "free_chunks" => map.set_max_entries(sizes.chunks),
        "free_directories" => map.set_max_entries(sizes.directories),
        "places" => map.set_max_entries(sizes.pairs_of_places() as u32),
        "records" => map.set_max_entries(sizes.ring),
        ".rodata.config" => map.set_initial_value(config.as_bytes()),
        _ => Ok(()),
    })?;
    Ok(object)
}

/// On older kernels, where storage of sockets is a table: what a listener's children take over.
pub(crate) const INHERITED: Planned = ("cloned", At::Section);

/// Does something to each map of an object that is not loaded yet, by its name.
pub(crate) fn set_maps(
    object: &mut OpenObject,
    mut set: impl FnMut(&str, &mut OpenMapMut<'_>) -> libbpf_rs::Result<()>,
) -> Result<(), Error> {
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        set(&name, &mut map).map_err(Error::bpf("cannot set up a BPF map"))?;
    }
    Ok(())
}

/// Gives an object the maps of another, which is loaded.
pub(crate) fn share(object: &mut OpenObject, from: &Object, names: &[&'static str]) -> Result<(), Error> {
    for &name in names {
        let shared = map(from, name)?;
        set_maps(object, |each, map| if each == name { map.reuse_fd(shared.as_fd()) } else { Ok(()) })?;
    }
    Ok(())
}

fn absent(what: &'static str) -> Error {
    Error::Bpf { what, source: libbpf_rs::Error::from(io::Error::from(io::ErrorKind::NotFound)) }
}

/// A map of a loaded object as a handle that outlives the object.
pub(crate) fn map(object: &Object, name: &'static str) -> Result<MapHandle, Error> {
    let map = object.maps().find(|map| map.name() == OsStr::new(name)).ok_or_else(|| absent(name))?;
    MapHandle::try_from(&map).map_err(Error::bpf("cannot hold a BPF map"))
}

/// A program of a loaded object, by name.
pub(crate) fn program<'a>(object: &'a Object, name: &'static str) -> Result<ProgramMut<'a>, Error> {
    object.progs_mut().find(|program| program.name() == OsStr::new(name)).ok_or_else(|| absent(name))
}

/// The kernel's number of a loaded program.
pub(crate) fn program_id(object: &Object, name: &'static str) -> Result<u32, Error> {
    libbpf_rs::Program::id_from_fd(program(object, name)?.as_fd()).map_err(Error::bpf(name))
}

/// The only entry of a per-CPU array of counters, each summed over the CPUs; `None` where it cannot
/// be read. `T` is of 64-bit counters only.
pub(crate) fn sum_per_cpu<T: Plain>(map: &MapHandle) -> Option<T> {
    let per_cpu = map.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten()?;
    let mut sum = vec![0u64; size_of::<T>() / 8];
    for cpu in per_cpu {
        for (total, part) in sum.iter_mut().zip(cpu.chunks_exact(8)) {
            *total += u64::from_ne_bytes(part.try_into().unwrap_or_default());
        }
    }
    let bytes: Vec<u8> = sum.iter().flat_map(|n| n.to_ne_bytes()).collect();
    T::from_bytes(&bytes)
}

/// The number in a map that has one.
pub(crate) fn count(map: &MapHandle) -> u64 {
    let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten();
    value.and_then(|bytes| Some(u64::from_ne_bytes(bytes.try_into().ok()?))).unwrap_or_default()
}

/// Fills a queue of free rows with their numbers; gives it.
pub(crate) fn free_list(object: &Object, name: &'static str, rows: u32) -> Result<MapHandle, Error> {
    let free = map(object, name)?;
    for number in 0..rows {
        free.update(&[], &number.to_ne_bytes(), MapFlags::ANY).map_err(Error::bpf("cannot fill the free list"))?;
    }
    Ok(free)
}

/// The first so many rows of an array, by their numbers, where they are in use (`used`).
pub(crate) fn rows_in_use<T: Plain>(map: &MapHandle, rows: u32, used: fn(&T) -> bool) -> Vec<(u32, T)> {
    let mut found = Vec::new();
    let mut batches = Batches::new(map, AT_ONCE.min(rows));
    while let Ok(Some((keys, values))) = batches.next() {
        let keys = keys.chunks_exact(4).map(|key| u32::from_ne_bytes(key.try_into().unwrap_or_default()));
        let mut is_over = false;
        for (number, value) in keys.zip(values.chunks_exact(map.value_size() as usize)) {
            is_over |= number + 1 >= rows;
            if number < rows {
                found.extend(T::from_bytes(value).filter(used).map(|row| (number, row)));
            }
        }
        if is_over {
            break;
        }
    }
    found
}

/// Entries that one call to the kernel reads.
const AT_ONCE: u32 = 1_024;

/// The entries of an array or a hash table, many at a time: a call for each would take longer than
/// what it reads. What another caller adds or removes meanwhile may be missed, or come twice.
pub(crate) struct Batches<'a> {
    map: &'a MapHandle,
    keys: Vec<u8>,
    values: Vec<u8>,
    most: u32,
    /// Where the next batch begins, as the kernel says it; `None` before the first.
    at: Option<u32>,
    over: bool,
}

impl<'a> Batches<'a> {
    /// So many at a time: of a hash table at least as many as collide.
    pub fn new(map: &'a MapHandle, most: u32) -> Self {
        // The kernel rounds the values of arrays up.
        let room = |size: u32| vec![0; most as usize * size.next_multiple_of(8) as usize];
        Self { map, keys: room(map.key_size()), values: room(map.value_size()), most, at: None, over: false }
    }

    /// The next keys and their values, each without a gap; `None` where there are no more.
    ///
    /// # Errors
    /// The kernel's.
    pub fn next(&mut self) -> io::Result<Option<(&[u8], &[u8])>> {
        if self.over || self.most == 0 {
            return Ok(None);
        }
        let (mut next, mut count) = (0_u32, self.most);
        let from = self.at.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: keys and values have room for `most` entries; a batch of either kind of map
        // begins at a number of 32 bits, which both places have.
        let done = unsafe {
            libbpf_rs::libbpf_sys::bpf_map_lookup_batch(
                self.map.as_fd().as_raw_fd(),
                from.cast_mut().cast(),
                std::ptr::from_mut(&mut next).cast(),
                self.keys.as_mut_ptr().cast(),
                self.values.as_mut_ptr().cast(),
                &mut count,
                std::ptr::null(),
            )
        };
        // At the end of the map it is an error, beside which there may be entries.
        self.over = done != 0;
        if done != 0 && done != -rustix::io::Errno::NOENT.raw_os_error() {
            return Err(io::Error::from_raw_os_error(-done));
        }
        self.at = Some(next);
        let of = |size: u32| count as usize * size as usize;
        let (keys, values) = (of(self.map.key_size()), of(self.map.value_size()));
        Ok((count > 0).then(|| (&self.keys[..keys], &self.values[..values])))
    }
}

/// Gives a row back that the kernel part does not give back itself any more.
pub(crate) fn free_row<T: Plain>(rows: &MapHandle, free: &MapHandle, number: u32) -> Result<(), Error> {
    rows.update(&number.to_ne_bytes(), T::zeroed().as_bytes(), MapFlags::ANY)
        .and_then(|()| free.update(&[], &number.to_ne_bytes(), MapFlags::ANY))
        .map_err(Error::bpf("cannot free a row"))
}

/// The entries from `head` up to `tail` of one row's ring in an array: counters run freely, the
/// slot is the counter modulo `slots`.
pub(crate) fn ring_entries<T: Plain>(map: &MapHandle, number: u32, slots: u32, head: u32, tail: u32) -> Vec<T> {
    (0..tail.wrapping_sub(head))
        .filter_map(|behind| {
            let index = number * slots + (head.wrapping_add(behind) & (slots - 1));
            T::from_bytes(&map.lookup(&index.to_ne_bytes(), MapFlags::ANY).ok()??)
        })
        .collect()
}

/// Writes the only entry of an array map.
pub(crate) fn write_only<T: Plain>(map: &MapHandle, value: &T) -> Result<(), Error> {
    map.update(&0u32.to_ne_bytes(), value.as_bytes(), MapFlags::ANY).map_err(Error::bpf("cannot write a BPF map"))
}
