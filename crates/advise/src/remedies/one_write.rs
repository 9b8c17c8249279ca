//! What belongs together in one write.

use diagnose::conditions::Conditions;
use record::conversation::{FindingKind, Limit, Way};

use super::{At, Change, Remedy, line};
use record::script::Step;

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "one write instead of several",
    what: "gather what belongs together into one write",
    at: At::Program,
    findings: &[FindingKind::NagleDelayedAck, FindingKind::TinySegments],
    limits: &[Limit::AckWaiting, Limit::PathRate],
    possible,
    change: Change::InTwin(|twin, way| join(twin.script.of_mut(way))),
    sysctls: &[],
    set: &[
        line("C", "writev(fd, parts, n); or send(fd, head, n, MSG_MORE) for all but the last part"),
        line("Python", "s.sendall(b''.join(parts))"),
        line("Java", "new BufferedOutputStream(socket.getOutputStream()), and flush() once per message"),
        line("Go", "bufio.NewWriter(conn), and Flush() once per message; or net.Buffers"),
        line("Node.js", "socket.cork(); …; socket.uncork()"),
        line("Rust", "BufWriter, and flush() once per message; or write_vectored"),
    ],
    undo: &[line("any", "the writes as they were")],
    costs: "a change of the program; the first part leaves as late as the last is ready",
    source: "RFC 1122, section 4.2.3.4",
};

/// What is written within this after the write before belongs to it, ns.
const TOGETHER: u64 = 1_000_000;

/// What is gathered leaves at this size at the latest: the buffer of most libraries.
const GATHERED: u64 = 8_192;

/// Joins each write with those that follow it at once, without anything read in between. They leave
/// as late as the last of them.
fn join(steps: &mut Vec<Step>) {
    let mut joined: Vec<Step> = Vec::with_capacity(steps.len());
    for step in steps.iter() {
        let fits = |last: &&mut Step| {
            step.think.0 < TOGETHER && step.after == last.after && last.bytes + step.bytes <= GATHERED
        };
        match joined.last_mut().filter(fits) {
            Some(last) => (last.bytes, last.think) = (last.bytes + step.bytes, last.think + step.think),
            None => joined.push(*step),
        }
    }
    *steps = joined;
}

fn possible(c: &Conditions, way: Way) -> Result<(), &'static str> {
    let mut steps = c.script.of(way).to_vec();
    let before = steps.len();
    join(&mut steps);
    if steps.len() < before { Ok(()) } else { Err("no two writes follow one another at once") }
}

#[cfg(test)]
mod tests {
    use record::Nanos;

    use super::*;

    #[test]
    fn writes_that_follow_at_once_become_one() {
        let step = |after, think, bytes| Step { after, think: Nanos(think), bytes };
        let mut steps = vec![step(0, 5, 4), step(0, 0, 100), step(10, 0, 4), step(10, 2_000_000, 100)];
        join(&mut steps);
        assert_eq!(steps, [step(0, 5, 104), step(10, 0, 4), step(10, 2_000_000, 100)]);
        let mut many = vec![step(0, 400, 4_000); 4];
        join(&mut many);
        assert_eq!(many, [step(0, 800, 8_000); 2]);
    }
}
