//! Where the fields of a structure of our BPF objects are, from the object's own type information:
//! what Rust reads is compared with it.

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{MemberAttr, Struct};

/// Name and place of each field, in order.
pub(crate) fn fields(object: &str, structure: &str) -> Vec<(String, usize)> {
    let btf = Btf::from_path(object).unwrap();
    let structure = btf.type_by_name::<Struct<'_>>(structure).unwrap();
    let place = |attr| match attr {
        MemberAttr::Normal { offset } => offset as usize / 8,
        MemberAttr::BitField { .. } => panic!("a bit field"),
    };
    structure.iter().map(|m| (m.name.unwrap().to_string_lossy().into_owned(), place(m.attr))).collect()
}
