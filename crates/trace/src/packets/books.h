/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What is kept of sockets and of packets on their way, and how records leave. */
#pragma once

/* What is kept of a TCP socket while its packets are seen. */
struct stream {
	__u32 highest; /* sequence number after its SYN */
	__u32 acked;
	__u32 number;
	__u8 known; /* `highest` is set */
	__u8 acks; /* `acked` is set */
	__u8 over; /* tracing has ended: what leaves is not compared any more */
	__u8 pad;
	/* The kernel's count of segments that left (segs_out) is `before` plus those that were seen
	 * here, plus those that were not. */
	__u32 before;
	__u32 seen;
	__u32 unseen;
};
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct stream);
} streams SEC(".maps");

/* Listeners of the target, by address: a SYN-ACK says only which listener's child it announces. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u64);
	__type(value, __u8);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} listeners SEC(".maps");

/* Requests that a SYN-ACK was sent for, by cookie: another one is a retransmission. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, __u64);
	__type(value, __u8);
	__uint(max_entries, 4096);
} answered SEC(".maps");

/* On the way from the packet scheduler to the driver, by the skb's address; or, for a GSO packet,
 * which may be cut up on that way, by what its first segment shares with it: of TCP its socket and
 * sequence number, of UDP where its payload begins in memory. */
struct way {
	__u64 what;
	__u64 seq; /* above bit 32: 1 for a GSO packet of TCP, 2 for one of UDP */
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct way);
	__type(value, struct packet_record);
	__uint(max_entries, 16384);
} on_way SEC(".maps");

/* The packet that this CPU's driver has in hand. */
struct in_hand {
	__u64 skb; /* 0: none */
	struct way way;
	struct packet_record record;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct in_hand);
	__uint(max_entries, 1);
} hands SEC(".maps");

/* The datagram that UDP has taken for a socket on this CPU and that is not in the socket's queue
 * yet. */
struct arriving {
	__u64 skb; /* 0: none; ARRIVING_UNKNOWN where its address cannot be had */
	struct packet_record record;
};
SHARED(struct arriving);
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct arriving);
	__uint(max_entries, 1);
} arriving SEC(".maps");
/* No address: of kernel memory, the upper 16 bits are all set. */
#define ARRIVING_UNKNOWN (1ull << 62)

/* Calls that send a datagram, by thread. */
struct sending {
	__u64 at;
	__u64 cookie; /* of its socket, where the call has come to UDP */
	__u64 sk; /* its address, where the system call is what is seen */
	__u32 left; /* datagrams that the call may still send */
	__u32 pad;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, __u64);
	__type(value, struct sending);
	__uint(max_entries, 16384);
} sendings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct packet_lost);
	__uint(max_entries, 1);
} packet_losses SEC(".maps");

#define COUNT_BY(field, by)                                                          \
	do {                                                                         \
		__u32 zero_ = 0;                                                     \
		struct packet_lost *l_ = bpf_map_lookup_elem(&packet_losses, &zero_); \
		if (l_)                                                              \
			__sync_fetch_and_add(&l_->field, (by));                      \
	} while (0)
#define COUNT(field) COUNT_BY(field, 1)

/* Compares with the kernel's count. A packet that waits before the scheduler is counted until it
 * comes here. */
static __always_inline void stream_compare(struct stream *stream, const struct tcp_sock *tp)
{
	__u32 unseen = tp->segs_out - stream->before - stream->seen;

	if (stream->over)
		return;
	if ((__s32)unseen < 0)
		unseen = 0;
	if (unseen != stream->unseen)
		COUNT_BY(unseen, (__s64)unseen - (__s64)stream->unseen);
	stream->unseen = unseen;
}

static __always_inline void packet_out(const struct packet_record *record)
{
	if (!bpf_ringbuf_output(&records, (void *)record, sizeof(*record), BPF_RB_NO_WAKEUP))
		return;
	if (record->kind == RECORD_PACKET)
		COUNT(packet_ring_buffer);
	else
		COUNT(datagram_ring_buffer);
}

static __always_inline bool note_out(__u32 kind, __u32 number, __u64 cookie, __u64 now)
{
	struct note_record note = { .kind = kind, .number = number, .cookie = cookie, .at = now };

	if (kind == RECORD_READ) {
		note.pid = current_pid();
		current_comm(note.comm);
	}
	return !bpf_ringbuf_output(&records, &note, sizeof(note), BPF_RB_NO_WAKEUP);
}
