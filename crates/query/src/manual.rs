//! The manual page.

use std::io::{self, Write as _};

use clap::CommandFactory as _;
use query::arguments::Cli;

/// Command lines of the page, and what each is for. A test parses each.
const EXAMPLES: [(&str, &str); 6] = [
    ("wirelapse query --runs /var/lib/wirelapse/runs --list", "tables, views and named queries"),
    ("wirelapse query --runs /var/lib/wirelapse/runs --named slow-peers", "the peers with the longest p99"),
    ("wirelapse query --runs run 'SELECT comm, max(total_ns) FROM sends GROUP BY comm'", "SQL over one run"),
    (
        "wirelapse query --runs /var/lib/wirelapse/runs --named slow-hosts --plot --html slow.html",
        "as a page with bars",
    ),
    ("wirelapse query --runs s3://bucket/prefix --format parquet 'SELECT * FROM quantiles'", "for another program"),
    ("wirelapse query --runs s3://bucket/prefix --scheduler 192.0.2.1:50050 --named busy-peers", "by a cluster"),
];

/// Writes what clap knows of the command, and under it what it does not.
///
/// # Errors
/// Where standard output cannot be written.
pub fn print() -> io::Result<()> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    writeln!(page, ".SH EXAMPLES")?;
    for (line, what) in EXAMPLES {
        writeln!(page, ".TP\n\\fB{}\\fR\n{what}", line.replace('-', "\\-"))?;
    }
    writeln!(
        page,
        ".SH EXIT STATUS\n.TP\n0\nanswered\n.TP\n1\nfailed while running\n.TP\n2\nwrong query or bad input\n.TP\n130\ncancelled\n\
         .SH FILES\n.TP\n~/.local/state/wirelapse/query\\-history\nthe queries that were typed at the prompt\n\
         .SH SEE ALSO\nwirelapse(1), wirelapse\\-agent(1), wirelapse\\-report(1)"
    )?;
    query::out::say(&String::from_utf8_lossy(&page))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn every_example_is_a_command_line() {
        for (line, _) in EXAMPLES {
            let (plain, quoted) = line.split_once('\'').unwrap_or((line, ""));
            let words = plain.split_whitespace().skip(1).chain((!quoted.is_empty()).then_some(quoted));
            if let Err(error) = Cli::try_parse_from(words) {
                panic!("{line}: {error}");
            }
        }
    }
}
