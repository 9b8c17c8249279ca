//! The table that `trace` draws on a terminal while it goes on: under a pseudo-terminal of several sizes, resized, interrupted.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::num::NonZeroU16;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use tier::Need;

/// Lines of scrollback that are kept: more than any report has.
const HISTORY: usize = 2_000;

/// A terminal and the program that runs on it.
struct Terminal {
    master: File,
    /// Kept, to read the settings by when the program has ended.
    slave: OwnedFd,
    child: Child,
    screen: vt100::Parser,
    before: libc::termios,
    size: (u16, u16),
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
    fn start(rows: u16, columns: u16, args: &[&str]) -> Self {
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
        let mut command = Command::new(env!("CARGO_BIN_EXE_wirelapse"));
        command.arg("trace").args(args).env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR");
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
    fn turn(&mut self) {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = self.master.read(&mut buffer) {
            const WHERE: &[u8] = b"\x1b[6n";
            let mut rest = &buffer[..n];
            // A question that is cut in two by the end of the buffer is asked again after two seconds: crossterm gives up.
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

    fn rows(&self) -> Vec<String> {
        self.screen.screen().rows(0, self.size.1).map(|row| row.trim_end().to_owned()).collect()
    }

    /// Waits until the screen shows a row that fits.
    #[track_caller]
    fn until(&mut self, what: &str, fits: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            self.turn();
            if let Some(row) = self.rows().into_iter().find(|row| fits(row)) {
                return row;
            }
            let over = Instant::now() > end || self.child.try_wait().unwrap().is_some();
            assert!(!over, "no {what} on\n{}", self.rows().join("\n"));
        }
    }

    fn resize(&mut self, rows: u16, columns: u16) {
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: a live size; the kernel tells the program on the terminal.
        let done = unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        assert_eq!(done, 0);
        self.screen.screen_mut().set_size(some(rows), some(columns));
        self.size = (rows, columns);
    }

    /// Presses Ctrl-C and takes everything up to the end.
    fn interrupt(&mut self) -> ExitStatus {
        let end = Instant::now() + Duration::from_secs(30);
        // While the program asks where the cursor is, a key is a key and no signal.
        let mut press = Instant::now();
        loop {
            if Instant::now() >= press {
                self.master.write_all(b"\x03").unwrap();
                press = Instant::now() + Duration::from_secs(2);
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
    fn scrollback(&mut self) -> String {
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
    fn assert_restored(&self) {
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

/// Sends so many messages, each in a packet of its own.
fn say(client: &mut TcpStream, server: &mut TcpStream, times: usize) {
    for _ in 0..times {
        client.write_all(&[7; 50]).unwrap();
        server.read_exact(&mut [0; 50]).unwrap();
    }
}

/// Whether the row is the second of a headline, with this many sends and their bytes.
fn tells(sends: usize) -> impl Fn(&str) -> bool {
    let begins = format!("{sends} sends · {:.2} KiB · ", (sends * 50) as f64 / 1024.0);
    move |row| row.trim_start().starts_with(&begins)
}

/// The table on a terminal of one size and then of another, and the report after Ctrl-C.
fn watched(first: (u16, u16), second: (u16, u16)) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.set_nodelay(true).unwrap();
    let mut terminal = Terminal::start(first.0, first.1, &["--port", &port]);
    terminal.until("table", |row| row.starts_with("wirelapse trace · "));
    terminal.until("connections", |row| row.contains("2 connections"));
    say(&mut client, &mut server, 40);
    terminal.until("forty sends", tells(40));
    check_table(&terminal);

    terminal.resize(second.0, second.1);
    say(&mut client, &mut server, 60);
    terminal.until("a hundred sends", tells(100));
    check_table(&terminal);

    let status = terminal.interrupt();
    assert!(status.success(), "{status}");
    terminal.assert_restored();
    let all = terminal.scrollback();
    // The report has what the table showed last; nothing of the table is left.
    assert!(all.contains("100 sends"), "{all}");
    // Where the table fills the terminal, the echo of Ctrl-C and a terminal that shrinks scroll rows of it out of anyone's reach.
    let headlines = all.matches("wirelapse trace · ").count();
    assert!(headlines == 0 || first.0.min(second.0) < 20, "the table is still there:\n{all}");
    let report = all.rfind("What was not seen").expect("a report");
    assert!(all[report..].contains("Memory: at most "), "{all}");
    let below = &all[all.find("Memory: at most ").unwrap()..];
    assert!(!below.contains("wirelapse trace · ") && !below.contains(" sends · "), "{all}");
}

/// One table, whole: its headline once and the legs under it, in their order.
fn check_table(terminal: &Terminal) {
    let rows = terminal.rows();
    let shown = rows.join("\n");
    let at = |begins: &str| rows.iter().rposition(|row| row.trim_start().starts_with(begins));
    let headline = at("wirelapse trace · ").unwrap_or_else(|| panic!("no headline on\n{shown}"));
    if usize::from(terminal.size.0) < headline + 9 {
        return;
    }
    let legs: Vec<usize> =
        ["leg", "tcp", "qdisc", "nic", "network", "total"].into_iter().map(|leg| at(leg).expect(&shown)).collect();
    assert!(legs.is_sorted() && legs[0] > headline && legs[5] - legs[0] <= 6, "{legs:?}\n{shown}");
    // Of a hundred sends with all their stamps the sum of each leg is over as many.
    let cells = |row: usize| rows[row].split_whitespace().nth(1).map(str::to_owned);
    let n = cells(legs[5]).unwrap();
    assert_eq!(cells(legs[1]), Some(n), "{shown}");
}

#[test]
fn the_table_follows_the_terminals_size_and_gives_way_to_the_report() {
    tier::needs!(Need::Root, Need::Path("/sys/kernel/btf/vmlinux"));
    for (first, second) in [((40, 100), (30, 140)), ((50, 160), (24, 80)), ((24, 80), (50, 132))] {
        watched(first, second);
    }
}

#[test]
fn a_terminal_too_small_for_the_table_shows_its_beginning() {
    tier::needs!(Need::Root, Need::Path("/sys/kernel/btf/vmlinux"));
    watched((10, 60), (8, 72));
}
