//! A pseudo-terminal, the program that runs on it, and what is to be seen there.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Lines of scrollback that are kept: more than any report has.
const HISTORY: usize = 2_000;

/// A terminal and the program that runs on it.
pub struct Terminal {
    pub master: File,
    /// Kept, to read the settings by when the program has ended.
    slave: OwnedFd,
    pub child: Child,
    pub screen: vt100::Parser,
    before: libc::termios,
    pub size: (u16, u16),
}

fn some(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).unwrap()
}

fn settings(fd: &OwnedFd) -> libc::termios {
    // SAFETY: termios is plain data; all zeros is a value of it, which tcgetattr overwrites.
    let mut termios: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live termios.
    assert_eq!(unsafe { libc::tcgetattr(fd.as_raw_fd(), &raw mut termios) }, 0);
    termios
}

impl Terminal {
    /// Starts this command of `wirelapse` on a terminal of this size.
    pub fn start(rows: u16, columns: u16, args: &[&str]) -> Self {
        Self::run(rows, columns, tier::wirelapse!(args))
    }

    /// The same with what else is set of the command.
    pub fn run(rows: u16, columns: u16, mut command: Command) -> Self {
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let (mut master, mut slave) = (-1, -1);
        let none = std::ptr::null_mut();
        // SAFETY: two live integers and a live size; no name and no settings are asked for.
        let done = unsafe { libc::openpty(&raw mut master, &raw mut slave, none, none.cast(), &raw const size) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        // SAFETY: both were just opened, and nothing else owns them.
        let (master, slave) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        // SAFETY: a descriptor that is open; the flag keeps the master out of the program.
        unsafe { libc::fcntl(master.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
        // SAFETY: as above; reading does not wait.
        unsafe { libc::fcntl(master.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        let before = settings(&slave);
        let end = || slave.try_clone().unwrap();
        command.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR");
        command.stdin(end()).stdout(end()).stderr(end());
        // SAFETY: both calls are async-signal-safe; standard input is the slave by then.
        unsafe {
            command.pre_exec(|| {
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        Self {
            master,
            slave,
            child,
            screen: vt100::Parser::new(some(rows), some(columns), HISTORY),
            before,
            size: (rows, columns),
        }
    }

    /// Takes what the program wrote, and answers as a terminal where it asks for the cursor.
    pub fn turn(&mut self) {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = self.master.read(&mut buffer) {
            const WHERE: &[u8] = b"\x1b[6n";
            let mut rest = &buffer[..n];
            // A question that is cut in two by the end of the buffer is asked again after two
            // seconds: crossterm gives up.
            while let Some(at) = rest.windows(WHERE.len()).position(|w| w == WHERE) {
                self.screen.process(&rest[..at]);
                rest = &rest[at + WHERE.len()..];
                let (row, column) = self.screen.screen().cursor_position();
                write!(self.master, "\x1b[{};{}R", row + 1, column + 1).unwrap();
            }
            self.screen.process(rest);
        }
        std::thread::sleep(Duration::from_millis(5));
    }

    /// The rows of the screen.
    pub fn rows(&self) -> Vec<String> {
        self.screen.screen().rows(0, self.size.1).map(|row| row.trim_end().to_owned()).collect()
    }

    /// Waits until the screen shows a row that fits.
    #[track_caller]
    pub fn until(&mut self, what: &str, fits: impl Fn(&str) -> bool) -> String {
        self.until_shown(|terminal| terminal.rows().into_iter().find(|row| fits(row)).ok_or(format!("no {what}")))
    }

    /// Waits until the screen shows what is looked for; fails with what is missing.
    #[track_caller]
    pub fn until_shown<T>(&mut self, look: impl Fn(&Self) -> Result<T, String>) -> T {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            // What a program wrote before it ended is there to be read by then.
            let over = Instant::now() > end || self.child.try_wait().unwrap().is_some();
            self.turn();
            match look(self) {
                Ok(found) => return found,
                Err(missing) => assert!(!over, "{missing} on\n{}", self.rows().join("\n")),
            }
        }
    }

    /// Gives the terminal another size.
    pub fn resize(&mut self, rows: u16, columns: u16) {
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: a live size; the kernel tells the program on the terminal.
        let done = unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        assert_eq!(done, 0);
        self.screen.screen_mut().set_size(some(rows), some(columns));
        self.size = (rows, columns);
    }

    /// Presses Ctrl-C and takes everything up to the end.
    pub fn interrupt(&mut self) -> ExitStatus {
        let end = Instant::now() + Duration::from_secs(30);
        // While the program asks where the cursor is, a key is a key and no signal.
        let mut press = Instant::now();
        loop {
            if Instant::now() >= press {
                self.master.write_all(b"\x03").unwrap();
                press = Instant::now() + Duration::from_secs(8);
            }
            self.turn();
            if let Some(status) = self.child.try_wait().unwrap() {
                self.turn();
                return status;
            }
            assert!(Instant::now() < end, "it does not end on Ctrl-C:\n{}", self.rows().join("\n"));
        }
    }

    /// All that can be seen by scrolling back.
    pub fn scrollback(&mut self) -> String {
        let mut lines = Vec::new();
        self.screen.screen_mut().set_scrollback(HISTORY);
        let most = self.screen.screen().scrollback();
        for back in (1..=most).rev() {
            self.screen.screen_mut().set_scrollback(back);
            lines.push(self.rows().swap_remove(0));
        }
        self.screen.screen_mut().set_scrollback(0);
        lines.extend(self.rows());
        lines.join("\n")
    }

    /// The settings, the cursor and the screen are as at the start.
    pub fn assert_restored(&self) {
        let after = settings(&self.slave);
        let flags = |t: &libc::termios| (t.c_iflag, t.c_oflag, t.c_cflag, t.c_lflag, t.c_cc);
        assert_eq!(flags(&after), flags(&self.before));
        let screen = self.screen.screen();
        assert!(!screen.hide_cursor() && !screen.alternate_screen() && !screen.bracketed_paste());
        assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
        assert_eq!(screen.fgcolor(), vt100::Color::Default);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has ended already where the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
