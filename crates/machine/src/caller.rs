//! Who called: behind `sudo`, the user who did.

use std::ffi::CString;
use std::io;
use std::path::PathBuf;

use nix::unistd::{Uid, User, getgrouplist};

/// The user for whom root runs this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Login name.
    pub name: String,
    /// User.
    pub uid: u32,
    /// First group.
    pub gid: u32,
    /// All groups.
    pub groups: Vec<u32>,
    /// Home directory.
    pub home: PathBuf,
}

impl Caller {
    /// The user who called `sudo`: its `SUDO_UID`. `None` where this process is not root, was not
    /// called by `sudo`, or root called it.
    ///
    /// # Errors
    /// The user of that number is not known to this system, or its groups are not.
    pub fn of_sudo() -> io::Result<Option<Self>> {
        let Some(uid) = std::env::var("SUDO_UID").ok().and_then(|text| text.parse().ok()) else { return Ok(None) };
        if uid == 0 || !Uid::effective().is_root() {
            return Ok(None);
        }
        let unknown = || io::Error::other(format!("SUDO_UID names user {uid}, who is not known here"));
        let user = User::from_uid(Uid::from_raw(uid))?.ok_or_else(unknown)?;
        let name = CString::new(user.name.clone()).map_err(io::Error::other)?;
        let groups = getgrouplist(&name, user.gid)?;
        Ok(Some(Self {
            name: user.name,
            uid,
            gid: user.gid.as_raw(),
            groups: groups.into_iter().map(nix::unistd::Gid::as_raw).collect(),
            home: user.dir,
        }))
    }
}
