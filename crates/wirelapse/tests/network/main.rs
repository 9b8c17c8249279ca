//! Commands that need a network of their own, or what root may do: labs, interfaces, workloads,
//! studies, services.

mod agent;
mod capture;
mod delay_live;
mod doctor;
mod hostile;
mod killed;
mod lab;
mod lab_seen;
mod limited;
mod namespaces;
mod probe;
mod rights;
mod study;
mod study_hosts;
mod uplink;
mod workloads;
