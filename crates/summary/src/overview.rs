//! The connections of a capture as a whole: how many, and those that findings cost most.

use std::cmp::Reverse;

use record::Nanos;
use record::conversation::{ConversationRow, FindingKind, FindingRow};

/// Connections that are kept, at least.
const LISTED: usize = 500;
/// Findings that are kept.
const FINDINGS: usize = 500;

/// A connection with the finding that cost it most, apart from the time that its applications took.
#[derive(Clone, Debug)]
pub struct Hurt {
    /// That finding; none where nothing was found, or the time of its applications alone.
    pub by: Option<FindingRow>,
    /// The connection.
    pub conversation: ConversationRow,
}

impl Hurt {
    fn cost(&self) -> Nanos {
        self.by.as_ref().map_or(Nanos::ZERO, |f| f.cost_ns)
    }
}

/// The connections of a capture as a whole, gathered one by one in bounded memory.
#[derive(Clone, Debug)]
pub struct Overview {
    limit: usize,
    /// How many there are.
    pub connections: u64,
    /// How many findings.
    pub findings: u64,
    /// Kinds of findings with their cost and number, in the order of their first.
    pub kinds: Vec<(String, Nanos, u64)>,
    /// Those that a finding cost most, the worst first; in order once it is [`Overview::sorted`].
    pub hurt: Vec<Hurt>,
    /// The costliest findings; in order once it is [`Overview::sorted`].
    pub costliest: Vec<FindingRow>,
}

impl Overview {
    /// Nothing yet; at least so many connections are listed.
    pub fn new(rows: usize) -> Self {
        let limit = rows.max(LISTED);
        Self { limit, connections: 0, findings: 0, kinds: Vec::new(), hurt: Vec::new(), costliest: Vec::new() }
    }

    /// Adds a connection with what was found on it.
    pub fn conversation(&mut self, conversation: ConversationRow, findings: &[FindingRow]) {
        self.connections += 1;
        self.findings += findings.len() as u64;
        for f in findings {
            self.kind(&f.kind, f.cost_ns, 1);
        }
        let by = findings
            .iter()
            .filter(|f| f.kind != FindingKind::SenderApplication.name())
            .max_by_key(|f| f.cost_ns)
            .cloned();
        self.hurt.push(Hurt { by, conversation });
        self.costliest.extend_from_slice(findings);
        self.forget_the_rest();
    }

    /// Adds what another gathered of the connections after these.
    pub fn join(&mut self, other: Self) {
        self.connections += other.connections;
        self.findings += other.findings;
        for (kind, cost, n) in other.kinds {
            self.kind(&kind, cost, n);
        }
        self.hurt.extend(other.hurt);
        self.costliest.extend(other.costliest);
        self.forget_the_rest();
    }

    /// From time to time only: sorting takes time.
    fn forget_the_rest(&mut self) {
        if self.hurt.len() >= self.limit * 2 || self.costliest.len() >= FINDINGS * 2 {
            self.keep_the_costliest();
        }
    }

    fn kind(&mut self, kind: &str, cost: Nanos, n: u64) {
        match self.kinds.iter_mut().find(|k| k.0 == kind) {
            Some(k) => (k.1, k.2) = (k.1 + cost, k.2 + n),
            None => self.kinds.push((kind.to_owned(), cost, n)),
        }
    }

    /// The same in order, the costliest first.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.keep_the_costliest();
        self
    }

    /// The cost decides, then the size, then the number.
    fn keep_the_costliest(&mut self) {
        self.hurt.sort_by_key(|h| {
            let c = &h.conversation;
            (Reverse((h.cost(), c.to_server.bytes + c.to_client.bytes)), c.number)
        });
        self.hurt.truncate(self.limit);
        self.costliest.sort_by_key(|f| (Reverse(f.cost_ns), f.number));
        self.costliest.truncate(FINDINGS);
    }
}
