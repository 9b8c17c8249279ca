//! The compiled BPF objects, and their maps by name.

use std::ffi::OsStr;

use libbpf_rs::{Link, MapCore as _, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, ProgramMut};

use crate::Error;
use crate::layout::{Plain, RawConfig};

/// The object of the BPF timestamping backend.
pub(crate) const TIMESTAMPING: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/timestamping.bpf.o"));

/// The object of the tracepoints backend.
pub(crate) const TRACEPOINTS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tracepoints.bpf.o"));

/// One program of each type, to be tried.
pub(crate) const CAPABILITIES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/capabilities.bpf.o"));

/// How large the maps are to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub rows: u32,
    pub slots: u32,
    pub ring: u32,
}

/// Opens an object and sets its sizes and its configuration.
pub(crate) fn open(bytes: &[u8], name: &str, config: &RawConfig, sizes: Sizes) -> Result<OpenObject, Error> {
    let mut object = ObjectBuilder::default()
        .name(name)
        .and_then(|builder| builder.open_memory(bytes))
        .map_err(Error::bpf("cannot open the BPF object"))?;
    for mut map in object.maps_mut() {
        let entries = match map.name().to_str() {
            Some("rows" | "free_rows") => sizes.rows,
            Some("slots") => sizes.rows * sizes.slots,
            Some("records") => sizes.ring,
            Some(".rodata.config") => {
                map.set_initial_value(config.as_bytes()).map_err(Error::bpf("cannot configure the BPF programs"))?;
                continue;
            }
            _ => continue,
        };
        map.set_max_entries(entries).map_err(Error::bpf("cannot size a BPF map"))?;
    }
    Ok(object)
}

/// A map of a loaded object as a handle of its own.
pub(crate) fn map(object: &Object, name: &'static str) -> Result<MapHandle, Error> {
    let map = object.maps().find(|map| map.name() == OsStr::new(name));
    let map = map.ok_or(Error::Bpf {
        what: name,
        source: libbpf_rs::Error::from(std::io::Error::from_raw_os_error(libc::ENOENT)),
    })?;
    MapHandle::try_from(&map).map_err(Error::bpf("cannot hold a BPF map"))
}

/// A program of a loaded object, by name.
pub(crate) fn program<'a>(object: &'a Object, name: &'static str) -> Result<ProgramMut<'a>, Error> {
    object.progs_mut().find(|program| program.name() == OsStr::new(name)).ok_or(Error::Bpf {
        what: name,
        source: libbpf_rs::Error::from(std::io::Error::from_raw_os_error(libc::ENOENT)),
    })
}

/// Attaches a program by its section name.
pub(crate) fn attach(object: &Object, name: &'static str) -> Result<Link, Error> {
    program(object, name)?.attach().map_err(Error::bpf(name))
}

/// Writes the only entry of an array map.
pub(crate) fn write_only<T: Plain>(map: &MapHandle, value: &T) -> Result<(), Error> {
    map.update(&0u32.to_ne_bytes(), value.as_bytes(), MapFlags::ANY).map_err(Error::bpf("cannot write a BPF map"))
}
