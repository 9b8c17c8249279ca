/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a socket of the target sent to a server of DNS, or got from one: a datagram, or a piece of a
 * stream. */
#pragma once
#include "../bpf/kernel.h"

enum dns_kind {
	RECORD_DNS = 112,
};
SHARED(enum dns_kind);

enum dns_limits {
	DNS_PORTS = 8,
	/* Bytes that are handed on: a question, and the first addresses of an answer. */
	DNS_BYTES = 1400,
};
SHARED(enum dns_limits);

enum dns_mark {
	DNS_SENT = 1,
	DNS_TCP = 2,
};
SHARED(enum dns_mark);

/* The bytes follow it. */
struct dns_record {
	__u32 kind;
	__u32 pid; /* of the socket's owner, in the tracer's pid namespace; 0: not known */
	__u64 at;
	__u64 cgroup; /* of the socket; 0: not known */
	__u32 payload; /* bytes, those that do not follow among them */
	__u32 first_seq; /* of TCP */
	__u8 local[16];
	__u8 server[16];
	__u16 local_port;
	__u16 server_port;
	__u16 captured; /* bytes that follow */
	__u8 marks;
	__u8 flags; /* of TCP */
	char comm[16];
};
SHARED(struct dns_record);

/* One per CPU; user space adds them up. */
struct dns_lost {
	__u64 ring_buffer;
};
SHARED(struct dns_lost);

/* Fixed when the programs are loaded. */
struct dns_config {
	__u16 ports[8]; /* of servers; 0: none */
	__u32 exchanges; /* other datagrams that alternate are handed on, too */
};
SHARED(struct dns_config);
