//! Which server a workload goes to, and how to reach it.

use std::cell::OnceCell;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::PathBuf;

use quantity::Address;
use record::Nanos;
use traffic::tls::Trusted;

use crate::exit::BadInput;
use crate::options::{self, heading};
use crate::output;
use crate::socket_options::SocketOptions;

/// The port of iperf3, and of `serve`.
pub const PORT: u16 = 5201;

/// IPv4 or IPv6, where it matters.
#[derive(clap::Args)]
#[command(next_help_heading = heading::CONNECTION)]
pub struct Family {
    /// Only IPv4
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Only IPv6
    #[arg(short = '6', long)]
    ipv6: bool,
}

impl Family {
    /// 4 or 6, where one of them was asked for.
    pub fn number(&self) -> Option<u8> {
        match (self.ipv4, self.ipv6) {
            (true, _) => Some(4),
            (_, true) => Some(6),
            _ => None,
        }
    }

    /// The addresses of a host in this family, in the order in which they are to be tried, and in
    /// that of the address to connect from. There is one at least. `port` holds where the address
    /// has none.
    pub fn resolve(&self, address: &Address, port: u16, from: Option<IpAddr>) -> anyhow::Result<Vec<SocketAddr>> {
        let wanted = self.number().or(from.map(|from| if from.is_ipv6() { 6 } else { 4 }));
        let fits = |a: &SocketAddr| wanted.is_none_or(|number| a.is_ipv6() == (number == 6));
        let found: Vec<SocketAddr> = resolve(address, port)?.into_iter().filter(fits).collect();
        match (found.is_empty(), wanted) {
            (false, _) => Ok(found),
            (true, Some(number)) => Err(BadInput(format!("host {} has no IPv{number} address", address.host)).into()),
            (true, None) => Err(BadInput(format!("host {} has no address", address.host)).into()),
        }
    }
}

/// Every address of a host, as the system resolves its name. `port` holds where the address has
/// none.
pub fn resolve(address: &Address, port: u16) -> anyhow::Result<Vec<SocketAddr>> {
    let found = (address.host.as_str(), address.port.unwrap_or(port)).to_socket_addrs();
    Ok(found.map(Vec::from_iter).map_err(|e| BadInput(format!("host {}: {e}", address.host)))?)
}

/// Which server, and how to reach it.
#[derive(clap::Args)]
#[command(next_help_heading = heading::CONNECTION)]
pub struct Server {
    /// The server: HOST or HOST:PORT; write an IPv6 address with a port as `[ADDRESS]:PORT`. The
    /// default port is 5201
    // Absent only where a command makes it optional.
    #[arg(value_name = "HOST[:PORT]", required = true, value_parser = quantity::parse::address, help_heading = None::<&str>)]
    server: Option<Address>,
    #[command(flatten)]
    family: Family,
    /// Connect from this address
    #[arg(long, value_name = "ADDR")]
    bind: Option<IpAddr>,
    #[command(flatten)]
    token: Token,
    #[arg(long, value_name = "FILE", help = TLS_CA)]
    tls_ca: Option<PathBuf>,
    #[command(flatten)]
    options: SocketOptions,
    /// What its name stands for: asked for once, so that a resolver that gives another order or
    /// other addresses the second time changes nothing.
    #[arg(skip)]
    resolved: OnceCell<Vec<SocketAddr>>,
}

/// `--tls-ca` in every command that asks a server.
pub const TLS_CA: &str = "Connect over TLS, and trust the certificates in this PEM file";

/// The variable that holds a token, for those who keep it from the command line.
pub const TOKEN: &str = "WIRELAPSE_TOKEN";

/// What a server asks of its clients.
#[derive(clap::Args)]
#[command(next_help_heading = heading::SECURITY)]
pub struct Token {
    /// Token that server and clients share; stock iperf3 has none. Everyone who can list processes
    /// sees it here: use --token-file or WIRELAPSE_TOKEN to hide it
    #[arg(long, env = TOKEN, hide_env_values = true)]
    token: Option<String>,
    /// Read the token from this file: its first line
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    token_file: Option<PathBuf>,
}

impl Token {
    /// The token, where one is given.
    pub fn read(&self) -> anyhow::Result<Option<String>> {
        let Some(path) = &self.token_file else { return Ok(self.token.clone()) };
        let text = options::text_of(path).map_err(|e| BadInput(format!("--token-file {}: {e}", path.display())))?;
        match text.lines().next().map(str::trim) {
            Some(token) if !token.is_empty() => Ok(Some(token.to_owned())),
            _ => Err(BadInput(format!("--token-file {}: its first line is empty", path.display())).into()),
        }
    }
}

/// The command line as records keep it: without the token.
pub fn command_line(words: impl IntoIterator<Item = String>) -> Vec<String> {
    const KEPT_OUT: &str = "(not kept)";
    let mut after_token = false;
    let keep = |word: String| {
        if std::mem::replace(&mut after_token, word == "--token") {
            return KEPT_OUT.to_owned();
        }
        if word.starts_with("--token=") { format!("--token={KEPT_OUT}") } else { word }
    };
    words.into_iter().map(keep).collect()
}

impl Server {
    /// Never empty.
    fn addresses(&self) -> anyhow::Result<&[SocketAddr]> {
        if let Some(addresses) = self.resolved.get() {
            return Ok(addresses);
        }
        let server = self.server.as_ref().ok_or_else(|| BadInput("a server is needed".into()))?;
        let addresses = self.family.resolve(server, PORT, self.bind)?;
        Ok(self.resolved.get_or_init(|| addresses))
    }

    /// As the library takes it, at the first of its addresses.
    pub fn target(&self) -> anyhow::Result<traffic::Target> {
        let name = self.server.as_ref().map_or("", |server| &server.host);
        Ok(traffic::Target {
            token: self.token.read()?,
            tls: self.tls_ca.clone().map(|certificate| Trusted { certificate, name: name.to_owned() }),
            local: self.bind,
            options: self.options.options(),
            ..traffic::Target::new(self.addresses()?[0])
        })
    }

    /// Runs a workload at the first address of the server that takes a connection, which `target`
    /// of the configuration then is. On standard error it says which address was given up for the
    /// next.
    pub fn run<C, T>(
        &self,
        config: &mut C,
        target: impl Fn(&mut C) -> &mut traffic::Target,
        mut run: impl FnMut(&C) -> Result<T, traffic::Error>,
    ) -> anyhow::Result<T> {
        let at = |address, within| {
            let target = target(config);
            (target.server, target.connect_within) = (address, within);
            run(config)
        };
        Ok(traffic::first_that_connects(self.addresses()?, at, given_up)?)
    }
}

/// Says that an address was tried in vain.
fn given_up(error: &traffic::Error) {
    let traffic::Error::Connect { peer, source } = error else { return };
    output::note(&format!("{peer}: {source}; the next address of that name is tried"));
}

/// The addresses of a server with the first that takes a connection in front, where there are
/// several. The connection is closed again.
///
/// # Errors
/// Where none takes one.
pub fn answering_first(mut addresses: Vec<SocketAddr>) -> anyhow::Result<Vec<SocketAddr>> {
    if addresses.len() > 1 {
        let connect = |address, within: Nanos| {
            let failed = |source| traffic::Error::Connect { peer: address, source };
            TcpStream::connect_timeout(&address, within.into()).map(|_| address).map_err(failed)
        };
        let answers = traffic::first_that_connects(&addresses, connect, given_up)?;
        addresses.sort_by_key(|address| *address != answers);
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_in_no_record_of_the_command_line() {
        let words = |text: &str| command_line(text.split(' ').map(Into::into)).join(" ");
        assert_eq!(words("study x --token s3cret --seed 1"), "study x --token (not kept) --seed 1");
        assert_eq!(words("study x --token=s3cret --token-file f"), "study x --token=(not kept) --token-file f");
    }
}
