//! Certificates: what the endpoint shows, and what its clients and ours trust.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::Error;
use crate::config::Tls;

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// What the endpoint shows.
pub(crate) fn server(tls: &Tls) -> Result<Arc<ServerConfig>, Error> {
    let wrong = |path: &Path, why: String| Error::File { path: path.to_owned(), why };
    let read = |path: &Path| fs::read(path).map_err(|e| wrong(path, e.to_string()));
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&read(&tls.certificate)?)
        .collect::<Result<_, _>>()
        .map_err(|e| wrong(&tls.certificate, e.to_string()))?;
    if chain.is_empty() {
        return Err(wrong(&tls.certificate, "no certificate in it".into()));
    }
    let key = PrivateKeyDer::from_pem_slice(&read(&tls.key)?).map_err(|e| wrong(&tls.key, e.to_string()))?;
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| wrong(&tls.key, e.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|e| wrong(&tls.certificate, e.to_string()))?;
    Ok(Arc::new(config))
}

/// A client for HTTP that trusts what the system does. Read here once: later no file can be.
pub(crate) fn client(timeout: std::time::Duration) -> ureq::Agent {
    let roots = rustls_native_certs::load_native_certs().certs;
    trusting(roots.iter().map(AsRef::as_ref), timeout)
}

/// One that trusts the certificates of a file alone.
///
/// # Errors
/// [`Error::File`].
pub(crate) fn client_of(timeout: std::time::Duration, file: &Path) -> Result<ureq::Agent, Error> {
    let wrong = |why: String| Error::File { path: file.to_owned(), why };
    let text = fs::read(file).map_err(|e| wrong(e.to_string()))?;
    let roots: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(&text).collect::<Result<_, _>>().map_err(|e| wrong(e.to_string()))?;
    if roots.is_empty() {
        return Err(wrong("no certificate in it".into()));
    }
    Ok(trusting(roots.iter().map(AsRef::as_ref), timeout))
}

fn trusting<'a>(roots: impl Iterator<Item = &'a [u8]>, timeout: std::time::Duration) -> ureq::Agent {
    let roots: Vec<ureq::tls::Certificate<'static>> =
        roots.map(|certificate| ureq::tls::Certificate::from_der(certificate).to_owned()).collect();
    let tls = ureq::tls::TlsConfig::builder()
        .root_certs(ureq::tls::RootCerts::Specific(Arc::new(roots)))
        .unversioned_rustls_crypto_provider(provider())
        .build();
    let config = ureq::Agent::config_builder()
        .tls_config(tls)
        .timeout_global(Some(timeout))
        .http_status_as_error(false)
        .max_redirects(0)
        .user_agent(concat!("wirelapse/", env!("CARGO_PKG_VERSION")))
        .build();
    config.into()
}
