//! `wirelapse lab up --topology`: more hosts than two.

use std::io::Write as _;
use std::path::Path;

use ::lab::registry::Registration;
use ::lab::{HostReport, LinkReport, Network, Topology};
use serde_json::{Value, json};

use super::{Up, user};
use crate::interrupt::Interrupt;
use crate::output;
use report::page;

pub fn topology(args: &Up, file: &Path) -> anyhow::Result<Topology> {
    Ok(Topology::read(&file.display().to_string(), &super::read(file)?, args.seed)?)
}

/// Brings a topology up and answers for it until its end.
pub fn up(args: &Up, file: &Path, registration: &Registration, interrupt: Interrupt) -> anyhow::Result<()> {
    let network = Network::up(topology(args, file)?, args.uplink)?;
    let mut out = output::stdout();
    let (hosts, links) = (network.hosts(), network.links());
    if args.json.json {
        writeln!(out, "{}", line(&args.name, &hosts, &links))?;
    } else {
        let (notes, end) = (super::notes(args, user::is_mapped()), super::taken_down_by(args));
        output::document(&page::lab::network_up(&args.name, &hosts, &links, &notes, &end))?;
    }
    super::end_of_message(args)?;
    super::keep_rights()?;
    let served = registration.serve(&network, &mut || interrupt.came());
    let links = network.links();
    drop(network);
    if !args.detached {
        if args.json.json {
            writeln!(out, "{}", line(&args.name, &hosts, &links))?;
        } else {
            writeln!(out)?;
            output::document(&page::lab::network_achieved(&args.name, &hosts, &links))?;
        }
    }
    Ok(served?)
}

/// The line of `lab list --json`.
pub fn line(name: &str, hosts: &[HostReport], links: &[LinkReport]) -> Value {
    let host = |host: &HostReport| {
        let interfaces =
            host.interfaces.iter().map(|(name, ipv4, ipv6)| json!({"interface": name, "ipv4": ipv4, "ipv6": ipv6}));
        json!({"name": host.name, "interfaces": interfaces.collect::<Vec<_>>()})
    };
    json!({"kind": "network", "name": name, "hosts": hosts.iter().map(host).collect::<Vec<_>>(), "links": links})
}
