//! What was not read or not followed, in words.

/// A sentence for each of these that there are any of.
pub(crate) fn in_words(counts: &[(u64, &str)]) -> Vec<String> {
    counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{what} (n = {n})")).collect()
}
