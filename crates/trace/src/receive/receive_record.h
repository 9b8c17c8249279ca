/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the receiving side hands to user space. */
#pragma once

enum receive_kind { RECORD_RECEIVE = 32 };
SHARED(enum receive_kind);

enum arrival_flags {
	ARRIVAL_OUT_OF_ORDER = 1 << 0,
};
SHARED(enum arrival_flags);

/* Bytes that came and were not yet read. */
struct arrival {
	__u64 driver_rx;
	__u64 tcp_rx;
	__u64 ready;
	__u32 first;
	__u32 end; /* after the last byte */
	__u32 queued; /* bytes in the socket, not read yet, when they came */
	__u16 segments;
	__u8 flags;
	__u8 pad;
};
SHARED(struct arrival);

/* The arrivals of one connection: a queue in order of sequence number. */
struct receive_row {
	__u64 cookie; /* 0: free */
	__u32 head;
	__u32 tail;
	__u32 ready_next; /* the first that has no `ready` stamp, or a guess below it */
	__u32 arrived; /* after the last byte that is in the queue or was skipped */
	__u32 accounted; /* bytes before this one were delivered, or counted */
	__u32 passed_over; /* bytes that were not recorded and are counted elsewhere */
	__u32 followed; /* number of the sending side's row */
	__u32 before; /* what lies before this byte came before the trace */
};
SHARED(struct receive_row);

struct receive_record {
	__u32 kind;
	__u32 pid;
	__u64 cookie;
	__u64 read; /* 0: never */
	struct arrival arrival;
	__u32 buffer;
	__u32 buffer_used;
	char comm[16];
	__u32 thread; /* that read it, by the kernel's own number */
	__u32 pad;
};
SHARED(struct receive_record);

/* One per CPU; user space adds them up. */
struct receive_lost {
	__u64 ring_buffer;
	__u64 slots_full;
	__u64 connections_full;
	__u64 missed_bytes; /* of the first two */
	__u64 unsampled_bytes;
	__u64 unseen_bytes; /* came before the trace */
	__u64 untold_bytes; /* no program ran when they came */
	__u64 never_read;
	__u64 out_of_order;
	__u64 duplicate;
};
SHARED(struct receive_lost);

/* Fixed when the programs are loaded. */
struct receive_config {
	__s64 tai_offset; /* TAI − REALTIME, ns */
	__u32 slots; /* per connection; a power of two */
	__u32 pad;
};
SHARED(struct receive_config);
