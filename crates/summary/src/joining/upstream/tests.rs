use super::super::Requests;
use super::super::threads::ENOUGH;
use super::*;
use record::{
    Arrival, Connection, Event, Lost, Opening, Owner, Receive, Request, Role, Send, SenderState, SeqNumber, Stamps,
};

const MS: u64 = 1_000_000;
const PROXY: u32 = 7;

fn at(ns: u64) -> Moment {
    Moment::from_nanos(ns)
}

fn owner(pid: u32) -> Owner {
    Owner { pid, comm: "proxy".into() }
}

/// What a trace of a program sees: events with the moment at which they are reported.
#[derive(Default)]
struct Scene {
    events: Vec<(u64, Event)>,
    opened: HashSet<u64>,
    /// That reads and writes from here on.
    thread: Option<u32>,
}

impl Scene {
    fn open(&mut self, id: u64, opening: Opening) {
        if !self.opened.insert(id) {
            return;
        }
        let here = "192.0.2.1:80".parse().unwrap();
        let local = SocketAddr::new("192.0.2.1".parse().unwrap(), 40_000 + id as u16);
        let (local, remote) = match opening {
            Opening::Accepted => (here, SocketAddr::new("192.0.2.9".parse().unwrap(), 40_000 + id as u16)),
            _ => (local, SocketAddr::new("198.51.100.2".parse().unwrap(), 9_000 + id as u16)),
        };
        self.events.push((
            0,
            Event::Connection(Connection {
                id: ConnectionId(id),
                local,
                remote,
                owner: Owner::default(),
                opening,
                since: at(0),
                congestion_control: "cubic".into(),
                accepted: None,
            }),
        ));
    }

    fn sent(&mut self, id: u64, pid: u32, when: u64, acked: u64) {
        self.events.push((
            acked,
            Event::Send(Send {
                connection: ConnectionId(id),
                first_seq: SeqNumber(when as u32),
                bytes: 10,
                owner: owner(pid),
                thread: self.thread,
                stamps: Stamps {
                    sched: Some(at(when)),
                    driver: Some(at(when)),
                    ack: Some(at(acked)),
                    ..Stamps::sent_at(at(when))
                },
                state: SenderState { srtt: Nanos(MS), ..SenderState::default() },
                ..Send::blank()
            }),
        ));
    }

    fn received(&mut self, id: u64, pid: u32, when: u64) {
        let came = Some(at(when.saturating_sub(1_000)));
        self.events.push((
            when,
            Event::Receive(Receive {
                connection: ConnectionId(id),
                reader: owner(pid),
                thread: self.thread,
                first_seq: SeqNumber(when as u32),
                bytes: 10,
                segments: 1,
                stamps: Arrival { driver_rx: came, tcp_rx: came, ready: came, read: Some(at(when)) },
                out_of_order: false,
                queued: 0,
                buffer: 0,
                buffer_used: 0,
            }),
        ));
    }

    /// A request that the proxy answers, read and answered then.
    fn served(&mut self, id: u64, read: u64, written: u64) {
        self.open(id, Opening::Accepted);
        self.received(id, PROXY, read);
        self.sent(id, PROXY, written, written + 1_000);
    }

    /// A request that a program makes.
    fn asked(&mut self, id: u64, pid: u32, written: u64, read: u64) {
        self.open(id, Opening::Connected);
        self.sent(id, pid, written, (written + MS / 5).min(read - 2_000));
        self.received(id, pid, read);
    }

    /// The requests that come of it.
    fn requests(mut self, to: &mut Requests) -> Vec<Request> {
        self.events.sort_by_key(|(reported, _)| *reported);
        let mut out = Vec::new();
        self.events.iter().for_each(|(_, event)| to.event(event, &mut |request| out.push(request)));
        to.finish(&mut |request| out.push(request));
        out.sort_by_key(|request| request.began());
        out
    }

    fn served_requests(self) -> Vec<Request> {
        let mut requests = self.requests(&mut Requests::default().joining_programs());
        requests.retain(|request| request.role == Role::Server);
        for (components, request) in requests.iter().filter_map(|request| Some((request.components?, request))) {
            assert_eq!(Some(components.sum()), request.whole(), "{request:?}");
        }
        requests
    }

    fn joins(self) -> Vec<Join> {
        self.served_requests().iter().map(|request| request.upstream.unwrap().join).collect()
    }
}

#[test]
fn what_a_program_asked_for_its_only_request_is_that_requests() {
    let mut scene = Scene::default();
    // Twice, over the same two connections; in between it asks for nobody.
    scene.served(1, 10 * MS, 62 * MS);
    scene.asked(2, PROXY, 11 * MS, 61 * MS);
    scene.asked(3, PROXY, 70 * MS, 75 * MS);
    scene.served(1, 80 * MS, 150 * MS);
    scene.asked(2, PROXY, 90 * MS, 100 * MS);
    scene.asked(3, PROXY, 110 * MS, 140 * MS);
    let requests = scene.served_requests();
    let [first, second] = &requests[..] else { panic!("{requests:?}") };
    let (upstream, components) = (first.upstream.unwrap(), first.components.unwrap());
    assert_eq!((upstream.join, upstream.requests), (Join::Joined, 1));
    assert_eq!(upstream.remote, Some("198.51.100.2:9002".parse().unwrap()));
    // Until the answer was readable, a microsecond before it was read.
    assert_eq!(components.upstream, Some(Nanos(50 * MS - 1_000)));
    assert_eq!(components.application, Nanos(2 * MS + 1_000));
    // Its ACK came after 200 us: that is the network, and the rest the program.
    assert_eq!((upstream.network, upstream.both_ends), (Some(Nanos(MS / 5)), false));
    assert_eq!(upstream.program, Some(Nanos(50 * MS - 1_000 - MS / 5)));
    let upstream = second.upstream.unwrap();
    assert_eq!((upstream.join, upstream.requests), (Join::Joined, 2));
    assert_eq!(upstream.remote, Some("198.51.100.2:9003".parse().unwrap()), "the one that took longest");
    assert_eq!(second.components.unwrap().upstream, Some(Nanos(40 * MS - 2_000)));
}

#[test]
fn of_requests_under_way_at_the_same_time_their_sum_is_no_wait() {
    let mut scene = Scene::default();
    scene.served(1, 10 * MS, 62 * MS);
    scene.asked(2, PROXY, 20 * MS, 40 * MS);
    scene.asked(3, PROXY, 30 * MS, 60 * MS);
    let [request] = &scene.served_requests()[..] else { panic!() };
    let upstream = request.upstream.unwrap();
    assert_eq!((upstream.requests, upstream.program, upstream.network), (2, None, None));
    assert_eq!(request.components.unwrap().upstream, Some(Nanos(40 * MS - 1_000)));
}

#[test]
fn nothing_is_joined_where_it_may_be_for_another() {
    // Two are open when it asks, though one of them alone lasts until the answer.
    let mut scene = Scene::default();
    scene.served(1, 10 * MS, 50 * MS);
    scene.served(2, 20 * MS, 80 * MS);
    scene.asked(3, PROXY, 30 * MS, 70 * MS);
    // One alone is open, and it is asked about it.
    scene.served(1, 100 * MS, 130 * MS);
    scene.asked(3, PROXY, 101 * MS, 120 * MS);
    assert_eq!(scene.joins(), [Join::Nothing, Join::Withheld, Join::Joined]);
    // The second comes while the program still writes its question.
    let mut scene = Scene::default();
    scene.served(1, 10 * MS, 90 * MS);
    scene.served(2, 20 * MS, 95 * MS);
    scene.asked(3, PROXY, 15 * MS, 80 * MS);
    scene.sent(3, PROXY, 25 * MS, 26 * MS);
    assert_eq!(scene.joins(), [Join::Withheld, Join::Withheld]);
}

#[test]
fn what_was_asked_before_is_not_for_it_and_what_has_no_answer_may_be() {
    let mut scene = Scene::default();
    scene.asked(3, PROXY, 5 * MS, 30 * MS);
    scene.served(1, 10 * MS, 50 * MS);
    assert_eq!(scene.joins(), [Join::Nothing]);
    let mut scene = Scene::default();
    scene.served(1, 10 * MS, 50 * MS);
    scene.open(3, Opening::Connected);
    scene.sent(3, PROXY, 20 * MS, 21 * MS);
    assert_eq!(scene.joins(), [Join::Withheld]);
}

#[test]
fn a_program_that_asks_nothing_has_nothing_to_join() {
    let mut scene = Scene::default();
    scene.served(1, 10 * MS, 50 * MS);
    // Another program does.
    scene.asked(3, PROXY + 1, 20 * MS, 30 * MS);
    assert_eq!(scene.served_requests()[0].upstream, None);
    let mut scene = Scene::default();
    scene.served(1, 10 * MS, 50 * MS);
    scene.asked(3, PROXY, 20 * MS, 30 * MS);
    let requests = scene.requests(&mut Requests::default());
    assert!(requests.iter().all(|request| request.upstream.is_none()), "not all of it is traced");
}

#[test]
fn what_was_not_seen_may_have_been_asked_for() {
    let proxied = || {
        let mut scene = Scene::default();
        scene.served(1, 10 * MS, 50 * MS);
        scene.asked(3, PROXY, 20 * MS, 30 * MS);
        scene
    };
    // An answer to a request that came before the trace.
    let mut scene = proxied();
    scene.open(2, Opening::Found);
    scene.events.retain(|(_, event)| !matches!(event, Event::Connection(c) if c.id == ConnectionId(2)));
    scene.sent(2, PROXY, 25 * MS, 26 * MS);
    assert_eq!(scene.joins(), [Join::Withheld], "on a connection that was never announced");
    // A record that found no room.
    let mut requests = Requests::default().joining_programs();
    requests.missed(&Lost { receive_ring_buffer: 1, ..Lost::default() }, at(15 * MS));
    let join = |requests: Vec<Request>| requests.iter().find_map(|r| r.upstream).unwrap().join;
    assert_eq!(join(proxied().requests(&mut requests)), Join::Withheld);
    // None since.
    let mut requests = Requests::default().joining_programs();
    requests.missed(&Lost { receive_ring_buffer: 1, ..Lost::default() }, at(5 * MS));
    requests.missed(&Lost { receive_ring_buffer: 1, ..Lost::default() }, at(15 * MS));
    assert_eq!(join(proxied().requests(&mut requests)), Join::Joined);
    // A program that is not known.
    let mut scene = proxied();
    scene.open(2, Opening::Accepted);
    scene.received(2, 0, 15 * MS);
    let joins: Vec<_> = scene.served_requests().iter().filter_map(|request| request.upstream).collect();
    assert!(joins.iter().all(|upstream| upstream.join == Join::Withheld), "{joins:?}");
}

#[test]
fn an_upstream_that_is_traced_too_has_its_own_time() {
    let mut scene = Scene::default();
    scene.served(1, 10 * MS, 62 * MS);
    scene.asked(2, PROXY, 11 * MS, 61 * MS);
    // Its own end of the same connection: it has the question at 12 ms and answers at 58.
    let ends = scene.events.iter().find_map(|(_, event)| match event {
        Event::Connection(c) if c.id == ConnectionId(2) => Some((c.local, c.remote)),
        _ => None,
    });
    let (local, remote) = ends.unwrap();
    scene.open(5, Opening::Accepted);
    for (_, event) in &mut scene.events {
        if let Event::Connection(c) = event
            && c.id == ConnectionId(5)
        {
            (c.local, c.remote) = (remote, local);
        }
    }
    let upstream = PROXY + 1;
    scene.received(5, upstream, 12 * MS);
    scene.sent(5, upstream, 58 * MS, 59 * MS);
    // The same bytes at both ends.
    for (_, event) in &mut scene.events {
        match event {
            Event::Receive(receive) if receive.connection == ConnectionId(5) => {
                receive.first_seq = SeqNumber((11 * MS) as u32);
            }
            Event::Send(send) if send.connection == ConnectionId(5) => send.first_seq = SeqNumber((61 * MS) as u32),
            _ => {}
        }
    }
    let requests = scene.served_requests();
    let proxied = requests[0].upstream.unwrap();
    assert_eq!((proxied.join, proxied.both_ends), (Join::Joined, true));
    assert_eq!(proxied.program, Some(Nanos(46 * MS + 1_000)), "from readable to its answer");
    assert_eq!(requests[1].upstream, None, "it asks nothing");
}

/// Splitmix64: the same numbers in every run.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// What was asked for each request: its connection and when it was read, with the spans.
type Truth = HashMap<(ConnectionId, u64), Vec<(u64, u64)>>;

/// A program with so many clients, each of which asks again some time after its answer. For each
/// request the program asks none, one or two others, one after the other or both at once, on
/// connections of a pool; and now and then it asks something for itself while no request is open.
fn drawn(draw: &mut Draw, clients: u64) -> (Scene, Truth) {
    let (mut scene, mut truth) = (Scene::default(), Truth::default());
    let mut spans = Vec::new();
    for client in 1..=clients {
        let mut now = draw.below(20 * MS);
        for _ in 0..12 {
            let read = now + 10_000 + draw.below(30 * MS);
            let mut clock = read;
            let mut own = Vec::new();
            for _ in 0..draw.below(3) {
                let from = clock + 10_000 + draw.below(5 * MS);
                let to = from + 20_000 + draw.below(20 * MS);
                own.push((from, to));
                // Else the next is asked while this one is under way.
                clock = if draw.below(2) == 0 { to } else { from };
            }
            let written = own.iter().map(|span| span.1).max().unwrap_or(clock) + 10_000 + draw.below(5 * MS);
            scene.open(client, Opening::Accepted);
            scene.received(client, PROXY, read);
            let next = written + 20_000 + draw.below(20 * MS);
            scene.sent(client, PROXY, written, written + draw.below(next - written));
            spans.push((read, written));
            truth.insert((ConnectionId(client), read), own);
            now = next;
        }
    }
    // The pool: whichever connection is free.
    let mut all: Vec<(u64, u64)> = truth.values().flatten().copied().collect();
    for _ in 0..8 {
        let from = draw.below(500 * MS);
        if !spans.iter().any(|(read, written)| (*read..=*written).contains(&from)) {
            all.push((from, from + 20_000 + draw.below(40 * MS)));
        }
    }
    all.sort_unstable();
    let mut free_from: Vec<u64> = Vec::new();
    for (from, to) in all {
        let free: Vec<usize> = (0..free_from.len()).filter(|i| free_from[*i] < from).collect();
        let at = match free.len() as u64 {
            0 => {
                free_from.push(0);
                free_from.len() - 1
            }
            n => free[draw.below(n) as usize],
        };
        free_from[at] = to;
        scene.asked(1_000 + at as u64, PROXY, from, to);
    }
    (scene, truth)
}

#[test]
fn drawn_concurrency_is_never_joined_wrongly() {
    let (mut joined, mut withheld, mut alone) = (0, 0, 0);
    for seed in 0..300 {
        let mut draw = Draw(seed);
        let clients = 1 + seed % 8;
        let (scene, truth) = drawn(&mut draw, clients);
        for request in scene.served_requests() {
            let read = request.moments.read.unwrap().as_nanos();
            let own = &truth[&(request.connection, read)];
            // Before the program asked for the first time, nothing is said of it.
            let Some(upstream) = request.upstream else { continue };
            match upstream.join {
                Join::Joined => joined += 1,
                Join::Withheld => withheld += 1,
                Join::Nothing => assert!(own.is_empty(), "seed {seed}: {request:?}: {own:?}"),
            }
            if clients == 1 {
                assert_ne!(upstream.join, Join::Withheld, "seed {seed}: {request:?} {own:?}");
                alone += 1;
            }
            if upstream.join == Join::Joined {
                assert_eq!(upstream.requests as usize, own.len(), "seed {seed}: {request:?}: {own:?}");
                let mut spans = own.clone();
                spans.sort_unstable();
                let (mut waited, mut until) = (0, 0);
                for (from, to) in spans {
                    // Until the answer was readable.
                    let to = to - 1_000;
                    waited += to.saturating_sub(from.max(until));
                    until = until.max(to);
                }
                assert_eq!(request.components.unwrap().upstream, Some(Nanos(waited)), "seed {seed}: {request:?}");
            }
        }
    }
    assert!(joined > 1_000 && withheld > 1_000 && alone > 200, "{joined} joined, {withheld} withheld, {alone} alone");
}

/// How a program that has several requests open at once spreads them over its threads.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    /// Each in one of a pool, which has no other meanwhile.
    Pool,
    /// All of them in one.
    Loop,
    /// Whatever is to be done next in whichever of four is free.
    Passed,
    /// They are read and answered in a pool, and others ask for them.
    Helped,
}

/// A program with six clients. For each request it asks another program once.
fn spread(draw: &mut Draw, work: Work) -> (Scene, Truth) {
    let (mut scene, mut truth) = (Scene::default(), Truth::default());
    for client in 1..=6 {
        let mut now = draw.below(20 * MS);
        for _ in 0..30 {
            let read = now + 10_000 + draw.below(2 * MS);
            let from = read + 10_000 + draw.below(2 * MS);
            let to = from + 20_000 + draw.below(20 * MS);
            let written = to + 10_000 + draw.below(2 * MS);
            let mut thread = |helper: bool| match work {
                Work::Loop => 1,
                Work::Passed => 1 + draw.below(4) as u32,
                Work::Helped if helper => 100 + client as u32,
                Work::Pool | Work::Helped => client as u32,
            };
            scene.open(client, Opening::Accepted);
            scene.open(100 + client, Opening::Connected);
            scene.thread = Some(thread(false));
            scene.received(client, PROXY, read);
            scene.thread = Some(thread(true));
            scene.sent(100 + client, PROXY, from, from + 10_000);
            scene.thread = Some(thread(true));
            scene.received(100 + client, PROXY, to);
            scene.thread = Some(thread(false));
            scene.sent(client, PROXY, written, written + 1_000);
            truth.insert((ConnectionId(client), read), vec![(from, to)]);
            now = written + 20_000;
        }
    }
    (scene, truth)
}

/// How many of a program's requests are joined: each of them with what was asked for it, and for
/// none it is said that nothing was.
fn rightly_joined(seed: u64, work: Work) -> usize {
    let (scene, truth) = spread(&mut Draw(seed), work);
    let requests = scene.served_requests();
    let joined: Vec<_> = requests.iter().filter(|r| r.upstream.is_some_and(|u| u.join == Join::Joined)).collect();
    for request in &joined {
        let (from, to) = truth[&(request.connection, request.moments.read.unwrap().as_nanos())][0];
        assert_eq!(request.components.unwrap().upstream, Some(Nanos(to - 1_000 - from)), "{work:?}: {request:?}");
        assert_eq!(request.upstream.unwrap().requests, 1);
    }
    let nothing = |request: &&Request| request.upstream.is_some_and(|u| u.join == Join::Nothing);
    assert_eq!(requests.iter().filter(nothing).count(), 0, "{work:?}, seed {seed}");
    joined.len()
}

#[test]
fn a_thread_that_works_on_one_request_asks_for_that_one() {
    for seed in 0..20 {
        let joined = rightly_joined(seed, Work::Pool);
        assert!(joined >= 180 - 2 * ENOUGH as usize, "{joined} of 180, seed {seed}");
    }
}

#[test]
fn threads_of_an_event_loop_or_that_pass_work_around_tell_nothing() {
    for work in [Work::Loop, Work::Passed, Work::Helped] {
        for seed in 0..40 {
            // But for those that were alone.
            let joined = rightly_joined(seed, work);
            assert!(joined < 20, "{work:?}: {joined} of 180, seed {seed}");
        }
    }
}

#[test]
fn one_request_in_two_threads_contradicts_for_good() {
    let mut ways = WaysOfWork::default();
    let (one, two) = (Threads::of(Some(1)), Threads::of(Some(2)));
    for _ in 0..ENOUGH {
        assert!(!ways.by_thread());
        ways.answered(one, [two].into_iter());
    }
    assert!(ways.by_thread());
    ways.answered(one, std::iter::empty());
    ways.asked(two);
    assert!(ways.by_thread());
    let mut several = one;
    several.add(Some(2));
    ways.answered(several, [two].into_iter());
    assert!(!ways.by_thread());
    let mut ways = WaysOfWork::default();
    ways.answered(one, [one].into_iter());
    (0..2 * ENOUGH).for_each(|_| ways.answered(one, [two].into_iter()));
    assert!(!ways.by_thread(), "two in one thread");
}
