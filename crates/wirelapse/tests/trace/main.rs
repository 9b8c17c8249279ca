//! `wirelapse trace`, and what else shows or compares what was traced, over connections of which
//! more is known.

mod compare_hosts;
mod compare_runs;
mod extcap;
mod first_hour;
mod json_keys;
#[path = "../scene/mod.rs"]
mod scene;
mod signals;
mod three_readings;
mod top;
mod top_causes;
mod top_scenes;
mod trace;
mod trace_between;
mod trace_datagrams;
mod trace_dns;
mod trace_drops;
mod trace_faults;
mod trace_flood;
mod trace_fragments;
mod trace_http;
mod trace_icmp;
mod trace_live;
mod trace_load;
mod trace_many;
mod trace_owners;
mod trace_packets;
mod trace_programs;
mod trace_proxied;
mod trace_reasons;
mod trace_recorder;
mod trace_requests;
mod trace_triggers;
mod trace_trouble;
mod trace_truth;
mod watch;
