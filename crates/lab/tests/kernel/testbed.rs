//! Every frame is seen at both taps of a testbed, whatever the device.

use std::net::UdpSocket;
use std::time::Duration;

use lab::{Config, Device, Lab, Place, Side};
use tier::{Need, needs};

/// Frames that an interface of the calling thread's host has received.
fn received(name: &str) -> u64 {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = table.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':')).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Has datagrams arrive at host b, and gives what the taps saw meanwhile.
fn send(lab: &Lab, n: u64) -> [u64; 2] {
    let seen = || lab.run_in(Place::Measuring, || ["before", "after"].map(received)).unwrap();
    let sink = lab.host(Side::B).run(|| UdpSocket::bind((Side::B.ipv4(), 9)).unwrap()).unwrap();
    sink.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let source = lab.host(Side::A).run(|| UdpSocket::bind((Side::A.ipv4(), 0)).unwrap()).unwrap();
    let before = seen();
    for _ in 0..n {
        source.send_to(b"x", (Side::B.ipv4(), 9)).unwrap();
        sink.recv(&mut [0; 8]).unwrap();
    }
    let after = seen();
    [after[0] - before[0], after[1] - before[1]]
}

#[test]
fn every_frame_into_and_out_of_each_device_is_copied_to_the_measuring_host() {
    needs!(Need::Root, Need::Path("/dev/net/tun"));
    for device in [Device::Path, Device::Wire, Device::Bridge, Device::Router] {
        let lab = Lab::up_testbed(&Config::default(), device).unwrap_or_else(|e| panic!("{}: {e}", device.name()));
        let mut seen = send(&lab, 20);
        // A device may announce what it listens to (MLD, RFC 3810), for some seconds after it went
        // up.
        for _ in 0..5 {
            if seen.iter().any(|frames| *frames > 20) {
                seen = send(&lab, 20);
            }
        }
        assert_eq!(seen, [20, 20], "{}", device.name());
        assert_eq!(lab.path().report().backend == device.name(), device != Device::Path);
    }
}

#[test]
fn a_program_is_the_device_once_it_runs() {
    needs!(Need::Root, Need::Program("ip"));
    let lab = Lab::up_testbed(&Config::default(), Device::Program).unwrap();
    let source = lab.host(Side::A).run(|| UdpSocket::bind((Side::A.ipv4(), 0)).unwrap()).unwrap();
    let sink = lab.host(Side::B).run(|| UdpSocket::bind((Side::B.ipv4(), 9)).unwrap()).unwrap();
    sink.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    source.send_to(b"x", (Side::B.ipv4(), 9)).unwrap();
    assert!(sink.recv(&mut [0; 8]).is_err(), "nothing joins left and right");
    drop(sink);
    let join = "ip link add name br0 type bridge && ip link set left master br0 && ip link set right master br0 && ip link set br0 up";
    let done = tier::limit(lab.command_in(Place::Device, "sh").unwrap()).args(["-c", join]).status().unwrap();
    assert!(done.success());
    // A bridge's port takes no frames until the kernel has noticed its wire.
    lab.run_in(Place::Device, || lab::mirror::wait_for(&[c"left", c"right", c"br0"])).unwrap();
    assert_eq!(send(&lab, 5), [5, 5]);
}

#[test]
fn a_lab_that_is_no_testbed_has_no_measuring_host() {
    needs!(Need::Root);
    let lab = Lab::up(&Config::default()).unwrap();
    assert!(lab.run_in(Place::Measuring, || ()).is_err());
}
