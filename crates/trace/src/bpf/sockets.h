/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which sockets of TCP are followed, and where records go: what the sending side shares with the
 * other probes. */
#pragma once
#include "settings.h"
#include "connect_record.h"

/* What is known of a socket. Copied from a listener to its children. With the 72 bytes that the
 * kernel puts before it, it fills a block of 192. */
struct socket_info {
	__u32 row; /* NO_ROW: not followed */
	__u32 pid; /* its owner, in the tracer's pid namespace */
	char comm[16];
	__u64 acked; /* bytes, before the connection was followed */
	__u32 retransmitted; /* segments, likewise */
	__u32 copied_ends; /* a hash of the ends of the packet of it that was copied last */
	struct setup setup;
};
SHARED(struct socket_info);
#define NO_ROW 0xffffffffu

SOCKET_STORAGE(sockets, struct socket_info, BPF_F_CLONE);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} records SEC(".maps");

/* Whether a pass over the sockets is to wait until the ring buffer is read: it writes records of
 * each connection, faster than anyone reads.
 * What other programs write meanwhile has the other half. */
static __always_inline bool records_wait(void)
{
	return bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) > bpf_ringbuf_query(&records, BPF_RB_RING_SIZE) / 2;
}
