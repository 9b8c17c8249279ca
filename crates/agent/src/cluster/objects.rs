//! Objects of the API, as far as they are read here.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Deserialize;

use super::Name;

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pod {
    pub addresses: Vec<IpAddr>,
    /// Its addresses are its host's.
    pub host_network: bool,
    pub ended: bool,
    pub labels: BTreeMap<String, String>,
    pub owner: Option<Owner>,
}

/// What made a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub kind: Kind,
    pub name: String,
}

/// A kind of owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    Other,
}

impl Kind {
    /// What it is called in the store, and the attribute of its name in OpenTelemetry's
    /// conventions.
    pub fn words(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Deployment => Some(("deployment", "k8s.deployment.name")),
            Self::ReplicaSet => Some(("replicaset", "k8s.replicaset.name")),
            Self::StatefulSet => Some(("statefulset", "k8s.statefulset.name")),
            Self::DaemonSet => Some(("daemonset", "k8s.daemonset.name")),
            Self::Job => Some(("job", "k8s.job.name")),
            Self::Other => None,
        }
    }
}

/// A service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Service {
    pub addresses: Vec<IpAddr>,
    pub selector: BTreeMap<String, String>,
}

/// An object of either kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Object {
    pub metadata: Metadata,
    spec: Spec,
    status: Said,
}

/// The status of an object; that of an error is a word.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Said {
    Status(Status),
    Error(serde::de::IgnoredAny),
}

impl Default for Said {
    fn default() -> Self {
        Self::Status(Status::default())
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    name: String,
    namespace: String,
    pub resource_version: String,
    labels: BTreeMap<String, String>,
    owner_references: Vec<Reference>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reference {
    kind: String,
    name: String,
    controller: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    host_network: bool,
    selector: BTreeMap<String, String>,
    #[serde(rename = "clusterIPs")]
    cluster_ips: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    phase: String,
    #[serde(rename = "podIPs")]
    pod_ips: Vec<Address>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Address {
    ip: String,
}

/// A page of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct List {
    pub metadata: Page,
    pub items: Vec<Object>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Page {
    pub resource_version: String,
    #[serde(rename = "continue")]
    pub next: String,
}

/// A line of a watch.
#[derive(Debug, Deserialize)]
pub(super) struct Change {
    #[serde(rename = "type")]
    pub what: String,
    pub object: Object,
}

impl Object {
    pub fn name(&self) -> Name {
        (self.metadata.namespace.clone(), self.metadata.name.clone())
    }

    pub fn pod(self) -> (Name, Pod) {
        let name = self.name();
        let Metadata { labels, owner_references, .. } = self.metadata;
        let owner = owner_references.into_iter().find(|reference| reference.controller).map(|of| owner(of, &labels));
        let status = match self.status {
            Said::Status(status) => status,
            Said::Error(_) => Status::default(),
        };
        let pod = Pod {
            addresses: status.pod_ips.iter().filter_map(|address| address.ip.parse().ok()).collect(),
            host_network: self.spec.host_network,
            ended: matches!(status.phase.as_str(), "Succeeded" | "Failed"),
            labels,
            owner,
        };
        (name, pod)
    }

    pub fn service(self) -> (Name, Service) {
        let addresses = self.spec.cluster_ips.iter().filter_map(|address| address.parse().ok()).collect();
        (self.name(), Service { addresses, selector: self.spec.selector })
    }
}

/// A deployment names its replica sets after itself, with the hash of their template, which is also
/// a label of their pods.
fn owner(of: Reference, labels: &BTreeMap<String, String>) -> Owner {
    let kind = match of.kind.as_str() {
        "ReplicaSet" => Kind::ReplicaSet,
        "StatefulSet" => Kind::StatefulSet,
        "DaemonSet" => Kind::DaemonSet,
        "Job" => Kind::Job,
        _ => Kind::Other,
    };
    let hash = labels.get("pod-template-hash").filter(|_| kind == Kind::ReplicaSet);
    let deployment = hash.and_then(|hash| of.name.strip_suffix(hash.as_str())?.strip_suffix('-').map(str::to_owned));
    match deployment {
        Some(name) => Owner { kind: Kind::Deployment, name },
        None => Owner { kind, name: of.name },
    }
}
