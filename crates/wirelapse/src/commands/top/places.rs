//! What the cgroups of sockets are: their paths, systemd units, pods and containers. No container
//! runtime is asked; the names are in files that it keeps.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use machine::who::{self, Hierarchy, Who};
use summary::live::Placement;

use super::redact::{Kind, Redaction};

/// Finds cgroups by the kernel's ids.
pub struct Places {
    hierarchy: Option<Hierarchy>,
    containers: who::Names,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            hierarchy: who::mount().map(|mount| Hierarchy::new(&mount)),
            containers: who::Names::new(Path::new("/")),
        }
    }
}

/// Digits of the id of a container or a pod that are shown where it has no name.
const DIGITS: usize = 12;

impl Places {
    /// What has to be read to find them.
    pub fn read() -> Vec<PathBuf> {
        let folders = who::Names::FOLDERS.iter().map(|folder| Path::new("/").join(folder));
        who::mount().into_iter().chain(folders).collect()
    }

    /// What these cgroups are, each as far as that can be found. They stay what they are: a number
    /// is given once.
    pub fn find(&mut self, ids: &HashSet<u64>, redaction: Option<&mut Redaction>) -> Vec<(u64, Placement)> {
        let Some(hierarchy) = self.hierarchy.as_mut().filter(|_| !ids.is_empty()) else { return Vec::new() };
        hierarchy.refresh();
        let mut found: Vec<(u64, Placement)> = ids
            .iter()
            .map(|id| match hierarchy.path(*id) {
                Some(path) => (*id, placement(path, &self.containers)),
                None => (*id, Placement { path: format!("cgroup {id}"), ..Placement::default() }),
            })
            .collect();
        if let Some(redaction) = redaction {
            for (id, place) in &mut found {
                place.path = format!("cgroup {id}");
                place.unit = place.unit.take().map(|unit| redaction.name(Kind::Unit, &unit));
                place.pod = place.pod.take().map(|pod| redaction.name(Kind::Pod, &pod));
            }
        }
        found
    }
}

fn placement(path: &str, containers: &who::Names) -> Placement {
    let who = Who::of_path(path);
    let names = who.container.as_deref().map(|id| containers.of(id)).unwrap_or_default();
    let short = |id: String| id.get(..DIGITS).map(str::to_owned).unwrap_or(id);
    let pod = match (names.pod, names.namespace) {
        (Some(pod), Some(namespace)) => Some(format!("{namespace}/{pod}")),
        (pod, _) => pod.or_else(|| who.pod.map(|uid| format!("pod {uid}"))),
    };
    let container = names.container.or_else(|| who.container.map(short));
    let path = if path.is_empty() { "/" } else { path };
    Placement { path: path.to_owned(), unit: who.unit, pod: pod.or(container) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_unit_and_container() {
        let containers = who::Names::new(Path::new("/nothing/here"));
        let of = |path: &str| placement(path, &containers);
        let unit = of("/system.slice/web.service");
        assert_eq!((unit.unit.as_deref(), unit.pod), (Some("web.service"), None));
        let id = "0123456789abcdef".repeat(4);
        let container = of(&format!("/system.slice/docker-{id}.scope"));
        assert_eq!((container.unit, container.pod.as_deref()), (None, Some("0123456789ab")));
        assert_eq!(of("").path, "/");
    }
}
