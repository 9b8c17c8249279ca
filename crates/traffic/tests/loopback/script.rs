//! The programs of a recorded connection, over loopback.

use std::net::SocketAddr;

use record::Nanos;
use record::script::Step;
use traffic::SocketOptions;
use traffic::script::{Played, Role, listen, run, serve};

const fn step(after: u64, think_ms: u64, bytes: u64) -> Step {
    Step { after, think: Nanos::from_millis(think_ms), bytes }
}

fn played(client: &[Step], server: &[Step], passes: u32) -> [Result<Played, traffic::Error>; 2] {
    let options = SocketOptions::default();
    let until = traffic::now().after(Nanos::from_secs(5));
    let sum = |steps: &[Step]| steps.iter().map(|s| s.bytes).sum();
    let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0)), &options).unwrap();
    let at = listener.local_addr().unwrap();
    let role =
        |steps, reads| Role { steps, reads, options: &options, delayed_ack: None, fast_open: false, passes, until };
    let (calls, answers) = (role(client, sum(server)), role(server, sum(client)));
    std::thread::scope(|scope| {
        let served = scope.spawn(|| serve(&listener, &answers));
        [run(at, &calls), served.join().unwrap()]
    })
}

#[test]
fn an_answer_waits_for_its_question_and_for_the_programs_thinking() {
    let client = [step(0, 0, 100), step(50, 10, 100)];
    let server = [step(100, 20, 50), step(200, 20, 50)];
    for passes in [1, 2] {
        let [client, _] = played(&client, &server, passes).map(Result::unwrap);
        assert_eq!(client.answers.len(), 2);
        assert!(client.answers.iter().all(|ns| *ns >= Nanos::from_millis(20)), "{client:?}");
        assert!(client.ended.saturating_since(client.began) >= Nanos::from_millis(50), "{client:?}");
    }
}

#[test]
fn both_write_more_than_buffers_hold_at_the_same_time() {
    let much = [step(0, 0, 20_000_000)];
    let [client, server] = played(&much, &much, 1).map(Result::unwrap);
    assert!(client.answers.len() == 1 && server.answers.len() == 1);
}

#[test]
fn one_that_waits_for_what_never_comes_is_given_up() {
    let options = SocketOptions::default();
    let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0)), &options).unwrap();
    let until = traffic::now().after(Nanos::from_millis(50));
    let steps = &[step(10, 0, 1)];
    let role = Role { steps, reads: 10, options: &options, delayed_ack: None, fast_open: false, passes: 1, until };
    let error = run(listener.local_addr().unwrap(), &role).unwrap_err();
    assert!(error.to_string().contains("did not come to its end"), "{error}");
    // The server's end finds the connection closed.
    let error = serve(&listener, &role).unwrap_err();
    assert!(error.to_string().contains("closed it before its end"), "{error}");
}
