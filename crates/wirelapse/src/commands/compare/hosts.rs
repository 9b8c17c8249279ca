//! The runs of both hosts of the same connections.

use std::path::Path;

use ::report::page::hosts;
use store::RunKind;
use summary::hosts::{Host, gather, join};

use super::{Args, show};
use crate::exit::BadInput;
use crate::output;

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let [client, server] = &args.runs[..] else {
        return Err(BadInput("--join takes two runs: the client's, then the server's".into()).into());
    };
    let joined = join(&read(client)?, &read(server)?);
    if joined.joined.is_empty() {
        let why = match (joined.asked, joined.shared, joined.undivided) {
            (0, ..) => format!(
                "{client} has no request of a client: trace both hosts with --requests, and name the client's run first"
            ),
            (_, 0, _) => format!("no request of {client} is in {server}, by its sequence numbers and sizes"),
            (.., 0) => format!("no steady clocks explain the traffic between {client} and {server}"),
            (_, _, n) => {
                format!("of the requests in both runs {n} lack a stamp or have two out of order, and none is whole")
            }
        };
        return Err(BadInput(why).into());
    }
    show(
        args,
        server,
        |names| hosts::document(&gather(names, &joined)),
        || output::json_event("joined_runs", &hosts::json(&gather([client, server], &joined))?),
    )
}

/// Connections and requests of a trace's run.
fn read(path: &str) -> anyhow::Result<Host> {
    let kind = store::kind(Path::new(path))?;
    if kind != RunKind::Trace {
        return Err(BadInput(format!("{path} is the run of {kind}: --join takes two traces")).into());
    }
    let run = store::Run::open(Path::new(path))?;
    let mut host = Host::default();
    run.connections(|connection| host.connections.push(connection))?;
    run.requests(|request| host.requests.push(request))?;
    Ok(host)
}
