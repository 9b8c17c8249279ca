//! `wirelapse compare --join`: two hosts of a lab, traced on one clock, and then with the server's
//! clock ahead and drifting, by offsets put into its run. The two runs give the answer of the one
//! within the error that they state.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use crate::scene::command::{is_tracing, signal, tracing};
use crate::scene::path::{delay, join, lab, listen};
use crate::scene::{BTF, IP, TUN, median, turn};
use lab::Side;
use record::{Component, Connection, Event, Instant, Moments, Monotonic, Opening, Request, Role};
use tier::{Need, text};

/// Odd, so that one request is in the middle.
const TIMES: usize = 41;
const THERE: u64 = 8;
const BACK: u64 = 20;
/// The server's clock: ahead by 40 hours, and faster by 80 ppm.
const AHEAD: u64 = 144_000_000_000_000;
const FASTER: u64 = 80;

fn by_the_servers_clock(at: Instant<Monotonic>) -> Instant<Monotonic> {
    let at = at.as_nanos();
    Instant::from_nanos(at + AHEAD + at / 1_000_000 * FASTER)
}

/// What one host would have traced: the connections and requests of one role.
fn write(run: &store::Run, to: &Path, role: Role) -> u64 {
    let clock = |at: Instant<Monotonic>| if role == Role::Server { by_the_servers_clock(at) } else { at };
    let mut writer = store::Writer::create(to, run.provenance().clone()).unwrap();
    let opening = if role == Role::Client { Opening::Connected } else { Opening::Accepted };
    run.connections(|connection| {
        if connection.opening == opening {
            let since = clock(connection.since);
            writer.event(&Event::Connection(Connection { since, ..connection })).unwrap();
        }
    })
    .unwrap();
    let mut n = 0;
    run.requests(|request| {
        if request.role != role {
            return;
        }
        n += 1;
        let mut m = request.moments;
        let Moments { sent, first_left, written, left, acked, arrived, last_arrived, ready, read, .. } = &mut m;
        for moment in [sent, first_left, written, left, acked, arrived, last_arrived, ready, read] {
            *moment = moment.map(clock);
        }
        writer.event(&Event::Request(Box::new(Request { moments: m, ..request }))).unwrap();
    })
    .unwrap();
    writer.finish(Instant::from_nanos(1 << 62), record::Lost::default(), record::Coverage::default()).unwrap();
    n
}

fn of(requests: &[Request], component: Component) -> u64 {
    median(requests.iter().map(|r| r.components.and_then(|c| c.get(component)).unwrap_or_default().0))
}

#[test]
fn two_hosts_runs_give_the_answer_of_one_within_the_stated_error() {
    tier::needs!(Need::Root, BTF, TUN, IP);
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let lab = lab(THERE);
    lab.path().change(Side::B, &delay(BACK)).unwrap();
    let listener = listen(&lab, false);
    let port = listener.local_addr().unwrap().port().to_string();
    let both = at("both");
    let args = ["--port", &port, "--requests", "--no-live", "-o", both.to_str().unwrap()];
    let tracer = tracing(&args).spawn().unwrap();
    assert!(tier::wait_for(|| is_tracing(tracer.id())));
    let (mut client, mut server) = join(&lab, &listener);
    client.set_nodelay(true).unwrap();
    let answering = std::thread::spawn(move || {
        for _ in 0..TIMES {
            server.read_exact(&mut [0; 64]).unwrap();
            std::thread::sleep(Duration::from_millis(5));
            server.write_all(&[0; 900]).unwrap();
        }
        server
    });
    for _ in 0..TIMES {
        client.write_all(&[0; 64]).unwrap();
        client.read_exact(&mut [0; 900]).unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    drop((client, answering.join().unwrap()));
    std::thread::sleep(Duration::from_millis(300));
    signal(&tracer, libc::SIGINT);
    let out = tracer.wait_with_output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));

    let run = store::Run::open(&both).unwrap();
    let mut all = Vec::new();
    run.requests(|request| all.push(request)).unwrap();
    let (asked, answered): (Vec<_>, Vec<_>) = all.into_iter().partition(|r| r.role == Role::Client);
    assert!(asked.iter().all(|r| r.basis == record::Basis::BothEnds), "the one host has both ends");
    let (here, far) = (at("client"), at("server"));
    assert_eq!(write(&run, &here, Role::Client), TIMES as u64);
    assert_eq!(write(&run, &far, Role::Server), TIMES as u64);

    let [here, far] = [&here, &far].map(|path| path.to_str().unwrap());
    let out = tier::wirelapse!(&["compare", "--join", here, far, "--json"]).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    let said: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((&said["kind"], &said["joined"]), (&"joined_runs".into(), &TIMES.into()), "{said}");
    assert_eq!(said["found_by"]["addresses"], 1);
    let error = said["clock"]["error_ns"].as_i64().unwrap();
    // Half of 28 ms, and what the hosts and the path add.
    assert!((13_000_000..22_000_000).contains(&error), "{error} ns");
    let middle = asked[TIMES / 2].moments.left.unwrap();
    let truth = by_the_servers_clock(middle).as_nanos() as i64 - middle.as_nanos() as i64;
    let ahead = said["clock"]["ahead_ns"].as_i64().unwrap();
    assert!((ahead - truth).abs() <= error, "{ahead} ns, and it is {truth} ns, within {error} ns");

    let figure = |name: &str| {
        let all = said["components"].as_array().unwrap();
        let figure = all.iter().find(|f| f["component"] == name).unwrap_or_else(|| panic!("no {name}"));
        [&figure["p50_ns"], &figure["error_ns"]].map(|ns| ns.as_u64().unwrap())
    };
    for component in [Component::Application, Component::PeerReceive, Component::PeerApplication, Component::PeerSend] {
        // The server's seconds are shorter by 80 millionths; the figures are within 0.1 %.
        let ([joined, _], one) = (figure(component.name()), of(&asked, component));
        assert!(joined.abs_diff(one) <= one / 500 + 100, "{component}: {joined} ns, and {one} ns on one host");
    }
    let (mut there, mut back) = (Vec::new(), Vec::new());
    for (a, b) in asked.iter().zip(&answered) {
        there.push(b.moments.last_arrived.unwrap().since(a.moments.left.unwrap()).unwrap().0);
        back.push(a.moments.arrived.unwrap().since(b.moments.first_left.unwrap()).unwrap().0);
    }
    for (name, truth) in [("network_there", median(there)), ("network_back", median(back))] {
        let [joined, error] = figure(name);
        assert!(joined.abs_diff(truth) <= error, "{name}: {joined} ns ± {error}, and {truth} ns on one host");
    }
    let out = tier::wirelapse!(&["compare", "--join", here, far]).output().unwrap();
    let words = text(&out.stdout);
    eprintln!("{words}");
    assert!(words.contains("The clock of server is") && words.contains("The network, both ways took"), "{words}");
    assert!(words.contains("How long each part took") && words.contains("Next: that is the distance"), "{words}");
    let out = tier::wirelapse!(&["compare", "--join", "--names", "left,right", here, far]).output().unwrap();
    assert!(text(&out.stdout).contains("The clock of right is"), "{}", text(&out.stdout));
    let out = tier::wirelapse!(&["compare", "--join", far, here]).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("name the client's run first"), "{}", text(&out.stderr));
}
