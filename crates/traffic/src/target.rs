//! Which server a workload asks, and how it is reached: the same for every workload.

use std::net::{IpAddr, SocketAddr};

use clock::Nanos;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::options::SocketOptions;
use crate::tls::Trusted;

/// The server of a workload and the connections to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The server: `wirelapse serve`, and for bulk transfer `iperf3 -s` too.
    pub server: SocketAddr,
    /// Its token, where it wants one.
    pub token: Option<String>,
    /// Ask within TLS, of a server that is recognised by this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Trusted>,
    /// The address to connect, or to send, from.
    pub local: Option<IpAddr>,
    /// Options of the workload's sockets, on both sides; those of TCP are for TCP alone.
    pub options: SocketOptions,
    /// How long the first connection may take.
    #[serde(skip, default = "patience")]
    pub connect_within: Nanos,
}

/// How long a connection may take where its server has no other address.
fn patience() -> Nanos {
    Nanos::from_secs(10)
}

/// How long it may take where another address is left to try: a SYN that is lost is retransmitted
/// after one second (RFC 6298, section 2.1).
const WITH_OTHERS_LEFT: Nanos = Nanos::from_secs(2);

/// Makes the attempt with each address of a server in turn, until one connects, and gives what came
/// of that. The second argument is how long the connection may take. Anything but a connection that
/// fails ends the search. `failed` is called with each address that is given up for the next.
///
/// # Errors
/// That of the attempt; [`Error::Unreachable`] with all of them where several addresses failed;
/// [`Error::Config`] of no address.
pub fn first_that_connects<T>(
    addresses: &[SocketAddr],
    mut attempt: impl FnMut(SocketAddr, Nanos) -> Result<T, Error>,
    mut failed: impl FnMut(&Error),
) -> Result<T, Error> {
    let mut tried = Vec::new();
    for (index, address) in addresses.iter().enumerate() {
        let last = index + 1 == addresses.len();
        match attempt(*address, if last { patience() } else { WITH_OTHERS_LEFT }) {
            Err(Error::Connect { peer, source }) if addresses.len() > 1 => {
                if !last {
                    failed(&Error::Connect { peer, source: source.kind().into() });
                }
                tried.push((peer, source));
            }
            other => return other,
        }
    }
    Err(if tried.is_empty() { Error::Config("the server has no address".into()) } else { Error::Unreachable { tried } })
}

impl Target {
    /// A server without a token, reached as the kernel would.
    pub fn new(server: SocketAddr) -> Self {
        Self {
            server,
            token: None,
            tls: None,
            local: None,
            options: SocketOptions::default(),
            connect_within: patience(),
        }
    }
}

impl From<SocketAddr> for Target {
    fn from(server: SocketAddr) -> Self {
        Self::new(server)
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn connect(address: SocketAddr, within: Nanos) -> Result<SocketAddr, Error> {
        let failed = |source| Error::Connect { peer: address, source };
        TcpStream::connect_timeout(&address, within.into()).map(|_| address).map_err(failed)
    }

    /// An address on which nothing listens.
    fn closed(host: &str) -> SocketAddr {
        TcpListener::bind((host, 0)).unwrap().local_addr().unwrap()
    }

    #[test]
    fn a_server_on_ipv4_alone_is_reached_by_a_name_with_ipv6_first() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        let first: SocketAddr = format!("[::1]:{}", there.port()).parse().unwrap();
        let mut given_up = Vec::new();
        let reached = first_that_connects(&[first, there], connect, |error| given_up.push(error.to_string()));
        assert_eq!(reached.unwrap(), there);
        assert!(given_up.len() == 1 && given_up[0].contains(&first.to_string()), "{given_up:?}");
    }

    #[test]
    fn where_no_address_connects_all_errors_are_given() {
        let addresses = [closed("127.0.0.1"), closed("127.0.0.2")];
        let error = first_that_connects(&addresses, connect, |_| {}).unwrap_err();
        let Error::Unreachable { tried } = &error else { panic!("{error}") };
        assert_eq!(tried.iter().map(|(peer, _)| *peer).collect::<Vec<_>>(), addresses);
        assert!(tried.iter().all(|(_, source)| source.kind() == ErrorKind::ConnectionRefused));
        assert!(addresses.iter().all(|a| error.to_string().contains(&a.to_string())), "{error}");
        // One address alone has its plain error.
        assert!(matches!(first_that_connects(&addresses[..1], connect, |_| {}), Err(Error::Connect { .. })));
    }

    #[test]
    fn what_fails_after_the_connection_tries_no_other_address() {
        let mut asked = 0;
        let refused = |_, _| -> Result<(), Error> {
            asked += 1;
            Err(Error::Config("no".into()))
        };
        let addresses = [closed("127.0.0.1"), closed("127.0.0.1")];
        assert!(matches!(first_that_connects(&addresses, refused, |_| {}), Err(Error::Config(_))));
        assert_eq!(asked, 1);
    }

    #[test]
    fn another_address_is_tried_before_a_silent_one_has_had_all_its_time() {
        let mut given = Vec::new();
        let silent = |address, within| -> Result<(), Error> {
            given.push(within);
            Err(Error::Connect { peer: address, source: ErrorKind::TimedOut.into() })
        };
        let addresses = [closed("127.0.0.1"), closed("127.0.0.1")];
        first_that_connects(&addresses, silent, |_| {}).unwrap_err();
        assert!(given[0] < given[1], "{given:?}");
    }
}
