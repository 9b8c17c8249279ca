//! What a container is called, from the files that its runtime keeps. No daemon or API is asked.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Files of a runtime are a few kB; a larger one is not read.
const LARGEST: u64 = 4 << 20;

/// What a runtime says of a container; what it does not say, or does not let this user read, is
/// `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerNames {
    /// The container's name; within a pod it is unique only there.
    pub container: Option<String>,
    /// The Kubernetes pod's name.
    pub pod: Option<String>,
    /// The pod's namespace.
    pub namespace: Option<String>,
}

/// Reads names of containers below a root folder: `/`, or where the host's root is mounted.
#[derive(Clone, Debug)]
pub struct Names {
    root: PathBuf,
}

impl Names {
    /// Where the folders that are read lie below the root.
    pub const FOLDERS: [&str; 5] = [
        "var/log/containers",
        "run/containerd/io.containerd.runtime.v2.task",
        "var/lib/docker/containers",
        "run/containers/storage/overlay-containers",
        "var/lib/containers/storage/overlay-containers",
    ];

    /// Reads below `root`.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// What the container with this id is called. Of several runtimes the first that names it
    /// counts; the kubelet's own list comes first, because every user may read it.
    pub fn of(&self, id: &str) -> ContainerNames {
        if id.is_empty() || id.contains(['/', '\0']) || id.starts_with('.') {
            return ContainerNames::default();
        }
        let sources = [Self::kubelet, Self::containerd, Self::docker, Self::podman, Self::crio];
        sources.into_iter().find_map(|source| source(self, id)).unwrap_or_default()
    }

    fn json(&self, path: &str) -> Option<Value> {
        let file = fs::File::open(self.root.join(path)).ok()?;
        let mut bytes = Vec::new();
        file.take(LARGEST).read_to_end(&mut bytes).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    fn kubelet(&self, id: &str) -> Option<ContainerNames> {
        let entries = fs::read_dir(self.root.join(Self::FOLDERS[0])).ok()?;
        entries.flatten().find_map(|entry| {
            log_name(&entry.file_name().to_string_lossy()).filter(|(found, _)| found == id).map(|(_, names)| names)
        })
    }

    fn containerd(&self, id: &str) -> Option<ContainerNames> {
        let spaces = fs::read_dir(self.root.join(Self::FOLDERS[1])).ok()?;
        spaces.flatten().find_map(|space| {
            let name = space.file_name().to_string_lossy().into_owned();
            let config = self.json(&format!("{}/{name}/{id}/config.json", Self::FOLDERS[1]))?;
            annotated(
                &config["annotations"],
                ["io.kubernetes.cri.container-name", "nerdctl/name"],
                ["io.kubernetes.cri.sandbox-name", "io.kubernetes.cri.sandbox-namespace"],
            )
        })
    }

    fn docker(&self, id: &str) -> Option<ContainerNames> {
        let config = self.json(&format!("{}/{id}/config.v2.json", Self::FOLDERS[2]))?;
        let labels = &config["Config"]["Labels"];
        let of_pod = annotated(
            labels,
            ["io.kubernetes.container.name", ""],
            ["io.kubernetes.pod.name", "io.kubernetes.pod.namespace"],
        );
        let container = config["Name"].as_str().map(|name| name.trim_start_matches('/').to_owned());
        of_pod.or(Some(ContainerNames { container: Some(container?), ..ContainerNames::default() }))
    }

    fn podman(&self, id: &str) -> Option<ContainerNames> {
        let all = self.json(&format!("{}/containers.json", Self::FOLDERS[4]))?;
        let one = all.as_array()?.iter().find(|container| container["id"] == id)?;
        let container = one["names"][0].as_str()?.to_owned();
        Some(ContainerNames { container: Some(container), ..ContainerNames::default() })
    }

    fn crio(&self, id: &str) -> Option<ContainerNames> {
        let config = self.json(&format!("{}/{id}/userdata/config.json", Self::FOLDERS[3]))?;
        annotated(
            &config["annotations"],
            ["io.kubernetes.container.name", "io.podman.annotations.name"],
            ["io.kubernetes.pod.name", "io.kubernetes.pod.namespace"],
        )
    }
}

/// `POD_NAMESPACE_CONTAINER-ID.log`: the kubelet's link to a container's log. None of the names can
/// hold an underscore.
fn log_name(name: &str) -> Option<(String, ContainerNames)> {
    let (rest, id) = name.strip_suffix(".log")?.rsplit_once('-')?;
    let mut parts = rest.split('_').map(str::to_owned);
    let (pod, namespace, container) = (parts.next()?, parts.next()?, parts.next()?);
    let names = ContainerNames { container: Some(container), pod: Some(pod), namespace: Some(namespace) };
    parts.next().is_none().then(|| (id.to_owned(), names))
}

fn annotated(annotations: &Value, container: [&str; 2], pod: [&str; 2]) -> Option<ContainerNames> {
    let text = |key: &str| annotations[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let names = ContainerNames {
        container: text(container[0]).or_else(|| text(container[1])),
        pod: text(pod[0]),
        namespace: text(pod[1]),
    };
    (names != ContainerNames::default()).then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3c84b0f2a1d9e67785c0ffee00112233445566778899aabbccddeeff00112233";

    fn read(files: &[(&str, &str)]) -> ContainerNames {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path.replace("ID", ID));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text.replace("ID", ID)).unwrap();
        }
        let names = Names::new(root.path());
        names.of(ID)
    }

    fn named(container: &str, pod: Option<(&str, &str)>) -> ContainerNames {
        ContainerNames {
            container: Some(container.to_owned()),
            pod: pod.map(|pod| pod.0.to_owned()),
            namespace: pod.map(|pod| pod.1.to_owned()),
        }
    }

    #[test]
    fn every_runtime_is_read() {
        let pod = Some(("web-7f9-x2", "shop"));
        assert_eq!(read(&[("var/log/containers/web-7f9-x2_shop_nginx-ID.log", "")]), named("nginx", pod));
        let cri = r#"{"annotations":{"io.kubernetes.cri.container-name":"nginx","io.kubernetes.cri.sandbox-name":"web-7f9-x2","io.kubernetes.cri.sandbox-namespace":"shop"}}"#;
        let task = "run/containerd/io.containerd.runtime.v2.task";
        assert_eq!(read(&[(&format!("{task}/k8s.io/ID/config.json"), cri)]), named("nginx", pod));
        let nerdctl = r#"{"annotations":{"nerdctl/name":"cache"}}"#;
        assert_eq!(read(&[(&format!("{task}/default/ID/config.json"), nerdctl)]), named("cache", None));
        let docker = r#"{"ID":"ID","Name":"/db","Config":{"Labels":{}}}"#;
        assert_eq!(read(&[("var/lib/docker/containers/ID/config.v2.json", docker)]), named("db", None));
        let crio = r#"{"annotations":{"io.kubernetes.container.name":"nginx","io.kubernetes.pod.name":"web-7f9-x2","io.kubernetes.pod.namespace":"shop"}}"#;
        let storage = "run/containers/storage/overlay-containers/ID/userdata/config.json";
        assert_eq!(read(&[(storage, crio)]), named("nginx", pod));
        let podman = r#"[{"id":"other","names":["x"]},{"id":"ID","names":["mail"]}]"#;
        assert_eq!(
            read(&[("var/lib/containers/storage/overlay-containers/containers.json", podman)]),
            named("mail", None)
        );
    }

    #[test]
    fn broken_files_and_foreign_ids_name_nothing() {
        let nothing = ContainerNames::default();
        assert_eq!(read(&[("var/lib/docker/containers/ID/config.v2.json", "{\"Name\":")]), nothing);
        assert_eq!(read(&[("var/lib/docker/containers/ID/config.v2.json", "[1]")]), nothing);
        assert_eq!(read(&[("var/log/containers/a_b_c_d-ID.log", "")]), nothing);
        for id in ["", "..", "../../etc", "a/b", "a\0b"] {
            assert_eq!(Names::new(Path::new("/")).of(id), nothing, "{id:?}");
        }
    }
}
