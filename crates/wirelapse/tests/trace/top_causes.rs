//! `wirelapse top`: a cause that is planted is named in the rows that it is of.

use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use tier::Need;

use super::top::{answer_once, lines_until};
use crate::scene::BTF;

#[test]
fn a_slow_answer_of_dns_is_named_in_the_row_of_the_program_and_of_the_server() {
    tier::needs!(Need::Root, BTF);
    let server = UdpSocket::bind("127.6.7.53:53").unwrap();
    let listener = TcpListener::bind("127.6.7.8:0").unwrap();
    let idle = (TcpStream::connect(listener.local_addr().unwrap()).unwrap(), listener.accept().unwrap());
    let pid = std::process::id().to_string();
    for (by, label) in [("process", format!("[{pid}]")), ("peer", "127.6.7.53".to_owned())] {
        let mut asked = false;
        let row = lines_until(&["--pid", &pid, "--by", by], |row| {
            if !asked {
                asked = true;
                let resolver = UdpSocket::bind("127.0.0.1:0").unwrap();
                let question = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x04slow\x07example\0\0\x01\0\x01";
                resolver.send_to(question, "127.6.7.53:53").unwrap();
                std::thread::sleep(Duration::from_millis(300));
                answer_once(&server, Ipv4Addr::new(127, 6, 7, 9));
                resolver.recv(&mut [0; 512]).unwrap();
            }
            row["lookups"] == 1 && row["label"].as_str().unwrap().ends_with(&label)
        });
        assert_eq!((&row["trouble"], &row["lookups_unanswered"]), (&"slow_dns".into(), &0.into()), "{row}");
        let took = row["lookup_p99_ns"].as_u64().unwrap() as f64 / 3e8;
        assert!(took > 0.95, "{row}");
    }
    drop(idle);
}
