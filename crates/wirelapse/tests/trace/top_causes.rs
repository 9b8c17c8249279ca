//! `wirelapse top`: a cause that is planted is named in the rows that it is of.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::process::Stdio;
use std::time::Duration;

use tier::Need;

use super::top::{answer_once, lines_until};
use crate::scene::BTF;

/// A program that keeps a connection, and asks one question of DNS for each line that it reads.
const ASKS: &str = r#"
import socket, sys
kept = socket.create_connection(("127.6.7.8", int(sys.argv[1])))
question = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x04slow\x07example\0\0\x01\0\x01"
for line in sys.stdin:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as resolver:
        resolver.sendto(question, ("127.6.7.53", 53))
        resolver.recv(512)
    print("answered", flush=True)
"#;

#[test]
fn a_slow_answer_of_dns_is_named_in_the_row_of_the_program_and_of_the_server() {
    tier::needs!(Need::Root, BTF, Need::Program("python3"));
    let server = UdpSocket::bind("127.6.7.53:53").unwrap();
    let listener = TcpListener::bind("127.6.7.8:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    // Of its own, as other tests of this program connect to where nobody answers.
    let mut program = tier::command("python3")
        .args(["-c", ASKS, &port])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let accepted = listener.accept().unwrap();
    let (mut ask, mut answered) =
        (program.stdin.take().unwrap(), BufReader::new(program.stdout.take().unwrap()).lines());
    let pid = program.id().to_string();
    for (by, label) in [("process", format!("[{pid}]")), ("peer", "127.6.7.53".to_owned())] {
        let mut asked = false;
        let row = lines_until(&["--pid", &pid, "--by", by], |row| {
            if !asked {
                asked = true;
                writeln!(ask).unwrap();
                std::thread::sleep(Duration::from_millis(300));
                answer_once(&server, Ipv4Addr::new(127, 6, 7, 9));
                answered.next().unwrap().unwrap();
            }
            row["lookups"] == 1 && row["label"].as_str().unwrap().ends_with(&label)
        });
        assert_eq!((&row["trouble"], &row["lookups_unanswered"]), (&"slow_dns".into(), &0.into()), "{row}");
        let took = row["lookup_p99_ns"].as_u64().unwrap() as f64 / 3e8;
        assert!(took > 0.95, "{row}");
    }
    drop((ask, accepted));
    assert!(program.wait().unwrap().success());
}
