//! Names that were mistyped.

/// The name among `known` that is nearest to `name`, by the letters that are added, missing,
/// exchanged or swapped. The first of several that are equally near; `None` where none is known.
pub fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    known.into_iter().min_by_key(|known| strsim::damerau_levenshtein(known, name))
}

/// The same, but only where at most half of the letters differ: likely meant.
pub fn near<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    nearest(name, known).filter(|known| strsim::damerau_levenshtein(known, name) <= known.len() / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_what_was_meant() {
        assert_eq!(nearest("raet", ["delay", "rate", "loss"]), Some("rate"));
        assert_eq!(near("dealy", ["delay", "rate"]), Some("delay"));
        assert_eq!(near("congestion", ["delay", "rate"]), None);
        assert_eq!(nearest("any", []), None);
    }
}
