//! Socket options, the same for every workload.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use std::{fmt, io};

use clock::{Instant, Monotonic, Nanos};
use nix::sys::socket::setsockopt;
use nix::{setsockopt_impl, sockopt_impl};
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::error::Error;
use crate::stop::Stop;
use crate::timing;

/// What a workload sets on its sockets; whatever is absent stays as the kernel has it.
///
/// TCP timestamps, window scaling and SACK are not options of a socket on Linux but sysctls of its
/// network namespace (`net.ipv4.tcp_timestamps`, `tcp_window_scaling`, `tcp_sack`); what was
/// negotiated is in each outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SocketOptions {
    /// `TCP_NODELAY`: send small segments at once (Nagle's algorithm off).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodelay: Option<bool>,
    /// `TCP_CORK`: hold partial segments until uncorked or 200 ms have gone by. Request/response
    /// workloads cork before the first write of a message and uncork after its last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cork: Option<bool>,
    /// `TCP_QUICKACK`: acknowledge at once (`true`), or delay ACKs from the start (`false`). The
    /// kernel falls back to its own judgement, so request/response workloads set it again after
    /// each message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quickack: Option<bool>,
    /// `TCP_CONGESTION`: the congestion control's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// `SO_SNDBUF` in bytes; the kernel doubles it for its own bookkeeping and stops tuning it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_buffer_bytes: Option<u32>,
    /// `SO_RCVBUF` in bytes; likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_buffer_bytes: Option<u32>,
    /// `TCP_NOTSENT_LOWAT` in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notsent_lowat_bytes: Option<u32>,
    /// DSCP, 0 to 63, in `IP_TOS` or `IPV6_TCLASS`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// `TCP_MAXSEG` in bytes, set before connecting; on the server's side the SYN has come by then
    /// and it is not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mss_bytes: Option<u16>,
}

/// What is set, as the command's options say it: `nodelay on, congestion cubic`;
/// `as the kernel has them` where nothing is.
impl fmt::Display for SocketOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let switch = |name: &str, on: Option<bool>| on.map(|on| format!("{name} {}", if on { "on" } else { "off" }));
        let number = |name: &str, value: Option<u32>| value.map(|value| format!("{name} {value}"));
        let all = [
            switch("nodelay", self.nodelay),
            switch("cork", self.cork),
            switch("quickack", self.quickack),
            self.congestion_control.as_ref().map(|name| format!("congestion {name}")),
            number("send-buffer", self.send_buffer_bytes),
            number("receive-buffer", self.receive_buffer_bytes),
            number("notsent-lowat", self.notsent_lowat_bytes),
            number("dscp", self.dscp.map(Into::into)),
            number("mss", self.mss_bytes.map(Into::into)),
        ];
        let set: Vec<String> = all.into_iter().flatten().collect();
        f.write_str(if set.is_empty() { "as the kernel has them" } else { "" })?;
        f.write_str(&set.join(", "))
    }
}

/// Sets the congestion control of a socket in place of this process.
pub type SetCongestion = dyn Fn(BorrowedFd<'_>, &str) -> io::Result<()> + Send + Sync;

static INSTEAD: OnceLock<Box<SetCongestion>> = OnceLock::new();

/// Has the congestion controls that this process may not set on a socket be set by `instead`: some
/// are only for who may administer the network (`tcp_allowed_congestion_control`). The first one
/// that is given stays.
pub fn set_congestion_by(instead: Box<SetCongestion>) {
    INSTEAD.set(instead).ok();
}

fn set(option: &'static str, value: impl ToString, result: io::Result<()>) -> Result<(), Error> {
    result.map_err(|source| Error::SocketOption { option, value: value.to_string(), source })
}

impl SocketOptions {
    /// Checks what needs no socket.
    ///
    /// # Errors
    /// [`Error::Config`] for a DSCP above 63.
    pub fn validate(&self) -> Result<(), Error> {
        match self.dscp {
            Some(dscp) if dscp > 63 => Err(Error::Config(format!("DSCP is 0 to 63, not {dscp}"))),
            _ => Ok(()),
        }
    }

    /// Sets what must be set before `connect` or `listen`: buffers decide the window scale of the
    /// SYN.
    ///
    /// # Errors
    /// [`Error::SocketOption`] with the option that the kernel refused.
    pub fn apply_before_connect(&self, socket: &Socket, peer: IpAddr) -> Result<(), Error> {
        self.apply_any(SockRef::from(socket), peer)?;
        if let Some(mss) = self.mss_bytes.filter(|_| socket.r#type().is_ok_and(|t| t == Type::STREAM)) {
            set("TCP_MAXSEG", mss, socket.set_tcp_mss(mss.into()))?;
        }
        Ok(())
    }

    /// What any socket takes, TCP or UDP, connected or not.
    fn apply_any(&self, socket: SockRef<'_>, peer: IpAddr) -> Result<(), Error> {
        if let Some(bytes) = self.send_buffer_bytes {
            set("SO_SNDBUF", bytes, socket.set_send_buffer_size(bytes as usize))?;
        }
        if let Some(bytes) = self.receive_buffer_bytes {
            set("SO_RCVBUF", bytes, socket.set_recv_buffer_size(bytes as usize))?;
        }
        if let Some(dscp) = self.dscp {
            let tos = u32::from(dscp) << 2;
            let result = if peer.is_ipv4() { socket.set_tos_v4(tos) } else { socket.set_tclass_v6(tos) };
            set("DSCP", dscp, result)?;
        }
        if socket.r#type().is_ok_and(|t| t == Type::STREAM) {
            if let Some(name) = &self.congestion_control {
                let result = match (socket.set_tcp_congestion(name.as_bytes()), INSTEAD.get()) {
                    (Err(error), Some(instead)) if error.kind() == io::ErrorKind::PermissionDenied => {
                        instead(socket.as_fd(), name)
                    }
                    (result, _) => result,
                };
                set("TCP_CONGESTION", name, result)?;
            }
            if let Some(bytes) = self.notsent_lowat_bytes {
                set("TCP_NOTSENT_LOWAT", bytes, socket.set_tcp_notsent_lowat(bytes))?;
            }
            if let Some(on) = self.nodelay {
                set("TCP_NODELAY", on, socket.set_tcp_nodelay(on))?;
            }
        }
        Ok(())
    }

    /// Sets everything on a connected or accepted socket.
    ///
    /// # Errors
    /// [`Error::SocketOption`] with the option that the kernel refused.
    pub fn apply_connected(&self, socket: &impl AsFd, peer: IpAddr) -> Result<(), Error> {
        let socket = SockRef::from(socket);
        if let Some(on) = self.quickack.filter(|_| socket.r#type().is_ok_and(|t| t == Type::STREAM)) {
            set("TCP_QUICKACK", on, socket.set_tcp_quickack(on))?;
        }
        self.apply_any(socket, peer)
    }
}

/// A TCP socket to `peer` with the options set before its SYN left, connected within `timeout`.
///
/// # Errors
/// [`Error::Connect`], [`Error::SocketOption`].
pub(crate) fn connect(
    peer: SocketAddr,
    options: &SocketOptions,
    local: Option<IpAddr>,
    patience: Nanos,
    stop: &Stop,
) -> Result<Socket, Error> {
    connect_with(peer, options, |_| Ok(()), local, (patience, stop))
}

/// The same, of a socket whose SYN leaves with the first write (`TCP_FASTOPEN_CONNECT`).
///
/// # Errors
/// As [`connect`].
pub(crate) fn connect_by_writing(
    peer: SocketAddr,
    options: &SocketOptions,
    patience: Nanos,
    stop: &Stop,
) -> Result<Socket, Error> {
    let opens = |socket: &Socket| setsockopt(socket, FastOpenConnect, &1).map_err(io::Error::from);
    connect_with(peer, options, |socket| set("TCP_FASTOPEN_CONNECT", 1, opens(socket)), None, (patience, stop))
}

fn connect_with(
    peer: SocketAddr,
    options: &SocketOptions,
    prepare: impl FnOnce(&Socket) -> Result<(), Error>,
    local: Option<IpAddr>,
    (patience, stop): (Nanos, &Stop),
) -> Result<Socket, Error> {
    let failed = |source| Error::Connect { peer, source };
    let socket =
        Socket::new(Domain::for_address(peer), Type::STREAM, Some(Protocol::TCP)).map_err(Error::io("TCP socket"))?;
    options.apply_before_connect(&socket, peer.ip())?;
    prepare(&socket)?;
    if let Some(local) = local {
        socket
            .bind(&SocketAddr::new(local, 0).into())
            .map_err(|source| Error::Listen { address: SocketAddr::new(local, 0), source })?;
    }
    connect_before(&socket, peer, timing::now().after(patience), stop).map_err(failed)?;
    if stop.asked() {
        return Err(Error::Stopped);
    }
    options.apply_connected(&socket, peer.ip())?;
    Ok(socket)
}

/// Connects, unless the end is asked for before that.
fn connect_before(socket: &Socket, peer: SocketAddr, deadline: Instant<Monotonic>, stop: &Stop) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    match socket.connect(&peer.into()) {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        done => return done.and_then(|()| socket.set_nonblocking(false)),
    }
    while !stop.writable_before(socket, deadline)? {
        if stop.asked() {
            return Ok(());
        }
        if timing::now() >= deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "connection timed out"));
        }
    }
    socket.take_error()?.map_or_else(|| socket.set_nonblocking(false), Err)
}

/// Sets `TCP_CORK`; a socket that is going away may refuse, and its next write shows that.
pub(crate) fn cork(socket: &impl AsFd, on: bool) {
    rustix::net::sockopt::set_tcp_cork(socket, on).ok();
}

/// Sets `TCP_QUICKACK`; a socket that is going away may refuse, and its next read shows that.
pub(crate) fn quickack(socket: &impl AsFd, on: bool) {
    rustix::net::sockopt::set_tcp_quickack(socket, on).ok();
}

sockopt_impl!(
    /// The SYN waits for the first write, and takes it along.
    FastOpenConnect,
    SetOnly,
    libc::IPPROTO_TCP,
    libc::TCP_FASTOPEN_CONNECT,
    i32
);

/// `TCP_DELACK_MAX_US` of Linux 6.15, which libc does not have yet.
const TCP_DELACK_MAX_US: i32 = 46;

sockopt_impl!(
    /// The longest that an ACK is delayed, µs.
    DelayedAckMax,
    SetOnly,
    libc::IPPROTO_TCP,
    TCP_DELACK_MAX_US,
    i32
);

/// Bounds the delay of ACKs. A kernel that does not know this leaves them as they are.
pub(crate) fn delayed_ack(socket: &impl AsFd, longest: Nanos) {
    let micros = i32::try_from(longest.0 / 1_000).unwrap_or(i32::MAX);
    setsockopt(socket, DelayedAckMax, &micros).ok();
}

sockopt_impl!(
    /// The most that TCP sends, in bytes a second.
    MaxPacingRate,
    SetOnly,
    libc::SOL_SOCKET,
    libc::SO_MAX_PACING_RATE,
    u64
);

/// `SO_MAX_PACING_RATE` in bytes a second (64-bit since Linux 4.20); TCP paces itself where the
/// qdisc is not `fq`.
pub(crate) fn max_pacing_rate(socket: &impl AsFd, bytes_per_second: u64) -> Result<(), Error> {
    let result = setsockopt(socket, MaxPacingRate, &bytes_per_second).map_err(io::Error::from);
    set("SO_MAX_PACING_RATE", bytes_per_second, result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_reach_the_socket() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = listener.local_addr().unwrap();
        let options = SocketOptions {
            nodelay: Some(true),
            congestion_control: Some("reno".into()),
            send_buffer_bytes: Some(50_000),
            receive_buffer_bytes: Some(60_000),
            notsent_lowat_bytes: Some(16_384),
            dscp: Some(10),
            mss_bytes: Some(1_000),
            ..SocketOptions::default()
        };
        let s = connect(peer, &options, None, Nanos::from_secs(5), &Stop::new().unwrap()).unwrap();
        assert!(s.tcp_nodelay().unwrap());
        assert!(s.tcp_congestion().unwrap().starts_with(b"reno"));
        assert_eq!(s.send_buffer_size().unwrap(), 100_000);
        assert_eq!(s.recv_buffer_size().unwrap(), 120_000);
        assert_eq!(s.tcp_notsent_lowat().unwrap(), 16_384);
        assert_eq!(s.tos_v4().unwrap(), 40);
        let info = crate::tcp_info::TcpInfo::of(&s).unwrap();
        assert!(info.snd_mss_bytes <= 1_000, "{info:?}");
    }

    #[test]
    fn a_refused_option_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let options = SocketOptions { congestion_control: Some("nonesuch".into()), ..SocketOptions::default() };
        let (peer, stop) = (listener.local_addr().unwrap(), Stop::new().unwrap());
        let error = connect(peer, &options, None, Nanos::from_secs(5), &stop).map(|_| ()).unwrap_err();
        assert!(error.is_wrong_use());
        assert!(error.to_string().contains("TCP_CONGESTION to nonesuch"), "{error}");
        assert!(SocketOptions { dscp: Some(64), ..SocketOptions::default() }.validate().is_err());
    }
}
