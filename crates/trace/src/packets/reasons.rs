//! The names of the reasons why the kernel drops packets, from the running kernel's own type
//! information.

use std::collections::HashMap;
use std::sync::Arc;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Enum;
use record::DropReason;

const PREFIX: &str = "SKB_DROP_REASON_";

/// Number to name. A number without a name (a kernel module's, say) is its own.
#[derive(Debug, Default)]
pub(crate) struct Reasons(HashMap<u32, Arc<str>>);

impl Reasons {
    /// Reads `enum skb_drop_reason` of the running kernel; `None` where it has none (before Linux
    /// 5.17).
    pub fn of_this_kernel() -> Option<Self> {
        let types = Btf::from_vmlinux().ok()?;
        let reasons: Enum<'_> = types.type_by_name("skb_drop_reason")?;
        let names = reasons.iter().filter_map(|member| {
            let name = member.name?.to_str()?.strip_prefix(PREFIX)?;
            Some((u32::try_from(member.value).ok()?, Arc::from(name)))
        });
        Some(Self(names.collect()))
    }

    pub fn name(&mut self, reason: u32) -> DropReason {
        DropReason(Arc::clone(self.0.entry(reason).or_insert_with(|| reason.to_string().into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_names_its_reasons() {
        tier::needs!(tier::Need::Path("/sys/kernel/btf/vmlinux"));
        let mut reasons = Reasons::of_this_kernel().unwrap();
        let full = reasons.0.iter().find(|(_, name)| &***name == "SOCKET_RCVBUFF").map(|(number, _)| *number).unwrap();
        assert_eq!(reasons.name(full).to_string(), "SOCKET_RCVBUFF");
        assert_eq!(reasons.name(3_000_000).to_string(), "3000000");
    }
}
