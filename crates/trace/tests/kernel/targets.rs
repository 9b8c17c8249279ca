//! Who is followed, and who is left alone.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use machine::who::RuleKind;
use record::{Event, Opening, Send};
use tier::Need;
use trace::{Config, Error, Target, Tracer};

use crate::traffic::{self, BACKENDS, Trace, accept_one, config, on, pair, sends};

const BTF: Need<'static> = Need::Path("/sys/kernel/btf/vmlinux");

/// The callbacks that the kernel has armed a socket for (`SK_BPF_CB_FLAGS` is for BPF alone, so the
/// sends tell).
fn exchange(pair: &mut (TcpStream, TcpStream)) {
    for _ in 0..10 {
        pair.0.write_all(b"x").unwrap();
        pair.1.read_exact(&mut [0]).unwrap();
    }
}

/// The cgroup v2 hierarchy; where there is none, the test is recorded as skipped.
fn hierarchy(test: &str) -> Option<PathBuf> {
    let mount = machine::who::mount();
    if mount.is_none() {
        tier::skip(test, "no cgroup v2 is mounted");
    }
    mount
}

fn port_of(pair: &(TcpStream, TcpStream)) -> u16 {
    pair.1.local_addr().unwrap().port()
}

#[test]
fn sockets_outside_the_target_are_left_alone() {
    tier::needs!(Need::Root, BTF);
    let mut ours = pair();
    let mut foreign = pair();
    let mut trace = Trace::start(&traffic::port(ours.1.local_addr().unwrap().port()));
    let mut foreign_later = pair();
    exchange(&mut ours);
    exchange(&mut foreign);
    exchange(&mut foreign_later);
    trace.until(10);
    let (events, _) = trace.finish();
    let port = ours.1.local_addr().unwrap().port();
    assert_eq!(sends(&events).len(), 10);
    assert!(traffic::connections(&events).iter().all(|c| c.0.port() == port || c.1.port() == port));
}

#[test]
fn existing_connected_and_accepted_connections_say_how_they_began() {
    tier::needs!(Need::Root, BTF);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let before = accept_one(&listener);
    let mut trace = Trace::start(&traffic::port(listener.local_addr().unwrap().port()));
    let after = accept_one(&listener);
    trace.poll();
    let (events, _) = trace.finish();
    let opening = |socket: &TcpStream| {
        let ends = (socket.local_addr().unwrap(), socket.peer_addr().unwrap());
        events.iter().find_map(|e| match e {
            Event::Connection(c) if (c.local, c.remote) == ends => Some(c.opening),
            _ => None,
        })
    };
    assert_eq!(opening(&before.0), Some(Opening::Found));
    assert_eq!(opening(&before.1), Some(Opening::Found));
    assert_eq!(opening(&after.0), Some(Opening::Connected));
    assert_eq!(opening(&after.1), Some(Opening::Accepted));
    // Every connection that was announced is closed in the end.
    let (mut opened, mut closed) = (Vec::new(), Vec::new());
    for event in &events {
        match event {
            Event::Connection(c) => opened.push(c.id),
            Event::Closed { connection, .. } => closed.push(*connection),
            Event::SetUp(_)
            | Event::Head(_)
            | Event::Exchange(_)
            | Event::Copy(_)
            | Event::CopyDropped(_)
            | Event::Connect(_)
            | Event::Send(_)
            | Event::Receive(_)
            | Event::Request(_)
            | Event::Packet(_)
            | Event::Datagram(_)
            | Event::Question(_) => {}
        }
    }
    opened.sort();
    closed.sort();
    assert_eq!(opened, closed);
}

#[test]
fn peers_and_ports_are_both_needed() {
    tier::needs!(Need::Root, BTF);
    let mut on_loopback = pair();
    let port = on_loopback.1.local_addr().unwrap().port();
    for (peer, expected) in [("127.0.0.0/8", 10), ("10.0.0.0/8", 0)] {
        let target = Target { ports: vec![port.into()], peers: vec![peer.parse().unwrap()], ..Target::default() };
        let mut trace = Trace::start(&config(target));
        exchange(&mut on_loopback);
        if expected > 0 {
            trace.until(expected);
        }
        assert_eq!(sends(&trace.finish().0).len(), expected, "{peer}");
    }
}

/// A program of its own process that connects, writes and waits for a byte.
fn shell_client(port: u16) -> Command {
    let mut command = Command::new("bash");
    command.arg("-c").arg(format!("exec 3<>/dev/tcp/127.0.0.1/{port}; echo hello >&3; read -u 3 -n 1 x"));
    command
}

#[test]
fn a_command_and_its_children_are_traced_from_their_first_byte() {
    tier::needs!(Need::Root, BTF, Need::Program("bash"));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut trace = Trace::start(&config(Target::default()));
    // A shell that runs the client in a child of its own.
    let mut command = Command::new("bash");
    let script = format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}; echo hello >&3; read -u 3 -n 1 x'; true");
    command.args(["-c", &script]);
    let stopped = trace::command::Stopped::start(command).unwrap();
    let pid = stopped.pid();
    trace.tracer.follow_pid(pid).unwrap();
    let mut child = stopped.release().unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.read_exact(&mut [0; 6]).unwrap();
    server.write_all(b"k").unwrap();
    child.wait().unwrap();
    trace.until(1);
    let (events, _) = trace.finish();
    let sends = sends(&events);
    // The server's answer is this process's, which is not in the target.
    assert_eq!(sends.len(), 1, "{sends:?}");
    assert_eq!((sends[0].bytes, sends[0].owner.comm.to_string().as_str()), (6, "bash"));
    assert_ne!(sends[0].owner.pid, pid, "the child's child made it");
}

#[test]
fn a_process_that_found_no_room_is_counted() {
    tier::needs!(Need::Root, BTF, Need::Program("bash"));
    // Numbers that the kernel gives no process (PID_MAX_LIMIT).
    const NONE: u32 = 1 << 22;
    for backend in BACKENDS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut trace = Trace::start(&on(config(Target::default()), backend));
        let mut command = Command::new("bash");
        let script = format!("( exec 3<>/dev/tcp/127.0.0.1/{port}; echo hello >&3; read -u 3 -n 1 x ); true");
        command.args(["-c", &script]);
        let stopped = trace::command::Stopped::start(command).unwrap();
        trace.tracer.follow_pid(stopped.pid()).unwrap();
        let key = stopped.pid().to_ne_bytes();
        let has = |map: &MapHandle| map.lookup(&key, MapFlags::ANY).is_ok_and(|found| found.is_some());
        let processes = MapInfoIter::default()
            .filter(|map| map.name.to_str() == Some("pids"))
            .filter_map(|map| MapHandle::from_map_id(map.id).ok())
            .find(has)
            .unwrap();
        let filled = (NONE..).find(|number| processes.update(&number.to_ne_bytes(), &[1], MapFlags::ANY).is_err());
        assert_eq!(filled, Some(NONE + processes.max_entries() - 1));
        let mut child = stopped.release().unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.read_exact(&mut [0; 6]).unwrap();
        server.write_all(b"k").unwrap();
        child.wait().unwrap();
        trace.poll();
        let (events, summary) = trace.finish();
        assert_eq!((sends(&events).len(), summary.lost.processes_full), (0, 1), "{backend}");
    }
}

#[test]
fn a_running_process_is_picked_up_by_its_sockets() {
    tier::needs!(Need::Root, BTF, Need::Program("bash"));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut child = Command::new("bash")
        .arg("-c")
        .arg(format!("exec 3<>/dev/tcp/127.0.0.1/{port}; read -u 3 -n 1 x; echo hello >&3; read -u 3 -n 1 x"))
        .spawn()
        .unwrap();
    let (mut server, _) = listener.accept().unwrap();
    // The shell may be between connecting and having the descriptor in place.
    std::thread::sleep(Duration::from_millis(50));
    let mut trace = Trace::start(&config(Target { pids: vec![child.id()], ..Target::default() }));
    server.write_all(b"k").unwrap();
    server.read_exact(&mut [0; 6]).unwrap();
    trace.until(1);
    server.write_all(b"k").unwrap();
    child.wait().unwrap();
    let (events, _) = trace.finish();
    let Some(Event::Connection(found)) = events.first() else { panic!("{events:?}") };
    assert_eq!((found.opening, found.owner.pid), (Opening::Found, child.id()));
    assert_eq!(sends(&events).len(), 1);
}

#[test]
fn connections_that_wait_to_be_accepted_are_followed() {
    tier::needs!(Need::Root, BTF);
    for backend in BACKENDS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let clients: Vec<_> = (0..20).map(|_| TcpStream::connect(listener.local_addr().unwrap()).unwrap()).collect();
        let port = listener.local_addr().unwrap().port();
        // This process has those of other tests too.
        let target = Target { pids: vec![std::process::id()], ports: vec![port.into()], ..Target::default() };
        let mut trace = Trace::start(&on(config(target), backend));
        let mut servers: Vec<_> = clients.iter().map(|_| listener.accept().unwrap().0).collect();
        servers.iter_mut().for_each(|server| server.write_all(b"hello").unwrap());
        trace.until(servers.len());
        let (events, summary) = trace.finish();
        let accepted = traffic::connections(&events).into_iter().filter(|ends| ends.0.port() == port).count();
        assert_eq!((accepted, sends(&events).len()), (20, 20), "{backend}, {:?}", summary.lost);
    }
}

#[test]
fn no_connection_is_missed_that_is_accepted_while_the_trace_begins() {
    tier::needs!(Need::Root, BTF);
    for backend in BACKENDS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let (over, begun) = (AtomicBool::new(false), &AtomicBool::new(false));
        let (tracer, mut clients, mut servers) = std::thread::scope(|scope| {
            let connecting = scope.spawn(|| {
                let mut clients = Vec::new();
                while !over.load(Ordering::Relaxed) && clients.len() < 2_000 {
                    clients.push(TcpStream::connect(at).unwrap());
                    begun.store(true, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(2));
                }
                clients
            });
            let accepting = scope.spawn(|| {
                let mut servers = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    // It waits for a time that changes.
                    std::thread::sleep(Duration::from_micros(100 * (servers.len() as u64 % 17)));
                    servers.push(listener.accept().unwrap().0);
                }
                servers
            });
            while !begun.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            let target = Target { pids: vec![std::process::id()], ..Target::default() };
            let config = Config { max_connections: 8_192, ..on(config(target), backend) };
            let tracer = Tracer::start(&config);
            over.store(true, Ordering::Relaxed);
            // Nobody waits for a connection that does not come.
            let last = TcpStream::connect(at).unwrap();
            let mut clients = connecting.join().unwrap();
            clients.push(last);
            (tracer, clients, accepting.join().unwrap())
        });
        let mut trace = Trace { tracer: tracer.unwrap(), events: Vec::new() };
        servers.extend((servers.len()..clients.len()).map(|_| listener.accept().unwrap().0));
        for socket in clients.iter_mut().chain(&mut servers) {
            socket.write_all(b"hello").unwrap();
        }
        let expected = clients.len() + servers.len();
        trace.until(expected);
        let (events, summary) = trace.finish();
        assert!(clients.len() > 20, "{}", clients.len());
        // Threads of other tests are of this process too.
        let own = |send: &&Send| {
            events.iter().any(|event| match event {
                Event::Connection(c) => {
                    c.id == send.connection && [c.local, c.remote].iter().any(|end| end.port() == at.port())
                }
                _ => false,
            })
        };
        let seen = sends(&events).iter().filter(own).count();
        assert_eq!(seen, expected, "{backend}, {:?}", summary.lost);
    }
}

#[test]
fn a_cgroup_is_a_target() {
    tier::needs!(Need::Root, BTF, Need::Program("bash"));
    let Some(mount) = hierarchy("a_cgroup_is_a_target") else { return };
    let folder = mount.join(format!("wirelapse-test-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut outside = pair();
    let mut trace = Trace::start(&config(Target { cgroups: vec![folder.clone()], ..Target::default() }));
    let stopped = trace::command::Stopped::start(shell_client(port)).unwrap();
    std::fs::write(folder.join("cgroup.procs"), stopped.pid().to_string()).unwrap();
    let mut child = stopped.release().unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.read_exact(&mut [0; 6]).unwrap();
    exchange(&mut outside);
    server.write_all(b"k").unwrap();
    child.wait().unwrap();
    trace.until(1);
    let (events, _) = trace.finish();
    std::fs::remove_dir(&folder).unwrap();
    assert_eq!(sends(&events).iter().map(|s| s.bytes).collect::<Vec<_>>(), [6]);
}

#[test]
fn several_cgroups_are_a_target_and_a_nested_one_counts_once() {
    tier::needs!(Need::Root, BTF, Need::Program("bash"));
    let Some(mount) = hierarchy("several_cgroups_are_a_target_and_a_nested_one_counts_once") else { return };
    let top = |name: &str| mount.join(format!("wirelapse-{name}-{}", std::process::id()));
    let (one, two) = (top("one"), top("two"));
    let nested = one.join("nested");
    [&one, &nested, &two].into_iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut outside = pair();
    let cgroups = vec![nested.clone(), one.clone(), two.clone()];
    let mut trace = Trace::start(&config(Target { cgroups, ..Target::default() }));
    [&one, &nested, &two].into_iter().for_each(|folder| send_from(folder, &listener));
    exchange(&mut outside);
    trace.until(3);
    let (events, _) = trace.finish();
    [&nested, &one, &two].into_iter().for_each(|folder| std::fs::remove_dir(folder).unwrap());
    assert_eq!(sends(&events).iter().map(|s| s.bytes).collect::<Vec<_>>(), [6, 6, 6]);
}

/// A process in this cgroup that connects to the listener, sends six bytes, and ends.
fn send_from(folder: &std::path::Path, listener: &TcpListener) {
    let stopped = trace::command::Stopped::start(shell_client(listener.local_addr().unwrap().port())).unwrap();
    std::fs::write(folder.join("cgroup.procs"), stopped.pid().to_string()).unwrap();
    let mut child = stopped.release().unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.read_exact(&mut [0; 6]).unwrap();
    server.write_all(b"k").unwrap();
    child.wait().unwrap();
}

/// Removes a cgroup, once the kernel has let its last process go.
fn remove(folder: &std::path::Path) {
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while let Err(error) = std::fs::remove_dir(folder) {
        assert!(std::time::Instant::now() < until, "{}: {error}", folder.display());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Polls until the rules name so many cgroups each.
fn until_named(trace: &mut Trace, counts: &[u64]) {
    let named = |trace: &Trace| trace.tracer.named().iter().map(|named| named.cgroups).collect::<Vec<_>>();
    for _ in 0..1_000 {
        trace.poll();
        if named(trace) == counts {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(named(trace), counts);
}

#[test]
fn a_target_that_is_made_anew_is_followed_again() {
    tier::needs!(Need::Root, BTF, Need::Program("bash"));
    let Some(mount) = hierarchy("a_target_that_is_made_anew_is_followed_again") else { return };
    for backend in BACKENDS {
        let name = format!("wirelapse-anew-{backend}-{}", std::process::id());
        let folder = mount.join(format!("{name}.service"));
        let target = Target { units: vec![name], ..Target::default() };
        assert!(matches!(target.check(), Err(Error::NothingNamed { kind: RuleKind::Unit, .. })));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // At the start it is not there.
        let mut trace = Trace::start(&on(config(Target { awaited: true, ..target }), backend));
        let mut outside = pair();
        for _ in 0..3 {
            until_named(&mut trace, &[0]);
            std::fs::create_dir(&folder).unwrap();
            until_named(&mut trace, &[1]);
            send_from(&folder, &listener);
            exchange(&mut outside);
            remove(&folder);
        }
        trace.until(3);
        assert_eq!(trace.tracer.named()[0].came, 3);
        let (events, summary) = trace.finish();
        assert_eq!(sends(&events).iter().map(|s| s.bytes).collect::<Vec<_>>(), [6, 6, 6], "{backend}");
        assert_eq!((summary.lost.connections_late, summary.coverage.bytes_written), (0, 18), "{backend}");
    }
}

#[test]
fn a_pattern_names_many_cgroups_and_those_below_them() {
    tier::needs!(Need::Root, BTF, Need::Program("bash"));
    let Some(mount) = hierarchy("a_pattern_names_many_cgroups_and_those_below_them") else { return };
    let slice = mount.join(format!("wirelapse-many-{}.slice", std::process::id()));
    let unit = |n: u32| slice.join(format!("app-{n}.service"));
    let deep = unit(7).join("a/b/c");
    let other = slice.join("other.service");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    std::fs::create_dir(&slice).unwrap();
    let target = Target { cgroups: vec![slice.join("app-*.service")], awaited: true, ..Target::default() };
    let mut trace = Trace::start(&config(target));
    until_named(&mut trace, &[0]);
    (0..100).for_each(|n| std::fs::create_dir(unit(n)).unwrap());
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::create_dir(&other).unwrap();
    until_named(&mut trace, &[100]);
    [&unit(0), &unit(99), &deep, &other].into_iter().for_each(|folder| send_from(folder, &listener));
    trace.until(3);
    [deep.clone(), unit(7).join("a/b"), unit(7).join("a"), other].iter().for_each(|folder| remove(folder));
    (0..100).for_each(|n| remove(&unit(n)));
    until_named(&mut trace, &[0]);
    remove(&slice);
    let (events, _) = trace.finish();
    assert_eq!(sends(&events).iter().map(|s| s.bytes).collect::<Vec<_>>(), [6, 6, 6]);
}

#[test]
fn a_cgroup_that_was_gone_before_it_could_be_followed_is_counted() {
    tier::needs!(Need::Root, BTF);
    let Some(mount) = hierarchy("a_cgroup_that_was_gone_before_it_could_be_followed_is_counted") else { return };
    let folder = mount.join(format!("wirelapse-brief-{}", std::process::id()));
    let target = Target { cgroups: vec![folder.clone()], awaited: true, ..Target::default() };
    let mut trace = Trace::start(&config(target));
    // Nothing is looked at until the first poll.
    for _ in 0..3 {
        std::fs::create_dir(&folder).unwrap();
        std::fs::remove_dir(&folder).unwrap();
    }
    std::fs::create_dir(&folder).unwrap();
    until_named(&mut trace, &[1]);
    remove(&folder);
    until_named(&mut trace, &[0]);
    let named = trace.tracer.named().remove(0);
    trace.finish();
    assert_eq!((named.came, named.missed), (4, 3));
}

#[test]
fn what_a_new_cgroup_sent_before_it_was_known_is_not_observed_and_counted() {
    tier::needs!(Need::Root, BTF, Need::Program("bash"));
    let Some(mount) = hierarchy("what_a_new_cgroup_sent_before_it_was_known_is_not_observed_and_counted") else {
        return;
    };
    let folder = mount.join(format!("wirelapse-late-{}", std::process::id()));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let target = Target { cgroups: vec![folder.clone()], awaited: true, ..Target::default() };
    let mut trace = Trace::start(&config(target));
    // Nothing is looked at until the first poll.
    std::fs::create_dir(&folder).unwrap();
    let mut client = Command::new("bash");
    client.arg("-c").arg(format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port}; echo hello >&3; read -u 3 -n 1 x; echo you >&3; read -u 3 -n 1 x"
    ));
    let stopped = trace::command::Stopped::start(client).unwrap();
    std::fs::write(folder.join("cgroup.procs"), stopped.pid().to_string()).unwrap();
    let mut child = stopped.release().unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.read_exact(&mut [0; 6]).unwrap();
    let late = |trace: &mut Trace| {
        trace.poll();
        trace.tracer.lost().connections_late
    };
    for _ in 0..1_000 {
        if late(&mut trace) > 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    server.write_all(b"k").unwrap();
    server.read_exact(&mut [0; 4]).unwrap();
    trace.until(1);
    server.write_all(b"k").unwrap();
    child.wait().unwrap();
    let (events, summary) = trace.finish();
    remove(&folder);
    assert_eq!(sends(&events).iter().map(|s| s.bytes).collect::<Vec<_>>(), [4]);
    let coverage = summary.coverage;
    assert_eq!((summary.lost.connections_late, coverage.bytes_written, coverage.bytes_armed), (1, 10, 4));
}

#[test]
fn a_name_is_a_target_for_processes_that_are_there_and_for_those_that_come() {
    tier::needs!(Need::Root, BTF, Need::Program("bash"));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Longer than the 15 bytes that the kernel keeps of a name; another program is in the same
    // place under another name.
    let dir = tempfile::tempdir().unwrap();
    let name = format!("target-{}-of-a-name", std::process::id());
    let bash = ["/bin/bash", "/usr/bin/bash"].into_iter().find(|bash| std::path::Path::new(bash).exists()).unwrap();
    std::os::unix::fs::symlink(bash, dir.path().join(&name)).unwrap();
    let client = |program: &std::path::Path| {
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; read -u 3 -n 1 x; echo hello >&3; read -u 3 -n 1 x");
        let child = Command::new(program).arg("-c").arg(script).spawn().unwrap();
        (child, listener.accept().unwrap().0)
    };
    let before = client(&dir.path().join(&name));
    std::thread::sleep(Duration::from_millis(50));
    let mut trace = Trace::start(&config(Target { comms: vec![name.clone()], ..Target::default() }));
    let after = client(&dir.path().join(&name));
    let other = client(std::path::Path::new(bash));
    let named = [before.0.id(), after.0.id()];
    for (mut child, mut server) in [before, after, other] {
        server.write_all(b"k").unwrap();
        server.read_exact(&mut [0; 6]).unwrap();
        server.write_all(b"k").unwrap();
        child.wait().unwrap();
    }
    trace.until(2);
    assert!(!trace.tracer.processes_are_over());
    let (events, _) = trace.finish();
    let mut owners: Vec<u32> = sends(&events).iter().map(|send| send.owner.pid).collect();
    owners.sort_unstable();
    let mut named = named.to_vec();
    named.sort_unstable();
    assert_eq!(owners, named);
}

#[test]
fn a_range_of_ports_is_a_target_with_both_its_ends() {
    tier::needs!(Need::Root, BTF);
    let mut pairs = [pair(), pair(), pair()];
    pairs.sort_by_key(port_of);
    let [low, middle, high] = [&pairs[0], &pairs[1], &pairs[2]].map(port_of);
    // The clients' own ports are of the same range, so each connection is named by its server's
    // port and those around are not.
    let ranges = [format!("{low}-{low}"), format!("{high}-{high}")].map(|text| text.parse().unwrap());
    let mut trace = Trace::start(&config(Target { ports: ranges.to_vec(), ..Target::default() }));
    pairs.iter_mut().for_each(exchange);
    trace.until(20);
    let (events, _) = trace.finish();
    let ports: Vec<u16> = traffic::connections(&events).iter().flat_map(|(a, b)| [a.port(), b.port()]).collect();
    assert_eq!(sends(&events).len(), 20);
    assert!(ports.contains(&low) && ports.contains(&high) && !ports.contains(&middle), "{ports:?}");
    let wide = format!("{low}-{high}").parse().unwrap();
    let mut trace = Trace::start(&config(Target { ports: vec![wide], ..Target::default() }));
    pairs.iter_mut().for_each(exchange);
    trace.until(30);
    let seen = traffic::connections(&trace.finish().0);
    assert!([low, middle, high].iter().all(|port| seen.iter().any(|(local, _)| local.port() == *port)), "{seen:?}");
}

#[test]
fn all_of_ipv6_is_not_ipv4() {
    tier::needs!(Need::Root, BTF);
    let mut four = pair();
    let mut six = traffic::pair_at("[::1]:0");
    let ports = vec![port_of(&four).into(), port_of(&six).into()];
    let start = |network: &str| {
        let peers = vec![network.parse().unwrap()];
        Trace::start(&config(Target { ports: ports.clone(), peers, ..Target::default() }))
    };
    let (mut of_six, mut of_four) = (start("::/0"), start("0.0.0.0/0"));
    exchange(&mut four);
    exchange(&mut six);
    of_six.until(10);
    of_four.until(10);
    for (trace, ipv6) in [(of_six, true), (of_four, false)] {
        let ends = traffic::connections(&trace.finish().0);
        assert_eq!(ends.len(), 2);
        assert!(ends.iter().all(|(local, _)| local.is_ipv6() == ipv6), "{ends:?}");
    }
}

#[test]
fn the_hierarchy_of_cgroups_is_found_where_the_own_mounts_hide_it() {
    tier::needs!(Need::Root, BTF, Need::Program("umount"), Need::Program("mount"));
    std::thread::spawn(|| {
        // SAFETY: unshare changes this thread alone.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0);
        let run = |program: &str, args: &[&str]| {
            assert!(Command::new(program).args(args).status().unwrap().success(), "{program} {args:?}");
        };
        run("mount", &["--make-rprivate", "/"]);
        let mounts = std::fs::read_to_string("/proc/thread-self/mounts").unwrap();
        for fields in mounts.lines().map(|l| l.split(' ').collect::<Vec<_>>()).filter(|f| f[2] == "cgroup2") {
            run("umount", &["-l", fields[1]]);
        }
        Tracer::start(&config(Target { ports: vec![1.into()], ..Target::default() })).unwrap();
    })
    .join()
    .unwrap();
}

#[test]
fn wrong_targets_are_errors_that_say_so() {
    tier::needs!(Need::Root, BTF);
    let start = |target| Tracer::start(&config(target)).map(drop);
    let missing = start(Target { pids: vec![u32::MAX - 1], ..Target::default() });
    assert!(matches!(missing, Err(Error::NoSuchProcess { .. })), "{missing:?}");
    let folder = start(Target { cgroups: vec!["/tmp".into()], ..Target::default() });
    assert!(matches!(folder, Err(Error::Cgroup { .. })), "{folder:?}");
}

#[test]
fn on_a_shared_socket_only_the_targets_own_sends_are_recorded() {
    tier::needs!(Need::Root, BTF, Need::Program("bash"));
    let (mut client, mut server) = pair();
    // A child that inherits the connection and writes on it, after a byte on its standard input.
    use std::os::fd::{AsFd as _, OwnedFd};
    let inherited: OwnedFd = client.as_fd().try_clone_to_owned().unwrap();
    let mut child = Command::new("bash")
        .args(["-c", "read x; echo hello"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::from(inherited))
        .spawn()
        .unwrap();
    let mut trace = Trace::start(&config(Target { pids: vec![child.id()], ..Target::default() }));
    client.write_all(b"not the target's").unwrap();
    server.read_exact(&mut [0; 16]).unwrap();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    server.read_exact(&mut [0; 6]).unwrap();
    child.wait().unwrap();
    trace.until(1);
    let (events, _) = trace.finish();
    let sends = sends(&events);
    assert_eq!(sends.iter().map(|s| (s.bytes, s.owner.pid)).collect::<Vec<_>>(), [(6, child.id())]);
}

/// A server with two worker processes that share its listener: each answers with its number.
const PREFORK: &str = "
import os, socket, sys, time
listener = socket.create_server(('127.0.0.1', 0))
workers = []
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        while True:
            connection, _ = listener.accept()
            connection.recv(5)
            connection.sendall(b'%010d' % os.getpid())
            connection.close()
            time.sleep(0.002)
    workers.append(pid)
print(listener.getsockname()[1], *workers, flush=True)
sys.stdin.read()
for pid in workers:
    os.kill(pid, 9)
";

#[test]
fn of_a_server_with_workers_exactly_the_named_one_is_followed() {
    tier::needs!(Need::Root, BTF, Need::Program("python3"));
    use std::io::BufRead as _;
    use std::process::Stdio;
    let mut command = Command::new("python3");
    let mut parent = command.args(["-c", PREFORK]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufReader::new(parent.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let numbers: Vec<u32> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let (port, worker) = (numbers[0] as u16, numbers[1]);
    let target = Target { pids: vec![worker], ..Target::default() };
    let trace = Trace::start(&Config { receive: true, ..config(target) });
    let answers: Vec<u32> = (0..60)
        .map(|_| {
            let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
            client.write_all(b"hello").unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            answer.parse().unwrap()
        })
        .collect();
    let (events, summary) = trace.finish();
    drop(parent.stdin.take());
    parent.wait().unwrap();
    let own = answers.iter().filter(|&&pid| pid == worker).count();
    assert!(own > 0 && own < answers.len(), "both workers were to answer: {answers:?}");
    let sends = sends(&events);
    assert_eq!(sends.len(), own, "{:?}", summary.lost);
    assert!(sends.iter().all(|send| send.owner.pid == worker));
    let (mut owners, mut readers) = (Vec::new(), Vec::new());
    for event in &events {
        match event {
            Event::Connection(connection) => owners.push(connection.owner.pid),
            Event::Receive(receive) => readers.push(receive.reader.pid),
            _ => {}
        }
    }
    assert_eq!((owners, readers), (vec![worker; own], vec![worker; own]));
    assert_eq!(summary.coverage.bytes_written, 10 * own as u64, "what the other wrote is not counted");
}
