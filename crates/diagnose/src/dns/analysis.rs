//! All that is said of DNS in a capture.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use record::dns::{DnsFinding, Lookup, Server, names};

use super::findings::{self, View};
use super::lookup::{self, Case};
use super::servers;
use super::{Dns, Totals};

/// A lookup, for those who look for what it was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resolved<'a> {
    /// Its number.
    pub(crate) number: u64,
    /// Who asked.
    pub(crate) client: IpAddr,
    /// Who was asked first.
    pub(crate) server: IpAddr,
    /// The name.
    pub(crate) name: &'a str,
    /// The first question.
    pub(crate) start: u64,
    /// The last question.
    pub(crate) last_try: u64,
    /// The answer, where there is one.
    pub(crate) end: Option<u64>,
    /// Questions up to the one that was answered, or all of them.
    pub(crate) tries: u64,
    /// The addresses found.
    pub(crate) addresses: &'a [IpAddr],
}

/// Lookups, servers and findings.
#[derive(Debug)]
pub struct Analysis<'a> {
    cases: Vec<Case<'a>>,
    servers: Vec<Server>,
    findings: Vec<DnsFinding>,
    totals: Totals,
}

impl<'a> Analysis<'a> {
    pub(super) fn new(dns: &'a Dns) -> Self {
        let answered = dns.exchanges.iter().filter(|e| e.answer.is_some() || e.unreachable.is_some());
        let clients: HashSet<IpAddr> = answered.map(|e| e.client.ip()).collect();
        let cases = lookup::gather(&dns.exchanges, dns.latest, |client| clients.contains(&client));
        let servers = servers::gather(&cases);
        let findings = findings::draw(&View::new(&cases, &servers, &dns.attempts));
        Self { cases, servers, findings, totals: dns.totals() }
    }

    /// How many lookups there are.
    pub fn len(&self) -> usize {
        self.cases.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.cases.is_empty()
    }

    /// The lookups in the order of their first questions, made one at a time.
    pub fn lookups(&self) -> impl Iterator<Item = Lookup> + '_ {
        self.cases.iter().map(Case::row)
    }

    /// The lookups that took longest, of which those without an answer come first.
    pub fn slowest(&self, most: usize) -> Vec<Lookup> {
        let waited = |case: &Case<'_>| case.took().unwrap_or_else(|| case.waited());
        // Each looks for its times in another place of memory, once.
        let mut order: Vec<_> = self.cases.iter().map(|case| (Reverse(waited(case)), case.number)).collect();
        if most < order.len() {
            order.select_nth_unstable(most);
            order.truncate(most);
        }
        order.sort_unstable();
        order.into_iter().map(|(_, number)| self.cases[number as usize - 1].row()).collect()
    }

    /// The servers in the order of their addresses.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// What was found, the costliest first.
    pub fn findings(&self) -> &[DnsFinding] {
        &self.findings
    }

    /// Counts over all messages.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The lookups of addresses by all who are among these hosts, or were given one of them.
    pub(crate) fn resolved(&self, hosts: &HashSet<IpAddr>) -> Vec<Resolved<'_>> {
        let resolved = |case: &Case<'a>| Resolved {
            number: case.number,
            client: case.client(),
            server: case.first().server.ip(),
            name: &case.first().name,
            start: case.first().asked,
            last_try: case.first().asked.saturating_add(case.waited()),
            end: case.end(),
            tries: case.at.map_or(case.tries.len(), |i| i + 1) as u64,
            addresses: case.answer().map_or(&[], |answer| &answer.addresses),
        };
        let all = || self.cases.iter().filter(|case| case.is_address()).map(resolved);
        let given = all().filter(|of| of.addresses.iter().any(|address| hosts.contains(address)));
        let askers: HashSet<IpAddr> = given.map(|of| of.client).collect();
        all().filter(|of| hosts.contains(&of.client) || askers.contains(&of.client)).collect()
    }

    /// The names that were asked for, by the addresses in the answers: see [`names`].
    pub fn names(&self) -> BTreeMap<IpAddr, Vec<String>> {
        let found = self.cases.iter().filter(|case| case.is_address());
        names(found.filter_map(|case| Some((&*case.first().name, case.answer()?.addresses.iter().copied()))))
    }
}
