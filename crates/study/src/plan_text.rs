//! A plan as the TOML that it could have been read from.

use std::fmt::Write as _;

use crate::plan::Plan;

/// A TOML basic string.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => _ = write!(out, "\\u{:04X}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn time(time: record::Nanos) -> String {
    quoted(&quantity::exact_duration(time))
}

/// The plan's TOML. How many frames are analysed is no key of a plan and stands there as a
/// comment.
pub fn text(plan: &Plan) -> String {
    let mut out = String::new();
    let mut line = |text: String| _ = writeln!(out, "{text}");
    line(format!("name = {}", quoted(&plan.name)));
    line(format!("measure = {}", quoted(plan.response.name())));
    line(format!("repetitions = {}", plan.repetitions));
    line(format!("duration = {}", time(plan.duration)));
    line(format!("warm_up = {}", time(plan.warm_up)));
    line(format!("# frames read in each trial: {}", plan.frames));
    line("\n[fixed]".into());
    for (setting, value) in &plan.fixed {
        line(format!("{} = {}", quoted(&setting.to_string()), quoted(value)));
    }
    line("\n[factors]".into());
    for factor in &plan.factors {
        let levels: Vec<String> = factor.levels.iter().map(|l| quoted(l)).collect();
        line(format!("{} = [{}]", quoted(&factor.name.to_string()), levels.join(", ")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_plan_reads_back_from_its_text() {
        for builtin in &crate::builtin::ALL {
            for plan in builtin.study(false).plans {
                let read = crate::plan_file::parse("p.toml", &text(&plan)).unwrap();
                assert_eq!(Plan { frames: plan.frames, ..read }, plan);
            }
        }
    }
}
