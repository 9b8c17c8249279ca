//! What memory the machine, or the control group that this process is in, has left, how many
//! connections a trace may follow by that, and what of the kernel's it takes then.

use std::fs;
use std::path::Path;

use trace::Memory;

/// The most kernel memory that followed connections are given by default.
const MOST: u64 = 64 << 20;
/// The share of what is left that they are given where that is less.
const SHARE: u64 = 16;
/// Kernel memory of which is said so before any is taken: what a trace takes by default is less,
/// unless it records series or packets too.
const MUCH: u64 = 128 << 20;
/// What a connection of a server is taken to need, with its thread.
const CONNECTION: u64 = 512 << 10;
/// The connections that a server allows at least.
const FEWEST_SERVED: u32 = 16;
/// The least connections that a trace follows by default, however little is left.
const LEAST: u32 = 1024;

/// What is left, bytes; `None` where the system does not say.
pub fn left() -> Option<u64> {
    [available(), group_left()].into_iter().flatten().min()
}

/// What leaves no more: the machine, or the limit of a control group.
fn whose() -> &'static str {
    let machine = available();
    let by_group = group_left().is_some_and(|group| machine.is_none_or(|machine| group < machine));
    if by_group { "that the memory limit of this control group (cgroup) leaves" } else { "that are left here" }
}

/// How many connections a trace follows where the user does not say: as many as fit into a share of
/// the memory that is left.
pub fn connections(config: &trace::Config) -> u32 {
    fitting(config, left())
}

/// What a trace takes of the kernel's memory, in words.
pub fn in_words(memory: Memory, connections: u32) -> String {
    format!(
        "{} in the kernel from the start, {} when {} followed, {} at most",
        quantity::bytes(memory.at_once),
        quantity::bytes(memory.at_once + memory.connections),
        match connections {
            1 => "1 connection is".into(),
            many => format!("{} connections are", quantity::count(many.into())),
        },
        quantity::bytes(memory.most())
    )
}

/// What a server allows its clients where the user does not say: the limits of every machine, or
/// fewer where a quarter of the memory that is left has no room for so many connections, and
/// another quarter none for so much of messages.
pub fn of_server() -> traffic::Limits {
    serving(left())
}

fn serving(left: Option<u64>) -> traffic::Limits {
    let all = traffic::Limits::default();
    let quarter = left.map_or(u64::MAX, |left| left / 4);
    let connections = u32::try_from(quarter / CONNECTION).unwrap_or(u32::MAX).max(FEWEST_SERVED);
    traffic::Limits {
        connections: all.connections.min(connections),
        sessions: all.sessions.min(connections),
        threads: all.threads.min(connections),
        memory_bytes: all.memory_bytes.min(quarter),
        ..all
    }
}

/// Gives this process pages of the usual size alone. Its allocator has room of its own for each
/// thread, which would take a large page each for the little that a connection needs.
pub fn small_pages() {
    // SAFETY: this call takes numbers and no pointers. A kernel without it (before 3.15) has it
    // cost memory, no more.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
}

/// What is said before that memory is taken; `None` where it is not much.
pub fn beforehand(memory: Memory, connections: u32) -> Option<String> {
    announced(memory, connections, left(), whose())
}

fn announced(memory: Memory, connections: u32, left: Option<u64>, whose: &str) -> Option<String> {
    let of = left.map_or(String::new(), |left| format!(", of {} {whose}", quantity::bytes(left)));
    (memory.most() > left.map_or(MUCH, |left| MUCH.min(left / 4)))
        .then(|| format!("Memory: {}{of}. --max-connections sets another limit.", in_words(memory, connections)))
}

fn fitting(config: &trace::Config, left: Option<u64>) -> u32 {
    config.connections_within(left.map_or(MOST, |left| (left / SHARE).min(MOST))).max(LEAST)
}

/// What the machine has left (`MemAvailable` of `/proc/meminfo`).
fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    kilobytes(&text, "MemAvailable:")
}

fn kilobytes(meminfo: &str, key: &str) -> Option<u64> {
    let line = meminfo.lines().find(|l| l.starts_with(key))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1_024)
}

/// What the control groups above this process leave it: the least of all limits, less what is in
/// use under each.
fn group_left() -> Option<u64> {
    left_in(&fs::read_to_string("/proc/self/cgroup").ok()?, &fs::read_to_string("/proc/mounts").ok()?)
}

/// The same by the groups of a process and the mounts of the system. Memory is limited in the
/// unified hierarchy or in one of its own (version 1), which hosts with both have.
fn left_in(groups: &str, mounts: &str) -> Option<u64> {
    let group = |of: &dyn Fn(&str) -> bool| {
        groups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            of(controllers).then_some(path)
        })
    };
    let mount = |kind: &str, option: &str| {
        let words = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let is = |words: &Vec<&str>| words.get(2) == Some(&kind) && words.get(3).is_some_and(|w| has(w, option));
        words.into_iter().find(is).map(|words| words[1])
    };
    let unified = group(&str::is_empty).zip(mount("cgroup2", ""));
    let own = group(&|controllers| has(controllers, "memory")).zip(mount("cgroup", "memory"));
    let unified = unified.and_then(|(group, root)| least(root, group, ["memory.max", "memory.current"]));
    let own = own.and_then(|(group, root)| least(root, group, ["memory.limit_in_bytes", "memory.usage_in_bytes"]));
    unified.into_iter().chain(own).min()
}

/// Whether a word is in a list with commas; the empty word is in every one.
fn has(list: &str, word: &str) -> bool {
    word.is_empty() || list.split(',').any(|one| one == word)
}

/// The least that the groups from this one up to the root leave.
fn least(root: &str, group: &str, [limit, used]: [&str; 2]) -> Option<u64> {
    let number = |path: &Path, name: &str| fs::read_to_string(path.join(name)).ok()?.trim().parse::<u64>().ok();
    let root = Path::new(root);
    root.join(group.trim_start_matches('/'))
        .ancestors()
        .take_while(|path| path.starts_with(root))
        .filter_map(|path| Some(number(path, limit)?.saturating_sub(number(path, used).unwrap_or(0))))
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_follows_what_a_share_of_the_memory_has_room_for() {
        let config = trace::Config::default();
        let most = fitting(&config, None);
        assert_eq!((fitting(&config, Some(u64::MAX)), fitting(&config, Some(16 * MOST))), (most, most));
        let fewer = fitting(&config, Some(4 * MOST));
        assert!(LEAST < fewer && fewer < most / 2, "{fewer} of {most}");
        assert_eq!(fitting(&config, Some(0)), LEAST);
    }

    #[test]
    fn a_server_allows_what_a_small_machine_has_room_for() {
        let all = traffic::Limits::default();
        assert_eq!(serving(None), all);
        assert_eq!(serving(Some(8 << 30)), all);
        let small = serving(Some(128 << 20));
        assert_eq!((small.connections, small.sessions, small.memory_bytes), (64, 64, 32 << 20));
        assert_eq!((serving(Some(0)).connections, serving(Some(0)).memory_bytes), (16, 0));
    }

    #[test]
    fn much_memory_is_announced() {
        let memory = |most: u64| Memory { at_once: most / 2, connections: most / 4, tables: most / 4 };
        let announced = |memory, connections, left| announced(memory, connections, left, "that are left here");
        assert_eq!(announced(memory(MUCH), 7, Some(64 << 30)), None);
        let much = announced(memory(2 * MUCH), 1_000, Some(1 << 30)).unwrap();
        assert_eq!(
            much,
            "Memory: 128 MiB in the kernel from the start, 192 MiB when 1,000 connections are followed, 256 MiB at most, of 1.00 GiB that are \
             left here. --max-connections sets another limit."
        );
        assert!(announced(memory(MUCH / 2), 1, Some(MUCH)).is_some() && announced(memory(MUCH / 2), 1, None).is_none());
    }

    #[test]
    fn a_control_group_of_either_version_limits_what_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let root = folder.path().display();
        let (unified, own) =
            (format!("cgroup2 {root}/two cgroup2 rw 0 0\n"), format!("cgroup {root}/one cgroup rw,memory 0 0\n"));
        let hybrid = format!("cgroup {root}/cpu cgroup rw,cpu 0 0\n{own}{unified}");
        let groups = "4:memory:/a/b\n2:cpu:/\n0::/a/b\n";
        assert_eq!(left_in(groups, &hybrid), None);
        at("two/a/memory.max", "512\n");
        at("two/a/memory.current", "12\n");
        at("two/a/b/memory.max", "max\n");
        assert_eq!(left_in(groups, &unified), Some(500));
        at("one/memory.limit_in_bytes", "9223372036854771712\n");
        at("one/a/b/memory.limit_in_bytes", "100\n");
        at("one/a/b/memory.usage_in_bytes", "40\n");
        assert_eq!((left_in(groups, &own), left_in(groups, &hybrid)), (Some(60), Some(60)));
    }

    #[test]
    fn memory_is_read_in_bytes() {
        let text = "MemTotal:       24000000 kB\nMemFree: 1 kB\nMemAvailable:   22000000 kB\n";
        assert_eq!(kilobytes(text, "MemAvailable:"), Some(22_000_000 * 1_024));
        assert_eq!(kilobytes("", "MemAvailable:"), None);
    }
}
