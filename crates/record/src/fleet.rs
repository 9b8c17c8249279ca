//! What is asked of the histograms of a whole fleet: an hour of this week against the same hour of
//! the week before.
//!
//! `wirelapse-query` answers with these rows, a JSON object a line, and whoever asks reads them
//! back by the same tables.

use crate::{columns, words};

/// Hours in a week.
pub const WEEK: u64 = 168;

/// Sends that an hour needs for a p99: of fewer, 1 in 100 is none.
pub const FOR_P99: u64 = 100;

/// What sends are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKind {
    /// The host that sends.
    Host,
    /// The peer that it sends to.
    Peer,
    /// The service that sends.
    Service,
}

words! {
    GroupKind: Host = "host", Peer = "peer", Service = "service";
}

/// A host, a peer or a service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// Which of the three it is.
    pub kind: GroupKind,
    /// Its name.
    pub name: String,
}

impl Group {
    fn blank() -> Self {
        Self { kind: GroupKind::Host, name: String::new() }
    }
}

/// The time to which the histograms reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetEnd {
    /// The newest hour with sends, hours since 1970; `None` where no run has histograms.
    pub hour: Option<u64>,
}

columns! {
    FleetEnd: "fleet_end", "", blank = FleetEnd { hour: None };
    hour = hour, null "no run has histograms", "the newest hour with sends, hours since 1970";
}

/// One of the groups with most sends, and how many groups of its kind there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetGroup {
    /// The group.
    pub group: Group,
    /// Its sends in the week before.
    pub before: u64,
    /// Its sends in the period.
    pub after: u64,
    /// Groups of its kind in either week.
    pub names: u64,
    /// Of these, how many have sends the week before and none in the period.
    pub gone: u64,
    /// How many have none the week before.
    pub new: u64,
}

columns! {
    FleetGroup: "fleet_groups", "", blank = FleetGroup { group: Group::blank(), before: 0, after: 0, names: 0, gone: 0, new: 0 };
    kind = group.kind, "`host`, `peer` or `service`";
    name = group.name, "its name";
    before = before, "its sends in the week before";
    after = after, "its sends in the period";
    names = names, "groups of its kind in either week";
    gone = gone, "groups of its kind with sends the week before and none in the period";
    new = new, "groups of its kind without sends the week before";
}

/// An hour of one leg of a group: of its sends that are alike in both weeks.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetHour {
    /// The group.
    pub group: Group,
    /// The leg, or `total`.
    pub leg: String,
    /// Hours since 1970, of the period in both weeks.
    pub hour: u64,
    /// Whether it is of the period, and not of the week before.
    pub later: bool,
    /// How much its sends count, the same in both weeks.
    pub sends: f64,
    /// How many were seen.
    pub seen: u64,
    /// Their mean, nanoseconds.
    pub mean_ns: f64,
    /// 99 % of them took at most this, nanoseconds; `None` where they are too few for it.
    pub p99_ns: Option<f64>,
}

columns! {
    FleetHour: "fleet_hours", "", blank = FleetHour {
        group: Group::blank(), leg: String::new(), hour: 0, later: false, sends: 0.0, seen: 0, mean_ns: 0.0, p99_ns: None,
    };
    kind = group.kind, "`host`, `peer` or `service`";
    name = group.name, "its name";
    leg = leg, "the leg, or `total`";
    hour = hour, "hours since 1970, of the period in both weeks";
    later = later, "whether it is of the period, and not of the week before";
    sends = sends, "how much its sends count, the same in both weeks";
    seen = seen, "how many were seen";
    mean_ns = mean_ns, "their mean";
    p99_ns = p99_ns, null "too few sends", "99 % of them took at most this";
}

/// The sends of one host to one peer for one service, in hours that both weeks have.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetCell {
    /// The host.
    pub host: String,
    /// The peer; empty where series are not kept apart by it.
    pub peer: String,
    /// The service; empty where it has no name.
    pub service: String,
    /// How much its sends count.
    pub sends: f64,
    /// How long they took together in the week before, nanoseconds.
    pub before_ns: f64,
    /// How long in the period.
    pub after_ns: f64,
}

columns! {
    FleetCell: "fleet_cells", "", blank = FleetCell {
        host: String::new(), peer: String::new(), service: String::new(), sends: 0.0, before_ns: 0.0, after_ns: 0.0,
    };
    host = host, "the host";
    peer = peer, "the peer; empty where series are not kept apart by it";
    service = service, "the service; empty where it has no name";
    sends = sends, "how much its sends count";
    before_ns = before_ns, "how long they took together in the week before";
    after_ns = after_ns, "how long in the period";
}

/// An hour of the sends of one host to one peer for one service.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetCellHour {
    /// The host.
    pub host: String,
    /// The peer; empty where series are not kept apart by it.
    pub peer: String,
    /// The service; empty where it has no name.
    pub service: String,
    /// Hours since 1970, of the period in both weeks.
    pub hour: u64,
    /// Whether it is of the period, and not of the week before.
    pub later: bool,
    /// Its sends.
    pub sends: u64,
    /// Their mean, nanoseconds.
    pub mean_ns: f64,
}

columns! {
    FleetCellHour: "fleet_cell_hours", "", blank = FleetCellHour {
        host: String::new(), peer: String::new(), service: String::new(), hour: 0, later: false, sends: 0, mean_ns: 0.0,
    };
    host = host, "the host";
    peer = peer, "the peer; empty where series are not kept apart by it";
    service = service, "the service; empty where it has no name";
    hour = hour, "hours since 1970, of the period in both weeks";
    later = later, "whether it is of the period, and not of the week before";
    sends = sends, "its sends";
    mean_ns = mean_ns, "their mean";
}

/// A run of the period.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetRun {
    /// Its host.
    pub host: String,
    /// Its directory below the place.
    pub directory: String,
    /// Sends in the period.
    pub sends: u64,
    /// Their mean, nanoseconds.
    pub mean_ns: f64,
}

columns! {
    FleetRun: "fleet_runs", "", blank = FleetRun { host: String::new(), directory: String::new(), sends: 0, mean_ns: 0.0 };
    host = host, "its host";
    directory = directory, "its directory below the place";
    sends = sends, "sends in the period";
    mean_ns = mean_ns, "their mean";
}

/// A remedy that helped twins of connections of the fleet: of the newest advice of each host on
/// each server.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetRemedy {
    /// What it is called.
    pub remedy: String,
    /// Where it is set.
    pub place: String,
    /// Hosts that it would help.
    pub hosts: u64,
    /// One of them: that with the largest change.
    pub host: String,
    /// The run with the advice on that one: its directory below the place.
    pub directory: String,
    /// Advice that it stands in.
    pub advised: u64,
    /// The change of the time, the median of these: −0.5 is half.
    pub change: f64,
    /// The largest, and the smallest.
    pub most: f64,
    /// See [`Self::most`].
    pub least: f64,
}

columns! {
    FleetRemedy: "fleet_remedies", "", blank = FleetRemedy {
        remedy: String::new(), place: String::new(), hosts: 0, host: String::new(), directory: String::new(), advised: 0,
        change: 0.0, most: 0.0, least: 0.0,
    };
    remedy = remedy, "what it is called";
    place = place, "where it is set";
    hosts = hosts, "hosts that it would help";
    host = host, "the one with the largest change";
    directory = directory, "the run with the advice on that one, below the place";
    advised = advised, "advice that it stands in";
    change = change, "the change of the time, the median of these";
    most = most, "the largest";
    least = least, "the smallest";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::object;

    #[test]
    fn a_row_is_read_back_as_it_was_written_and_one_without_its_figures_is_refused() {
        let group = Group { kind: GroupKind::Peer, name: "192.0.2.7".into() };
        let hour = FleetHour {
            group,
            leg: "network".into(),
            hour: 493_848,
            later: true,
            sends: 100.0,
            seen: 120,
            mean_ns: 1.5e6,
            p99_ns: None,
        };
        let written = serde_json::to_value(object::of(&hour)).unwrap();
        let mut written = written.as_object().unwrap().clone();
        assert_eq!(object::read::<FleetHour>(&written), Ok(hour));
        written.remove("mean_ns");
        assert_eq!(object::read::<FleetHour>(&written), Err("mean_ns is missing".into()));
    }
}
