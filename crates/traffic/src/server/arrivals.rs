//! Who connects, until it has said what it wants: one thread for all of them, however slowly they
//! speak.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clock::{Instant, Monotonic, Nanos};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use socket2::Socket;

use super::accounts::{Event, Shared, Taken};
use super::listening::{SLICE, canonical};
use super::lock::lock;
use super::waiting::Waits;
use super::{http, iperf3, workload};
use crate::channel::Channel;
use crate::control::{LIMIT, Request};
use crate::error::WireError;
use crate::wire::{Cookie, OPENING_BYTES, Opening, parse_length};
use crate::{timing, tls};

/// The first byte of a TLS handshake (RFC 8446, section 5.1). No opening begins with it.
const TLS_HANDSHAKE: u8 = 22;
/// More than the first message of TLS takes.
const LONGEST_HELLO: usize = 32 << 10;
const LISTENER: Token = Token(0);
/// How many are accepted before those that are there are heard again.
const AT_A_TIME: usize = 64;
/// How long one may take until it can be told that there is no place.
const DECLINED_MS: u64 = 2_000;
/// What an iperf3 client takes for "busy" (`ACCESS_DENIED`), and ours too.
const BUSY: u8 = 0xff;

/// One that has not said it all yet.
struct Arrival {
    control: Channel,
    peer: SocketAddr,
    /// iperf3 distinguishes flows by the order in which they were accepted.
    order: u64,
    deadline: Instant<Monotonic>,
    place: Place,
    bytes: Vec<u8>,
}

/// Whether it can be served.
enum Place {
    Has(Taken, Arc<Waits>),
    /// It hears within TLS that all places are taken.
    Declined(Taken),
}

/// What came.
pub(crate) enum Wanted {
    Iperf3(Cookie),
    /// HTTP/2, of which nothing is answered yet.
    Http,
    Own(Box<Request>),
}

/// Why one is not served.
enum Gone {
    Silent,
    Garbage(WireError),
}

/// Accepts until the server stops, and starts a thread for each that has said what it wants.
pub(super) fn accept_loop(shared: &Arc<Shared>, listener: &Socket) -> io::Result<()> {
    let mut poll = Poll::new()?;
    listener.set_nonblocking(true)?;
    poll.registry().register(&mut SourceFd(&listener.as_raw_fd()), LISTENER, Interest::READABLE)?;
    let mut events = Events::with_capacity(256);
    let mut arrivals: HashMap<Token, Arrival> = HashMap::new();
    let mut accepted = 0u64;
    let mut next_check = timing::now();
    let mut more_wait = false;
    while !shared.stopping() {
        match poll.poll(&mut events, Some(if more_wait { Duration::ZERO } else { SLICE })) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        let mut ready: Vec<Token> = events.iter().map(mio::event::Event::token).collect();
        // Also without an event: where descriptors had run out, none comes for those that wait.
        more_wait = true;
        for _ in 0..AT_A_TIME {
            let Some((socket, peer)) = accept(listener) else {
                more_wait = false;
                break;
            };
            accepted += 1;
            let token = Token(accepted as usize);
            let Some(arrival) = Arrival::new(shared, socket, peer, accepted) else { continue };
            let descriptor = arrival.control.stream().as_raw_fd();
            if poll.registry().register(&mut SourceFd(&descriptor), token, Interest::READABLE).is_ok() {
                arrivals.insert(token, arrival);
                ready.push(token);
            }
        }
        for token in ready {
            let Some(arrival) = arrivals.get_mut(&token) else { continue };
            let Some(said) = arrival.listen(shared) else { continue };
            let Some(arrival) = arrivals.remove(&token) else { continue };
            poll.registry().deregister(&mut SourceFd(&arrival.control.stream().as_raw_fd())).ok();
            arrival.leave(shared, said);
        }
        let now = timing::now();
        if now >= next_check {
            next_check = now.after(SLICE.into());
            shared.sessions.check(false, now);
            arrivals.retain(|_, arrival| {
                let in_time = now < arrival.deadline;
                if !in_time {
                    shared.count(|c| &c.silent);
                }
                in_time
            });
        }
    }
    Ok(())
}

/// The next connection that waits, if one does.
fn accept(listener: &Socket) -> Option<(TcpStream, SocketAddr)> {
    loop {
        match listener.accept() {
            Ok((socket, peer)) => match peer.as_socket() {
                Some(peer) => return Some((socket.into(), canonical(peer))),
                None => continue,
            },
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // None waits, descriptors have run out, or the peer gave up: the loop comes back.
            Err(_) => return None,
        }
    }
}

impl Arrival {
    /// Turned away where there is no place for it.
    fn new(shared: &Arc<Shared>, stream: TcpStream, peer: SocketAddr, order: u64) -> Option<Self> {
        stream.set_nonblocking(true).ok()?;
        let control = Channel::plain(stream);
        let handshake = shared.config.limits.handshake_ms;
        let (place, patience) = match shared.take_connection() {
            Some(taken) => {
                let waits = shared.wait_from(peer.ip(), control.stream().clone());
                (Place::Has(taken, Arc::new(waits)), handshake)
            }
            None => {
                shared.count(|c| &c.turned_away);
                // Who asks within TLS understands an answer within TLS alone.
                let declined = shared.config.tls.as_ref().and_then(|_| shared.take_declined());
                let Some(taken) = declined else {
                    control.write_all(&[BUSY]).ok();
                    return None;
                };
                (Place::Declined(taken), handshake.min(DECLINED_MS))
            }
        };
        let deadline = timing::now().after(Nanos::from_millis(patience));
        Some(Self { control, peer, order, deadline, place, bytes: Vec::new() })
    }

    /// Reads what is there; `None` where more has to come.
    fn listen(&mut self, shared: &Shared) -> Option<Result<Wanted, Gone>> {
        loop {
            match self.understand(shared) {
                Ok(Understood::Wanted(wanted)) => return Some(Ok(wanted)),
                Ok(Understood::Needs(bytes)) => {
                    let have = self.bytes.len();
                    self.bytes.resize(bytes, 0);
                    let read = self.control.read(&mut self.bytes[have..]);
                    self.bytes.truncate(have + read.as_ref().map_or(0, |n| *n));
                    match read {
                        Ok(0) => return Some(Err(Gone::Silent)),
                        Ok(_) => {}
                        Err(error) => match error.kind() {
                            ErrorKind::WouldBlock => return None,
                            ErrorKind::Interrupted => {}
                            ErrorKind::InvalidData => {
                                return Some(Err(Gone::Garbage(WireError::Handshake { why: error.to_string() })));
                            }
                            _ => return Some(Err(Gone::Silent)),
                        },
                    }
                }
                Err(error) => return Some(Err(Gone::Garbage(error))),
            }
        }
    }

    /// What the bytes so far say; a TLS handshake begins a session first.
    fn understand(&mut self, shared: &Shared) -> Result<Understood, WireError> {
        if let Some(identity) = &shared.config.tls
            && !self.control.is_private()
            && self.bytes.first() == Some(&TLS_HANDSHAKE)
        {
            match tls::asks_for_http(&self.bytes).map_err(|why| WireError::Handshake { why })? {
                None if self.bytes.len() < LONGEST_HELLO => return Ok(Understood::Needs(self.bytes.len() + 1024)),
                None => return Err(WireError::Handshake { why: "its first message does not end".into() }),
                Some(true) => return Ok(Understood::Wanted(Wanted::Http)),
                Some(false) => {}
            }
            let early = std::mem::take(&mut self.bytes);
            self.control
                .accept_tls(identity.control.clone(), early)
                .map_err(|e| WireError::Handshake { why: e.to_string() })?;
        }
        understood(&self.bytes)
    }

    /// Gives it to a thread, which serves it.
    fn leave(self, shared: &Arc<Shared>, said: Result<Wanted, Gone>) {
        let Self { control, peer, order, place, bytes, .. } = self;
        let wanted = match said {
            Ok(wanted) => Ok(wanted),
            Err(Gone::Silent) => return shared.count(|c| &c.silent),
            Err(Gone::Garbage(why)) => {
                shared.count(|c| &c.garbage);
                shared.tell(Event::Garbage { peer, why: why.clone() });
                // Only who speaks this protocol understands a refusal.
                if !bytes.starts_with(&crate::wire::OWN_OPENING) {
                    return;
                }
                Err(why)
            }
        };
        if control.stream().set_nonblocking(false).is_err() {
            return shared.count(|c| &c.silent);
        }
        // A flow of a test that waits for it takes no thread.
        if let Ok(Wanted::Iperf3(cookie)) = &wanted
            && !control.is_private()
            && shared.hand_over(cookie, order, control.stream())
        {
            return;
        }
        if matches!(place, Place::Declined(_)) && !matches!(wanted, Ok(Wanted::Http)) {
            control.write_all(&[BUSY]).ok();
            return control.end_writing();
        }
        // Held beside the thread: where none can be made, the client hears of it.
        let held = Arc::new(Mutex::new(Some((control, bytes, place))));
        let (on_thread, handed) = (shared.clone(), held.clone());
        let spawned = std::thread::Builder::new().name("serve-connection".into()).spawn(move || {
            let Some((control, bytes, place)) = lock(&handed).take() else { return };
            let (waits, _taken) = match place {
                Place::Has(taken, waits) => (Some(waits), taken),
                Place::Declined(taken) => (None, taken),
            };
            match (wanted, waits) {
                (Ok(Wanted::Http), waits) => {
                    if let Some(identity) = &on_thread.config.tls {
                        http::serve(&on_thread, identity, &control, bytes, peer, waits);
                    }
                }
                (Ok(Wanted::Own(request)), Some(waits)) => workload::serve(&on_thread, control, peer, *request, waits),
                (Ok(Wanted::Iperf3(cookie)), Some(waits)) => {
                    iperf3::serve(&on_thread, &control, peer, cookie, waits);
                }
                (Err(why), _) => workload::refuse_unread(&on_thread, &control, peer, &why),
                (Ok(_), None) => {}
            }
        });
        if spawned.is_err() {
            shared.count(|c| &c.turned_away);
            if let Some((control, ..)) = lock(&held).take() {
                control.write_all(&[BUSY]).ok();
            }
        }
    }
}

/// What bytes say so far.
pub(crate) enum Understood {
    Wanted(Wanted),
    Needs(usize),
}

/// What the bytes that came so far say, or how many they have to be before more can be said.
pub(crate) fn understood(bytes: &[u8]) -> Result<Understood, WireError> {
    let Some((opening, rest)) = bytes.split_at_checked(OPENING_BYTES) else {
        return Ok(Understood::Needs(OPENING_BYTES));
    };
    match Opening::parse(opening)? {
        Opening::Iperf3(cookie) => Ok(Understood::Wanted(Wanted::Iperf3(cookie))),
        Opening::Own => {
            let what = "a workload's request";
            let Some((length, text)) = rest.split_first_chunk::<4>() else {
                return Ok(Understood::Needs(OPENING_BYTES + 4));
            };
            let length = parse_length(*length, LIMIT, what)?;
            if text.len() < length {
                // Memory grows with what arrives, not with what was announced.
                let all = OPENING_BYTES + 4 + length;
                return Ok(Understood::Needs(all.min(bytes.len() + 4096)));
            }
            let request =
                serde_json::from_slice(text).map_err(|e| WireError::Malformed { what, why: e.to_string() })?;
            Ok(Understood::Wanted(Wanted::Own(request)))
        }
    }
}
