//! What a Kubernetes cluster calls the pods and services that addresses belong to: asked of its API
//! by lists and watches of pods and services, which are all that it needs to be allowed to.
//!
//! **Guarantees:** memory is bounded by `MOST`; while the API is away, names stay what they were.

mod objects;
mod watch;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use objects::{Pod, Service};
pub use watch::{Api, start};

/// Pods, and services, that are remembered.
const MOST: usize = 100_000;

/// Namespace and name.
type Name = (String, String);

/// The pods and services of a cluster, as the API told of them last.
#[derive(Clone, Debug, Default)]
pub struct Cluster(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    pods: HashMap<Name, Pod>,
    services: HashMap<Name, Service>,
    /// What addresses belong to. Those of hosts belong to all pods in the network of their host,
    /// and so to none.
    addresses: HashMap<IpAddr, Owner>,
    /// Labels of pods that are published.
    labels: Vec<(String, &'static str)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Owner {
    Pod(Name),
    Service(Name),
}

/// Names with their values, as labels of a series.
pub type Labels = Vec<(&'static str, String)>;

impl Cluster {
    /// Of which these labels of pods are published.
    pub fn new(labels: &[String]) -> Self {
        // As many as the configuration names.
        let named = |label: &String| (label.clone(), &*Box::leak(format!("k8s.pod.label.{label}").into_boxed_str()));
        let known = Known { labels: labels.iter().map(named).collect(), ..Known::default() };
        Self(Arc::new(Mutex::new(known)))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What owns a pod of this host, and its labels that are published.
    pub fn of_pod(&self, namespace: &str, name: &str) -> Labels {
        let known = self.lock();
        let Some(pod) = known.pods.get(&(namespace.to_owned(), name.to_owned())) else { return Labels::new() };
        let owner = pod.owner.as_ref().and_then(|owner| Some((owner.kind.words()?.1, owner.name.clone())));
        let chosen = known.labels.iter().filter_map(|(key, label)| Some((*label, pod.labels.get(key)?.clone())));
        owner.into_iter().chain(chosen).collect()
    }

    /// What owns a pod of this host: its kind and its name.
    pub fn owner_of(&self, namespace: &str, name: &str) -> Option<(&'static str, String)> {
        let known = self.lock();
        let owner = known.pods.get(&(namespace.to_owned(), name.to_owned()))?.owner.as_ref()?;
        Some((owner.kind.words()?.0, owner.name.clone()))
    }

    /// Who a peer is.
    pub fn of_peer(&self, address: IpAddr) -> Labels {
        let known = self.lock();
        match known.addresses.get(&address) {
            None => Labels::new(),
            Some(Owner::Service((namespace, name))) => {
                vec![("k8s.peer.namespace.name", namespace.clone()), ("k8s.peer.service.name", name.clone())]
            }
            Some(Owner::Pod(id)) => {
                let Some(pod) = known.pods.get(id) else { return Labels::new() };
                let mut labels = vec![("k8s.peer.namespace.name", id.0.clone()), ("k8s.peer.pod.name", id.1.clone())];
                labels.extend(pod.owner.as_ref().map(|owner| ("k8s.peer.owner.name", owner.name.clone())));
                // Of several the first by name, so that it stays the same.
                let of = known.services.iter().filter(|((of, _), service)| *of == id.0 && service.selects(&pod.labels));
                labels.extend(of.map(|((_, name), _)| name).min().map(|name| ("k8s.peer.service.name", name.clone())));
                labels
            }
        }
    }

    /// All that there are, in the place of those that were known.
    fn set_pods(&self, pods: Vec<(Name, Pod)>) {
        let mut known = self.lock();
        known.pods.clear();
        known.addresses.retain(|_, owner| matches!(owner, Owner::Service(_)));
        pods.into_iter().for_each(|(name, pod)| known.pod(name, pod));
    }

    fn set_services(&self, services: Vec<(Name, Service)>) {
        let mut known = self.lock();
        known.services.clear();
        known.addresses.retain(|_, owner| matches!(owner, Owner::Pod(_)));
        services.into_iter().for_each(|(name, service)| known.service(name, service));
    }
}

impl Known {
    fn pod(&mut self, name: Name, pod: Pod) {
        self.forget_pod(&name);
        // What has ended has given its address back.
        if pod.ended || self.pods.len() >= MOST {
            return;
        }
        for address in pod.addresses.iter().filter(|_| !pod.host_network) {
            self.addresses.insert(*address, Owner::Pod(name.clone()));
        }
        self.pods.insert(name, pod);
    }

    fn forget_pod(&mut self, name: &Name) {
        let Some(pod) = self.pods.remove(name) else { return };
        self.forget_addresses(&pod.addresses, &Owner::Pod(name.clone()));
    }

    fn service(&mut self, name: Name, service: Service) {
        self.forget_service(&name);
        if self.services.len() >= MOST {
            return;
        }
        for address in &service.addresses {
            self.addresses.insert(*address, Owner::Service(name.clone()));
        }
        self.services.insert(name, service);
    }

    fn forget_service(&mut self, name: &Name) {
        let Some(service) = self.services.remove(name) else { return };
        self.forget_addresses(&service.addresses, &Owner::Service(name.clone()));
    }

    /// An address may have been given to another meanwhile.
    fn forget_addresses(&mut self, addresses: &[IpAddr], owner: &Owner) {
        for address in addresses {
            if self.addresses.get(address) == Some(owner) {
                self.addresses.remove(address);
            }
        }
    }
}

impl Service {
    /// Whether a pod with these labels is behind it.
    fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        !self.selector.is_empty() && self.selector.iter().all(|(key, value)| labels.get(key) == Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::objects::{Kind, Object};
    use super::*;

    fn pod(text: &str) -> (Name, Pod) {
        serde_json::from_str::<Object>(text).unwrap().pod()
    }

    fn name(of: &str) -> Name {
        ("shop".into(), of.into())
    }

    const CART: &str = r#"{"metadata": {"namespace": "shop", "name": "cart-6d4cf56db6-x7k2p",
        "labels": {"app": "cart", "pod-template-hash": "6d4cf56db6", "team": "a"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "cart-6d4cf56db6", "controller": true}]},
        "spec": {"hostNetwork": false}, "status": {"phase": "Running", "podIP": "10.1.0.7", "podIPs": [{"ip": "10.1.0.7"}, {"ip": "fd00::7"}]}}"#;

    #[test]
    fn a_replica_set_of_a_deployment_is_the_deployment() {
        let (name, cart) = pod(CART);
        assert_eq!(name, ("shop".into(), "cart-6d4cf56db6-x7k2p".into()));
        let owner = cart.owner.as_ref().unwrap();
        assert_eq!((owner.kind, owner.name.as_str()), (Kind::Deployment, "cart"));
        assert_eq!(cart.addresses.len(), 2);
        // One that somebody made without a deployment.
        let (_, alone) = pod(&CART.replace(r#""pod-template-hash": "6d4cf56db6", "#, ""));
        assert_eq!(alone.owner.unwrap().kind, Kind::ReplicaSet);
        // The kubelet's own pods have their node for an owner, which is no workload.
        let (_, of_node) = pod(&CART.replace("ReplicaSet", "Node"));
        assert_eq!(of_node.owner.unwrap().kind.words(), None);
        let (_, database) = pod(&CART.replace("ReplicaSet", "StatefulSet"));
        assert_eq!(database.owner.unwrap().kind.words(), Some(("statefulset", "k8s.statefulset.name")));
    }

    #[test]
    fn addresses_belong_to_who_has_them_now() {
        let cluster = Cluster::new(&["team".into()]);
        let address: IpAddr = "10.1.0.7".parse().unwrap();
        cluster.set_pods(vec![pod(CART)]);
        let service = |text: &str| serde_json::from_str::<Object>(text).unwrap().service();
        let services = r#"{"metadata": {"namespace": "shop", "name": "cart"},
            "spec": {"selector": {"app": "cart"}, "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"]}}"#;
        cluster.set_services(vec![
            service(services),
            service(&services.replace("\"cart\"},\n", "\"other\"},\n").replace("\"app\": \"cart\"", "\"app\": \"b\"")),
        ]);
        let words =
            |labels: Labels| labels.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
        assert_eq!(
            words(cluster.of_peer(address)),
            [
                "k8s.peer.namespace.name=shop",
                "k8s.peer.pod.name=cart-6d4cf56db6-x7k2p",
                "k8s.peer.owner.name=cart",
                "k8s.peer.service.name=cart"
            ]
        );
        let of_service = cluster.of_peer("10.96.0.9".parse().unwrap());
        assert_eq!(of_service[0].1, "shop");
        assert_eq!(
            words(cluster.of_pod("shop", "cart-6d4cf56db6-x7k2p")),
            ["k8s.deployment.name=cart", "k8s.pod.label.team=a"]
        );
        let owner = cluster.owner_of("shop", "cart-6d4cf56db6-x7k2p");
        assert_eq!(owner, Some(("deployment", "cart".to_owned())));
        assert_eq!(cluster.owner_of("other", "cart-6d4cf56db6-x7k2p"), None);
        // It ends, and another one gets its address before that is known.
        let (next, next_pod) = pod(&CART.replace("x7k2p", "zzzzz"));
        cluster.lock().pod(next, next_pod);
        cluster.lock().pod(name("cart-6d4cf56db6-x7k2p"), pod(&CART.replace("Running", "Succeeded")).1);
        assert!(words(cluster.of_peer(address)).contains(&"k8s.peer.pod.name=cart-6d4cf56db6-zzzzz".to_owned()));
        // Pods in the network of their host have its address.
        let (host, host_pod) =
            pod(&CART.replace(r#""hostNetwork": false"#, r#""hostNetwork": true"#).replace("10.1.0.7", "192.0.2.1"));
        cluster.lock().pod(host, host_pod);
        assert_eq!(cluster.of_peer("192.0.2.1".parse().unwrap()), Labels::new());
        // A list takes the place of all.
        cluster.set_pods(Vec::new());
        assert_eq!(cluster.of_peer(address), Labels::new());
    }
}
