/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What is reported of a connection, in the kernel's own units; src/watch/sample.rs reads it. In
 * host byte order but for addresses, which are as on the wire. */
#pragma once
#include "kernel.h"

enum moment {
	MOMENT_EVERY = 0,
	MOMENT_CONNECT = 1,
	MOMENT_CLOSE = 2,
};
SHARED(enum moment);

struct sample_record {
	__u64 cookie;
	__u64 pacing_rate; /* bytes a second; ~0 for no limit */
	__u8 local[16]; /* IPv4 as IPv4-mapped */
	__u8 remote[16];
	__u16 local_port;
	__u16 remote_port;
	__u32 pid; /* 0: not known */
	char comm[16];
	__u32 header_length; /* of a segment with data, without SACK blocks */
	__u32 mss;
	__u32 srtt_us_8; /* eighths of a microsecond; 0: not measured */
	__u32 rttvar_us_4; /* quarters of a microsecond */
	__u32 cwnd;
	__u32 retransmits;
	__u32 ato; /* jiffies; 0: no data has come */
	__u32 receive_buffer;
	__u32 receive_buffer_used;
	__u8 moment;
	__u8 scaling; /* whether both sides agreed to scale windows */
	__u8 peer_scale;
	__u8 quick_acks;
	__u8 ping_pong;
	__u8 pad[3];
	__u32 pad2;
};
SHARED(struct sample_record);
