//! Targets of fuzzing: any bytes, through each entry that takes those of a file.

use crate::plan_text;

/// A plan in TOML. One that is read can be written down, and reads back as the same plan.
pub fn plan(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match crate::plan_file::parse("p.toml", text) {
        Ok(plan) => {
            let written = plan_text::text(&plan);
            let again = crate::plan_file::parse("p.toml", &written);
            assert_eq!(again.as_ref().ok(), Some(&plan), "{written}");
        }
        Err(error) => {
            let _ = error.to_string();
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn corpora() {
        tier::corpus::replay("plan", super::plan);
    }
}
