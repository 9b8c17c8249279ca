//! The subcommands: one file each, with `Args` and `run`, and a folder where one takes several
//! files.

pub mod advise;
pub mod agent;
pub mod analyze;
pub mod capture;
pub mod compare;
pub mod completions;
pub mod crr;
pub mod delay;
pub mod doctor;
pub mod extcap;
pub mod generate;
pub mod lab;
pub mod man;
pub mod ping_under_load;
pub mod probe;
pub mod query;
pub mod report;
pub mod responsiveness;
pub mod rr;
pub mod serve;
pub mod stream;
pub mod study;
pub mod top;
pub mod trace;
pub mod udp;
pub mod watch;

use std::process::ExitCode;

use clap::Subcommand;

use crate::exit;

/// What stands after `wirelapse`.
#[derive(Subcommand)]
pub enum Command {
    Doctor(doctor::Args),
    Agent(agent::Args),
    Trace(Box<trace::Args>),
    Top(top::Args),
    Watch(watch::Args),
    Probe(probe::Args),
    Analyze(analyze::Args),
    Advise(advise::Args),
    Compare(compare::Args),
    Capture(Box<capture::Args>),
    Generate(Box<generate::Args>),
    Delay(Box<delay::Args>),
    Report(report::Args),
    Query(query::Args),
    Extcap(extcap::Args),
    Lab(lab::Args),
    Study(study::Args),
    Serve(serve::Args),
    Stream(Box<stream::Args>),
    Rr(Box<rr::Args>),
    Crr(Box<crr::Args>),
    Udp(Box<udp::Args>),
    PingUnderLoad(Box<ping_under_load::Args>),
    Responsiveness(Box<responsiveness::Args>),
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    /// Runs it, and gives the status that the program exits with.
    pub fn run(self) -> ExitCode {
        let result = match self {
            Self::Doctor(args) => doctor::run(&args),
            Self::Agent(args) => agent::run(&args),
            Self::Trace(args) => return exit::code(trace::run(&args)),
            Self::Top(args) => top::run(&args),
            Self::Watch(args) => watch::run(&args),
            Self::Probe(args) => probe::run(&args),
            Self::Analyze(args) => analyze::run(&args),
            Self::Advise(args) => advise::run(&args),
            Self::Compare(args) => compare::run(&args),
            Self::Capture(args) => capture::run(&args),
            Self::Generate(args) => generate::run(&args),
            Self::Delay(args) => delay::run(&args),
            Self::Report(args) => report::run(&args),
            Self::Query(args) => query::run(&args),
            Self::Extcap(args) => extcap::run(&args),
            Self::Lab(args) => lab::run(&args),
            Self::Study(args) => study::run(&args),
            Self::Serve(args) => serve::run(&args),
            Self::Stream(args) => stream::run(&args),
            Self::Rr(args) => rr::run(&args),
            Self::Crr(args) => crr::run(&args),
            Self::Udp(args) => udp::run(&args),
            Self::PingUnderLoad(args) => ping_under_load::run(&args),
            Self::Responsiveness(args) => responsiveness::run(&args),
            Self::Completions(args) => completions::run(&args),
            Self::Man(args) => man::run(&args),
        };
        exit::code(result)
    }
}
