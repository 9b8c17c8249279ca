//! The sections of `docs/keys.md` on what `analyze --json` writes of a connection are made from the
//! field tables.
//!
//! `WIRELAPSE_WRITE_DOCS=1` puts them in place; without it they are compared.

use diagnose::{
    Acknowledging, Budget, Direction, Finding, Idle, OptionState, Pause, Quantiles, Report, Retransmissions, Vantage,
    Withheld,
};
use diagnose::{dns, network, quic, tls, udp};
use record::dns::{DnsFinding, DnsFindingKind, Lookup, Server};
use record::network::{Echo, IcmpError, Incomplete, Neighbour, NetworkFinding, NetworkFindingKind};
use record::quic::{QuicConnection, QuicFinding, QuicFindingKind};
use record::table::Record;
use record::tls::{Handshake, TlsFinding, TlsFindingKind};
use record::transaction::Transaction;
use record::udp::{UdpConversation, UdpFinding, UdpFindingKind, UdpStream};

/// The rows of a table; `tables` are those with a section to link to.
fn table<R: Record>(tables: &[&str]) -> String {
    let mut text = "| key | meaning |\n|---|---|\n".to_owned();
    for column in R::COLUMNS {
        let name = column.name;
        let mut keys = format!("`{name}`");
        let mut meaning = column.doc.to_owned();
        let words: Vec<String> = column.words.iter().map(|word| format!("`{word}`")).collect();
        if !words.is_empty() {
            meaning += &format!(": {}", words.join(", "));
        }
        if let Some(why) = column.null {
            meaning += &format!("; null where {why}");
        }
        match column.inside {
            Some(inside) if tables.contains(&inside) => {
                meaning += &format!(" ([{inside}](#{}))", inside.replace(' ', "-"));
            }
            // An object whose keys are figures.
            Some(_) => keys += &format!(", `{name}.*`"),
            None => {}
        }
        text += &format!("| {keys} | {meaning} |\n");
    }
    text
}

#[test]
fn the_keys_of_a_connection_are_those_of_the_code() {
    type Section = (&'static str, fn(&[&str]) -> String);
    fn of<R: Record>() -> Section {
        (R::TABLE, table::<R>)
    }
    let sections = [
        of::<Report>(),
        of::<Budget>(),
        of::<Idle>(),
        of::<Pause>(),
        of::<Vantage>(),
        of::<OptionState>(),
        of::<Direction>(),
        of::<Quantiles>(),
        of::<Retransmissions>(),
        of::<Acknowledging>(),
        of::<Finding>(),
        of::<Withheld>(),
        of::<Lookup>(),
        of::<Server>(),
        of::<DnsFinding>(),
        of::<dns::Totals>(),
        of::<Handshake>(),
        of::<TlsFinding>(),
        of::<tls::Totals>(),
        of::<QuicConnection>(),
        of::<QuicFinding>(),
        of::<quic::Totals>(),
        of::<UdpConversation>(),
        of::<UdpStream>(),
        of::<UdpFinding>(),
        of::<udp::Totals>(),
        of::<IcmpError>(),
        of::<Echo>(),
        of::<Neighbour>(),
        of::<Incomplete>(),
        of::<NetworkFinding>(),
        of::<network::Totals>(),
        of::<Transaction>(),
    ];
    let names = sections.map(|section| section.0);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/keys.md");
    let current = std::fs::read_to_string(path).unwrap();
    let mut wanted = current.clone();
    for (name, table) in sections {
        let begin = format!("<!-- fields of {name} -->\n");
        let from = wanted.find(&begin).unwrap_or_else(|| panic!("docs/keys.md has no fields of {name}")) + begin.len();
        let to = from + wanted[from..].find("<!-- end -->").unwrap();
        wanted.replace_range(from..to, &table(&names));
    }
    if std::env::var_os("WIRELAPSE_WRITE_DOCS").is_some() {
        std::fs::write(path, wanted).unwrap();
    } else {
        assert!(current == wanted, "docs/keys.md is not of the code: WIRELAPSE_WRITE_DOCS=1 writes it");
    }
}

#[test]
fn the_findings_beside_tcp_are_those_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/analyze.md");
    let text = std::fs::read_to_string(path).unwrap();
    let row = |name: &str, rule: &str| format!("| `{name}` | {rule} |\n");
    let dns: String = DnsFindingKind::ALL.iter().map(|kind| row(kind.name(), kind.rule())).collect();
    let tls: String = TlsFindingKind::ALL.iter().map(|kind| row(kind.name(), kind.rule())).collect();
    let quic: String = QuicFindingKind::ALL.iter().map(|kind| row(kind.name(), kind.rule())).collect();
    let udp: String = UdpFindingKind::ALL.iter().map(|kind| row(kind.name(), kind.rule())).collect();
    let network: String = NetworkFindingKind::ALL.iter().map(|kind| row(kind.name(), kind.rule())).collect();
    for (what, rows) in [("DNS", dns), ("TLS", tls), ("QUIC", quic), ("UDP", udp), ("network", network)] {
        let wanted = format!("<!-- {what} findings -->\n| finding | when |\n|---|---|\n{rows}<!-- end -->");
        assert!(text.contains(&wanted), "docs/analyze.md is to have:\n{wanted}");
    }
}
