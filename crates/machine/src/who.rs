//! Who a cgroup belongs to: systemd unit, container, Kubernetes pod.
//!
//! [`Who::of_path`] reads it from the cgroup's path alone and is pure. [`Hierarchy`] finds the path
//! by the kernel's id, and [`names`](Names) finds what a container is called in the files that its
//! runtime keeps.

mod hierarchy;
mod names;
mod rule;

pub use hierarchy::{Hierarchy, mount};
pub use names::{ContainerNames, Names};
pub use rule::{Rule, RuleKind, Rules, unit_name};

/// What the path of a cgroup says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Who {
    /// The path up to the cgroup that has a name: those below a unit or a container, and
    /// short-lived ones, are folded into it. `/` is the root.
    pub path: String,
    /// The systemd unit: the innermost service or scope that is no container. Those of one command
    /// or one login, such as `run-u12.service` and `session-3.scope`, are none.
    pub unit: Option<String>,
    /// The container's id, as its runtime writes it: 64 hexadecimal digits, or the name of an LXC
    /// or nspawn container.
    pub container: Option<String>,
    /// The uid of the Kubernetes pod, with hyphens.
    pub pod: Option<String>,
}

impl Who {
    /// Reads the path of a cgroup, relative to the root of the hierarchy.
    pub fn of_path(path: &str) -> Self {
        let mut who = Self::default();
        let mut end = 0;
        let mut last_unit = None;
        for (at, part) in parts(path) {
            // `SLICE:cri-containerd:ID`: what containerd without systemd makes of a slice that the
            // kubelet asks for.
            let (first, both) = part.split_once(':').map_or((part, false), |(slice, _)| (slice, true));
            if let Some(pod) = pod(first) {
                who.pod = Some(pod);
                (end, last_unit) = (at, None);
                if !both {
                    continue;
                }
            }
            if let Some(container) = container(part) {
                who.container = Some(container);
                who.unit = last_unit;
                who.path = path[..at].to_owned();
                return who;
            }
            if is_short_lived(part) {
                break;
            }
            if part.ends_with(".service") || part.ends_with(".scope") {
                (end, last_unit) = (at, Some(part.to_owned()));
            } else if last_unit.is_none() {
                end = at;
            }
        }
        who.unit = last_unit;
        who.path = if end == 0 { "/".to_owned() } else { path[..end].to_owned() };
        who
    }
}

/// The names on a path, each with where it ends.
fn parts(path: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    path.split('/').filter_map(move |part| {
        let end = at + part.len();
        at = end + 1;
        (!part.is_empty()).then_some((end, part))
    })
}

/// Of a transient unit of one command, or of a login: thousands may come and go in a day.
fn is_short_lived(part: &str) -> bool {
    let Some((name, _)) = part.rsplit_once('.').filter(|(_, kind)| matches!(*kind, "service" | "scope")) else {
        return false;
    };
    let numbered = |prefix: &str| {
        name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    // systemd-run: run-u12, run-r0123abcd…, run-p12-i345; logins: session-3, session-c1.
    numbered("run-u") || numbered("run-r") || name.starts_with("run-p") && name.contains("-i") || numbered("session-")
}

/// The uid of a pod in `kubepods-burstable-podUID.slice` (with underscores) or `podUID`.
fn pod(part: &str) -> Option<String> {
    let name = part.strip_suffix(".slice").unwrap_or(part);
    let uid = match name.rsplit_once("-pod") {
        Some((before, uid)) if before.contains("kubepods") => uid,
        _ => name.strip_prefix("pod")?,
    };
    let uid = uid.replace('_', "-");
    let digits = uid.bytes().filter(|b| *b != b'-').count();
    (digits == 32 && uid.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())).then_some(uid)
}

fn container(part: &str) -> Option<String> {
    if let Some(name) = part.strip_prefix("lxc.payload.") {
        return (!name.is_empty()).then(|| name.to_owned());
    }
    let name = part.strip_suffix(".scope").or_else(|| part.strip_suffix(".service")).unwrap_or(part);
    if let Some(machine) = part.strip_suffix(".scope").and_then(|scope| scope.strip_prefix("machine-")) {
        return Some(unescape(machine));
    }
    if let Some(machine) = name.strip_prefix("systemd-nspawn@") {
        return Some(unescape(machine));
    }
    // docker-ID, cri-containerd-ID, crio-ID, libpod-ID, nerdctl-ID, or ID by itself.
    let id = name.rsplit(['-', ':']).next().unwrap_or(name);
    let monitor = name.contains("conmon");
    (id.len() == 64 && !monitor && id.bytes().all(|b| b.is_ascii_hexdigit())).then(|| id.to_owned())
}

/// systemd writes bytes that a unit's name cannot hold as `\x2d`.
fn unescape(name: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once("\\x") {
        bytes.extend_from_slice(before.as_bytes());
        match after.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.extend_from_slice(b"\\x");
                rest = after;
            }
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3c84b0f2a1d9e67785c0ffee00112233445566778899aabbccddeeff00112233";
    const UID: &str = "0f2b4c6d-1a2b-3c4d-5e6f-708192a3b4c5";

    /// Path, folded path, unit, whether the container is [`ID`], whether the pod is [`UID`].
    fn check(path: &str, folded: &str, unit: Option<&str>, container: bool, pod: bool) {
        let expected = Who {
            path: folded.to_owned(),
            unit: unit.map(str::to_owned),
            container: container.then(|| ID.to_owned()),
            pod: pod.then(|| UID.to_owned()),
        };
        assert_eq!(Who::of_path(path), expected, "{path}");
    }

    #[test]
    fn units_are_read_and_what_is_below_them_is_folded() {
        check("/", "/", None, false, false);
        check("", "/", None, false, false);
        check("/init.scope", "/init.scope", Some("init.scope"), false, false);
        check("/system.slice", "/system.slice", None, false, false);
        check("/system.slice/nginx.service", "/system.slice/nginx.service", Some("nginx.service"), false, false);
        let postgres = "/system.slice/system-postgresql.slice/postgresql@15-main.service";
        check(postgres, postgres, Some("postgresql@15-main.service"), false, false);
        check(&format!("{postgres}/a/b"), postgres, Some("postgresql@15-main.service"), false, false);
        let app = "/user.slice/user-1000.slice/user@1000.service/app.slice/app-firefox.scope";
        check(app, app, Some("app-firefox.scope"), false, false);
    }

    #[test]
    fn short_lived_cgroups_fold_into_their_parent() {
        check("/system.slice/run-u12.service", "/system.slice", None, false, false);
        check("/system.slice/run-r0a1b2c3d.scope/x", "/system.slice", None, false, false);
        check("/user.slice/user-1000.slice/session-3.scope", "/user.slice/user-1000.slice", None, false, false);
        check("/user.slice/user-0.slice/session-c1.scope", "/user.slice/user-0.slice", None, false, false);
        check(
            "/system.slice/run-media.service",
            "/system.slice/run-media.service",
            Some("run-media.service"),
            false,
            false,
        );
    }

    #[test]
    fn containers_of_every_runtime_are_read() {
        for path in [
            format!("/system.slice/docker-{ID}.scope"),
            format!("/docker/{ID}"),
            format!("/machine.slice/libpod-{ID}.scope"),
            format!("/system.slice/nerdctl-{ID}.scope"),
            format!("/default/{ID}"),
            format!("/ecs/0123/{ID}"),
        ] {
            check(&path, &path, None, true, false);
            check(&format!("{path}/container/x.service"), &path, None, true, false);
        }
        let user = format!("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope");
        check(&user, &user, Some("user@1000.service"), true, false);
        let monitor = format!("/machine.slice/libpod-conmon-{ID}.scope");
        check(&monitor, &monitor, Some(&format!("libpod-conmon-{ID}.scope")), false, false);
        assert_eq!(Who::of_path("/lxc.payload.web/init.scope").container.as_deref(), Some("web"));
        assert_eq!(Who::of_path("/machine.slice/machine-a\\x2db.scope").container.as_deref(), Some("a-b"));
        assert_eq!(Who::of_path("/machine.slice/systemd-nspawn@db.service").container.as_deref(), Some("db"));
    }

    #[test]
    fn pods_are_read_from_both_cgroup_drivers() {
        let underscored = UID.replace('-', "_");
        for path in [
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{underscored}.slice/cri-containerd-{ID}.scope"
            ),
            format!("/kubepods.slice/kubepods-pod{underscored}.slice/crio-{ID}.scope"),
            format!("/kubepods/besteffort/pod{UID}/{ID}"),
            format!(
                "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{underscored}.slice/cri-containerd-{ID}.scope"
            ),
        ] {
            check(&path, &path, None, true, true);
        }
        // A pod of a file on the node has 32 digits without hyphens; runtimes with crun have one
        // more cgroup below; the kubelet asks for a slice, and containerd knows none.
        let of_file = UID.replace('-', "");
        let mut who = Who::of_path(&format!("/kubepods/burstable/pod{of_file}/crio-{ID}/container"));
        assert_eq!((who.pod.take(), who.container.take()), (Some(of_file), Some(ID.to_owned())));
        let two_in_one =
            format!("/system.slice/containerd.service/kubepods-burstable-pod{underscored}.slice:cri-containerd:{ID}");
        check(&two_in_one, &two_in_one, None, true, true);
        check(&format!("{two_in_one}/x"), &two_in_one, None, true, true);
        let monitor = format!("/kubepods/burstable/pod{UID}/crio-conmon-{ID}");
        check(&monitor, &monitor, None, false, true);
        let without = format!("/kubepods/besteffort/pod{UID}");
        check(&without, &without, None, false, true);
        check("/kubepods/podium", "/kubepods/podium", None, false, false);
    }

    #[test]
    fn foreign_names_are_harmless() {
        assert_eq!(unescape("a\\x2db\\xzz\\x"), "a-b\\xzz\\x");
        assert_eq!(unescape("\\xé"), "\\xé");
        let path = "//a//é/../b.scope/";
        assert_eq!(Who::of_path(path).path, "//a//é/../b.scope");
    }
}
