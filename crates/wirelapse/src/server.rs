//! Which server a workload goes to, and how to reach it.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;

use quantity::Address;

use crate::exit::BadInput;
use crate::socket_options::SocketOptions;

/// The port of iperf3, and of `serve`.
pub const PORT: u16 = 5201;

/// IPv4 or IPv6, where it matters.
#[derive(clap::Args)]
pub struct Family {
    /// Only IPv4
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Only IPv6
    #[arg(short = '6', long)]
    ipv6: bool,
}

impl Family {
    /// The first address of a host in this family. `port` holds where the address has none.
    pub fn resolve(&self, address: &Address, port: u16) -> anyhow::Result<SocketAddr> {
        let fits = |a: &SocketAddr| !(self.ipv4 && a.is_ipv6() || self.ipv6 && a.is_ipv4());
        let family = if self.ipv4 { "IPv4" } else { "IPv6" };
        let found = resolve(address, port)?.into_iter().find(fits);
        Ok(found.ok_or_else(|| BadInput(format!("host {} has no {family} address", address.host)))?)
    }
}

/// Every address of a host, as the system resolves its name. `port` holds where the address has none.
pub fn resolve(address: &Address, port: u16) -> anyhow::Result<Vec<SocketAddr>> {
    let found = (address.host.as_str(), address.port.unwrap_or(port)).to_socket_addrs();
    Ok(found.map(Vec::from_iter).map_err(|e| BadInput(format!("host {}: {e}", address.host)))?)
}

/// Which server, and how to reach it.
#[derive(clap::Args)]
pub struct Server {
    /// The server, HOST or HOST:PORT, an IPv6 address with a port in brackets; port 5201 unless given
    // Absent only where a command makes it optional.
    #[arg(value_name = "HOST[:PORT]", required = true, value_parser = quantity::parse::address)]
    server: Option<Address>,
    #[command(flatten)]
    family: Family,
    /// Connect from this address
    #[arg(long, value_name = "ADDR")]
    bind: Option<IpAddr>,
    #[command(flatten)]
    token: Token,
    #[command(flatten)]
    options: SocketOptions,
}

/// What a server asks of its clients.
#[derive(clap::Args)]
pub struct Token {
    /// The server's token; stock iperf3 has none, and is refused. Whoever may list processes sees it here: --token-file and
    /// WIRELAPSE_TOKEN keep it from them
    #[arg(long, env = "WIRELAPSE_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Read the token from this file: its first line
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    token_file: Option<PathBuf>,
}

impl Token {
    /// The token, where one is given.
    pub fn read(&self) -> anyhow::Result<Option<String>> {
        let Some(path) = &self.token_file else { return Ok(self.token.clone()) };
        let text =
            std::fs::read_to_string(path).map_err(|e| BadInput(format!("--token-file {}: {e}", path.display())))?;
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
    /// As the library takes it.
    pub fn target(&self) -> anyhow::Result<traffic::Target> {
        let server = self.server.as_ref().ok_or_else(|| BadInput("a server is needed".into()))?;
        Ok(traffic::Target {
            server: self.family.resolve(server, PORT)?,
            token: self.token.read()?,
            local: self.bind,
            options: self.options.options(),
        })
    }
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
