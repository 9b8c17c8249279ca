//! Why each segment was retransmitted: the kernel's own word, set beside the class that was read
//! from the packets.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use std::fmt::Write as _;

use diagnose::{Class, Mark, Record, Report, Way};

/// A retransmission as the kernel made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retransmission {
    /// `CLOCK_REALTIME`, ns.
    pub at: i64,
    /// The sender's port, and its peer's.
    pub ports: [u16; 2],
    /// First sequence number, and the one after the last.
    pub seq: u32,
    pub end: u32,
    /// Where the recovery ends.
    pub high_seq: u32,
    /// `tcp_ca_state`.
    pub state: u16,
}

/// What the kernel did on one path, and what is needed to find its packets at the receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// SACK is in use.
    pub sack: bool,
    /// The least that a packet takes from sender to receiver, ns.
    pub delay: i64,
    pub all: Vec<Retransmission>,
}

impl Truth {
    /// As lines of text.
    pub fn text(&self) -> String {
        let mut text = format!("sack {} delay {}\n", u8::from(self.sack), self.delay);
        for r in &self.all {
            writeln!(text, "{} {} {} {} {} {} {}", r.at, r.ports[0], r.ports[1], r.seq, r.end, r.high_seq, r.state)
                .unwrap();
        }
        text
    }

    /// Reads what [`Truth::text`] writes.
    pub fn parse(text: &str) -> Self {
        let mut lines = text.lines();
        let head: Vec<&str> = lines.next().unwrap().split(' ').collect();
        let all = lines.map(|line| {
            let f: Vec<i64> = line.split(' ').map(|n| n.parse().unwrap()).collect();
            let [at, port, peer, seq, end, high_seq, state] = f[..] else { panic!("{line}") };
            let (ports, state) = ([port as u16, peer as u16], state as u16);
            Retransmission { at, ports, seq: seq as u32, end: end as u32, high_seq: high_seq as u32, state }
        });
        Self { sack: head[1] == "1", delay: head[3].parse().unwrap(), all: all.collect() }
    }

    /// One connection's, in order, with their classes in our words.
    fn of(&self, ports: [u16; 2]) -> Vec<(Retransmission, Class)> {
        let mut recovery = None;
        let mut class = |r: &Retransmission| {
            let further = recovery == Some(r.high_seq);
            recovery = (r.state == 3).then_some(r.high_seq);
            match r.state {
                4 => Class::Timeout,
                3 if further && self.sack => Class::SackRecovery,
                3 => Class::Fast,
                // Neither in recovery nor in loss, the kernel retransmits nothing but a probe.
                _ => Class::TailLossProbe,
            }
        };
        self.all.iter().filter(|r| r.ports == ports).map(|r| (*r, class(r))).collect()
    }
}

pub const TRUTHS: [Class; 4] = [Class::Timeout, Class::Fast, Class::SackRecovery, Class::TailLossProbe];

/// The column of what the capture does not show as retransmitted.
pub const NOT_SEEN: usize = 7;

/// Whether what was read says of the truth what can be known: that a timer ran out, which may have
/// been either of two.
fn withheld(truth: Class, read: Class) -> bool {
    read == Class::Timer && matches!(truth, Class::Timeout | Class::TailLossProbe)
}

/// By truth, then by what was read. The last row holds what the kernel did not retransmit, the last
/// column what the capture does not show as retransmitted.
#[derive(Clone, Debug, Default)]
pub struct Score {
    pub matrix: [[u32; 8]; 5],
    /// What differs, in words.
    pub wrong: Vec<String>,
}

impl Score {
    /// Each retransmission of the capture meets the latest of the kernel's that covers it and can
    /// have come by: `delay` after it left, at least. Behind a lossy path (`all` is false) those
    /// that are not there were lost.
    pub fn add(&mut self, report: &Report, truth: &Truth, delay: i64, all: bool) {
        // What timers and two clocks may be apart.
        const SLACK: i64 = 1_500_000;
        let own = truth.of([report.client.port(), report.server.port()]);
        let row = |i: usize| TRUTHS.iter().position(|t| *t == own[i].1).unwrap();
        let mut seen = vec![false; own.len()];
        for r in report.records.iter().filter(|r| r.way == Way::ToServer) {
            let Mark::Retransmitted(class) = r.mark else { continue };
            let left = r.segment.at.as_nanos() as i64 - delay + SLACK;
            let covers = |e: &Retransmission| r.segment.seq.0.wrapping_sub(e.seq) < e.end.wrapping_sub(e.seq);
            let Some(i) = (0..own.len()).rfind(|i| covers(&own[*i].0) && own[*i].0.at <= left) else {
                self.matrix[4][class as usize] += 1;
                self.wrong.push(format!("not retransmitted, read as {class:?}: {}", around(report, r)));
                continue;
            };
            seen[i] = true;
            self.matrix[row(i)][class as usize] += 1;
            if own[i].1 != class && !withheld(own[i].1, class) {
                self.wrong.push(format!("{:?} read as {class:?}: {}", own[i].1, around(report, r)));
            }
        }
        for i in (0..own.len()).filter(|i| all && !seen[*i]) {
            self.matrix[row(i)][NOT_SEEN] += 1;
            self.wrong.push(format!("{:?} not seen: {:?}", own[i].1, own[i].0));
        }
    }

    /// Adds what another one holds.
    pub fn join(&mut self, other: &Self) {
        for (row, more) in self.matrix.iter_mut().flatten().zip(other.matrix.iter().flatten()) {
            *row += more;
        }
        self.wrong.extend(other.wrong.iter().cloned());
    }

    pub fn total(&self) -> u32 {
        self.matrix.iter().flatten().sum()
    }

    /// Those that were given a class: all but the ones that no capture could decide.
    pub fn decided(&self) -> u32 {
        self.total() - TRUTHS.iter().map(|class| self.not_decided(*class)).sum::<u32>()
    }

    fn not_decided(&self, truth: Class) -> u32 {
        let Some(row) = TRUTHS.iter().position(|t| *t == truth) else { return 0 };
        Class::ALL.iter().filter(|read| withheld(truth, **read)).map(|read| self.matrix[row][*read as usize]).sum()
    }

    pub fn right(&self) -> u32 {
        TRUTHS.iter().enumerate().map(|(row, class)| self.matrix[row][*class as usize]).sum()
    }

    /// How many of a class there are by truth.
    pub fn of(&self, class: Class) -> u32 {
        TRUTHS.iter().position(|t| *t == class).map_or(0, |row| self.matrix[row].iter().sum())
    }

    /// Precision, recall and their harmonic mean, 0 to 1, of those that were given one class.
    /// `None` where there is none of the class.
    pub fn f1(&self, class: Class) -> Option<(f64, f64, f64)> {
        let row = TRUTHS.iter().position(|t| *t == class)?;
        let right = f64::from(self.matrix[row][class as usize]);
        let there = f64::from(self.of(class) - self.not_decided(class));
        let read: f64 = self.matrix.iter().map(|r| f64::from(r[class as usize])).sum();
        (there > 0.0).then(|| (right / read.max(1.0), right / there, 2.0 * right / (there + read)))
    }

    /// The matrix as a table.
    pub fn table(&self, title: &str) -> String {
        let mut text = format!(
            "| {title} | timeout | fast | SACK recovery | tail-loss probe | timer | unclear | not seen | precision | recall | F1 |\n|---|{}\n",
            "---|".repeat(10)
        );
        let names = ["timeout", "fast", "SACK recovery", "tail-loss probe", "not retransmitted"];
        for (i, (name, row)) in names.iter().zip(self.matrix).enumerate() {
            let figures = TRUTHS
                .get(i)
                .and_then(|c| self.f1(*c))
                .map_or(["".into(), "".into(), "".into()], |f| [f.0, f.1, f.2].map(|v| format!("{v:.3}")));
            let [precision, recall, f1] = figures;
            writeln!(
                text,
                "| {name} | {} | {} | {} | {} | {} | {} | {} | {precision} | {recall} | {f1} |",
                row[0], row[1], row[2], row[3], row[6], row[5], row[NOT_SEEN]
            )
            .unwrap();
        }
        text
    }
}

/// What came before a packet, for messages.
pub fn around(report: &Report, record: &Record) -> String {
    let n = report.records.iter().position(|r| r.segment.number == record.segment.number).unwrap();
    let line = |r: &Record| {
        let (ms, arrow) =
            ((r.segment.at.as_nanos() - report.start_ns) as f64 / 1e6, if r.way == Way::ToServer { ">" } else { "<" });
        let sacks: Vec<String> = r
            .segment
            .options
            .sack
            .as_slice()
            .iter()
            .map(|s| format!("{}-{}", s.0.0 % 10_000_000, s.1.0 % 10_000_000))
            .collect();
        format!(
            "{ms:.2}{arrow}{}+{} a{} {}",
            r.segment.seq.0 % 10_000_000,
            r.segment.payload,
            r.segment.ack.0 % 10_000_000,
            sacks.join(",")
        )
    };
    report.records[n.saturating_sub(6)..=n].iter().map(line).collect::<Vec<_>>().join(" | ")
}
