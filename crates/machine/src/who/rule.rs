//! Rules that name cgroups, which come and go: a unit that restarts has another cgroup than before.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{ContainerNames, Names, Who};

/// Names that are remembered: of containers that are there, and a few more.
const MOST_NAMES: usize = 16_384;

/// The name of a unit as systemd writes it: without a suffix a service is meant.
pub fn unit_name(name: &str) -> String {
    const SUFFIXES: [&str; 5] = [".service", ".scope", ".slice", ".socket", ".mount"];
    if SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) { name.into() } else { format!("{name}.service") }
}

/// What names cgroups. In each, `*` stands for any characters but `/`, and `?` for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A folder of the hierarchy, relative to its root: `/system.slice/app-*`.
    Cgroup(String),
    /// A systemd unit; without a suffix a service is meant. There may be several of one name, as
    /// managers of several users run them.
    Unit(String),
    /// A container or a pod: by its id, the first 8 or more digits of it, a pod's uid, or the name
    /// that the runtime gives to it.
    Container(String),
}

/// What a rule names cgroups by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleKind {
    /// Their folder.
    Cgroup,
    /// A systemd unit.
    Unit,
    /// A container or a pod.
    Container,
}

impl RuleKind {
    /// The word of the option and of the key.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup",
            Self::Unit => "unit",
            Self::Container => "container",
        }
    }
}

impl std::fmt::Display for RuleKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl Rule {
    /// The rule of a folder as it is in the file system. `None` where it is not below `mount`, the
    /// root of the hierarchy.
    pub fn of_folder(folder: &Path, mount: &Path) -> Option<Self> {
        let folder = std::path::absolute(folder).ok()?;
        // What is not there yet, or is a pattern, is below a folder that is there.
        let there = folder.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
        let (above, found) = there?;
        let path: PathBuf = match folder.strip_prefix(above) {
            Ok(rest) if rest.as_os_str().is_empty() => found,
            Ok(rest) => found.join(rest),
            Err(_) => return None,
        };
        let mount = mount.canonicalize().ok()?;
        let below = path.strip_prefix(&mount).ok()?;
        Some(Self::Cgroup(format!("/{}", below.to_string_lossy())))
    }

    /// Which kind it is.
    pub const fn kind(&self) -> RuleKind {
        match self {
            Self::Cgroup(_) => RuleKind::Cgroup,
            Self::Unit(_) => RuleKind::Unit,
            Self::Container(_) => RuleKind::Container,
        }
    }

    /// What it names, as people call it.
    pub fn name(&self) -> String {
        match self {
            Self::Cgroup(path) => path.clone(),
            Self::Unit(name) => unit_name(name),
            Self::Container(name) => name.clone(),
        }
    }
}

/// Several rules, and what it takes to apply them.
#[derive(Debug)]
pub struct Rules {
    rules: Vec<Rule>,
    names: Names,
    /// What containers are called, as far as their runtimes have said it.
    known: HashMap<String, ContainerNames>,
}

impl Rules {
    /// The names of containers are read below `root`, the root of the file system.
    pub fn new(rules: Vec<Rule>, root: &Path) -> Self {
        Self { rules, names: Names::new(root), known: HashMap::new() }
    }

    /// The rules, in their order.
    pub fn all(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether a cgroup can come to fit later than it is there: a runtime may tell the name of a
    /// container after it has made its cgroup.
    pub fn names_come_late(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule, Rule::Container(_)))
    }

    /// The rules that the cgroup with this path, relative to the root of the hierarchy, fits: their
    /// numbers.
    pub fn fitted_by(&mut self, path: &str) -> Vec<usize> {
        let who = self.names_come_late().then(|| Who::of_path(path)).filter(|who| who.path == path);
        let names = match who.as_ref().and_then(|who| who.container.as_ref()) {
            Some(id) => self.names_of(id),
            None => ContainerNames::default(),
        };
        let last = path.rsplit('/').next().unwrap_or_default();
        let fits = |rule: &Rule| match rule {
            Rule::Cgroup(pattern) => like(pattern, path),
            Rule::Unit(name) => like(&unit_name(name), last),
            Rule::Container(name) => who.as_ref().is_some_and(|who| is_container(name, who, &names)),
        };
        (0..).zip(&self.rules).filter(|(_, rule)| fits(rule)).map(|(number, _)| number).collect()
    }

    fn names_of(&mut self, id: &str) -> ContainerNames {
        if let Some(names) = self.known.get(id) {
            return names.clone();
        }
        let names = self.names.of(id);
        // What is not known yet is asked for again.
        if names != ContainerNames::default() {
            if self.known.len() >= MOST_NAMES {
                self.known.clear();
            }
            self.known.insert(id.to_owned(), names.clone());
        }
        names
    }
}

fn is_container(name: &str, who: &Who, names: &ContainerNames) -> bool {
    let called = [&names.container, &names.pod].into_iter().flatten().any(|called| like(name, called));
    let lower = name.to_ascii_lowercase();
    let digits = lower.len() >= 8 && lower.bytes().all(|b| b.is_ascii_hexdigit());
    match (&who.container, &who.pod) {
        (Some(id), _) => called || like(name, id) || digits && id.starts_with(&lower),
        (None, Some(pod)) => like(&lower, pod),
        (None, None) => false,
    }
}

/// Whether a text is as a pattern says: `*` is any characters but `/`, `?` is one.
fn like(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut on) = (0, 0);
    // Where the last `*` is, and how far what it stands for goes.
    let mut star: Option<(usize, usize)> = None;
    while on < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, on));
                at += 1;
            }
            Some(&c) if c == text[on] || c == '?' && text[on] != '/' => (at, on) = (at + 1, on + 1),
            _ => match star {
                Some((begin, end)) if text[end] != '/' => {
                    star = Some((begin, end + 1));
                    (at, on) = (begin + 1, end + 1);
                }
                _ => return false,
            },
        }
    }
    pattern[at..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn fitted(rules: &[Rule], root: &Path, path: &str) -> Vec<usize> {
        Rules::new(rules.to_vec(), root).fitted_by(path)
    }

    #[test]
    fn patterns_stay_within_a_name() {
        for (pattern, text) in [
            ("a", "a"),
            ("app-*.service", "app-1.service"),
            ("*", ""),
            ("*", "abc"),
            ("a*b*c", "a12b34bc"),
            ("/x/*/y", "/x/12/y"),
            ("???", "äöü"),
            ("a\\x2db", "a\\x2db"),
        ] {
            assert!(like(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("a", "ab"),
            ("a", ""),
            ("*.service", "a.scope"),
            ("/x/*", "/x/a/b"),
            ("?", "/"),
            ("?", ""),
            ("a*b", "acbd"),
        ] {
            assert!(!like(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn units_are_found_wherever_they_are() {
        let rules = [Rule::Unit("web".into()), Rule::Unit("app-*.service".into()), Rule::Unit("system.slice".into())];
        let of = |path: &str| fitted(&rules, Path::new("/nowhere"), path);
        assert_eq!(of("/system.slice/web.service"), [0]);
        assert_eq!(of("/user.slice/user-1000.slice/user@1000.service/app.slice/web.service"), [0]);
        assert_eq!(of("/system.slice/app-7.service"), [1]);
        assert_eq!(of("/system.slice"), [2]);
        assert!(of("/system.slice/db.service").is_empty() && of("/").is_empty());
    }

    #[test]
    fn containers_and_pods_are_found_by_id_and_by_name() {
        let root = tempfile::tempdir().unwrap();
        let id = |digit: char| String::from(digit).repeat(64);
        let docker = format!("/system.slice/docker-{}.scope", id('a'));
        let pod = "/kubepods.slice/kubepods-pod2e1b9c2e_8f5c_4a51_b1d5_6f8f3e0c7a11.slice";
        let in_pod = format!("{pod}/crio-{}.scope", id('c'));
        let named = root.path().join(format!("var/lib/docker/containers/{}", id('a')));
        fs::create_dir_all(&named).unwrap();
        fs::write(named.join("config.v2.json"), "{\"Name\":\"/web-1\"}").unwrap();
        let of = |name: &str, path: &str| !fitted(&[Rule::Container(name.into())], root.path(), path).is_empty();
        assert!(of("web-1", &docker) && of("web-*", &docker) && of(&id('a')[..12], &docker));
        assert!(of(&id('c'), &in_pod) && of("2e1b9c2e-8f5c-4a51-b1d5-6f8f3e0c7a11", pod));
        assert!(!of("aaaa", &docker) && !of("web", &docker) && !of("web-1", &in_pod));
        // What is below a container is not another.
        assert!(!of("web-1", &format!("{docker}/init.scope")));
    }

    #[test]
    fn a_name_that_comes_later_is_asked_for_again() {
        let root = tempfile::tempdir().unwrap();
        let id = "b".repeat(64);
        let path = format!("/system.slice/docker-{id}.scope");
        let mut rules = Rules::new(vec![Rule::Container("web".into())], root.path());
        assert!(rules.names_come_late() && rules.fitted_by(&path).is_empty());
        let named = root.path().join(format!("var/lib/docker/containers/{id}"));
        fs::create_dir_all(&named).unwrap();
        fs::write(named.join("config.v2.json"), "{\"Name\":\"/web\"}").unwrap();
        assert_eq!(rules.fitted_by(&path), [0]);
    }

    #[test]
    fn folders_are_named_whether_or_not_they_are_there() {
        let top = tempfile::tempdir().unwrap();
        let mount = top.path().join("cgroup");
        fs::create_dir_all(mount.join("a/b")).unwrap();
        std::os::unix::fs::symlink(mount.join("a"), top.path().join("link")).unwrap();
        let of = |folder: &Path| Rule::of_folder(folder, &mount).map(|rule| rule.name());
        assert_eq!(of(&mount.join("a/b")).as_deref(), Some("/a/b"));
        assert_eq!(of(&mount.join("a/gone/x-*")).as_deref(), Some("/a/gone/x-*"));
        assert_eq!(of(&top.path().join("link/b")).as_deref(), Some("/a/b"));
        assert_eq!(of(&mount).as_deref(), Some("/"));
        assert_eq!(of(top.path()), None);
    }
}
