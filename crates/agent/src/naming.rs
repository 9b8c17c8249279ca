//! The names that a key is published with.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use machine::who::{self, Hierarchy, Names, Who};
use record::IpPrefix;
use record::histogram::SeriesKey;

use crate::accounts::Labels;
use crate::cluster::Cluster;

/// How often the cgroups are walked at most: a cgroup that is not known yet asks for it.
const AGAIN: Duration = Duration::from_secs(2);
/// Containers that are remembered.
const MOST_CONTAINERS: usize = 16_384;
/// How cgroups are named that were gone before their names were read.
const GONE: &str = "(gone)";

/// Finds names, and remembers them.
pub struct Naming {
    hierarchy: Option<Hierarchy>,
    names: Names,
    walked: Option<Instant>,
    known: HashMap<u64, store::Named>,
    containers: HashMap<String, who::ContainerNames>,
    /// Where the API of a cluster is asked.
    cluster: Option<Cluster>,
}

impl Naming {
    /// Below `root`, which is `/`, or where the host's root is mounted; with what a cluster says.
    pub fn new(root: &Path, cluster: Option<Cluster>) -> Self {
        Self {
            cluster,
            hierarchy: mount(root).map(|mount| Hierarchy::new(&mount)),
            names: Names::new(root),
            walked: None,
            known: HashMap::new(),
            containers: HashMap::new(),
        }
    }

    /// The folders that it reads.
    pub fn folders(root: &Path) -> Vec<PathBuf> {
        mount(root).into_iter().chain(Names::FOLDERS.iter().map(|folder| root.join(folder))).collect()
    }

    /// Who the cgroup with this id belongs to, with what owns its pod.
    pub fn who(&mut self, cgroup: u64) -> store::Named {
        let mut named = self.of_cgroup(cgroup);
        let of_pod = self.cluster.as_ref().zip(named.namespace.as_deref().zip(named.pod.as_deref()));
        if let Some((kind, owner)) = of_pod.and_then(|(cluster, (namespace, pod))| cluster.owner_of(namespace, pod)) {
            (named.owner_kind, named.owner) = (Some(kind.to_owned()), Some(harmless(owner)));
        }
        named
    }

    fn of_cgroup(&mut self, cgroup: u64) -> store::Named {
        if let Some(named) = self.known.get(&cgroup) {
            return named.clone();
        }
        if self.walked.is_none_or(|at| at.elapsed() >= AGAIN) {
            self.walk();
        }
        self.known
            .get(&cgroup)
            .cloned()
            .unwrap_or(store::Named { cgroup_path: Some(GONE.into()), ..store::Named::default() })
    }

    /// Those that are gone are forgotten, but not those that were seen in a series a moment ago:
    /// their names stay for one more walk.
    fn walk(&mut self) {
        self.walked = Some(Instant::now());
        let Some(hierarchy) = &mut self.hierarchy else { return };
        hierarchy.refresh();
        if self.containers.len() > MOST_CONTAINERS {
            self.containers.clear();
        }
        let mut known = HashMap::new();
        for (id, path) in hierarchy.all() {
            let who = Who::of_path(path);
            let names = match &who.container {
                None => who::ContainerNames::default(),
                Some(container) => match self.containers.get(container) {
                    Some(names) => names.clone(),
                    None => {
                        let names = self.names.of(container);
                        // A name can come later than the container; what is not known is asked for
                        // again.
                        if names != who::ContainerNames::default() {
                            self.containers.insert(container.clone(), names.clone());
                        }
                        names
                    }
                },
            };
            let named = store::Named {
                cgroup_path: Some(harmless(who.path)),
                unit: who.unit.map(harmless),
                container: names.container.or(who.container).map(harmless),
                pod: names.pod.or(who.pod).map(harmless),
                namespace: names.namespace.map(harmless),
                // A cluster may tell it later.
                owner_kind: None,
                owner: None,
            };
            known.insert(id, named);
        }
        self.known = known;
    }

    /// The labels of a key.
    pub fn labels(&mut self, key: &SeriesKey) -> Labels {
        let mut labels = Labels::new();
        let mut label = |name, value: Option<String>| labels.extend(value.map(|value| (name, value)));
        label("network.peer.address", key.peer.as_ref().map(IpPrefix::to_string));
        label("network.peer.port", key.peer_port.map(|port| port.to_string()));
        label("network.local.port", key.local_port.map(|port| port.to_string()));
        if let Some(cgroup) = key.cgroup {
            let named = self.of_cgroup(cgroup);
            label("cgroup", named.cgroup_path);
            label("systemd.unit", named.unit);
            label("container.name", named.container);
            let in_cluster = self.cluster.as_ref().zip(named.namespace.as_deref().zip(named.pod.as_deref()));
            let of_pod = in_cluster.map(|(cluster, (namespace, pod))| cluster.of_pod(namespace, pod));
            label("k8s.pod.name", named.pod);
            label("k8s.namespace.name", named.namespace);
            of_pod.into_iter().flatten().for_each(|(name, value)| label(name, Some(harmless(value))));
        }
        label("program", key.program.clone());
        // A network has many.
        let alone = key.peer.filter(|peer| peer.bits() == if peer.address().is_ipv4() { 32 } else { 128 });
        if let (Some(cluster), Some(peer)) = (&self.cluster, alone) {
            cluster.of_peer(peer.address()).into_iter().for_each(|(name, value)| label(name, Some(harmless(value))));
        }
        labels
    }
}

/// Whoever makes a cgroup or a container names it. What steers a terminal is `�` in labels and
/// runs, as in names of programs: Prometheus' text is read on terminals.
fn harmless(name: String) -> String {
    if name.contains(record::steers) { name.replace(record::steers, "\u{fffd}") } else { name }
}

/// The mount of the host: a container sees it below the host's root.
fn mount(root: &Path) -> Option<PathBuf> {
    let below = root.join("sys/fs/cgroup");
    if root != Path::new("/") && below.join("cgroup.controllers").exists() { Some(below) } else { who::mount() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;

    const ID: &str = "3c84b0f2a1d9e67785c0ffee00112233445566778899aabbccddeeff00112233";

    #[test]
    fn keys_are_named_by_the_files_of_the_host() {
        let root = tempfile::tempdir().unwrap();
        let cgroups = root.path().join("sys/fs/cgroup");
        let make = |path: &str| {
            fs::create_dir_all(cgroups.join(path)).unwrap();
            fs::metadata(cgroups.join(path)).unwrap().ino()
        };
        let service = make("system.slice/nginx.service");
        let short = make("system.slice/run-u3.service");
        let container = make(&format!("system.slice/docker-{ID}.scope"));
        fs::write(cgroups.join("cgroup.controllers"), "").unwrap();
        let config = root.path().join("var/lib/docker/containers").join(ID);
        fs::create_dir_all(&config).unwrap();
        fs::write(config.join("config.v2.json"), r#"{"Name":"/db"}"#).unwrap();
        let mut naming = Naming::new(root.path(), None);
        let mut labels = |cgroup| {
            let key = SeriesKey { peer_port: Some(443), cgroup: Some(cgroup), ..SeriesKey::default() };
            naming.labels(&key).into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            labels(service),
            "network.peer.port=443 cgroup=/system.slice/nginx.service systemd.unit=nginx.service"
        );
        assert_eq!(labels(short), "network.peer.port=443 cgroup=/system.slice");
        assert_eq!(
            labels(container),
            format!("network.peer.port=443 cgroup=/system.slice/docker-{ID}.scope container.name=db")
        );
        assert_eq!(labels(1), "network.peer.port=443 cgroup=(gone)");
    }

    /// The trees of containerd and CRI-O under the kubelet's two cgroup drivers, as their
    /// documentation and sources have them: the cgroup, the file with the names, and what is in it.
    #[test]
    fn pods_of_both_runtimes_and_cgroup_drivers_are_named() {
        const UID: &str = "0f2b4c6d-1a2b-3c4d-5e6f-708192a3b4c5";
        let slice = "kubepods-burstable-pod0f2b4c6d_1a2b_3c4d_5e6f_708192a3b4c5.slice";
        let by_systemd = format!("kubepods.slice/kubepods-burstable.slice/{slice}");
        let by_files = format!("kubepods/burstable/pod{UID}");
        let containerd = (
            "run/containerd/io.containerd.runtime.v2.task/k8s.io/ID/config.json",
            r#"{"ociVersion":"1.2.0","annotations":{"io.kubernetes.cri.container-name":"nginx","io.kubernetes.cri.container-type":"container",
                "io.kubernetes.cri.sandbox-id":"ee","io.kubernetes.cri.sandbox-name":"web-0","io.kubernetes.cri.sandbox-namespace":"shop",
                "io.kubernetes.cri.sandbox-uid":"0f2b4c6d-1a2b-3c4d-5e6f-708192a3b4c5"}}"#,
        );
        let crio = (
            "run/containers/storage/overlay-containers/ID/userdata/config.json",
            r#"{"ociVersion":"1.0.0","annotations":{"io.container.manager":"cri-o","io.kubernetes.container.name":"nginx",
                "io.kubernetes.cri-o.ContainerType":"container","io.kubernetes.pod.name":"web-0","io.kubernetes.pod.namespace":"shop",
                "io.kubernetes.pod.uid":"0f2b4c6d-1a2b-3c4d-5e6f-708192a3b4c5"}}"#,
        );
        let kubelet = ("var/log/containers/web-0_shop_nginx-ID.log", "");
        let nobody = ("var/log/containers/other_shop_nginx-ff.log", "");
        let named = "container.name=nginx k8s.pod.name=web-0 k8s.namespace.name=shop";
        let by_ids = format!("container.name={ID} k8s.pod.name={UID}");
        for (cgroup, file, expected) in [
            (format!("{by_systemd}/cri-containerd-{ID}.scope"), containerd, named),
            (format!("{by_files}/{ID}"), containerd, named),
            (format!("system.slice/containerd.service/{slice}:cri-containerd:{ID}"), containerd, named),
            (
                format!("kubelet.slice/kubelet-kubepods.slice/kubelet-{slice}/cri-containerd-{ID}.scope"),
                containerd,
                named,
            ),
            (format!("{by_systemd}/crio-{ID}.scope"), crio, named),
            (format!("{by_files}/crio-{ID}"), crio, named),
            // Without root: the kubelet's links alone can be read.
            (format!("{by_systemd}/cri-containerd-{ID}.scope"), kubelet, named),
            (format!("{by_files}/crio-{ID}"), kubelet, named),
            // Nothing can be read: its numbers.
            (format!("{by_systemd}/crio-{ID}.scope"), nobody, &by_ids),
            (format!("{by_files}/{ID}"), nobody, &by_ids),
        ] {
            let root = tempfile::tempdir().unwrap();
            let cgroups = root.path().join("sys/fs/cgroup");
            // crun and programs of the container make cgroups below it: they are the container.
            for below in ["", "/container", "/init.scope"] {
                fs::create_dir_all(cgroups.join(format!("{cgroup}{below}"))).unwrap();
            }
            fs::write(cgroups.join("cgroup.controllers"), "").unwrap();
            let path = root.path().join(file.0.replace("ID", ID));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file.1).unwrap();
            let mut naming = Naming::new(root.path(), None);
            for below in ["", "/container", "/init.scope"] {
                let inode = fs::metadata(cgroups.join(format!("{cgroup}{below}"))).unwrap().ino();
                let key = SeriesKey { cgroup: Some(inode), ..SeriesKey::default() };
                let labels: Vec<String> =
                    naming.labels(&key).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
                assert_eq!(labels.join(" "), format!("cgroup=/{cgroup} {expected}"));
            }
        }
    }

    #[test]
    fn a_name_that_somebody_chose_steers_no_terminal() {
        let root = tempfile::tempdir().unwrap();
        let cgroups = root.path().join("sys/fs/cgroup");
        let evil = cgroups.join("lxc.payload.a\u{1b}[2J\nb\u{9b}5A\u{202e}c");
        fs::create_dir_all(&evil).unwrap();
        fs::write(cgroups.join("cgroup.controllers"), "").unwrap();
        let key = SeriesKey { cgroup: Some(fs::metadata(evil).unwrap().ino()), ..SeriesKey::default() };
        let tame = "a\u{fffd}[2J\u{fffd}b\u{fffd}5A\u{fffd}c";
        let expected = [("cgroup", format!("/lxc.payload.{tame}")), ("container.name", tame.to_owned())];
        assert_eq!(Naming::new(root.path(), None).labels(&key), expected);
    }
}
