//! Names in the type information of the running kernel (BTF).

use std::fs;
use std::io;

/// Where the kernel shows it.
pub(crate) const PATH: &str = "/sys/kernel/btf/vmlinux";

/// The type information of a kernel. All its names lie in one block of strings that each end with a
/// zero; nothing else of it is read.
pub(crate) struct Btf(Vec<u8>);

impl Btf {
    /// Reads that of the running kernel.
    ///
    /// # Errors
    /// Where the kernel shows none, or not to this process.
    pub(crate) fn of_this_kernel() -> io::Result<Self> {
        fs::read(PATH).map(Self)
    }

    /// Its size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Whether it has a tracepoint of that name: its type is then `btf_trace_NAME`.
    pub(crate) fn has_tracepoint(&self, name: &str) -> bool {
        let full = format!("btf_trace_{name}");
        self.names(&full).any(|found| found == full)
    }

    /// The names that begin so, in the order in which they are there.
    pub(crate) fn names<'a>(&'a self, prefix: &str) -> impl Iterator<Item = &'a str> {
        let mut wanted = vec![0];
        wanted.extend_from_slice(prefix.as_bytes());
        let first = wanted.len() - 1;
        // Horspool's search: steps over the 5 MB in strides, because a plain search takes seconds
        // in a debug build.
        let mut stride = [wanted.len(); 256];
        for (at, byte) in wanted[..first].iter().enumerate() {
            stride[usize::from(*byte)] = first - at;
        }
        let mut end = first;
        std::iter::from_fn(move || {
            while let Some(&last) = self.0.get(end) {
                let name = &self.0[end - first..];
                let is_there = name.starts_with(&wanted);
                end += stride[usize::from(last)];
                if is_there {
                    return Some(name[1..].split(|&byte| byte == 0).next().unwrap_or_default());
                }
            }
            None
        })
        .filter_map(|name| std::str::from_utf8(name).ok())
    }
}

#[cfg(test)]
impl Btf {
    /// Type information with these names alone.
    pub(crate) fn of(names: &[&str]) -> Self {
        Self([&[""], names, &[""]].concat().join("\0").into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tracepoint_is_a_whole_name() {
        let btf = Btf::of(&["int", "btf_trace_tcp_probe_more", "x_btf_trace_sk", "btf_trace_net_dev_xmit"]);
        assert!(btf.has_tracepoint("net_dev_xmit"));
        assert!(btf.has_tracepoint("tcp_probe_more"));
        assert!(!btf.has_tracepoint("tcp_probe"));
        assert!(!btf.has_tracepoint("sk"));
        assert!(!Btf(Vec::new()).has_tracepoint("sk"));
    }

    #[test]
    fn names_are_found_by_how_they_begin() {
        let btf = Btf::of(&["AB_1", "XAB_2", "AB_3", "AB"]);
        assert_eq!(btf.names("AB_").collect::<Vec<_>>(), ["AB_1", "AB_3"]);
        assert_eq!(btf.names("C").count(), 0);
    }
}
