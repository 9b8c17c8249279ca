//! The cgroups of what people name: systemd units, containers and pods.

use std::path::{Path, PathBuf};

use super::{ContainerNames, Hierarchy, Names, Who};

/// The name of a unit as systemd writes it: without a suffix a service is meant.
pub fn unit_name(name: &str) -> String {
    const SUFFIXES: [&str; 5] = [".service", ".scope", ".slice", ".socket", ".mount"];
    if SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) { name.into() } else { format!("{name}.service") }
}

/// The cgroups of a systemd unit below `mount`, the root of the hierarchy: several where the
/// managers of several users run one of this name, none where it does not run.
pub fn unit_cgroups(mount: &Path, name: &str) -> Vec<PathBuf> {
    let name = unit_name(name);
    outermost(mount, |path| path.rsplit('/').next() == Some(&name))
}

/// The cgroups of a container or a pod below `mount`: by its id or the first 8 or more digits of
/// it, by a pod's uid, or by the name that the runtime gives to it in its files below `root`, the
/// root of the file system.
pub fn container_cgroups(mount: &Path, root: &Path, name: &str) -> Vec<PathBuf> {
    let lower = name.to_ascii_lowercase();
    let digits = lower.len() >= 8 && lower.bytes().all(|b| b.is_ascii_hexdigit());
    let called = |names: &ContainerNames| [&names.container, &names.pod].into_iter().flatten().any(|n| n == name);
    let all = Names::new(root).all();
    let ids: Vec<&String> = all.iter().filter(|(_, names)| called(names)).map(|(id, _)| id).collect();
    outermost(mount, |path| {
        let who = Who::of_path(path);
        if who.path != path {
            return false;
        }
        match &who.container {
            Some(id) => ids.contains(&id) || id == name || digits && id.starts_with(&lower),
            None => who.pod.as_ref() == Some(&lower),
        }
    })
}

/// The cgroups that fit and are below no other that does.
fn outermost(mount: &Path, fits: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut hierarchy = Hierarchy::new(mount);
    hierarchy.refresh();
    let mut found: Vec<&str> = hierarchy.all().map(|(_, path)| path).filter(|path| fits(path)).collect();
    // What is above comes before what is below it.
    found.sort_unstable();
    let mut kept: Vec<PathBuf> = Vec::new();
    for path in found {
        let path = mount.join(path.trim_start_matches('/'));
        if !kept.iter().any(|above| path.starts_with(above)) {
            kept.push(path);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn units_are_found_wherever_they_are_and_outermost() {
        let top = tempfile::tempdir().unwrap();
        let of_system = top.path().join("system.slice/web.service");
        let of_user = top.path().join("user.slice/user-1000.slice/user@1000.service/app.slice/web.service");
        fs::create_dir_all(of_system.join("web.service")).unwrap();
        fs::create_dir_all(&of_user).unwrap();
        assert_eq!(unit_cgroups(top.path(), "web"), [of_system.clone(), of_user]);
        assert_eq!(unit_cgroups(top.path(), "system.slice"), [top.path().join("system.slice")]);
        assert!(unit_cgroups(top.path(), "db").is_empty());
    }

    #[test]
    fn containers_and_pods_are_found_by_id_and_by_name() {
        let top = tempfile::tempdir().unwrap();
        let (mount, root) = (top.path().join("cgroup"), top.path().join("root"));
        let id = |digit: char| String::from(digit).repeat(64);
        let folder = |name: String| {
            fs::create_dir_all(mount.join(&name)).unwrap();
            mount.join(name)
        };
        let slice = "kubepods.slice/kubepods-pod2e1b9c2e_8f5c_4a51_b1d5_6f8f3e0c7a11.slice";
        let docker = folder(format!("system.slice/docker-{}.scope", id('a')));
        let pod = folder(slice.into());
        let in_pod = folder(format!("{slice}/crio-{}.scope", id('c')));
        let named = root.join(format!("var/lib/docker/containers/{}", id('a')));
        fs::create_dir_all(&named).unwrap();
        fs::write(named.join("config.v2.json"), "{\"Name\":\"/web\"}").unwrap();
        let found = |name: &str| container_cgroups(&mount, &root, name);
        assert_eq!(found("web"), std::slice::from_ref(&docker));
        assert_eq!(found(&id('a')[..12]), [docker]);
        assert_eq!(found(&id('c')), [in_pod]);
        assert_eq!(found("2e1b9c2e-8f5c-4a51-b1d5-6f8f3e0c7a11"), [pod]);
        assert!(found("aaaa").is_empty() && found("nothing").is_empty());
    }
}
