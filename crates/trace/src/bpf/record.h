/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The records that reach user space, and the settings that come from there. The Rust types are made
 * of these when the crate is built. All fields are in host byte order but addresses, which are as
 * on the wire. */
#pragma once
#include "kernel.h"
#include "state.h"

enum record_kind {
	RECORD_CONNECTION = 1,
	RECORD_SEND = 2,
	RECORD_CLOSED = 3,
};
SHARED(enum record_kind);

enum opening {
	OPENING_FOUND = 0,
	OPENING_CONNECTED = 1,
	OPENING_ACCEPTED = 2,
};
SHARED(enum opening);

/* Whether this end of a connection that was found was accepted. */
enum accepted { ACCEPTED_NOT_KNOWN = 0, ACCEPTED, ACCEPTED_NOT };
SHARED(enum accepted);

enum reason {
	REASON_SENT_AT_ONCE = 0, /* as the index of a clock: nothing known holds the head back */
	REASON_CONGESTION_WINDOW,
	REASON_RECEIVE_WINDOW,
	REASON_SEND_BUFFER,
	REASON_PACING,
	REASON_NAGLE,
	REASON_CORK,
	REASON_AUTOCORK,
	REASON_SMALL_QUEUE,
	REASON_RETRANSMISSION,
	REASON_UNKNOWN,
	REASONS,
};
SHARED(enum reason);

/* Each reason but the last has a clock. It counts units of 256 ns: 32 bits of it reach 18 minutes.
 */
enum clock { CLOCK_SHIFT = 8, CLOCKS = REASON_UNKNOWN };
SHARED(enum clock);

/* What is known of why a send waited in TCP. */
enum wait {
	WAIT_NOT_KNOWN = 0,
	WAIT_NONE, /* it left within the call that wrote it */
	WAIT_CLOCKS, /* how far each clock went meanwhile */
};
SHARED(enum wait);

struct connection_record {
	__u32 kind;
	__u32 pid;
	__u64 cookie;
	__u64 at;
	__u8 local[16]; /* IPv4 as IPv4-mapped */
	__u8 remote[16];
	__u16 local_port;
	__u16 remote_port;
	__u8 opening;
	__u8 accepted;
	__u8 pad[2];
	char comm[16];
	char congestion_control[16];
};
SHARED(struct connection_record);

struct send_record {
	__u32 kind;
	__u32 pid;
	__u64 cookie;
	__u64 send;
	__u64 sched;
	__u64 driver;
	__u64 nic; /* the NIC's own clock */
	/* Where no ACK was seen (`idle`): when it was last seen without. */
	__u64 ack;
	__u64 call; /* when the call that wrote it began; 0: not known */
	/* ns that the program waited for room in the send buffer before it could write these
	 * bytes */
	__u64 full;
	/* With WAIT_CLOCKS, by reason: how far each clock went from `send` on. Before that is
	 * decided, where the clocks stood at `send`. */
	__u32 waits[CLOCKS];
	/* The same of `full`, where that is not 0. */
	__u32 full_waits[CLOCKS];
	__u32 first_seq;
	__u32 bytes;
	struct state state;
	char comm[16];
	__u16 retransmissions;
	__u8 wait; /* what `waits` is */
	/* A segment without data acknowledged this and no more than one packet, LATE_NS or more
	 * after `send`, while nothing of the connection waited for that. */
	__u8 alone;
	/* Not 0: no stamp was made, but the stage was passed between `sched` (or `driver`) and so
	 * many ns later. */
	__u32 sched_span;
	__u32 driver_span;
	/* the number of the interface that stamped `nic`, in the network namespace with this
	 * inode number */
	__u32 nic_interface;
	__u32 nic_network;
	/* Not 0: the ACK came at `ack`, give or take so many ns. */
	__u32 ack_span;
	/* Not 0: no ACK was seen, and for so many microseconds by `ack` nothing of the connection
	 * was acknowledged, since the send was made. */
	__u32 idle;
	__u32 thread; /* that made it, by the kernel's own number */
};
SHARED(struct send_record);

struct totals {
	__u64 followed;
	__u64 armed;
	__u64 bytes_written;
	__u64 bytes_armed;
	__u64 bytes_acked;
	__u32 retransmitted;
	__u32 zero_windows; /* or NOT_COUNTED */
};
SHARED(struct totals);

enum not_counted { NOT_COUNTED = 0xffffffff };
SHARED(enum not_counted);

/* What the kernel's own clocks say of a connection since its queue was taken, and what the reasons
 * do. */
struct judged {
	__u32 busy; /* jiffies, as the next two; 0: there is nothing to compare */
	__u32 receive_window_limited;
	__u32 send_buffer_limited;
	__u32 receive_window; /* the clock of that reason */
	__u32 send_buffer; /* likewise, the time without room while nothing held the queue */
	__u32 not_marked; /* and that with a full congestion window that TCP did not mark as such */
};
SHARED(struct judged);

struct closed_record {
	__u32 kind;
	__u32 pad;
	__u64 cookie;
	struct totals totals;
	struct judged judged;
};
SHARED(struct closed_record);

/* One per CPU; user space adds them up. */
struct lost {
	__u64 ring_buffer;
	__u64 slots_full;
	__u64 connections_full;
	__u64 connections_late;
	__u64 unfinished;
	__u64 closed_unacked;
	__u64 no_sched;
	__u64 no_driver;
	__u64 after_ack;
	__u64 repeated;
	__u64 unstamped;
	__u64 over_rate;
	__u64 left_out;
	__u64 stretches_full;
	/* Opening and closing records of connections that found the ring buffer full, and the
	 * totals of those that have no closing one. */
	__u64 connection_records;
	__u64 followed;
	__u64 armed;
	__u64 bytes_written;
	__u64 bytes_armed;
	__u64 nic_late;
	/* Of sends that have no record: else user space counts them. */
	__u64 inferred;
	__u64 disorder;
};
SHARED(struct lost);

enum config_flags {
	CONFIG_ALL = 1 << 0,
	CONFIG_PIDS = 1 << 1,
	CONFIG_PORTS = 1 << 2,
	CONFIG_PEERS = 1 << 3,
	CONFIG_CGROUP = 1 << 4,
	CONFIG_WINDOWS = 1 << 5,
	/* the watch: report connections that are established, that end */
	CONFIG_AT_CONNECT = 1 << 6,
	CONFIG_AT_CLOSE = 1 << 7,
	CONFIG_HISTOGRAMS = 1 << 8, /* sends are added to histograms */
	CONFIG_NO_RECORDS = 1 << 9, /* and make no records, nor do their connections */
	CONFIG_CONNECTS = 1 << 10, /* report how connections are set up and end */
};
SHARED(enum config_flags);

/* Cgroups of the target: how many there can be at a time, and how deep in the hierarchy. */
enum cgroups { MAX_CGROUPS = 4096, MAX_LEVELS = 32 };
SHARED(enum cgroups);

/* What a cgroup of the target is: it was there when the trace began, or came later, so that every
 * socket in it is younger than the trace. */
enum cgroup_age { CGROUP_WAS_THERE = 1, CGROUP_CAME = 2 };
SHARED(enum cgroup_age);

/* Fixed when the programs are loaded. */
struct config {
	__u32 flags;
	__u32 slots; /* per connection; a power of two */
	__u32 rows; /* the most connections at a time */
	__u32 queues; /* of them, those that can be looked at */
	__u32 chunks; /* of slots, for all connections together */
	__u32 directories; /* of chunks, likewise */
	/* per-send draws: keep where a random 32-bit number is below; 0 keeps all */
	__u32 draw_below;
	__u32 max_rate; /* sends a second; 0 for no limit */
	__u32 pid_namespace; /* inode number of the tracer's; 0 where that is the initial one */
};
SHARED(struct config);

/* An ACK that comes so late may be one that the peer's timer has sent. */
enum late { LATE_NS = 35000000 };
SHARED(enum late);

/* The least length of a stretch that sampling looks at or does not, ns: many round trips of a local
 * network, and short against what people look at. */
enum window { WINDOW_NS = 10000000 };
SHARED(enum window);

enum pass {
	PASS_FOLLOW = 0, /* pick up target sockets that are not followed yet; arm */
	PASS_TOTALS = 3, /* bring the totals in the rows up to date */
	PASS_FINISH = 4, /* flush, say goodbye, disarm */
	PASS_READ = 5, /* the watch: give the fields of each connection */
};
SHARED(enum pass);

/* Changed while running. */
struct control {
	__u32 pass;
	__u32 shared; /* another tracer is at work on this machine: leave sockets armed */
	/* processes are a criterion, though they were named only after the start */
	__u32 by_process;
	__u32 every; /* one in so many stretches is looked at; 1: all; 0: none */
	/* a sockops program that is no tracer's is loaded: callbacks that a socket had may be
	 * its */
	__u32 foreign;
	__u32 ending; /* connections that begin are not followed any more */
	__u32 generation; /* changes when numbers of series mean others than before */
};
SHARED(struct control);

/* What a prefix of the trie of peers is of: an IPv4 address stands there as an IPv4-mapped one, and
 * ::/0 is not to match it. */
enum peer { PEER_IPV4 = 1, PEER_IPV6 = 2 };
SHARED(enum peer);

/* A prefix of the longest-prefix-match trie of peers. */
struct prefix {
	__u32 bits;
	__u8 address[16];
};
SHARED(struct prefix);
