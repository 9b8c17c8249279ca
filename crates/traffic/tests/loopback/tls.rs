//! Tests that are asked for within TLS: every workload, and whom it keeps out.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::ControlFlow;
use std::path::PathBuf;

use clock::Nanos;
use tempfile::TempDir;
use traffic::iperf3::{Padding, SKEW, Users};
use traffic::tls::{Identity, Trusted};
use traffic::{Error, Refusal, Server, ServerConfig, SocketOptions, Target, load, rr, stream, udp};

const TOKEN: &str = "secret";

/// A certificate for `name`, and the folder with its files.
fn identity(name: &str) -> (Identity, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let (chain, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&chain, cert.pem()).unwrap();
    std::fs::write(&key, signing_key.serialize_pem()).unwrap();
    (Identity::load(&chain, &key).unwrap(), folder)
}

/// A server on loopback with a certificate for `name`, and the folder with its files.
fn server(name: &str) -> (Server, TempDir) {
    let (tls, folder) = identity(name);
    let tls = Some(tls);
    let listen = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let config = ServerConfig { tls, token: Some(TOKEN.into()), ..ServerConfig::new(listen) };
    (Server::start(config).unwrap(), folder)
}

fn target(server: &Server, certificate: PathBuf, name: &str) -> Target {
    let tls = Some(Trusted { certificate, name: name.to_owned() });
    Target { tls, token: Some(TOKEN.into()), ..Target::new(server.local_addr()) }
}

fn go_on<T>(_: T) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn every_workload_is_asked_for_within_tls() {
    let (server, folder) = server("127.0.0.1");
    let target = target(&server, folder.path().join("cert.pem"), "127.0.0.1");
    let short = Nanos::from_millis(200);

    let config = stream::Config { bytes: Some(1_000_000), ..stream::Config::new(target.clone()) };
    let outcome = stream::run(&config, &mut |p| go_on(p)).unwrap();
    assert_eq!((outcome.up.unwrap().received_bytes, outcome.interrupted), (Some(1_000_000), None));

    for connect_each in [false, true] {
        let config = rr::Config { connect_each, connections: 3, duration: short, ..rr::Config::new(target.clone()) };
        let outcome = rr::run(&config, &mut |p| go_on(p)).unwrap();
        assert!(outcome.transactions > 0 && outcome.interrupted.is_none(), "{outcome:?}");
    }

    for direction in [udp::Direction::Up, udp::Direction::Down] {
        let config = udp::Config {
            direction,
            duration: short,
            bits_per_second: 1_000_000,
            datagram_bytes: 100,
            ..udp::Config::new(target.clone())
        };
        let outcome = udp::run(&config, &mut |p| go_on(p)).unwrap();
        assert!(outcome.datagrams.received > 0 && outcome.datagrams.lost == 0, "{outcome:?}");
    }

    let config = load::Config { before: short, load: short, after: short, flows: 1, ..load::Config::new(target) };
    let outcome = load::run(&config, &mut |p| go_on(p)).unwrap();
    let tcp = &outcome.probes[0];
    assert!(tcp.error.is_none() && tcp.before.sent > 0 && tcp.before.lost == 0, "{tcp:?}");
    assert_eq!(server.stop().broken_off, 0);
}

#[test]
fn who_asks_without_tls_is_refused_even_with_the_token() {
    let (server, _folder) = server("127.0.0.1");
    let target = Target { token: Some(TOKEN.into()), ..Target::new(server.local_addr()) };
    let asked = [
        stream::run(&stream::Config::new(target.clone()), &mut |p| go_on(p)).map(drop),
        rr::run(&rr::Config::new(target.clone()), &mut |p| go_on(p)).map(drop),
        udp::run(&udp::Config::new(target), &mut |p| go_on(p)).map(drop),
    ];
    for result in asked {
        assert!(matches!(result, Err(Error::Refused { refusal: Refusal::Tls, .. })), "{result:?}");
    }
}

#[test]
fn neither_a_foreign_certificate_nor_another_name_is_trusted() {
    let ((server, _folder), (_other, foreign)) = (server("measure.example"), server("measure.example"));
    let own = _folder.path().join("cert.pem");
    let ask = |certificate: PathBuf, name: &str| {
        let target = Target { options: SocketOptions::default(), ..target(&server, certificate, name) };
        rr::run(&rr::Config { duration: Nanos::from_millis(50), ..rr::Config::new(target) }, &mut |p| go_on(p))
    };
    ask(own.clone(), "measure.example").unwrap();
    for (certificate, name) in [(foreign.path().join("cert.pem"), "measure.example"), (own, "other.example")] {
        match ask(certificate, name) {
            Err(Error::Tls { why, .. }) => assert!(why.contains("certificate"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_wrong_token_is_refused_within_tls_too_and_files_are_named_in_errors() {
    let (server, folder) = server("127.0.0.1");
    let certificate = folder.path().join("cert.pem");
    let wrong = Target { token: Some("other".into()), ..target(&server, certificate.clone(), "127.0.0.1") };
    let refused = rr::run(&rr::Config::new(wrong), &mut |p| go_on(p));
    assert!(matches!(refused, Err(Error::Refused { refusal: Refusal::Token, .. })), "{refused:?}");
    let missing = Identity::load(&certificate, &folder.path().join("none.pem")).unwrap_err();
    assert!(missing.contains("none.pem"), "{missing}");
    // The key where the certificate should be.
    let swapped = Identity::load(&folder.path().join("key.pem"), &certificate).unwrap_err();
    assert!(swapped.contains(".pem"), "{swapped}");
}

#[test]
fn a_client_with_tls_says_so_of_a_server_without() {
    let (with, folder) = server("127.0.0.1");
    let plain = Server::start(ServerConfig::new(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0))).unwrap();
    let asked = target(&plain, folder.path().join("cert.pem"), "127.0.0.1");
    match rr::run(&rr::Config::new(asked), &mut |p| go_on(p)) {
        Err(Error::Tls { why, .. }) => assert!(why.contains("--tls-cert"), "{why}"),
        other => panic!("{other:?}"),
    }
    drop(with);
}

/// An HTTP/2 connection to `server`, and the answers to requests for `path` on it, one after the
/// other, until it ends.
fn statuses(server: SocketAddr, certificate: &std::path::Path, path: &str, token: &str, most: usize) -> Vec<u16> {
    use rustls::pki_types::pem::PemObject as _;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(rustls::pki_types::CertificateDer::from_pem_file(certificate).unwrap()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let tcp = tokio::net::TcpStream::connect(server).await.unwrap();
        let name = rustls::pki_types::ServerName::from(server.ip());
        let tls = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config)).connect(name, tcp).await.unwrap();
        let (mut client, connection) = h2::client::handshake(tls).await.unwrap();
        tokio::spawn(connection);
        let mut statuses = Vec::new();
        while statuses.len() < most {
            let Ok(mut ready) = client.ready().await else { break };
            let request = http::Request::get(format!("https://{server}{path}"))
                .header("authorization", format!("Bearer {token}"))
                .body(())
                .unwrap();
            let Ok((response, _)) = ready.send_request(request, true) else { break };
            let Ok(response) = response.await else { break };
            statuses.push(response.status().as_u16());
            client = ready;
        }
        statuses
    })
}

#[test]
fn a_few_wrong_tokens_end_an_http_connection_and_each_is_an_event() {
    let (tls, folder) = identity("127.0.0.1");
    let listen = "127.0.0.1:0".parse().unwrap();
    let config = ServerConfig { tls: Some(tls), token: Some(TOKEN.into()), ..ServerConfig::new(listen) };
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let tell = told.clone();
    let server = Server::start_with(config, move |event| {
        if let traffic::server::Event::Refused { refusal, .. } = event {
            tell.lock().unwrap().push(refusal);
        }
    })
    .unwrap();
    let certificate = folder.path().join("cert.pem");
    assert_eq!(statuses(server.local_addr(), &certificate, "/small", "wrong", 9), [401; 3]);
    assert_eq!(*told.lock().unwrap(), [Refusal::Token, Refusal::Token, Refusal::Token]);
    assert_eq!(statuses(server.local_addr(), &certificate, "/small", TOKEN, 5), [200; 5]);
    assert_eq!(server.stop().refused, 3);
}

#[test]
fn a_server_of_users_alone_gives_http_to_nobody() {
    tier::needs!(tier::Need::Program("openssl"));
    let (tls, folder) = identity("127.0.0.1");
    let path = |name: &str| folder.path().join(name);
    let made =
        std::process::Command::new("openssl").args(["genrsa", "-traditional", "-out"]).arg(path("rsa.pem")).output();
    assert!(made.unwrap().status.success());
    std::fs::write(path("users.csv"), format!("mario,{}\n", "0".repeat(64))).unwrap();
    let users = Users::load(&path("rsa.pem"), &path("users.csv"), Padding::Oaep, SKEW).unwrap();
    let config =
        ServerConfig { tls: Some(tls), users: Some(users), ..ServerConfig::new("127.0.0.1:0".parse().unwrap()) };
    let server = Server::start(config).unwrap();
    for path in ["/config", "/small", "/large"] {
        assert_eq!(statuses(server.local_addr(), &folder.path().join("cert.pem"), path, "", 1), [401], "{path}");
    }
    let asked = rr::run(&rr::Config::new(target(&server, path("cert.pem"), "127.0.0.1")), &mut |p| go_on(p));
    assert!(matches!(asked, Err(Error::Refused { refusal: Refusal::Request { .. }, .. })), "{asked:?}");
    assert_eq!(server.stop().tests, 0);
}
