//! The server's configuration: a JSON object that says where the objects of the test are.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use clock::Nanos;
use http::Uri;
use rustls::pki_types::ServerName;
use serde::Deserialize;
use tokio_rustls::TlsConnector;

use super::Config;
use super::connection::Connection;
use super::endpoint::{Endpoint, Urls};
use crate::error::Error;
use crate::target::first_that_connects;
use crate::tls;

/// The longest configuration that is read, bytes.
const LONGEST: usize = 64 << 10;

/// The object at the well-known URL. Servers of earlier revisions have `_https` in the names of the
/// URLs, or both forms of them.
#[derive(Deserialize)]
struct Announced {
    version: u64,
    urls: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    test_endpoint: Option<String>,
}

/// Reads the configuration.
pub(super) fn parse(text: &[u8]) -> Result<(Urls, Option<String>), String> {
    let announced: Announced = serde_json::from_slice(text).map_err(|e| e.to_string())?;
    if announced.version != 1 {
        return Err(format!("its version is {}, and this program knows 1", announced.version));
    }
    let url = |names: [&str; 2]| {
        let found = names.iter().find_map(|name| announced.urls.get(*name)?.as_str());
        found.map(str::to_owned).ok_or_else(|| format!("it has no {}", names[0]))
    };
    let urls = Urls {
        large: url(["large_download_url", "large_https_download_url"])?,
        small: url(["small_download_url", "small_https_download_url"])?,
        upload: url(["upload_url", "https_upload_url"])?,
    };
    let hosts = [&urls.large, &urls.small, &urls.upload].map(|url| uri(url).and_then(|uri| authority(&uri)));
    let [large, small, upload] = hosts;
    let large = large?;
    if large != small? || large != upload? {
        return Err("its URLs are of different hosts: load and probes could not share a connection".into());
    }
    Ok((urls, announced.test_endpoint.filter(|host| !host.is_empty())))
}

pub(super) fn uri(text: &str) -> Result<Uri, String> {
    let uri: Uri = text.parse().map_err(|e| format!("{text:?}: {e}"))?;
    if uri.scheme_str() != Some("https") {
        return Err(format!("{text:?} is no https URL: the test is HTTP/2 over TLS"));
    }
    Ok(uri)
}

/// Host, without brackets, and port.
fn authority(uri: &Uri) -> Result<(String, u16), String> {
    let host = uri.host().ok_or_else(|| format!("{uri} has no host"))?;
    Ok((host.trim_matches(['[', ']']).to_owned(), uri.port_u16().unwrap_or(443)))
}

/// The runtime that a thread of the test runs on: in the network namespace of that thread.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Error> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::io("starting the runtime"))
}

/// Asks for the configuration, and resolves where its objects are.
pub(super) fn discover(config: &Config) -> Result<Endpoint, Error> {
    let failed = |why: String| Error::Http { url: config.url.clone(), why };
    let at = uri(&config.url).map_err(Error::Config)?;
    let (host, port) = authority(&at).map_err(Error::Config)?;
    let mut trusted = tls::trusting(config.trusted.as_deref()).map_err(Error::Config)?;
    trusted.alpn_protocols = vec![b"h2".to_vec()];
    // Each foreign probe is the first visit of a client.
    trusted.resumption = rustls::client::Resumption::disabled();
    let mut endpoint = Endpoint {
        address: SocketAddr::from(([0, 0, 0, 0], 0)),
        name: name(&host)?,
        tls: TlsConnector::from(Arc::new(trusted)),
        options: config.options.clone(),
        local: config.local,
        token: config.token.clone(),
        urls: Urls { large: String::new(), small: String::new(), upload: String::new() },
        large: at.clone(),
        small: at.clone(),
        upload: at.clone(),
    };
    let configuration = |endpoint: &Endpoint, within: Nanos| {
        runtime()?.block_on(async {
            let mut connection = Connection::open_within(endpoint, within).await?;
            connection.get(endpoint, &at, LONGEST).await.map_err(&failed)
        })
    };
    let addresses = resolve(&host, port, config)?;
    let text = at_first_that_connects(&mut endpoint, &addresses, configuration)?;
    let (urls, test_endpoint) = parse(&text).map_err(|why| failed(format!("the configuration is of no use: {why}")))?;
    [endpoint.large, endpoint.small, endpoint.upload] =
        [&urls.large, &urls.small, &urls.upload].map(|url| uri(url).unwrap_or_else(|_| at.clone()));
    let (host, port) = authority(&endpoint.large).map_err(&failed)?;
    endpoint.name = name(&host)?;
    endpoint.urls = urls;
    let addresses = resolve(test_endpoint.as_deref().unwrap_or(&host), port, config)?;
    if !addresses.contains(&endpoint.address) {
        let connects =
            |endpoint: &Endpoint, within| runtime()?.block_on(Connection::open_within(endpoint, within)).map(drop);
        at_first_that_connects(&mut endpoint, &addresses, connects)?;
    }
    Ok(endpoint)
}

/// Gives the endpoint the first of the addresses with which the attempt connects.
fn at_first_that_connects<T>(
    endpoint: &mut Endpoint,
    addresses: &[SocketAddr],
    attempt: impl Fn(&Endpoint, Nanos) -> Result<T, Error>,
) -> Result<T, Error> {
    let with = |address, within| {
        endpoint.address = address;
        attempt(endpoint, within)
    };
    first_that_connects(addresses, with, |_| {})
}

fn name(host: &str) -> Result<ServerName<'static>, Error> {
    ServerName::try_from(host.to_owned())
        .map_err(|_| Error::Config(format!("{host:?} is neither a host name nor an address")))
}

/// The addresses of a host in the family asked for, and in that of the address to connect from.
fn resolve(host: &str, port: u16, config: &Config) -> Result<Vec<SocketAddr>, Error> {
    let all = (host, port).to_socket_addrs().map_err(|e| Error::Config(format!("host {host}: {e}")))?;
    let fits = |a: &SocketAddr| {
        config.family.is_none_or(|f| (f == 6) == a.is_ipv6()) && config.local.is_none_or(|l| l.is_ipv6() == a.is_ipv6())
    };
    let fitting: Vec<SocketAddr> = all.filter(fits).collect();
    if fitting.is_empty() {
        return Err(Error::Config(format!("host {host} has no address of the family asked for")));
    }
    Ok(fitting)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn configurations_of_this_and_earlier_revisions_are_read() {
        let urls = |names: [&str; 3]| {
            format!(
                r#"{{"version": 1, "urls": {{"{}": "https://h.example:4043/large", "{}": "https://h.example:4043/small",
                "{}": "https://h.example:4043/slurp", "other": 1}}, "test_endpoint": "h2.example", "more": []}}"#,
                names[0], names[1], names[2]
            )
        };
        for names in [
            ["large_download_url", "small_download_url", "upload_url"],
            ["large_https_download_url", "small_https_download_url", "https_upload_url"],
        ] {
            let (found, endpoint) = parse(urls(names).as_bytes()).unwrap();
            assert_eq!(
                (found.small.as_str(), endpoint.as_deref()),
                ("https://h.example:4043/small", Some("h2.example"))
            );
        }
        let text = urls(["large_download_url", "small_download_url", "upload_url"]);
        for (from, to, why) in [
            ("\"version\": 1", "\"version\": 2", "version is 2"),
            ("upload_url", "up_url", "no upload_url"),
            ("https://h.example:4043/small", "https://other.example/small", "different hosts"),
            ("https://h.example:4043/small", "http://h.example:4043/small", "no https URL"),
        ] {
            let error = parse(text.replace(from, to).as_bytes()).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    proptest! {
        #[test]
        fn foreign_texts_never_panic(text in ".{0,200}") {
            let _ = parse(text.as_bytes());
            let _ = uri(&text);
        }
    }
}
