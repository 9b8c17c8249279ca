//! TLS for the connection on which a test is asked for: certificates from files, and nothing else
//! to choose.

use std::fs::File;
use std::io::{Read as _, Take};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde::{Deserialize, Serialize};

/// The server that a client trusts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trusted {
    /// A PEM file: the server's own certificate, or that of the authority that signed it.
    pub certificate: PathBuf,
    /// The host name or address that the server's certificate has to hold.
    pub name: String,
}

impl Trusted {
    pub(crate) fn load(&self) -> Result<(Arc<ClientConfig>, ServerName<'static>), String> {
        let name = ServerName::try_from(self.name.clone())
            .map_err(|_| format!("{:?} is neither a host name nor an address", self.name))?;
        Ok((Arc::new(trusting(Some(&self.certificate))?), name))
    }
}

/// A client that trusts the certificates of a PEM file, or those of the system.
pub(crate) fn trusting(file: Option<&Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(file) => {
            for certificate in certificates(file)? {
                roots.add(certificate).map_err(|e| format!("{}: {e}", file.display()))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err("this system has no certificates to trust: name a file with --tls-ca".into());
            }
        }
    }
    Ok(ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

/// What a server shows: its certificate chain and its key.
#[derive(Clone, Debug)]
pub struct Identity {
    /// For tests of this project's own protocol and iperf3's.
    pub(crate) control: Arc<ServerConfig>,
    /// For HTTP/2.
    pub(crate) http: Arc<ServerConfig>,
}

impl Identity {
    /// From two PEM files: the chain, the server's own certificate first, and its private key.
    ///
    /// # Errors
    /// In words: which file, and what is wrong with it.
    pub fn load(chain: &Path, key: &Path) -> Result<Self, String> {
        let private = PrivateKeyDer::from_pem_reader(opened(key)?).map_err(|e| match e {
            pem::Error::NoItemsFound => format!("{}: no private key in it", key.display()),
            other => format!("{}: {other}", key.display()),
        })?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?
            .with_no_client_auth()
            .with_single_cert(certificates(chain)?, private)
            .map_err(|e| format!("{} with {}: {e}", chain.display(), key.display()))?;
        // A client that waits for the end of a test must see nothing before it.
        config.send_tls13_tickets = 0;
        let mut http = config.clone();
        http.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self { control: Arc::new(config), http: Arc::new(http) })
    }
}

/// A file, of which so much is read at most: a device has no end.
fn opened(file: &Path) -> Result<Take<File>, String> {
    const LONGEST: u64 = 4 << 20;
    let opened = File::open(file).map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(opened.take(LONGEST))
}

/// Whether a client's first message of TLS asks for HTTP/2; `None` where more of it has to come.
pub(crate) fn asks_for_http(bytes: &[u8]) -> Result<Option<bool>, String> {
    let mut acceptor = rustls::server::Acceptor::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        acceptor.read_tls(&mut rest).map_err(|e| e.to_string())?;
        match acceptor.accept() {
            Ok(Some(accepted)) => {
                let hello = accepted.client_hello();
                return Ok(Some(hello.alpn().is_some_and(|mut all| all.any(|protocol| protocol == b"h2"))));
            }
            Ok(None) => {}
            Err((e, _)) => return Err(e.to_string()),
        }
    }
    Ok(None)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_reader_iter(opened(file)?).collect();
    match all {
        Ok(found) if Vec::is_empty(&found) => Err(format!("{}: no certificate in it", file.display())),
        other => other.map_err(|e| format!("{}: {e}", file.display())),
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
