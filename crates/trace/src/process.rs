//! What `/proc` says of processes: their sockets, their names, their children.

use std::fs;
use std::io;

use crate::Error;

/// The inodes of the sockets that a process holds open.
pub(crate) fn socket_inodes(pid: u32) -> Result<Vec<u64>, Error> {
    let folder = match fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(folder) => folder,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Error::NoSuchProcess { pid }),
        Err(error) => return Err(Error::System { what: "cannot list the files of a process", source: error }),
    };
    Ok(folder
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter_map(|link| socket_inode(link.to_str()?))
        .collect())
}

/// The number in `socket:[12345]`.
fn socket_inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// The name of a process as the kernel keeps it: up to 15 bytes and a zero.
pub(crate) fn comm(pid: u32) -> [u8; 16] {
    let mut comm = [0; 16];
    if let Ok(name) = fs::read(format!("/proc/{pid}/comm")) {
        for (to, from) in comm[..15].iter_mut().zip(name.into_iter().take_while(|&b| b != b'\n')) {
            *to = from;
        }
    }
    comm
}

/// All processes in `/proc`.
pub(crate) fn all() -> Vec<u32> {
    let Ok(folder) = fs::read_dir("/proc") else { return Vec::new() };
    folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A process and all its descendants, as they are at this moment.
pub(crate) fn with_descendants(pid: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = all().into_iter().filter_map(|child| Some((child, parent(child)?))).collect();
    let mut family = vec![pid];
    let mut at = 0;
    while at < family.len() {
        let of = family[at];
        family.extend(parents.iter().filter(|&&(_, parent)| parent == of).map(|&(child, _)| child));
        at += 1;
    }
    family
}

/// The parent of a process: the field after its state in `/proc/PID/stat`, where the second field may hold anything in parentheses.
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn own_sockets_are_found() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let link = fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
        let inode = socket_inode(link.to_str().unwrap()).unwrap();
        assert!(socket_inodes(std::process::id()).unwrap().contains(&inode));
        assert_eq!(socket_inode("socket:[17]"), Some(17));
        assert_eq!(socket_inode("pipe:[17]"), None);
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        assert!(matches!(socket_inodes(u32::MAX), Err(Error::NoSuchProcess { pid: u32::MAX })));
    }

    #[test]
    fn families_hold_their_head_and_their_children() {
        let mut child = std::process::Command::new("sleep").arg("10").spawn().unwrap();
        let family = with_descendants(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(family[0], std::process::id());
        assert!(family.contains(&child.id()));
    }
}
