//! Comments in which ptcpdump and rustnet name the process of a packet, in the form that each
//! writes and in no other: people write comments too.

use super::process_block::{last_part, name};

/// What a comment says of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcessComment {
    /// Its number, never 0.
    pub pid: u32,
    /// Its name; empty where the comment has none.
    pub name: String,
    /// Which end of the connection is its.
    pub whose: Whose,
    /// The writer found it by both ends of the connection, and not by less.
    pub exact: bool,
}

/// How a writer chooses the process that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The sender's where that has a socket on the machine, else the receiver's (ptcpdump).
    Packet,
    /// That of one end, with all packets of a connection alike (rustnet): the end that opened it,
    /// or the other, where the comment says which.
    Connection(Option<Opened>),
}

/// Who opened a connection, as the host sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// The host itself.
    Here,
    /// Its peer.
    There,
}

impl ProcessComment {
    /// Reads a comment; `None` where it is not of these.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let comment = of_ptcpdump(text).or_else(|| of_rustnet(text))?;
        (comment.pid != 0).then_some(comment)
    }
}

/// Whether a comment is that in which ptcpdump names the container or the pod of a process. Its
/// packets pass interfaces that see them come in where the process sent them.
pub(super) fn is_of_container(text: &str) -> bool {
    let begins = |a, b| text.starts_with(a) && text.lines().nth(1).is_some_and(|line| line.starts_with(b));
    begins("ContainerName: ", "ContainerId: ") || begins("PodName: ", "PodNamespace: ")
}

/// Three lines: number, command (`Command` before 0.18), and arguments, which may have lines of
/// their own.
fn of_ptcpdump(text: &str) -> Option<ProcessComment> {
    let (pid, rest) = text.strip_prefix("PID: ")?.split_once('\n')?;
    let rest = rest.strip_prefix("Cmd: ").or_else(|| rest.strip_prefix("Command: "))?;
    let (command, rest) = rest.split_once('\n')?;
    let arguments = rest.strip_prefix("Args:").filter(|rest| rest.is_empty() || rest.starts_with(' '))?;
    // A program that was run from an open file has the name that it was called by.
    let program = match command.strip_prefix("/dev/fd/") {
        Some(_) => arguments.split_whitespace().next().unwrap_or(command),
        None => command,
    };
    let name = name(last_part(program.as_bytes()));
    Some(ProcessComment { pid: number(pid)?, name, whose: Whose::Packet, exact: true })
}

/// The word `rustnet`, and then words of the form `key=value`, of which each key comes once.
fn of_rustnet(text: &str) -> Option<ProcessComment> {
    let words = text.strip_prefix("rustnet ")?;
    let (mut process, mut pid, mut direction, mut quality) = (None, None, None, None);
    for word in words.split(' ') {
        let (key, value) = word.split_once('=')?;
        if key.is_empty() || !key.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_')) {
            return None;
        }
        let known = match key {
            "process" => &mut process,
            "pid" => &mut pid,
            "direction" => &mut direction,
            "attr" => &mut quality,
            _ => continue,
        };
        if known.replace(value).is_some() {
            return None;
        }
    }
    let opened = match direction {
        Some("outgoing") => Some(Opened::Here),
        Some("incoming") => Some(Opened::There),
        Some(_) => return None,
        None => None,
    };
    Some(ProcessComment {
        pid: number(pid?)?,
        name: name(process.unwrap_or_default().as_bytes()),
        whose: Whose::Connection(opened),
        exact: matches!(quality, Some("exact-tuple" | "procfs-exact")),
    })
}

/// A number in digits alone.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(u32, String)> {
        ProcessComment::parse(text).map(|comment| (comment.pid, comment.name))
    }

    #[test]
    fn both_forms_of_ptcpdump() {
        let named = |pid, name: &str| Some((pid, name.to_owned()));
        assert_eq!(read("PID: 1234\nCmd: /usr/bin/curl\nArgs: curl http://1.1.1.1"), named(1234, "curl"));
        assert_eq!(read("PID: 1234\nCommand: /usr/bin/curl\nArgs: curl -k"), named(1234, "curl"));
        assert_eq!(read("PID: 7\nCmd: /opt/Größe \"x\" y\nArgs: sh -c a\nPID: 9\nb"), named(7, "Größe \"x\" y"));
        assert_eq!(read("PID: 7\nCmd: /usr/bin/very-lo...\nArgs: "), named(7, "very-lo..."));
        assert_eq!(read("PID: 7\nCmd: /dev/fd/5\nArgs: /usr/sbin/dropbear -F"), named(7, "dropbear"));
        assert_eq!(read("PID: 7\nCmd: /dev/fd/5\nArgs: "), named(7, "5"));
        assert_eq!(read("PID: 7\nCmd: \nArgs:"), named(7, ""));
        assert!(is_of_container("ContainerName: web\nContainerId: ab\nContainerImage: i\nContainerLabels: {}"));
        assert!(is_of_container("PodName: web\nPodNamespace: default\nPodUID: 1"));
    }

    #[test]
    fn the_form_of_rustnet() {
        let text = "rustnet process=Web_Content pid=42 ppid=1 uid=1000 attr=exact-tuple direction=outgoing app=HTTPS_(a=b) sni=example.com";
        let comment = ProcessComment::parse(text).unwrap();
        let whose = Whose::Connection(Some(Opened::Here));
        assert_eq!(comment, ProcessComment { pid: 42, name: "Web_Content".into(), whose, exact: true });
        let comment = ProcessComment::parse("rustnet process=ü\"x\" pid=9 attr=procfs-relaxed pod=a ns=b").unwrap();
        assert_eq!((comment.name.as_str(), comment.whose, comment.exact), ("ü\"x\"", Whose::Connection(None), false));
        assert_eq!(read("rustnet pid=9"), Some((9, String::new())));
    }

    #[test]
    fn what_people_and_other_programs_write_is_none_of_them() {
        for text in [
            "",
            "rustnet",
            "rustnet ",
            "rustnet direction=outgoing app=DNS",
            "rustnet process=curl",
            "rustnet pid=9 looks odd",
            "rustnet pid=9  uid=1",
            "rustnet pid=9 pid=8",
            "rustnet pid=+9",
            "rustnet pid=0",
            "rustnet pid=4294967296",
            "rustnet pid=9 direction=sideways",
            "rustnet pid=9 Why=because",
            "process=curl pid=9",
            "see rustnet pid=9",
            "PID: 9",
            "PID: 9\nCmd: curl",
            "PID: 9\nArgs: curl\nCmd: curl",
            "PID: 0\nCmd: \nArgs: ",
            "PID: -9\nCmd: a\nArgs: a",
            "PID: \nCmd: a\nArgs: a",
            "PID: 9 \nCmd: a\nArgs: a",
            "PID: 9\nCmd: a\nArgsOf: a",
            " PID: 9\nCmd: a\nArgs: a",
            "ParentPID: 9\nParentCmd: a\nParentArgs: a",
            "curl[9] (sent) | send 1, 50 bytes",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
        assert!(!is_of_container("ContainerName: I forgot"));
        assert!(!is_of_container("see\nContainerId: 1"));
    }
}
