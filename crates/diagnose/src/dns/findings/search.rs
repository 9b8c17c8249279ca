//! A search list: a name with fewer dots than `ndots` is asked for with each suffix first.

use std::collections::HashMap;
use std::net::IpAddr;

use record::Nanos;
use record::dns::{Answered, DnsFinding};

use super::{Shown, View};
use crate::dns::lookup::Case;

/// A resolver goes on to the next suffix at once.
const AT_ONCE: u64 = 1_000_000_000;

pub(super) fn draw(view: &View<'_, '_>) -> Vec<DnsFinding> {
    // The lookups of one client for one type, in order: those of a search follow one another.
    let mut chains: HashMap<(IpAddr, u16), Vec<&Case<'_>>> = HashMap::new();
    let mut found: Vec<Vec<&Case<'_>>> = Vec::new();
    let is_vain = |case: &Case<'_>| matches!(case.answered, Answered::NoSuchName | Answered::NoData);
    if !view.unusual().any(is_vain) {
        return Vec::new();
    }
    for case in view.cases() {
        let chain = chains.entry((case.client(), case.kind)).or_default();
        let asked = case.first().asked;
        chain.retain(|before| before.end().is_some_and(|end| end <= asked && asked - end < AT_ONCE));
        let vain: Vec<&Case<'_>> =
            chain.iter().copied().filter(|before| goes_before(&before.first().name, &case.first().name)).collect();
        match case.answered {
            _ if is_vain(case) => {}
            // What it was asked for with before has come to its end.
            Answered::Found if !vain.is_empty() => {
                chain.retain(|before| vain.iter().all(|v| v.number != before.number));
                found.push(vain.into_iter().chain([case]).collect());
                continue;
            }
            _ => continue,
        }
        // Programs ask for many names at a time; more than so many suffixes no list has.
        if chain.len() == 32 {
            chain.remove(0);
        }
        chain.push(case);
    }
    let mut shown = Shown::default();
    found.sort_by_key(|chain| chain.last().map(|case| case.number));
    for chain in &found {
        if let [first, .., last] = chain.as_slice() {
            shown.add(last, first.first().asked..last.first().asked);
        }
    }
    let Some((worst, waited)) = shown.worst() else { return Vec::new() };
    let Some(chain) = found.iter().find(|chain| chain.last().is_some_and(|case| case.number == worst.number)) else {
        return Vec::new();
    };
    let name = &*worst.first().name;
    let vain = chain[..chain.len() - 1].iter().map(|case| {
        let before = &*case.first().name;
        // A shorter suffix was found: the longer ones do not follow the whole of that name.
        format!("`{}`", before.strip_prefix(name).unwrap_or(before))
    });
    let vain: Vec<String> = vain.collect();
    let wasted: usize = found.iter().map(|chain| chain.len() - 1).sum();
    let dots = name.matches('.').count();
    let text = format!(
        "{} was found by the {} question, {} after the first: with {} behind it there is no such name ({} in the capture)",
        worst.name(),
        quantity::ordinal(chain.len()),
        Nanos(waited),
        vain.join(", "),
        quantity::counted(wasted as u64, "such question"),
    );
    let next = format!(
        "write the name with a dot at its end, or set `options ndots:{}` in resolv.conf (in Kubernetes: `dnsConfig`)",
        dots.max(1)
    );
    shown.finding(|_| text, next)
}

/// Whether a search list leads from one name to the other: the second is the first without its
/// last labels, or without labels in the middle where a longer suffix gave way to a shorter one.
fn goes_before(before: &str, found: &str) -> bool {
    let (before, found): (Vec<&str>, Vec<&str>) = (before.split('.').collect(), found.split('.').collect());
    let alike = before.iter().zip(&found).take_while(|(a, b)| a == b).count();
    let end = before.iter().rev().zip(found.iter().rev()).take_while(|(a, b)| a == b).count();
    before.len() > found.len() && alike > 0 && alike + end >= found.len()
}

#[cfg(test)]
mod tests {
    use super::goes_before;

    #[test]
    fn a_search_list_leads_from_longer_suffixes_to_shorter_ones() {
        assert!(goes_before("db.prod.default.svc.cluster.local", "db.prod"));
        assert!(goes_before("db.prod.default.svc.cluster.local", "db.prod.svc.cluster.local"));
        assert!(goes_before("db.example.com.corp.example", "db.example.com"));
        assert!(!goes_before("www.example.com", "www.example.org"));
        assert!(!goes_before("db.prod", "db.prod.svc.cluster.local"));
        assert!(!goes_before("www.example.com", "mail.example.com"));
        assert!(!goes_before("a.b.example.com", "example.com"), "another name of the same domain");
    }
}
