//! The server that is measured.

use std::net::{IpAddr, SocketAddr};

use http::Uri;
use rustls::pki_types::ServerName;
use serde::{Deserialize, Serialize};
use tokio_rustls::TlsConnector;

use crate::options::SocketOptions;

/// Where the objects are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Urls {
    /// Of at least 8 GB.
    #[serde(rename = "large_download_url", alias = "large_https_download_url")]
    pub large: String,
    /// Of one byte.
    #[serde(rename = "small_download_url", alias = "small_https_download_url")]
    pub small: String,
    /// Where any number of bytes may be posted.
    #[serde(rename = "upload_url", alias = "https_upload_url", alias = "https_upload_small_url")]
    pub upload: String,
}

/// How connections to it are made, and what is asked of it.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub address: SocketAddr,
    pub name: ServerName<'static>,
    pub tls: TlsConnector,
    pub options: SocketOptions,
    pub local: Option<IpAddr>,
    pub token: Option<String>,
    pub urls: Urls,
    pub large: Uri,
    pub small: Uri,
    pub upload: Uri,
}
