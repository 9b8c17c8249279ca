//! A made-up API of Kubernetes: lists and watches of pods and services, and nothing else, name the
//! peers and the pods of series; what comes, changes and goes shows.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use crate::made_up::{AtWork, get};

/// A pod of the service `shop`, with the first made-up peer's address.
fn pod(version: u32, name: &str, address: &str, phase: &str) -> String {
    format!(
        r#"{{"metadata":{{"namespace":"shop","name":"{name}","resourceVersion":"{version}","labels":{{"app":"cart","pod-template-hash":"5f6"}},"ownerReferences":[{{"kind":"ReplicaSet","name":"cart-5f6","controller":true}}]}},"spec":{{"containers":[{{"name":"a"}}]}},"status":{{"phase":"{phase}","podIPs":[{{"ip":"{address}"}}]}}}}"#
    )
}

/// What was asked of the API, and the lines of the watch of pods that are still to be sent.
struct Api {
    asked: Arc<Mutex<Vec<String>>>,
    lines: Sender<String>,
    url: String,
}

fn api() -> Api {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (lines, receiver) = channel();
    let (noted, receiver) = (asked.clone(), Arc::new(Mutex::new(receiver)));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (noted, receiver) = (noted.clone(), receiver.clone());
            std::thread::spawn(move || answer(stream.unwrap(), &noted, &receiver));
        }
    });
    Api { asked, lines, url }
}

fn answer(mut stream: TcpStream, asked: &Mutex<Vec<String>>, lines: &Mutex<Receiver<String>>) {
    let mut head = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let first = head.next().unwrap_or_default();
    let allowed = head
        .take_while(|line| !line.is_empty())
        .any(|line| line.eq_ignore_ascii_case("authorization: Bearer of-the-pod"));
    asked.lock().unwrap().push(first.clone());
    let mut send = |status: &str, body: &str| {
        let length = body.len();
        let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    };
    let is = |of: &str| first.starts_with(&format!("GET {of}?"));
    match () {
        () if !allowed => send("401 Unauthorized", ""),
        () if is("/api/v1/pods") && first.contains("watch=true") => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            let lines = lines.lock().unwrap();
            // An empty line ends the watch, as the API does after a while.
            while let Ok(line) = lines.recv() {
                if line.is_empty() {
                    break;
                }
                let _ = write!(stream, "{:x}\r\n{line}\n\r\n", line.len() + 1);
            }
            let _ = stream.write_all(b"0\r\n\r\n");
        }
        // Two pages.
        () if is("/api/v1/pods") && first.contains("continue= ") => {
            let of = pod(5, "cart-5f6-aaaaa", "10.0.0.1", "Running");
            send(
                "200 OK",
                &format!(
                    r#"{{"kind":"PodList","metadata":{{"resourceVersion":"7","continue":"a/b+c"}},"items":[{of}]}}"#
                ),
            );
        }
        () if is("/api/v1/pods") && first.contains("continue=%61%2F%62%2B%63") => {
            send("200 OK", r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#);
        }
        () if is("/api/v1/services") && first.contains("watch=true") => {
            std::thread::sleep(std::time::Duration::from_secs(3600));
        }
        () if is("/api/v1/services") => {
            let of = r#"{"metadata":{"namespace":"shop","name":"cart"},"spec":{"selector":{"app":"cart"},"clusterIPs":["10.0.0.2"]}}"#;
            let none = r#"{"metadata":{"namespace":"shop","name":"alone"},"spec":{"clusterIPs":["None"]}}"#;
            send("200 OK", &format!(r#"{{"metadata":{{"resourceVersion":"9"}},"items":[{of},{none}]}}"#));
        }
        () => send("403 Forbidden", ""),
    }
}

#[test]
fn peers_have_the_names_that_the_api_gives_them_and_lose_them() {
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "of-the-pod\n").unwrap();
    let api = api();
    let config = format!(
        "[prometheus]\nlisten = \"127.0.0.1:0\"\n[kubernetes]\nurl = \"{}\"\ntoken_file = \"{}\"\n",
        api.url,
        token.display()
    );
    let agent = AtWork::start(&config, 3);
    let url = format!("http://{}/metrics", agent.address.unwrap());
    let sends = |labels: &[&str]| {
        let text = get(&url);
        let lines = text.lines().filter(|line| line.starts_with("wirelapse_sends_total{"));
        lines.filter(|line| labels.iter().all(|label| line.contains(label))).count()
    };
    let of_pod = |name: &str| format!("k8s_peer_pod_name=\"{name}\"");
    let first = ["network_peer_address=\"10.0.0.1\"", "k8s_peer_namespace_name=\"shop\"", &of_pod("cart-5f6-aaaaa")];
    tier::until("the first pod", || sends(&first) == 1);
    tier::until("its owner and service", || {
        sends(&["k8s_peer_owner_name=\"cart\"", "k8s_peer_service_name=\"cart\"", first[0]]) >= 1
    });
    tier::until("a service's own address", || {
        sends(&["network_peer_address=\"10.0.0.2\"", "k8s_peer_service_name=\"cart\""]) >= 1
    });
    // The pod is replaced by another with its address, then the watch ends and goes on from there.
    let change =
        |what: &str, object: &str| api.lines.send(format!(r#"{{"type":"{what}","object":{object}}}"#)).unwrap();
    change("BOOKMARK", r#"{"kind":"Pod","metadata":{"resourceVersion":"11"},"spec":{"containers":null},"status":{}}"#);
    change("DELETED", &pod(12, "cart-5f6-aaaaa", "10.0.0.1", "Running"));
    change("ADDED", &pod(13, "cart-5f6-bbbbb", "10.0.0.1", "Running"));
    tier::until("the second pod", || sends(&[&of_pod("cart-5f6-bbbbb"), first[0]]) == 1);
    api.lines.send(String::new()).unwrap();
    tier::until("the next watch", || {
        api.asked.lock().unwrap().iter().filter(|line| line.contains("/pods?watch=true")).count() == 2
    });
    assert!(api.asked.lock().unwrap().last().unwrap().contains("resourceVersion=13"), "{:?}", api.asked);
    // The API has forgotten where that was: everything is asked for once more.
    change("ERROR", r#"{"kind":"Status","status":"Failure","code":410}"#);
    let lists = || api.asked.lock().unwrap().iter().filter(|line| line.contains("/pods?limit")).count();
    tier::until("another list", || lists() == 4);
    // It asked for nothing but what it may.
    let allowed = |line: &String| line.starts_with("GET /api/v1/pods?") || line.starts_with("GET /api/v1/services?");
    assert!(api.asked.lock().unwrap().iter().all(allowed), "{:?}", api.asked);
    agent.finish();
}
