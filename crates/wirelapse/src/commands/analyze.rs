//! `analyze`: what limited each TCP connection of a capture, and why, and what became of each QUIC
//! connection, of each other conversation of UDP and of each name that was asked for, and what the
//! network itself said.

mod annotate;
mod input;
mod keep;
mod live;
mod memory;
mod parallel;
mod pieces;
mod plot;
mod prefetch;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clap_complete::engine::ArgValueCandidates;
use diagnose::{Follower, Keep, Mark, Options, Report};
use diagnose::{dns, network, quic, tls, udp};
use paper::document::Document;
use record::Nanos;
use record::transaction::Transaction;
use report::page::advice::try_on;
use report::page::capture::{
    Dns, Network, Overview, Quic, Subject, Tls, Udp, connection, describe, host_names, named_hosts, overview, packets,
};

use crate::commands::completions::values;
use crate::exit::{self, BadInput};
use crate::hosts;
use crate::options::{FOR, FORCE, Json, Output, RESOLVE, heading};
use crate::output::{self, Shown, complain, say};
use crate::terminal;
use ::files::{folder, refuse};
pub use input::{Reading, Source, follow};

/// What limited each TCP connection of a capture, and why
///
/// Reads pcap, pcapng, snoop, Network Monitor and ERF (also compressed with gzip, zstd or xz) and
/// tcpdump text. For every connection it shows what made it slow, the packets that prove it, and
/// how much a remedy would gain. `-` reads standard input.
#[derive(clap::Args)]
pub struct Args {
    /// Captures to read; `-` is standard input
    #[arg(required_unless_present = "interface")]
    files: Vec<PathBuf>,
    /// Capture on this interface instead, until Ctrl-C
    #[arg(short, long, value_name = "IFACE", conflicts_with_all = ["files", "annotate"], help_heading = "Live capture", add = ArgValueCandidates::new(values::interfaces))]
    interface: Option<String>,
    #[arg(long = "for", value_name = "TIME", requires = "interface", value_parser = quantity::parse::seconds_above_zero, help = FOR, help_heading = "Live capture")]
    duration: Option<Nanos>,
    /// Show only this connection, by its number, with its full story
    #[arg(short, long, value_name = "N", help_heading = "What to show")]
    connection: Option<usize>,
    /// Show the full story of every connection
    #[arg(long, help_heading = "What to show")]
    story: bool,
    /// Print connections packet by packet, with times in microseconds since their start
    #[arg(long, conflicts_with_all = ["json", "csv"], help_heading = "What to show")]
    dump: bool,
    /// Rows of the table
    #[arg(long, default_value_t = overview::SHOWN, value_name = "N", help_heading = "What to show")]
    rows: usize,
    #[command(flatten)]
    json: Json,
    /// Write a copy of the capture (pcapng) with a comment on each packet that is evidence of a
    /// finding
    #[arg(long, value_name = "OUT.pcapng", help_heading = heading::OUTPUT)]
    annotate: Option<PathBuf>,
    /// Plot time and sequence numbers, window and bytes in flight of one connection into an HTML
    /// page (zoomable, with its story), an SVG or a PNG file
    #[arg(long, value_name = "OUT.html", requires = "connection", help_heading = heading::OUTPUT)]
    plot: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    #[arg(long, help = FORCE, help_heading = heading::OUTPUT)]
    force: bool,
    #[arg(long, help = RESOLVE, conflicts_with_all = ["json", "interface"], help_heading = heading::OUTPUT)]
    resolve: bool,
    #[command(flatten)]
    shown: Shown,
    /// Follow at most this many connections; packets of others are counted [default: what fits into
    /// half of the free memory of the machine or control group, at most 2,000,000]
    #[arg(long, value_name = "N", help_heading = heading::COST)]
    max_connections: Option<usize>,
    /// Threads that read and analyze; the result does not depend on it [default: the number of
    /// CPUs, at most 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64), help_heading = heading::COST)]
    threads: Option<u8>,
}

impl Args {
    fn threads(&self) -> usize {
        // Each looks at every packet, so that a fifth would save little.
        let cores = || std::thread::available_parallelism().map_or(1, |n| n.get().min(4));
        self.threads.map_or_else(cores, usize::from)
    }
}

/// Connections with retransmissions that `--annotate` marks, at most.
const ANNOTATED: usize = 10_000;

/// Connections that `--dump` prints, at most.
const DUMPED: usize = 100;

/// Packets of one connection that are kept for a story, a dump or a plot. A longer one is shown to
/// this point, and says so.
const PACKETS_KEPT: usize = 500_000;

/// A seed that an author of captures cannot know.
pub fn seed() -> [u64; 2] {
    use std::hash::{BuildHasher as _, RandomState};
    [RandomState::new().hash_one(1), RandomState::new().hash_one(2)]
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let keep = match (args.connection, args.dump) {
        (Some(0), _) => return Err(BadInput("connections are numbered from 1".into()).into()),
        (Some(n), _) => Keep::Connection(n, PACKETS_KEPT),
        (None, true) => Keep::First(DUMPED, PACKETS_KEPT / DUMPED),
        // The copy marks every retransmission, so that packets are kept for it.
        (None, false) if args.annotate.is_some() => Keep::First(ANNOTATED, PACKETS_KEPT / 5),
        (None, false) => Keep::Nothing,
    };
    let options = Options {
        seed: seed(),
        connections: args.max_connections.unwrap_or_else(memory::connections),
        keep,
        shards: 1,
    };
    for file in [&args.annotate, &args.plot].into_iter().flatten() {
        refuse(file, args.force)?;
    }
    if let Some(run) = &args.output.output {
        // Before a long capture is read: what cannot be written is found at once.
        if run.symlink_metadata().is_ok() {
            return Err(store::Error::Exists(run.clone()).into());
        }
        if let Err(why) = folder(run).metadata() {
            return Err(BadInput(store::Error::Create { path: run.clone(), why }.to_string()).into());
        }
        if args.interface.is_none() && args.files.len() != 1 {
            return Err(BadInput("--output takes one capture at a time".into()).into());
        }
    }
    if let Some(interface) = &args.interface {
        let mut follower = Follower::new(options);
        let files = [&args.output.output, &args.plot].into_iter().flatten().map(PathBuf::as_path);
        let (reading, gone) = live::capture(interface, args.duration.map(Duration::from), &mut follower, files)?;
        show(args, interface, None, &follower, &reading)?;
        return gone.map_or(Ok(()), |gone| Err(gone.into()));
    }
    for (option, given) in [("--annotate", &args.annotate), ("--plot", &args.plot)] {
        if given.is_some() && args.files.len() != 1 {
            return Err(BadInput(format!("{option} takes one capture at a time")).into());
        }
    }
    // All of them, before a byte of one is decoded: whoever wrote it has none of the rights that it
    // takes to open the next.
    raise_open_files()?;
    let sources: Vec<_> = args.files.iter().map(|path| Source::open(path)).collect();
    let files = [&args.output.output, &args.annotate, &args.plot].into_iter().flatten().map(PathBuf::as_path);
    rights::keep_for_decoding(files, args.resolve)?;
    let mut readable = 0;
    for (i, (path, source)) in args.files.iter().zip(sources).enumerate() {
        let name = path.display().to_string();
        let followed = source.map_err(Into::into).and_then(|source| {
            let (follower, reading) = follow(&source, options, args.threads())?;
            Ok((source, follower, reading))
        });
        let (source, follower, reading) = match followed {
            Ok(followed) => followed,
            // With several files, one that cannot be read does not keep the others from being read.
            Err(error) if args.files.len() > 1 => {
                complain!("{}", exit::message(&error));
                continue;
            }
            Err(error) => return Err(error),
        };
        if readable > 0 && !args.json.json {
            say!("");
        }
        readable += 1;
        reading.warn();
        show(args, &name, source.file(), &follower, &reading)?;
        if let Some(out) = &args.annotate {
            annotate::write(&source, (out, args.force), &follower, &reading)?;
        }
        if i + 1 == args.files.len() {
            // The process is about to end, which gives a million connections back at once rather
            // than one by one.
            std::mem::forget(follower);
        }
    }
    if readable == 0 {
        return Err(BadInput("none of the files could be read".into()).into());
    }
    Ok(())
}

/// As many files may be open at a time as the system lets this process have: each capture is.
fn raise_open_files() -> io::Result<()> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
    Ok(rustix::process::setrlimit(rustix::process::Resource::Nofile, raised)?)
}

/// A line of JSON for each connection.
fn all_lines(out: &mut impl Write, follower: &Follower, threads: usize) -> anyhow::Result<()> {
    // Lines that are written give their room to the next: memory that is new to the process takes
    // longer than what is put there.
    let spare = Mutex::new(Vec::new());
    let spare = || spare.lock().unwrap_or_else(PoisonError::into_inner);
    parallel::in_order(
        follower,
        threads,
        |reports| {
            let mut lines: Vec<u8> = spare().pop().unwrap_or_default();
            for report in reports {
                report.write_json(&mut lines);
                lines.push(b'\n');
            }
            Ok(lines)
        },
        |mut lines| {
            out.write_all(&lines)?;
            lines.clear();
            spare().push(lines);
            Ok(())
        },
    )
}

/// What a capture shows beside its connections.
pub struct Beside<'a> {
    dns: dns::Analysis<'a>,
    tls: tls::Analysis<'a>,
    quic: quic::Analysis<'a>,
    udp: udp::Analysis<'a>,
    network: network::Analysis,
    transactions: Vec<Transaction>,
}

impl<'a> Beside<'a> {
    fn new(follower: &'a Follower) -> Self {
        let (dns, tls, quic) = (follower.dns.analysis(), follower.tls_analysis(), follower.quic_analysis());
        let transactions = follower.transactions(&dns, &tls, &quic);
        let udp = follower.udp_analysis(&quic);
        let network = follower.network_analysis(&udp);
        Self { dns, tls, quic, udp, network, transactions }
    }
}

/// A line of JSON for each lookup, server, handshake, QUIC connection and conversation of UDP, for
/// what the network said, for each finding on them, and for each transaction.
fn lines_beside(
    out: &mut impl Write,
    Beside { dns, tls, quic, udp, network, transactions }: &Beside<'_>,
) -> io::Result<()> {
    fn write<R: record::table::Record>(out: &mut impl Write, record: &R) -> io::Result<()> {
        let mut json = Vec::new();
        record::json::object(&mut json, record);
        json.push(b'\n');
        out.write_all(&json)
    }
    dns.lookups().try_for_each(|lookup| write(out, &lookup))?;
    dns.servers().iter().try_for_each(|server| write(out, server))?;
    dns.findings().iter().try_for_each(|finding| write(out, finding))?;
    tls.handshakes().try_for_each(|handshake| write(out, handshake))?;
    tls.findings().iter().try_for_each(|finding| write(out, finding))?;
    quic.connections().try_for_each(|connection| write(out, connection))?;
    quic.findings().iter().try_for_each(|finding| write(out, finding))?;
    udp.conversations().try_for_each(|conversation| write(out, conversation))?;
    udp.streams().try_for_each(|stream| write(out, stream))?;
    udp.findings().iter().try_for_each(|finding| write(out, finding))?;
    network.errors().iter().try_for_each(|error| write(out, error))?;
    network.echoes().iter().try_for_each(|echo| write(out, echo))?;
    network.neighbours().iter().try_for_each(|neighbour| write(out, neighbour))?;
    network.incomplete().iter().try_for_each(|packet| write(out, packet))?;
    network.findings().iter().try_for_each(|finding| write(out, finding))?;
    transactions.iter().try_for_each(|transaction| write(out, transaction))
}

/// Shows what was found, and writes it where it was asked for. `file` is the capture, where that is
/// a regular file.
fn show(args: &Args, name: &str, file: Option<&File>, follower: &Follower, reading: &Reading) -> anyhow::Result<()> {
    let mut out = io::BufWriter::new(output::stdout().lock());
    let beside = &Beside::new(follower);
    let chosen = |n: usize| {
        follower
            .report(n)
            .ok_or_else(|| BadInput(format!("{name}: there is no connection {n}: the last one is {}", follower.len())))
    };
    if let (Some(n), Some(path)) = (args.connection, &args.plot) {
        // What is made from a capture that only its owner may read is for the owner too.
        let input = file.map(File::metadata).transpose()?;
        let readers = crate::files::readers(input.as_slice());
        plot::write(&chosen(n)?, &reading.names, args.resolve, (path, args.force, readers))?;
    }
    if args.json.json {
        match args.connection {
            Some(n) => {
                let mut json = Vec::new();
                chosen(n)?.write_json(&mut json);
                json.push(b'\n');
                out.write_all(&json)?;
            }
            None => {
                all_lines(&mut out, follower, args.threads())?;
                lines_beside(&mut out, beside)?;
            }
        }
        line(&mut out, &reading.json(name, follower, beside))?;
    } else {
        let canvas = terminal::canvas();
        let text = |document: Document| paper::terminal::text(&canvas, &[document]);
        let resolved = |mut document: Document| {
            if args.resolve {
                hosts::name(std::slice::from_mut(&mut document));
            }
            document
        };
        if args.dump || args.story || args.connection.is_some() {
            if (args.files.len() > 1 || !args.dump) && !args.shown.csv {
                writeln!(out, "{}:", output::harmless(name))?;
            }
            let numbers = match args.connection {
                Some(n) => n..=n,
                None if args.dump => 1..=follower.len().min(DUMPED),
                None => 1..=follower.len(),
            };
            let named = named_hosts(&host_names(&[&beside.tls.names(), &beside.quic.names(), &beside.dns.names()]));
            for n in numbers {
                let report = chosen(n)?;
                let mut document = match args.dump {
                    true => packets::document(&report, &reading.names),
                    false => connection::document(&report, &reading.names),
                };
                if args.connection.is_some() && file.is_some() {
                    document.then = advise::worth_trying(&report).map(|lost| try_on(name, n, lost));
                }
                document.name_hosts(&named);
                let document = resolved(document);
                match args.shown.csv {
                    true => write!(out, "{}", paper::csv::text(&[document]))?,
                    false => writeln!(out, "{}", text(document))?,
                }
            }
        } else {
            let document = whole(args, (name, file), (follower, beside), reading)?;
            write!(out, "{}", output::drawn(&[resolved(document)], args.shown))?;
        }
    }
    out.flush()?;
    if let Some(run) = &args.output.output {
        keep::write(run, keep::provenance(name, follower, reading), (follower, beside))?;
    }
    Ok(())
}

/// The capture as a whole.
fn whole(
    args: &Args,
    (name, file): (&str, Option<&File>),
    (follower, beside): (&Follower, &Beside<'_>),
    reading: &Reading,
) -> anyhow::Result<Document> {
    let mut all = Overview::new(args.rows);
    // The connection that `advise` can try most on; of equals, the first.
    let mut most: Option<(Nanos, Reverse<usize>)> = None;
    parallel::in_order(
        follower,
        args.threads(),
        |reports| {
            let (mut some, mut most) = (Overview::new(args.rows), None);
            reports.for_each(|r| {
                overview::add(&mut some, &r);
                most = most.max(advise::worth_trying(&r).map(|lost| (lost, Reverse(r.number))));
            });
            Ok((some, most))
        },
        |(some, of_some)| {
            all.join(some);
            most = most.max(of_some);
            Ok(())
        },
    )?;
    let then = most.filter(|_| file.is_some()).map(|(lost, Reverse(n))| try_on(name, n, lost));
    let run = args.output.output.as_deref().map(crate::files::name);
    let provenance = keep::provenance(name, follower, reading);
    let rows = args.rows.max(overview::SHOWN);
    let (dns, tls) = (&Dns::new(&beside.dns, rows), &Tls::new(&beside.tls, rows));
    let (quic, udp) = (&Quic::new(&beside.quic, rows), &Udp::new(&beside.udp, rows));
    let (name, provenance, shown) = (run.as_deref(), &provenance, args.rows);
    let network = &Network::new(&beside.network, rows);
    let (transactions, processes) = (&beside.transactions, &reading.names.processes);
    let document = describe(&Subject {
        name,
        provenance,
        finished: true,
        shown,
        overview: &all,
        dns,
        tls,
        quic,
        udp,
        network,
        transactions,
        processes,
    });
    Ok(Document { then, ..document })
}

fn line(out: &mut impl Write, value: &impl serde::Serialize) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *out, value).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(())
}

/// The comments on packets, by packet number: what findings rest on, and why each retransmission
/// was made.
fn comments(reports: impl Iterator<Item = Report>, quic: &quic::Analysis<'_>) -> BTreeMap<u64, Vec<String>> {
    let mut comments: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for f in quic.findings() {
        for packet in f.packets.split(' ').filter_map(|packet| packet.parse().ok()) {
            let text = format!("wirelapse, QUIC connection {}: {}: {}", f.shown_by, f.kind.words(), f.text);
            comments.entry(packet).or_default().push(text);
        }
    }
    for report in reports {
        for f in &report.findings {
            for &packet in &f.packets {
                comments.entry(packet).or_default().push(format!(
                    "wirelapse, connection {}: {}: {}",
                    report.number,
                    f.kind.words(),
                    f.text
                ));
            }
        }
        for r in &report.records {
            let what = match r.mark {
                Mark::Retransmitted(class) => format!("retransmission: {}", class.words()),
                Mark::Damaged => "damaged: the TCP checksum is wrong".to_owned(),
                _ => continue,
            };
            let text = format!("wirelapse, connection {}: {what}", report.number);
            comments.entry(r.segment.number).or_default().push(text);
        }
    }
    comments
}
