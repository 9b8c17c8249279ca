//! Stores of files: this machine's directories, and S3 with the credentials of the environment.

use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use object_store::ObjectStore;
use object_store::aws::AmazonS3Builder;
use url::Url;

/// The store that a URL names.
///
/// # Errors
/// A scheme that is not known, or settings that do not make a client.
pub fn of(url: &Url) -> Result<Arc<dyn ObjectStore>> {
    let bucket = url.host_str().filter(|host| !host.is_empty());
    match (url.scheme(), bucket) {
        ("s3", Some(bucket)) => {
            let retries = object_store::RetryConfig {
                max_retries: 3,
                retry_timeout: std::time::Duration::from_secs(20),
                ..Default::default()
            };
            let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retries);
            // A private server is often without TLS: its URL says so.
            if std::env::var("AWS_ENDPOINT_URL")
                .or_else(|_| std::env::var("AWS_ENDPOINT"))
                .is_ok_and(|e| e.starts_with("http://"))
            {
                builder = builder.with_allow_http(true);
            }
            Ok(Arc::new(builder.build()?))
        }
        ("s3", None) => Err(DataFusionError::Configuration("names no bucket: write s3://BUCKET/PREFIX".into())),
        (scheme, _) => Err(DataFusionError::Configuration(format!(
            "{scheme}:// is not read: name a directory, or s3://BUCKET/PREFIX"
        ))),
    }
}

/// An error of a store in the words that matter: what could not be had and why, without the
/// request.
pub fn reason(error: &object_store::Error) -> String {
    match error {
        object_store::Error::NotFound { path, .. } => {
            format!("{path} is not there: no such bucket or file")
        }
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
            "no permission: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ask the owner for the right to list and read".into()
        }
        other => {
            let text = other.to_string();
            if text.contains("NoSuchBucket") {
                return "there is no such bucket".into();
            }
            if ["AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"].iter().any(|code| text.contains(code)) {
                return "no permission: the credentials of the environment do not allow it".into();
            }
            // Where the environment has none, the machine's own metadata service is asked (EC2).
            if text.contains("/latest/api/token") || text.contains("/latest/meta-data") {
                return "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true where anyone may read the bucket; \
                        the metadata service of this machine gives none"
                    .into();
            }
            if text.contains("error sending request") {
                let at = std::env::var("AWS_ENDPOINT_URL").or_else(|_| std::env::var("AWS_ENDPOINT"));
                return match at {
                    Ok(at) => format!("{at} does not answer: look at AWS_ENDPOINT_URL, and whether the store is up"),
                    Err(_) => "the store does not answer: look at the network, and at AWS_REGION".into(),
                };
            }
            text
        }
    }
}

/// Finds stores by URL when a plan is run, on an executor too.
#[derive(Debug, Default)]
pub struct Stores {
    known: DefaultObjectStoreRegistry,
}

impl ObjectStoreRegistry for Stores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.known.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.known.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.known.get_store(url).or_else(|_| {
            let store = of(url)?;
            self.known.register_store(url, store.clone());
            Ok(store)
        })
    }
}
