//! Names that are cut to the room they have: what is left of them still differs.

/// Each name as `cut` leaves it. Those that would read alike lose what they all begin with, and
/// where that does not help they are numbered.
pub fn apart<N: AsRef<str>>(names: &[N], cut: &dyn Fn(&str) -> String) -> Vec<String> {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let mut left = without_common_beginning(&names, "", cut);
    for group in alike(&names, &left) {
        for i in group {
            left[i] = cut(&format!("{}: {}", i + 1, names[i]));
        }
    }
    left
}

/// Cut to so many letters. Names that begin alike differ at their ends, so what is cut is the
/// middle.
pub(crate) fn without_middle(text: &str, letters: usize) -> String {
    let n = text.chars().count();
    if n <= letters {
        return text.to_owned();
    }
    let front = (letters * 45).div_ceil(100);
    let back = letters.saturating_sub(front + 1);
    text.chars().take(front).chain(['…']).chain(text.chars().skip(n - back)).collect()
}

fn without_common_beginning(names: &[&str], lead: &str, cut: &dyn Fn(&str) -> String) -> Vec<String> {
    let mut left: Vec<String> = names.iter().map(|name| cut(&format!("{lead}{name}"))).collect();
    for group in alike(names, &left) {
        let own: Vec<&str> = group.iter().map(|i| names[*i]).collect();
        let common = common_beginning(&own);
        if common > 0 {
            let ends: Vec<&str> = own.iter().map(|name| &name[common..]).collect();
            let shown = without_common_beginning(&ends, "…", cut);
            group.into_iter().zip(shown).for_each(|(i, text)| left[i] = text);
        }
    }
    left
}

/// Groups of different names that read alike, by their places.
fn alike(names: &[&str], shown: &[String]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for i in 0..names.len() {
        match groups.iter_mut().find(|group| shown[group[0]] == shown[i]) {
            Some(group) => group.push(i),
            None => groups.push(vec![i]),
        }
    }
    groups.retain(|group| group.iter().any(|i| names[*i] != names[group[0]]));
    groups
}

/// How many bytes all of them begin with, in whole pairs of a factor and its level or else whole
/// words, where there are such.
fn common_beginning(names: &[&str]) -> usize {
    let Some((first, rest)) = names.split_first() else { return 0 };
    let same = |name: &&str| {
        let ends = first.char_indices().zip(name.chars()).find(|((_, a), b)| a != b);
        ends.map_or(first.len().min(name.len()), |((at, _), _)| at)
    };
    let common = rest.iter().map(same).min().unwrap_or(0);
    let beginning = &first[..common];
    let pairs = beginning.rfind(", ").map(|end| end + 2);
    pairs.or_else(|| beginning.rfind(' ').map(|end| end + 1)).unwrap_or(common)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn cut(text: &str) -> String {
        if text.chars().count() <= 20 { text.into() } else { text.chars().take(19).chain(['…']).collect() }
    }

    #[test]
    fn names_keep_that_by_which_they_differ() {
        let names = [
            "a tcp_timestamps 1, b tcp_timestamps 1, cubic",
            "a tcp_timestamps 1, b tcp_timestamps 1, bbr",
            "a tcp_timestamps 1, b tcp_timestamps 0, bbr",
            "trial",
        ];
        assert_eq!(apart(&names, &cut), ["…cubic", "…bbr", "…b tcp_timestamps 0…", "trial"]);
        // One name that is there twice is one series.
        assert_eq!(apart(&["trial", "trial"], &cut), ["trial", "trial"]);
        // The same ends behind different beginnings.
        let names = ["a", "b"].map(|c| ["x", "y"].map(|end| format!("{} {end}", c.repeat(30))));
        let shown: BTreeSet<String> = apart(&names.concat(), &cut).into_iter().collect();
        assert_eq!(shown.len(), 4, "{shown:?}");
    }

    proptest! {
        #[test]
        fn different_names_read_differently(names in prop::collection::btree_set("[ab µ]{0,60}", 0..12)) {
            let names: Vec<String> = names.into_iter().collect();
            let shown: BTreeSet<String> = apart(&names, &cut).into_iter().collect();
            prop_assert_eq!(shown.len(), names.len(), "{:?}", shown);
        }
    }
}
