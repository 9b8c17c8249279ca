/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The copy of a packet: its headers, as much of its payload as was asked for, and whose it is. */
#pragma once
#include "../bpf/kernel.h"

enum copy_kind {
	RECORD_COPY = 96,
	RECORD_INTERFACE = 97,
	RECORD_PROCESS = 98,
	RECORD_COPY_DROPPED = 99,
};
SHARED(enum copy_kind);

enum copy_mark {
	COPY_SENT = 1,
	COPY_LISTENER = 2, /* the socket is a listener: the connection has none of its own yet */
	COPY_OPENING = 4, /* the socket has sent its SYN and waits for the answer */
	COPY_PARTIAL = 8, /* the checksum is still to be completed */
	COPY_CLOSED = 16, /* the socket is gone: TCP answers in its place */
	COPY_TCP = 32,
	COPY_HELD = 64, /* the socket is older than the trace */
	COPY_ICMP = 128, /* an ICMP error that quotes a packet of the socket */
	COPY_FRAGMENT = 256, /* of a datagram; one that arrives has no socket yet */
	COPY_CUT = 512, /* IP cuts the datagram up next */
};
SHARED(enum copy_mark);

/* Why TCP sends bytes another time: the state that it is in. */
enum copy_again {
	COPY_FIRST = 0,
	COPY_AGAIN_PROBE = 1,
	COPY_AGAIN_RECOVERY = 2,
	COPY_AGAIN_LOSS = 3,
};
SHARED(enum copy_again);

/* The bytes follow it, from the IP header on; behind them the record may have more. */
struct copy_record {
	__u32 kind;
	__u32 length; /* of the packet */
	__u64 at;
	__u64 cookie;
	__u64 cgroup; /* of the socket; 0: not known */
	__u64 buffer; /* address of the packet */
	__u64 nic; /* when the NIC received it, by its own clock; 0: no stamp */
	__u32 network; /* inode number of the network namespace of the interface */
	__u32 interface; /* its number there */
	__u32 captured; /* bytes that follow */
	__u32 pid; /* of the socket's owner, in the tracer's pid namespace; 0: not known */
	__u32 missed; /* packets of this interface, since the last record of it */
	__u32 first_seq;
	__u32 bytes; /* of payload */
	__u16 segments;
	__u16 segment_bytes; /* payload of each segment but the last */
	__u16 marks;
	__u8 again;
	__u8 flags; /* of TCP */
	__u8 pad[4];
	char comm[16];
};
SHARED(struct copy_record);

struct interface_record {
	__u32 kind;
	__u32 network;
	__u32 interface;
	__u32 pad;
	char name[16];
};
SHARED(struct interface_record);

/* A process that made a socket. */
struct process_record {
	__u32 kind;
	__u32 pid; /* in the tracer's pid namespace */
	__u64 began; /* ns, after the machine did (CLOCK_BOOTTIME) */
};
SHARED(struct process_record);

/* A packet of a followed socket was dropped. */
struct copy_dropped_record {
	__u32 kind;
	__u32 reason; /* enum skb_drop_reason */
	__u64 at;
	__u64 cookie;
	__u64 buffer; /* address of the packet */
};
SHARED(struct copy_dropped_record);

/* An interface that packets were copied on, by `struct copy_place`. */
struct copy_place {
	__u32 network;
	__u32 interface;
};
SHARED(struct copy_place);

struct copy_interface {
	__u64 missed; /* packets since the last record */
	__u64 announced;
};
SHARED(struct copy_interface);

/* Both ends of a packet that a socket sent, as an ICMP error quotes them. */
struct copy_ends {
	__u32 network; /* of the interface */
	__u16 local_port;
	__u16 remote_port;
	__u8 local[16];
	__u8 remote[16];
	__u32 protocol;
};
SHARED(struct copy_ends);

/* The socket that sent it last. */
struct copy_sender {
	__u64 cookie;
	__u64 cgroup;
	__u32 pid;
	__u32 marks;
	char comm[16];
};
SHARED(struct copy_sender);

/* One per CPU; user space adds them up. */
struct copy_lost {
	__u64 ring_buffer;
	__u64 unplaced; /* of these, packets of interfaces that there was no room for */
};
SHARED(struct copy_lost);

/* Fixed when the programs are loaded. */
struct copy_config {
	__u32 payload; /* bytes of payload that are copied, at most */
	/* the packet that came last, where the kernel does not say whose a dropped one was */
	__u32 remembers;
};
SHARED(struct copy_config);
