//! Commands that need a network of their own, or what root may do: labs, interfaces, workloads,
//! studies, services.

mod advise;
mod agent;
mod capture;
mod delay_live;
mod doctor;
mod drawn;
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

/// BPF programs that a process has on interfaces and elsewhere, by links that end with it.
fn bpf_links(pid: u32) -> usize {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let is_link =
        |entry: &std::fs::DirEntry| std::fs::read_to_string(entry.path()).is_ok_and(|text| text.contains("link_type:"));
    entries.filter(is_link).count()
}
