// SPDX-License-Identifier: MIT OR Apache-2.0
/* Every packet of followed TCP sockets, every datagram of UDP sockets of the target, and what becomes of them.
 *
 * The tracepoints run for all packets of the machine; each program looks first whether the packet's socket bears our storage.
 * A packet's stages are joined by the address of its skb, from the packet scheduler to the driver. */
#include "kernel.h"

#define STAMPS 0
#include "sockets.h"
#include "targets.h"
#include "records.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile struct packet_config wanted SEC(".rodata.wanted");

/* The kernel's types that only this probe reads; relocated like those of kernel.h. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sk_buff___packets {
	struct net_device *dev;
	int skb_iif;
	__s64 tstamp;
};
struct sock_common___packets {
	struct sock *skc_listener;
};
struct sk_backlog {
	atomic_t rmem_alloc;
};
struct sock___packets {
	void *sk_bpf_storage; /* 5.2 */
	struct sk_backlog sk_backlog;
};
struct skb_frag___packets {
	__u64 first_word;
};
struct skb_shared_info___packets {
	__u8 nr_frags;
	struct skb_frag___packets frags[1];
};
struct file___packets {
	void *private_data;
};
struct fdtable___packets {
	unsigned int max_fds;
	struct file___packets **fd;
};
struct files_struct___packets {
	struct fdtable___packets *fdt;
};
struct task_struct___packets {
	struct files_struct___packets *files;
};
struct socket___packets {
	struct sock *sk;
};
#ifdef __TARGET_ARCH_arm64
struct user_pt_regs___packets {
	__u64 regs[31];
};
#else
struct pt_regs___packets {
	unsigned long di;
	unsigned long dx;
};
#endif
struct udp_sock {
	struct inet_sock inet;
};
struct bpf_iter__udp {
	struct bpf_iter_meta *meta;
	struct udp_sock *udp_sk;
};
#pragma clang attribute pop

enum bpf_func_id___packets {
	BPF_FUNC_ktime_get_tai_ns___packets = 208,
};

/* Contexts: their offsets are ABI (include/uapi/linux/bpf.h) and are not relocated. */
struct bpf_sock {
	__u32 bound_dev_if;
	__u32 family;
	__u32 type;
	__u32 protocol;
	__u32 mark;
	__u32 priority;
	__u32 src_ip4;
	__u32 src_ip6[4];
	__u32 src_port; /* host byte order */
};
struct __sk_buff {
	__u32 len;
	__u32 before_data[18];
	__u32 data;
	__u32 data_end;
	__u32 before_tstamp[16];
	__u64 tstamp;
	__u32 wire_len;
	__u32 gso_segs;
	union {
		struct bpf_sock *sk;
		__u64 : 64;
	} __attribute__((aligned(8)));
};
struct bpf_sock_addr {
	__u32 user_family;
	__u32 user_ip4;
	__u32 user_ip6[4];
	__u32 user_port;
	__u32 family;
	__u32 type;
	__u32 protocol;
	__u32 msg_src_ip4;
	__u32 msg_src_ip6[4];
	union {
		struct bpf_sock *sk;
		__u64 : 64;
	} __attribute__((aligned(8)));
};

enum { BPF_SOCK_OPS_TIMEOUT_INIT = 1 };
enum { IPPROTO_UDP = 17, IPPROTO_FRAGMENT = 44, SOCK_DGRAM = 2 };
enum { BPF_MAP_TYPE_LRU_HASH = 9 };
/* include/linux/socket.h */
enum { MSG_PEEK = 2, MSG_ERRQUEUE = 0x2000 };
/* include/linux/netdevice.h: the driver gives the packet back. */
enum { NETDEV_TX_BUSY = 0x10 };
/* include/uapi/linux/tcp.h */
enum { TCP_FLAG_FIN = 1, TCP_FLAG_SYN = 2 };

/* skb_frag_t: the same sizes and places whether it is bio_vec (before 6.9) or skb_frag, so not relocated. */
struct fragment {
	__u64 page;
	__u32 length;
	__u32 offset;
};

/* Headers as they are on the wire: RFC 791, RFC 8200, RFC 768. */
struct ipv4_header {
	__u8 version_length;
	__u8 service;
	__be16 length;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__be16 checksum;
	__be32 source;
	__be32 destination;
};
struct ipv6_header {
	__u32 version_flow;
	__be16 length;
	__u8 next;
	__u8 hops;
	__u8 source[16];
	__u8 destination[16];
};
struct udp_header {
	__be16 source;
	__be16 destination;
	__be16 length;
	__be16 checksum;
};

/* What is kept of a TCP socket whose packets are seen. */
struct stream {
	__u32 highest; /* sequence number after its SYN */
	__u32 acked;
	__u32 number;
	__u8 known; /* `highest` is set */
	__u8 acks; /* `acked` is set */
	__u16 pad;
};
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct stream);
} streams SEC(".maps");

/* What is kept of a UDP socket that may be in the target: ports and peers are looked at for each datagram. */
struct udp_info {
	__u32 pid;
	__u32 sent;
	__u32 received;
	__u32 read;
	char comm[16];
};
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct udp_info);
} udp_sockets SEC(".maps");

/* Listeners of the target, by address: all that a SYN-ACK tells is whose child it announces. */
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

/* On the way from the packet scheduler to the driver, by the skb's address; or, for a GSO packet, which may be cut up on that way, by
 * what its first segment shares with it: of TCP its socket and sequence number, of UDP where its payload begins in memory. */
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

/* The datagram that UDP has taken for a socket on this CPU and that is not in the socket's queue yet. */
struct arriving {
	__u64 skb; /* 0: none; ARRIVING_UNKNOWN where its address cannot be had */
	struct packet_record record;
};
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

/* What the headers of a packet say. */
struct headers {
	__u8 source[16];
	__u8 destination[16];
	__u16 source_port;
	__u16 destination_port;
	__u32 first_seq;
	__u32 bytes;
	__u8 flags;
	__u8 later_fragment;
};

static __always_inline void mapped(__u8 *to, __be32 v4)
{
	__u32 *words = (__u32 *)to;

	words[0] = 0;
	words[1] = 0;
	words[2] = bpf_htonl(0xffff);
	words[3] = v4;
}

/* Reads them from the outermost IP header on; false where this is no packet of `protocol`. */
static __always_inline bool headers_of(const struct sk_buff *skb, __u32 protocol, struct headers *to)
{
	__u64 head = (__u64)skb->head, ip = head + skb->network_header, at, end = (__u64)skb->data + skb->len;
	struct ipv4_header v4;
	bool first_fragment = false;

	/* Older verifiers let nothing be read that was not written, though no branch does so. */
	__builtin_memset(to, 0, sizeof(*to));
	if (bpf_probe_read_kernel(&v4, sizeof(v4), (void *)ip))
		return false;
	if (v4.version_length >> 4 == 4) {
		if (v4.protocol != protocol)
			return false;
		at = ip + (v4.version_length & 15) * 4;
		mapped(to->source, v4.source);
		mapped(to->destination, v4.destination);
		to->later_fragment = !!(v4.fragment & bpf_htons(0x1fff));
		first_fragment = !!(v4.fragment & bpf_htons(0x2000));
	} else {
		struct ipv6_header v6;

		if (v4.version_length >> 4 != 6 || bpf_probe_read_kernel(&v6, sizeof(v6), (void *)ip))
			return false;
		__builtin_memcpy(to->source, v6.source, 16);
		__builtin_memcpy(to->destination, v6.destination, 16);
		at = ip + sizeof(v6);
		if (v6.next == IPPROTO_FRAGMENT) {
			/* RFC 8200, section 4.5: next header, reserved, offset with the flag for more. */
			__u8 fragment[4];

			if (bpf_probe_read_kernel(fragment, sizeof(fragment), (void *)at) || fragment[0] != protocol)
				return false;
			to->later_fragment = fragment[2] || fragment[3] & 0xf8;
			first_fragment = !to->later_fragment;
			at += 8;
		} else if (v6.next != protocol) {
			/* Other extension headers: the kernel has found their end. */
			if (skb->transport_header == 0xffff || head + skb->transport_header < at)
				return false;
			at = head + skb->transport_header;
		}
	}
	if (to->later_fragment)
		return protocol == IPPROTO_UDP;
	if (protocol == IPPROTO_TCP) {
		struct tcp_header tcp;

		if (bpf_probe_read_kernel(&tcp, sizeof(tcp), (void *)at))
			return false;
		to->source_port = bpf_ntohs(tcp.source);
		to->destination_port = bpf_ntohs(tcp.dest);
		to->first_seq = bpf_ntohl(tcp.seq);
		to->flags = tcp.flags;
		at += (tcp.offset >> 4) * 4;
		to->bytes = end > at ? end - at : 0;
	} else {
		struct udp_header udp;

		if (bpf_probe_read_kernel(&udp, sizeof(udp), (void *)at))
			return false;
		to->source_port = bpf_ntohs(udp.source);
		to->destination_port = bpf_ntohs(udp.destination);
		to->first_seq = 0;
		to->flags = 0;
		at += sizeof(udp);
		to->bytes = end > at ? end - at : 0;
		if (first_fragment && bpf_ntohs(udp.length) > sizeof(udp))
			to->bytes = bpf_ntohs(udp.length) - sizeof(udp);
	}
	return true;
}

/* The criteria that addresses decide, for one packet. */
static __always_inline bool ends_match(__u16 local, __u16 remote, const __u8 *peer)
{
	if ((config.flags & CONFIG_PORTS) && !bpf_map_lookup_elem(&ports, &local) && !bpf_map_lookup_elem(&ports, &remote))
		return false;
	if (config.flags & CONFIG_PEERS) {
		struct prefix prefix = { .bits = 128 };

		__builtin_memcpy(prefix.address, peer, 16);
		return bpf_map_lookup_elem(&peers, &prefix) != NULL;
	}
	return true;
}

static __always_inline void ends_set(struct packet_record *record, const struct headers *headers, bool outgoing)
{
	__builtin_memcpy(record->local, outgoing ? headers->source : headers->destination, 16);
	__builtin_memcpy(record->remote, outgoing ? headers->destination : headers->source, 16);
	record->local_port = outgoing ? headers->source_port : headers->destination_port;
	record->remote_port = outgoing ? headers->destination_port : headers->source_port;
	record->first_seq = headers->first_seq;
	record->bytes = headers->bytes;
	record->flags = headers->flags;
}

static __always_inline const struct skb_shared_info *shared_of(const struct sk_buff *skb)
{
	/* skb_end_pointer(), where offsets are used: on all 64-bit kernels. */
	return (const struct skb_shared_info *)(skb->head + skb->end);
}

static __always_inline __u32 segments_of(const struct sk_buff *skb)
{
	__u16 segments = BPF_CORE_READ(shared_of(skb), gso_segs);

	return segments ? segments : 1;
}

static __always_inline bool ipv4_or_6(const struct sock *sk)
{
	return sk->__sk_common.skc_family == AF_INET || sk->__sk_common.skc_family == AF_INET6;
}

static __always_inline bool full_socket(__u32 state)
{
	return state != TCP_TIME_WAIT && state != TCP_NEW_SYN_RECV;
}

/* Whether anybody keeps anything in the storage of this socket: where not, it is not followed, and this one load says so. Not for
 * what is no full socket: that has no such field. */
static __always_inline bool has_storage(const struct sock *sk)
{
	return ((const struct sock___packets *)sk)->sk_bpf_storage != NULL;
}

/* Whether a packet of this socket, as it stands in the skb, may be one that is followed. */
static __always_inline bool may_be_followed(const struct sock *sk)
{
	__u32 state = sk->__sk_common.skc_state;

	if (state == TCP_NEW_SYN_RECV)
		return wanted.tcp;
	return state != TCP_TIME_WAIT && has_storage(sk) && ipv4_or_6(sk);
}

/* The packet's device is in its socket's network namespace: beyond, the packet is somebody else's. */
static __always_inline bool at_home(const struct sk_buff *skb, const struct sock *sk)
{
	const struct sk_buff___packets *view = (const void *)skb;

	return BPF_CORE_READ(view, dev, nd_net.net) == BPF_CORE_READ(sk, __sk_common.skc_net.net);
}

/* By reading: a packet's pointer to its socket is none that the helper takes. The cookie is there: it was asked for when the socket
 * was picked up, or before its first packet. */
static __always_inline __u64 cookie_of(const struct sock *sk)
{
	return BPF_CORE_READ(sk, __sk_common.skc_cookie.counter);
}

static __always_inline struct in_hand *in_hand(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&hands, &zero);
}

static __always_inline bool stream_of(struct sock *sk, struct stream **stream)
{
	struct stream fresh = {};

	if (!bpf_sk_storage_get(&sockets, sk, NULL, 0) || !addresses_match(sk, false))
		return false;
	*stream = bpf_sk_storage_get(&streams, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
	return *stream != NULL;
}

/* Fills in a packet of TCP that leaves, but for its moments. */
static __always_inline bool segment_leaves(struct packet_record *record, const struct sk_buff *skb, struct sock *sk,
					   bool counted)
{
	__u32 end, next;
	struct headers headers;
	struct stream *stream = NULL;
	struct tcp_sock *tp;

	if (!stream_of(sk, &stream) || !headers_of(skb, IPPROTO_TCP, &headers))
		return false;
	/* Inside a tunnel the ports are not this socket's; a packet on its way in bears them the other way round. */
	if (headers.source_port != sk->__sk_common.skc_num || headers.destination_port != bpf_ntohs(sk->__sk_common.skc_dport))
		return false;
	end = headers.first_seq + headers.bytes + !!(headers.flags & TCP_FLAG_SYN) + !!(headers.flags & TCP_FLAG_FIN);
	tp = TCP_SOCK(sk);
	if (!tp)
		return false;
	/* What the packet scheduler itself refuses TCP sends anew without calling that a retransmission: snd_nxt has not moved. A SYN may
	 * have waited for its neighbour's address, and finds it moved the first time. */
	next = tp->snd_nxt;
	if (headers.flags & TCP_FLAG_SYN) {
		next = stream->known ? stream->highest : headers.first_seq;
		stream->known = 1;
		stream->highest = end;
	}
	record->kind = RECORD_PACKET;
	ends_set(record, &headers, true);
	if (end != headers.first_seq && before(headers.first_seq, next))
		record->marks |= MARK_RETRANSMISSION;
	record->number = counted ? __sync_fetch_and_add(&stream->number, 1) : NO_NUMBER;
	return true;
}

/* The SYN-ACK of a listener of the target: the child will bear the cookie that the request has. */
static __always_inline bool answer_leaves(struct packet_record *record, const struct sk_buff *skb, struct sock *sk)
{
	const struct sock_common___packets *request = (const void *)&sk->__sk_common;
	__u64 listener = (__u64)BPF_CORE_READ(request, skc_listener);
	__u64 cookie = cookie_of(sk);
	struct headers headers;
	__u8 one = 1;

	if (!bpf_map_lookup_elem(&listeners, &listener) || !headers_of(skb, IPPROTO_TCP, &headers))
		return false;
	if (!ends_match(headers.source_port, headers.destination_port, headers.destination))
		return false;
	record->kind = RECORD_PACKET;
	ends_set(record, &headers, true);
	record->number = NO_NUMBER;
	if (bpf_map_update_elem(&answered, &cookie, &one, BPF_NOEXIST))
		record->marks |= MARK_RETRANSMISSION;
	return true;
}

/* Fills in a datagram that leaves. */
static __always_inline bool datagram_leaves(struct packet_record *record, const struct sk_buff *skb, struct sock *sk)
{
	struct udp_info *info = bpf_sk_storage_get(&udp_sockets, sk, NULL, 0);
	struct headers headers;

	if (!info || !headers_of(skb, IPPROTO_UDP, &headers))
		return false;
	if (headers.later_fragment) {
		COUNT(later_fragments);
		return false;
	}
	if (headers.source_port != sk->__sk_common.skc_num ||
	    !ends_match(headers.source_port, headers.destination_port, headers.destination))
		return false;
	record->kind = RECORD_DATAGRAM;
	ends_set(record, &headers, true);
	record->number = __sync_fetch_and_add(&info->sent, 1);
	record->pid = info->pid;
	__builtin_memcpy(record->comm, info->comm, sizeof(record->comm));
	return true;
}

static __always_inline bool leaves(struct packet_record *record, struct sk_buff *skb, struct sock *sk, bool counted)
{
	__u32 state = sk->__sk_common.skc_state;

	if (state == TCP_NEW_SYN_RECV) {
		if (!wanted.tcp || !counted || !answer_leaves(record, skb, sk))
			return false;
	} else if (!full_socket(state)) {
		return false;
	} else if (sk->sk_protocol == IPPROTO_TCP) {
		if (!wanted.tcp || !segment_leaves(record, skb, sk, counted))
			return false;
	} else if (sk->sk_protocol == IPPROTO_UDP) {
		if (!wanted.udp || !datagram_leaves(record, skb, sk))
			return false;
	} else {
		return false;
	}
	record->cookie = cookie_of(sk);
	record->frame_bytes = skb->len;
	record->segments = segments_of(skb);
	return true;
}

/* Where the payload begins that is not in the linear part. Nothing else on the way has it there. */
static __always_inline bool frags_of(struct way *way, const struct sk_buff *skb)
{
	const struct skb_shared_info___packets *shared = (const void *)shared_of(skb);
	struct fragment first;

	if (!BPF_CORE_READ(shared, nr_frags) || bpf_core_read(&first, sizeof(first), &shared->frags))
		return false;
	way->what = first.page;
	way->seq = 2ull << 32 | first.offset;
	return true;
}

static __always_inline void way_of(struct way *way, const struct sk_buff *skb, const struct sock *sk,
				   const struct packet_record *record)
{
	way->what = (__u64)skb;
	way->seq = 0;
	if (record->segments <= 1)
		return;
	if (record->kind == RECORD_PACKET) {
		way->what = (__u64)sk;
		way->seq = 1ull << 32 | record->first_seq;
	} else {
		frags_of(way, skb);
	}
}

/* A packet enters the packet scheduler. */
SEC("tp_btf/net_dev_queue")
int BPF_PROG(packet_queued, struct sk_buff *skb)
{
	struct sock *sk = skb->sk;
	struct packet_record record = {};
	struct in_hand *hand;
	struct sending *call;
	struct way way;
	__u64 thread;

	if (!sk || !may_be_followed(sk) || !at_home(skb, sk))
		return 0;
	hand = in_hand();
	if (hand && hand->skb == (__u64)skb) {
		/* A device upon another one: the packet is on its way already. */
		COUNT(repeated);
		return 0;
	}
	if (!leaves(&record, skb, sk, true))
		return 0;
	record.second = bpf_ktime_get_ns();
	if (record.kind == RECORD_DATAGRAM) {
		thread = bpf_get_current_pid_tgid();
		call = bpf_map_lookup_elem(&sendings, &thread);
		if (call && (call->cookie == record.cookie || call->sk == (__u64)sk) && call->left) {
			record.first = call->at;
			call->left--;
		}
	}
	way_of(&way, skb, sk, &record);
	if (bpf_map_update_elem(&on_way, &way, &record, BPF_ANY)) {
		COUNT(no_room);
		packet_out(&record);
	}
	return 0;
}

/* Where the entry of a packet that comes out of the scheduler is: under its own address, or under that of the GSO packet it was
 * the first segment of. */
static __always_inline struct packet_record *find(struct way *way, const struct sk_buff *skb, const struct sock *sk)
{
	struct packet_record *found;
	struct headers headers;

	way->what = (__u64)skb;
	way->seq = 0;
	found = bpf_map_lookup_elem(&on_way, way);
	if (found || !full_socket(sk->__sk_common.skc_state))
		return found;
	if (sk->sk_protocol == IPPROTO_UDP)
		return wanted.udp && frags_of(way, skb) ? bpf_map_lookup_elem(&on_way, way) : NULL;
	if (sk->sk_protocol != IPPROTO_TCP || !wanted.tcp)
		return NULL;
	if (!bpf_sk_storage_get(&streams, (struct sock *)sk, NULL, 0) || !headers_of(skb, IPPROTO_TCP, &headers))
		return NULL;
	way->what = (__u64)sk;
	way->seq = 1ull << 32 | headers.first_seq;
	return bpf_map_lookup_elem(&on_way, way);
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(packet_started, struct sk_buff *skb)
{
	struct sock *sk = skb->sk;
	struct packet_record *record;
	struct in_hand *hand;
	struct way way;

	if (!sk || !may_be_followed(sk))
		return 0;
	hand = in_hand();
	if (!hand || hand->skb)
		return 0;
	record = find(&way, skb, sk);
	if (!record)
		return 0;
	hand->record = *record;
	if (!hand->record.third)
		hand->record.third = bpf_ktime_get_ns();
	hand->way = way;
	hand->skb = (__u64)skb;
	bpf_map_delete_elem(&on_way, &way);
	return 0;
}

/* The driver has come back. By now the skb may be gone: only its address is looked at. */
SEC("tp_btf/net_dev_xmit")
int BPF_PROG(packet_driven, struct sk_buff *skb, int outcome)
{
	struct in_hand *hand = in_hand();

	if (!hand || !hand->skb || hand->skb != (__u64)skb)
		return 0;
	hand->skb = 0;
	if (outcome == NETDEV_TX_BUSY && !(hand->record.marks & MARK_DROPPED)) {
		/* It stays in the scheduler, and comes again. */
		hand->record.third = 0;
		if (!bpf_map_update_elem(&on_way, &hand->way, &hand->record, BPF_ANY))
			return 0;
		COUNT(no_room);
	}
	packet_out(&hand->record);
	return 0;
}

/* The kernel's own word on retransmissions, beside the marks of the packets. */
SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(packet_again, struct sock *sk, struct sk_buff *skb)
{
	if (full_socket(sk->__sk_common.skc_state) && bpf_sk_storage_get(&streams, sk, NULL, 0))
		COUNT_BY(retransmitted_segments, segments_of(skb));
	return 0;
}

SEC("tp_btf/tcp_retransmit_synack")
int BPF_PROG(answer_again, struct sock *listener)
{
	__u64 key = (__u64)listener;

	if (bpf_map_lookup_elem(&listeners, &key))
		COUNT(retransmitted_segments);
	return 0;
}

/* Everything before `ack` has come to the peer. */
static __always_inline void acked(struct sock *sk, __u32 ack)
{
	struct stream *stream = bpf_sk_storage_get(&streams, sk, NULL, 0);

	if (!stream || (stream->acks && !before(stream->acked, ack)))
		return;
	if (!note_out(RECORD_ACK, ack, bpf_get_socket_cookie(sk), bpf_ktime_get_ns())) {
		/* The next one tells of it. */
		COUNT(acks);
		return;
	}
	stream->acked = ack;
	stream->acks = 1;
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(ack_came, struct sock *sk, struct sk_buff *skb)
{
	const struct tcp_sock *tp;
	__u32 ack;

	if (!has_storage(sk) || !bpf_sk_storage_get(&streams, sk, NULL, 0))
		return 0;
	tp = TCP_SOCK(sk);
	if (!tp)
		return 0;
	ack = VIEW(&skb->cb, struct tcp_skb_cb)->ack_seq;
	if (!before(tp->snd_nxt, ack))
		acked(sk, ack);
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(stream_changed, struct sock *sk, int from, int to)
{
	struct tcp_sock *tp;
	__u64 key = (__u64)sk;

	if (sk->sk_protocol != IPPROTO_TCP)
		return 0;
	if (from == TCP_LISTEN) {
		bpf_map_delete_elem(&listeners, &key);
		return 0;
	}
	if (!bpf_sk_storage_get(&streams, sk, NULL, 0))
		return 0;
	tp = TCP_SOCK(sk);
	if (!tp)
		return 0;
	acked(sk, tp->snd_una);
	if (to == TCP_CLOSE)
		note_out(RECORD_GONE, 0, bpf_get_socket_cookie(sk), bpf_ktime_get_ns());
	return 0;
}

/* Round-trip times are measured in states in which tcp_probe is silent too; the sending side asks for the callback. */
SEC("sockops")
int stream_called(struct bpf_sock_ops *skops)
{
	struct bpf_sock *sk = skops->sk;
	struct stream *stream;
	struct tcp_sock *tp;
	__u64 key;
	__u8 one = 1;

	switch (skops->op) {
	case BPF_SOCK_OPS_TIMEOUT_INIT:
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		/* Of a request, before its SYN-ACK; the child inherits its cookie. Of a client's socket, before its SYN. */
		bpf_get_socket_cookie(skops);
		return 1;
	}
	if (!sk)
		return 1;
	if (skops->op == BPF_SOCK_OPS_TCP_LISTEN_CB) {
		if (!bpf_sk_storage_get(&sockets, sk, NULL, 0))
			return 1;
		key = (__u64)bpf_skc_to_tcp_sock(sk);
		if (key)
			bpf_map_update_elem(&listeners, &key, &one, BPF_ANY);
		return 1;
	}
	if (skops->op != BPF_SOCK_OPS_RTT_CB)
		return 1;
	stream = bpf_sk_storage_get(&streams, sk, NULL, 0);
	tp = bpf_skc_to_tcp_sock(sk);
	if (!stream || !tp || (stream->acks && !before(stream->acked, tp->snd_una)))
		return 1;
	if (!note_out(RECORD_ACK, tp->snd_una, bpf_get_socket_cookie(skops), bpf_ktime_get_ns())) {
		COUNT(acks);
		return 1;
	}
	stream->acked = tp->snd_una;
	stream->acks = 1;
	return 1;
}

SEC("iter/tcp")
int find_listeners(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct tcp_sock *tp;
	__u64 key;
	__u8 one = 1;

	if (!common || common->skc_state != TCP_LISTEN)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp || !bpf_sk_storage_get(&sockets, tp, NULL, 0))
		return 0;
	key = (__u64)tp;
	bpf_map_update_elem(&listeners, &key, &one, BPF_ANY);
	return 0;
}

/* A UDP socket is made by a task of the target. */
SEC("cgroup/sock_create")
int udp_made(struct bpf_sock *sk)
{
	struct udp_info fresh = {};

	if (sk->protocol != IPPROTO_UDP || (sk->family != AF_INET && sk->family != AF_INET6))
		return 1;
	fresh.pid = current_pid();
	if (by_process() && !pid_is_target(fresh.pid))
		return 1;
	current_comm(fresh.comm);
	bpf_sk_storage_get(&udp_sockets, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
	bpf_get_socket_cookie(sk);
	return 1;
}

SEC("cgroup/sock_release")
int udp_gone(struct bpf_sock *sk)
{
	if (sk->protocol == IPPROTO_UDP && bpf_sk_storage_get(&udp_sockets, sk, NULL, 0))
		note_out(RECORD_GONE, 0, bpf_get_socket_cookie(sk), bpf_ktime_get_ns());
	return 1;
}

/* UDP sockets that are there when tracing begins. */
SEC("iter/udp")
int find_udp(struct bpf_iter__udp *ctx)
{
	struct udp_sock *udp = ctx->udp_sk;
	struct udp_info fresh = {};
	const struct sock *sk;

	if (!udp)
		return 0;
	sk = &udp->inet.sk;
	if (sk->sk_protocol != IPPROTO_UDP || !cgroup_matches(sk))
		return 0;
	if (sk->sk_socket) {
		const struct socket_alloc *alloc = (const struct socket_alloc *)sk->sk_socket;
		__u64 inode = BPF_CORE_READ(alloc, vfs_inode.i_ino);
		struct owner *owner = bpf_map_lookup_elem(&inodes, &inode);

		if (owner) {
			fresh.pid = owner->pid;
			__builtin_memcpy(fresh.comm, owner->comm, sizeof(fresh.comm));
		}
	}
	if (by_process() && !fresh.pid)
		return 0;
	bpf_sk_storage_get(&udp_sockets, udp, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
	bpf_get_socket_cookie(udp);
	return 0;
}

static __always_inline void sending_begins(__u64 cookie)
{
	struct sending call = { .at = bpf_ktime_get_ns(), .cookie = cookie, .left = 1 };
	__u64 thread = bpf_get_current_pid_tgid();
	struct sending *there = bpf_map_lookup_elem(&sendings, &thread);

	/* Where both hooks are there, the first one's time stands. Another call's is old. */
	if (there && there->left && there->cookie == cookie && call.at - there->at < 1000000)
		return;
	bpf_map_update_elem(&sendings, &thread, &call, BPF_ANY);
}

/* A call sends a datagram to an address that it names itself. */
SEC("cgroup/sendmsg4")
int sends_v4(struct bpf_sock_addr *ctx)
{
	struct bpf_sock *sk = ctx->sk;

	if (sk && bpf_sk_storage_get(&udp_sockets, sk, NULL, 0))
		sending_begins(bpf_get_socket_cookie(ctx));
	return 1;
}

SEC("cgroup/sendmsg6")
int sends_v6(struct bpf_sock_addr *ctx)
{
	struct bpf_sock *sk = ctx->sk;

	if (sk && bpf_sk_storage_get(&udp_sockets, sk, NULL, 0))
		sending_begins(bpf_get_socket_cookie(ctx));
	return 1;
}

/* Connected sockets too, where the kernel lets functions be watched. */
SEC("fentry/udp_sendmsg")
int BPF_PROG(sends_any_v4, struct sock *sk)
{
	if (bpf_sk_storage_get(&udp_sockets, sk, NULL, 0))
		sending_begins(bpf_get_socket_cookie(sk));
	return 0;
}

SEC("fentry/udpv6_sendmsg")
int BPF_PROG(sends_any_v6, struct sock *sk)
{
	if (bpf_sk_storage_get(&udp_sockets, sk, NULL, 0))
		sending_begins(bpf_get_socket_cookie(sk));
	return 0;
}

/* Numbers of system calls that send by one socket: write, writev, sendto, sendmsg, sendmmsg. */
#ifdef __TARGET_ARCH_arm64
enum { CALL_WRITE = 64, CALL_WRITEV = 66, CALL_SENDTO = 206, CALL_SENDMSG = 211, CALL_SENDMMSG = 269 };
#else
enum { CALL_WRITE = 1, CALL_WRITEV = 20, CALL_SENDTO = 44, CALL_SENDMSG = 46, CALL_SENDMMSG = 307 };
#endif

/* Where functions cannot be watched: the system call begins in which a datagram is sent. What it is about is found by the
 * descriptor: the socket whose packet comes out must be that one. */
SEC("tp_btf/sys_enter")
int BPF_PROG(call_begins, struct pt_regs *regs, long id)
{
	const struct task_struct___packets *task;
	const struct fdtable___packets *table;
	const struct file___packets *file = NULL;
	const struct file___packets **files;
	const struct socket___packets *socket;
	struct sending call = { .left = 1 };
	__u64 thread, fd, datagrams = 1;

	if (id != CALL_SENDTO && id != CALL_SENDMSG && id != CALL_SENDMMSG && id != CALL_WRITE && id != CALL_WRITEV)
		return 0;
	if (by_process() && !pid_is_target(current_pid()))
		return 0;
#ifdef __TARGET_ARCH_arm64
	fd = BPF_CORE_READ((const struct user_pt_regs___packets *)regs, regs[0]);
	datagrams = BPF_CORE_READ((const struct user_pt_regs___packets *)regs, regs[2]);
#else
	fd = BPF_CORE_READ((const struct pt_regs___packets *)regs, di);
	datagrams = BPF_CORE_READ((const struct pt_regs___packets *)regs, dx);
#endif
	task = (const void *)bpf_get_current_task_btf();
	table = BPF_CORE_READ(task, files, fdt);
	fd = (__u32)fd;
	if (fd >= BPF_CORE_READ(table, max_fds))
		return 0;
	files = (const struct file___packets **)BPF_CORE_READ(table, fd);
	if (bpf_probe_read_kernel(&file, sizeof(file), files + fd) || !file)
		return 0;
	/* Of what is no socket this is anything: only an address that is compared. */
	socket = BPF_CORE_READ(file, private_data);
	call.sk = (__u64)BPF_CORE_READ(socket, sk);
	if (!call.sk)
		return 0;
	if (id == CALL_SENDMMSG)
		call.left = (__u32)datagrams;
	call.at = bpf_ktime_get_ns();
	thread = bpf_get_current_pid_tgid();
	bpf_map_update_elem(&sendings, &thread, &call, BPF_ANY);
	return 0;
}

/* The kernel's receive stamp of a packet is on CLOCK_REALTIME; its age is read against the one clock of that family that programs
 * may read. 0 where there is none. */
static __always_inline __u64 stack_took(__u64 stamp, __u64 now)
{
	__s64 age;

	if (!stamp || !bpf_core_enum_value_exists(enum bpf_func_id___packets, BPF_FUNC_ktime_get_tai_ns___packets))
		return 0;
	age = (__s64)bpf_ktime_get_tai_ns() - wanted.tai_offset - (__s64)stamp;
	/* A stamp of the sender's making, or from before the clock was set. */
	if (age < 0 || age > 10000000000ll)
		return 0;
	return now - age;
}

/* One arrival that did not come to its socket's queue on this CPU: queued by another, on whose books it has no number. */
static __always_inline void arrival_flush(struct arriving *here)
{
	if (!here->skb)
		return;
	packet_out(&here->record);
	here->skb = 0;
}

/* UDP has taken a packet for a socket, and will queue it next. Runs for packets to sockets of the cgroup alone. */
SEC("cgroup_skb/ingress")
int udp_taken(struct __sk_buff *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	struct packet_record *record;
	struct arriving *here;
	struct udp_info *info;
	struct udp_header udp;
	struct ipv4_header v4;
	__u32 zero = 0, at;
	__u64 now;

	if (!sk)
		return 1;
	sk = bpf_sk_fullsock(sk);
	if (!sk || sk->protocol != IPPROTO_UDP)
		return 1;
	info = bpf_sk_storage_get(&udp_sockets, sk, NULL, 0);
	if (!info)
		return 1;
	here = bpf_map_lookup_elem(&arriving, &zero);
	if (!here)
		return 1;
	now = bpf_ktime_get_ns();
	if (bpf_skb_load_bytes(ctx, 0, &v4, sizeof(v4)))
		return 1;
	arrival_flush(here);
	record = &here->record;
	if (v4.version_length >> 4 == 4) {
		mapped(record->local, v4.destination);
		mapped(record->remote, v4.source);
		at = (v4.version_length & 15) * 4;
	} else {
		struct ipv6_header v6;

		if (bpf_skb_load_bytes(ctx, 0, &v6, sizeof(v6)))
			return 1;
		__builtin_memcpy(record->local, v6.destination, 16);
		__builtin_memcpy(record->remote, v6.source, 16);
		at = sizeof(v6);
		if (v6.next != IPPROTO_UDP && bpf_ksym_exists(bpf_cast_to_kern_ctx)) {
			const struct sk_buff *skb = CAST(bpf_cast_to_kern_ctx(ctx), struct sk_buff);

			at = skb->transport_header - skb->network_header;
		}
	}
	if (bpf_skb_load_bytes(ctx, at, &udp, sizeof(udp)))
		return 1;
	record->local_port = bpf_ntohs(udp.destination);
	record->remote_port = bpf_ntohs(udp.source);
	if (!ends_match(record->local_port, record->remote_port, record->remote))
		return 1;
	record->kind = RECORD_ARRIVAL;
	record->number = NO_NUMBER;
	record->cookie = bpf_get_socket_cookie(ctx);
	record->first = stack_took(ctx->tstamp, now);
	record->second = now;
	record->third = 0;
	record->dropped_at = 0;
	record->drop_reason = 0;
	record->marks = 0;
	record->bytes = ctx->len > at + sizeof(udp) ? ctx->len - at - sizeof(udp) : 0;
	record->segments = ctx->gso_segs ? ctx->gso_segs : 1;
	record->pid = info->pid;
	__builtin_memcpy(record->comm, info->comm, sizeof(record->comm));
	record->frame_bytes = NO_NUMBER;
	here->skb = ARRIVING_UNKNOWN;
	if (bpf_ksym_exists(bpf_cast_to_kern_ctx)) {
		const struct sock___packets *socket = CAST(sk, struct sock___packets);

		here->skb = (__u64)bpf_cast_to_kern_ctx(ctx);
		record->frame_bytes = socket->sk_backlog.rmem_alloc.counter;
	}
	return 1;
}

/* The socket's queue has got one more. */
static __always_inline int arrived(struct sock *sk)
{
	struct udp_info *info;
	struct arriving *here;
	__u32 zero = 0, number;

	if (!has_storage(sk))
		return 0;
	info = bpf_sk_storage_get(&udp_sockets, sk, NULL, 0);
	if (!info)
		return 0;
	here = bpf_map_lookup_elem(&arriving, &zero);
	if (!here)
		return 0;
	/* Counted whether it has a record or not: another CPU may have begun it. One that does not match ports or peers has none. */
	number = __sync_fetch_and_add(&info->received, 1);
	if (!here->skb || here->record.cookie != cookie_of(sk))
		return 0;
	here->record.number = number;
	here->record.third = bpf_ktime_get_ns();
	arrival_flush(here);
	return 0;
}

/* 6.3 and later. */
SEC("tp_btf/sk_data_ready")
int BPF_PROG(udp_ready, struct sock *sk)
{
	if (sk->sk_protocol != IPPROTO_UDP)
		return 0;
	return arrived(sk);
}

SEC("fexit/__udp_enqueue_schedule_skb")
int BPF_PROG(udp_enqueued, struct sock *sk, struct sk_buff *skb, int outcome)
{
	return outcome ? 0 : arrived(sk);
}

static __always_inline int was_read(struct sock *sk, int outcome, int flags)
{
	struct udp_info *info;

	if (outcome < 0 || flags & (MSG_PEEK | MSG_ERRQUEUE) || !has_storage(sk))
		return 0;
	info = bpf_sk_storage_get(&udp_sockets, sk, NULL, 0);
	if (!info)
		return 0;
	if (!note_out(RECORD_READ, __sync_fetch_and_add(&info->read, 1), bpf_get_socket_cookie(sk), bpf_ktime_get_ns()))
		COUNT(reads);
	return 0;
}

/* 6.3 and later: a call that receives comes back. */
SEC("tp_btf/sock_recv_length")
int BPF_PROG(udp_read, struct sock *sk, int outcome, int flags)
{
	if (!ipv4_or_6(sk) || sk->sk_protocol != IPPROTO_UDP)
		return 0;
	return was_read(sk, outcome, flags);
}

SEC("fexit/udp_recvmsg")
int BPF_PROG(udp_read_v4, struct sock *sk, struct msghdr *message, unsigned long length, int flags, int *address_length,
	     int outcome)
{
	return was_read(sk, outcome, flags);
}

SEC("fexit/udpv6_recvmsg")
int BPF_PROG(udp_read_v6, struct sock *sk, struct msghdr *message, unsigned long length, int flags, int *address_length,
	     int outcome)
{
	return was_read(sk, outcome, flags);
}

/* A packet for `sk` was thrown away on its way in. */
static __always_inline int arrival_dropped(struct sk_buff *skb, struct sock *sk, __u32 reason, __u64 now)
{
	struct packet_record record = {};
	struct headers headers;

	if (!full_socket(sk->__sk_common.skc_state) || !has_storage(sk) || !ipv4_or_6(sk))
		return 0;
	if (sk->sk_protocol == IPPROTO_TCP && wanted.tcp) {
		if (!bpf_sk_storage_get(&sockets, sk, NULL, 0) || !headers_of(skb, IPPROTO_TCP, &headers))
			return 0;
		record.kind = RECORD_PACKET;
	} else if (sk->sk_protocol == IPPROTO_UDP && wanted.udp) {
		struct udp_info *info = bpf_sk_storage_get(&udp_sockets, sk, NULL, 0);

		if (!info || !headers_of(skb, IPPROTO_UDP, &headers) || headers.later_fragment)
			return 0;
		record.kind = RECORD_ARRIVAL;
		record.pid = info->pid;
		__builtin_memcpy(record.comm, info->comm, sizeof(record.comm));
	} else {
		return 0;
	}
	if (headers.destination_port != sk->__sk_common.skc_num ||
	    !ends_match(headers.destination_port, headers.source_port, headers.source))
		return 0;
	ends_set(&record, &headers, false);
	record.number = NO_NUMBER;
	record.cookie = cookie_of(sk);
	record.marks = MARK_DROPPED | MARK_RECEIVED;
	record.dropped_at = now;
	record.drop_reason = reason;
	record.segments = segments_of(skb);
	record.frame_bytes = record.kind == RECORD_PACKET ? skb->len : NO_NUMBER;
	packet_out(&record);
	return 0;
}

static __always_inline int on_drop(struct sk_buff *skb, __u32 reason, struct sock *receiver)
{
	struct packet_record fresh = {}, *record;
	__u64 now, key = (__u64)skb;
	struct sock *sk = skb->sk;
	struct arriving *here;
	struct in_hand *hand;
	__u32 zero = 0;
	struct way way;

	if (!sk && !receiver)
		goto arriving_only;
	now = bpf_ktime_get_ns();
	if (sk && may_be_followed(sk)) {
		hand = in_hand();
		if (hand && hand->skb == key) {
			hand->record.marks |= MARK_DROPPED;
			hand->record.dropped_at = now;
			hand->record.drop_reason = reason;
			return 0;
		}
		record = find(&way, skb, sk);
		if (record) {
			bool whole = record->segments == segments_of(skb);

			if (whole) {
				record->marks |= MARK_DROPPED;
				record->dropped_at = now;
				record->drop_reason = reason;
			}
			packet_out(record);
			bpf_map_delete_elem(&on_way, &way);
			if (whole)
				return 0;
			/* The first segment of a packet that was cut up: dropped by itself, while the others go on. */
		}
	}
arriving_only:
	if (wanted.udp) {
		here = bpf_map_lookup_elem(&arriving, &zero);
		/* Where the context cannot be cast, the packet that this CPU is queueing is it. */
		if (here && (here->skb == key || here->skb == ARRIVING_UNKNOWN)) {
			here->record.marks |= MARK_DROPPED | MARK_RECEIVED;
			here->record.dropped_at = bpf_ktime_get_ns();
			here->record.drop_reason = reason;
			arrival_flush(here);
			return 0;
		}
	}
	now = bpf_ktime_get_ns();
	if (receiver)
		return arrival_dropped(skb, receiver, reason, now);
	if (!sk || !may_be_followed(sk))
		return 0;
	/* Thrown away before the packet scheduler, after the driver, or on the way in where the socket was known early. */
	if (leaves(&fresh, skb, sk, false)) {
		fresh.marks |= MARK_DROPPED;
		fresh.dropped_at = now;
		fresh.drop_reason = reason;
		packet_out(&fresh);
		return 0;
	}
	return arrival_dropped(skb, sk, reason, now);
}

/* 6.11 and later tell for which socket a packet was. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(packet_dropped, struct sk_buff *skb, void *location, __u32 reason, struct sock *receiver)
{
	return on_drop(skb, reason, receiver);
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(packet_dropped_before_6_11, struct sk_buff *skb, void *location, __u32 reason)
{
	return on_drop(skb, reason, NULL);
}
