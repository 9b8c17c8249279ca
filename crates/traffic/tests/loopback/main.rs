//! Workloads over loopback, between programs of ours and with others.

mod faults;
mod iperf3;
mod iperf3_program;
mod kept;
mod load;
mod own_workloads;
mod script;
mod tls;
