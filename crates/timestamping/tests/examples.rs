//! The examples, run: each is a whole program over loopback that ends by itself.

#[path = "../examples/blocking.rs"]
#[allow(dead_code, reason = "its main reads the command line, which is that of this test")]
mod blocking;
#[path = "../examples/nonblocking.rs"]
mod nonblocking;
#[path = "../examples/socket2.rs"]
mod socket2_example;
#[path = "../examples/tokio.rs"]
mod tokio_example;

#[test]
fn blocking_std() {
    blocking::time_requests(&blocking::echo_server().unwrap()).unwrap();
}

#[test]
fn nonblocking_std() {
    nonblocking::main().unwrap();
}

#[test]
fn socket2() {
    socket2_example::main().unwrap();
}

#[test]
fn tokio() {
    tokio_example::main().unwrap();
}
