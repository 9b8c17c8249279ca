/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the probe of packets hands to user space, and its settings. Numbers are in host byte order;
 * addresses are 16 bytes as on the wire, IPv4 as IPv4-mapped. */
#pragma once

enum packet_kind {
	RECORD_PACKET = 16, /* a packet of TCP: packet_record */
	RECORD_DATAGRAM = 17, /* a datagram that was sent: packet_record */
	RECORD_ACK = 18,
	/* a datagram came to its socket, or was dropped on the way: packet_record */
	RECORD_ARRIVAL = 19,
	RECORD_READ = 20,
	RECORD_GONE = 21, /* the socket is closed: no ACK and no read of it will come */
};
SHARED(enum packet_kind);

enum packet_mark {
	MARK_RETRANSMISSION = 1,
	MARK_DROPPED = 2,
	MARK_RECEIVED = 4,
};
SHARED(enum packet_mark);

/* The number of an arrival that took no place in its socket's queue, or an unknown one. */
enum packet_number { NO_NUMBER = 0xffffffffu };
SHARED(enum packet_number);

struct packet_record {
	__u32 kind;
	__u32 number; /* of the socket's packets this way, counted from 0; or NO_NUMBER */
	__u64 cookie;
	__u64 first; /* sent: stage send; received: driver_rx */
	__u64 second; /* sched; udp_rx */
	__u64 third; /* driver; ready */
	__u64 dropped_at;
	__u32 drop_reason;
	/* an arrival: how many datagrams of its socket had been read when UDP took it */
	__u32 first_seq;
	__u32 bytes;
	__u32 frame_bytes; /* received: bytes of memory that the socket's queue held before it */
	__u32 segments;
	__u32 pid;
	__u8 local[16];
	__u8 remote[16];
	__u16 local_port;
	__u16 remote_port;
	__u8 flags;
	__u8 marks;
	__u16 pad;
	char comm[16];
};
SHARED(struct packet_record);

/* An ACK of TCP (`number`: everything before it), the reading of a datagram (`number`: which one,
 * counted from 0), or the end of a socket. */
struct note_record {
	__u32 kind;
	__u32 number;
	__u64 cookie;
	__u64 at;
	__u32 pid;
	__u32 pad;
	char comm[16];
};
SHARED(struct note_record);

/* One per CPU; user space adds them up. */
struct packet_lost {
	__u64 packet_ring_buffer;
	__u64 no_room;
	__u64 acks;
	__u64 datagram_ring_buffer;
	__u64 reads;
	__u64 repeated; /* packets queued again on the device below */
	__u64 unfinished; /* not seen to reach the driver, and another has their place */
	__u64 unseen; /* segments that left while no program ran */
	__u64 later_fragments; /* of datagrams; the first fragment has the record */
};
SHARED(struct packet_lost);

/* Fixed when the programs are loaded. */
struct packet_config {
	__s64 tai_offset; /* CLOCK_TAI - CLOCK_REALTIME, ns */
	__u32 tcp; /* every packet of TCP */
	__u32 udp;
};
SHARED(struct packet_config);
