// SPDX-License-Identifier: MIT OR Apache-2.0
/* Copies of the packets of the target's sockets, in both directions, each with its socket and the
 * owner of that.
 *
 * cgroup_skb (4.10): IP is about to hand a packet to the packet scheduler, or a socket has got one.
 * Where the socket is not of the target, which the storage of the sends' programs says for TCP, the
 * program returns.
 *
 * A connection that TCP only remembers (TIME_WAIT) has no socket, and no program of a cgroup runs
 * for it. Its packets come by two tracepoints: kfree_skb, since TCP is done with a packet that no
 * socket takes (6.11 says for whom it was), and net_dev_queue (6.13 says for whom TCP answers).
 *
 * kfree_skb (5.17 gives the reason) also says which of the copied packets the kernel dropped.
 *
 * netif_receive_skb has the ICMP errors about packets of these sockets (errors.h), and with
 * net_dev_queue the fragments of their datagrams (fragments.h). */
#define CONTEXTS 1
#include "../bpf/cgroup_packet.h"
#include "../bpf/kernel.h"
#include "../bpf/packet.h"
#define STAMPS 0
#include "../bpf/sockets.h"
#include "../bpf/datagram_sockets.h"
#include "copy_record.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile struct copy_config copying SEC(".rodata.copying");

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct net_device___copies {
	char name[16];
};
struct task_struct___copies {
	struct task_struct___copies *group_leader;
	__u64 start_boottime;
};
struct sk_buff___copies {
	__u8 ip_summed : 2;
};
struct skb_shared_info___copies {
	struct sk_buff *frag_list;
};
#pragma clang attribute pop

/* include/linux/skbuff.h */
enum { CHECKSUM_PARTIAL = 3 };
/* Likewise (6.0): the driver has something else than a time in its place. */
enum { SKBTX_HW_TSTAMP_NETDEV = 1 << 5 };

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct copy_place);
	__type(value, struct copy_interface);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} interfaces SEC(".maps");

struct owner {
	__u64 cgroup;
	__u32 pid;
	char comm[16];
	__u32 pad;
};

/* Owners of connections that have sent or received a FIN or a RST, by cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, __u64);
	__type(value, struct owner);
	__uint(max_entries, 16384);
} ended SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct copy_lost);
	__uint(max_entries, 1);
} copy_losses SEC(".maps");

/* A packet that is copied: its skb as the kernel has it, and as the context of the program where
 * there is one; and where its IP header is, from `head` on. */
struct source {
	struct __sk_buff *ctx;
	const struct sk_buff *skb;
	__u32 ip;
};

/* Where the data of a packet is, from `head` on. Or the compiler takes the difference of the lower
 * halves, which the verifier forbids for pointers. */
static __always_inline __u32 data_of(const struct sk_buff *skb)
{
	long ahead = READ(skb, data) - READ(skb, head);

	barrier_var(ahead);
	return ahead;
}

/* What is known of its checksum. */
static __always_inline __u8 checksum_of(const void *skb)
{
	const struct sk_buff___copies *of = skb;

	return bpf_ksym_exists(bpf_cast_to_kern_ctx) ? BPF_CORE_READ_BITFIELD(of, ip_summed)
						     : BPF_CORE_READ_BITFIELD_PROBED(of, ip_summed);
}

/* The inode number of the network namespace of an interface. */
static __always_inline __u32 network_of(const struct net_device *device)
{
	const struct net *net = READ(device, nd_net.net);

	return READ(net, ns.inum);
}

/* The largest of the sizes below is that of all headers with the most payload that can be asked
 * for. */
#define MOST_PAYLOAD 65535

static __always_inline void missed(const struct copy_place *place)
{
	struct copy_interface *interface = bpf_map_lookup_elem(&interfaces, place);
	__u32 zero = 0;
	struct copy_lost *lost = bpf_map_lookup_elem(&copy_losses, &zero);

	if (lost)
		__sync_fetch_and_add(&lost->ring_buffer, 1);
	if (interface)
		__sync_fetch_and_add(&interface->missed, 1);
	else if (lost)
		__sync_fetch_and_add(&lost->unplaced, 1);
}

/* What is kept of the interface; announced the first time. NULL where there is no room for it. */
static __always_inline struct copy_interface *interface_at(const struct copy_place *place, const struct net_device *device)
{
	struct copy_interface *interface = bpf_map_lookup_elem(&interfaces, place);

	if (!interface) {
		struct copy_interface fresh = {};

		bpf_map_update_elem(&interfaces, place, &fresh, BPF_NOEXIST);
		interface = bpf_map_lookup_elem(&interfaces, place);
	}
	if (interface && !interface->announced) {
		struct interface_record record = {
			.kind = RECORD_INTERFACE,
			.network = place->network,
			.interface = place->interface,
		};

		bpf_probe_read_kernel_str(record.name, sizeof(record.name), ((const struct net_device___copies *)device)->name);
		if (!bpf_ringbuf_output(&records, &record, sizeof(record), BPF_RB_NO_WAKEUP))
			interface->announced = 1;
	}
	return interface;
}

/* Copies the first bytes of a packet into a record with room for `size`. */
#define OUT(size)                                                                                         \
	({                                                                                                \
		struct {                                                                                  \
			struct copy_record head;                                                          \
			__u8 bytes[size];                                                                 \
		} *out_ = bpf_ringbuf_reserve(&records, sizeof(*out_), 0);                                \
		bool done_ = out_;                                                                        \
		if (out_) {                                                                               \
			out_->head = *record;                                                             \
			if (!load(of, out_->bytes, captured, size)) {                                     \
				out_->head.captured = 0;                                                  \
			}                                                                                 \
			bpf_ringbuf_submit(out_, BPF_RB_NO_WAKEUP);                                       \
		}                                                                                         \
		done_;                                                                                    \
	})

static __always_inline bool load(const struct source *of, __u8 *to, __u64 bytes, __u64 most)
{
	/* The verifier is to see the bounds in the very register that the helper gets. That of 6.1
	 * does not learn from a comparison with 0 that a number is at least 1. */
	bytes--;
	barrier_var(bytes);
	if (bytes >= most)
		return false;
	if (of->ctx)
		return !bpf_skb_load_bytes(of->ctx, 0, to, bytes + 1);
	return !bpf_probe_read_kernel(to, bytes + 1, of->skb->head + of->ip);
}

static __always_inline void copy_out(const struct source *of, struct copy_record *record, const struct headers *headers,
				     const struct owner *owner)
{
	const struct net_device *device = READ(of->skb, dev);
	const struct skb_shared_info *shared = shared_of(of->skb);
	struct copy_interface *interface;
	struct copy_place place = {};
	__u64 captured = headers->length;
	bool done;

	place.interface = READ(device, ifindex);
	place.network = network_of(device);
	interface = interface_at(&place, device);
	record->kind = RECORD_COPY;
	record->network = place.network;
	record->interface = place.interface;
	record->pid = owner->pid;
	record->cgroup = owner->cgroup;
	record->buffer = (__u64)of->skb;
	__builtin_memcpy(record->comm, owner->comm, sizeof(record->comm));
	/* Whatever has been taken off it or put before it by now. */
	record->length = data_of(of->skb) + READ(of->skb, len) - of->ip;
	record->first_seq = headers->first_seq;
	record->bytes = headers->bytes;
	record->flags = headers->flags;
	record->segments = segments_of(of->skb);
	record->segment_bytes = BPF_CORE_READ(shared, gso_size);
	/* What a datagram is cut up into is ready: __ip_append_data() of the kernel. */
	if ((record->marks & (COPY_SENT | COPY_TCP)) == COPY_SENT && of->ctx && !record->segment_bytes &&
	    BPF_CORE_READ((const struct skb_shared_info___copies *)shared, frag_list))
		record->marks |= COPY_CUT;
	if (!(record->marks & COPY_SENT) && !(BPF_CORE_READ(shared, tx_flags) & SKBTX_HW_TSTAMP_NETDEV))
		record->nic = BPF_CORE_READ(shared, hwtstamps.hwtstamp);
	if (checksum_of(of->skb) == CHECKSUM_PARTIAL)
		record->marks |= COPY_PARTIAL;
	captured += headers->bytes < copying.payload ? headers->bytes : copying.payload;
	if (captured > record->length)
		captured = record->length;
	/* Without a context only the linear part can be read. */
	if (!of->ctx && captured > record->length - of->skb->data_len)
		captured = record->length - of->skb->data_len;
	record->captured = captured;
	if (interface && interface->missed)
		record->missed = __sync_lock_test_and_set(&interface->missed, 0);
	if (captured <= 64)
		done = OUT(64);
	else if (captured <= 128)
		done = OUT(128);
	else if (captured <= 512)
		done = OUT(512);
	else if (captured <= 2048)
		done = OUT(2048);
	else if (captured <= 16384)
		done = OUT(16384);
	else
		done = OUT(MOST_PAYLOAD + 1);
	if (done)
		return;
	if (interface && record->missed)
		__sync_fetch_and_add(&interface->missed, record->missed);
	missed(&place);
}

/* Why a segment that leaves repeats sequence numbers that were sent before, if it does. A probe has
 * the state of before. */
static __always_inline __u8 sent_again(const struct tcp_sock *tp, const struct headers *headers)
{
	if (!headers->bytes && !(headers->flags & (TCP_FLAG_SYN | TCP_FLAG_FIN)))
		return COPY_FIRST;
	if (!before(headers->first_seq, tp->snd_nxt))
		return COPY_FIRST;
	switch (BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state)) {
	case TCP_CA_Recovery:
		return COPY_AGAIN_RECOVERY;
	case TCP_CA_Loss:
		return COPY_AGAIN_LOSS;
	}
	return COPY_AGAIN_PROBE;
}

static __always_inline bool in_target(const struct headers *headers, bool sent)
{
	return sent ? ends_match(headers->source_port, headers->destination_port, headers->destination)
		    : ends_match(headers->destination_port, headers->source_port, headers->source);
}

/* The packet that was copied as it came last on this CPU, and its socket. */
struct last_received {
	__u64 skb; /* 0: none, or the last one is of another socket */
	__u64 cookie;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct last_received);
	__uint(max_entries, 1);
} last_received SEC(".maps");

static __always_inline void remember(const struct sk_buff *skb, __u64 cookie)
{
	__u32 zero = 0;
	struct last_received *last = bpf_map_lookup_elem(&last_received, &zero);

	if (!last)
		return;
	last->skb = (__u64)skb;
	last->cookie = cookie;
}

#include "errors.h"
#include "fragments.h"

static __always_inline void copy(struct __sk_buff *ctx, bool sent)
{
	struct copy_record record = { .marks = sent ? COPY_SENT : 0 };
	struct source of = { .ctx = ctx };
	struct bpf_sock *sk = ctx->sk;
	struct headers headers;
	struct owner owner = {};
	struct tcp_sock *tp;
	__u32 *copied_ends;

	if (copying.remembers && !sent)
		remember(NULL, 0);
	if (!sk)
		return;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return;
	if (sk->protocol == IPPROTO_TCP) {
		struct socket_info *info = bpf_sk_storage_get(&sockets, sk, NULL, 0);

		if (!info)
			return;
		copied_ends = &info->copied_ends;
		owner.pid = info->pid;
		__builtin_memcpy(owner.comm, info->comm, sizeof(owner.comm));
		record.marks |= COPY_TCP;
	} else if (sk->protocol == IPPROTO_UDP) {
		struct udp_info *info = bpf_sk_storage_get(&udp_sockets, sk, NULL, 0);

		if (!info)
			return;
		copied_ends = &info->copied_ends;
		owner.pid = info->pid;
		__builtin_memcpy(owner.comm, info->comm, sizeof(owner.comm));
		if (info->held)
			record.marks |= COPY_HELD;
	} else {
		return;
	}
	record.at = bpf_ktime_get_ns();
	of.skb = SKB_OF(ctx);
	of.ip = READ(of.skb, network_header);
	if (!headers_of(of.skb, record.marks & COPY_TCP ? IPPROTO_TCP : IPPROTO_UDP, &headers) || !in_target(&headers, sent))
		return;
	record.cookie = bpf_get_socket_cookie(ctx);
	owner.cgroup = bpf_sk_cgroup_id(sk);
	if (record.marks & COPY_TCP) {
		switch (sk->state) {
		case TCP_LISTEN:
			record.marks |= COPY_LISTENER;
			break;
		case TCP_SYN_SENT:
			record.marks |= COPY_OPENING;
			break;
		}
		tp = TCP_SOCK(sk);
		if (tp && sent && !(record.marks & COPY_LISTENER))
			record.again = sent_again(tp, &headers);
		if (headers.flags & (TCP_FLAG_FIN | TCP_FLAG_RST) && !(record.marks & COPY_LISTENER))
			bpf_map_update_elem(&ended, &record.cookie, &owner, BPF_ANY);
	}
	if (sent && !(record.marks & COPY_LISTENER)) {
		__u32 hash = hash_of(&headers, record.marks);

		if (*copied_ends != hash) {
			struct copy_sender sender = {
				.cookie = record.cookie,
				.cgroup = owner.cgroup,
				.pid = owner.pid,
				.marks = record.marks & (COPY_TCP | COPY_HELD | COPY_OPENING),
			};

			__builtin_memcpy(sender.comm, owner.comm, sizeof(sender.comm));
			*copied_ends = hash;
			sends_between(of.skb, &headers, &sender);
		}
	}
	if (copying.remembers && !sent)
		remember(of.skb, record.cookie);
	copy_out(&of, &record, &headers, &owner);
}

/* When each process began that a socket was made by. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 4096);
} makers SEC(".maps");

/* A task of the target makes a socket: it may be gone by the time that its packets are read. */
SEC("cgroup/sock_create")
int maker_seen(struct bpf_sock *sk)
{
	struct process_record record = { .kind = RECORD_PROCESS, .pid = current_pid() };
	const struct task_struct___copies *task = (const void *)bpf_get_current_task_btf();
	__u64 *known;

	if ((sk->protocol != IPPROTO_TCP && sk->protocol != IPPROTO_UDP) || (sk->family != AF_INET && sk->family != AF_INET6))
		return 1;
	if ((by_process() && !pid_is_target(record.pid)) || !task_matches())
		return 1;
	record.began = BPF_CORE_READ(task, group_leader, start_boottime);
	known = bpf_map_lookup_elem(&makers, &record.pid);
	if (known && *known == record.began)
		return 1;
	if (!bpf_ringbuf_output(&records, &record, sizeof(record), BPF_RB_NO_WAKEUP))
		bpf_map_update_elem(&makers, &record.pid, &record.began, BPF_ANY);
	return 1;
}

SEC("cgroup_skb/egress")
int copy_sent(struct __sk_buff *ctx)
{
	copy(ctx, true);
	return 1;
}

SEC("cgroup_skb/ingress")
int copy_received(struct __sk_buff *ctx)
{
	copy(ctx, false);
	return 1;
}

/* A packet of a connection that TCP only remembers. */
static __always_inline void copy_late(const struct sk_buff *skb, const struct sock *remembered, bool sent)
{
	struct copy_record record = { .marks = COPY_TCP | COPY_CLOSED | (sent ? COPY_SENT : 0) };
	struct source of = { .skb = skb, .ip = skb->network_header };
	struct headers headers;
	struct owner *found, owner;

	record.cookie = BPF_CORE_READ(remembered, __sk_common.skc_cookie.counter);
	found = bpf_map_lookup_elem(&ended, &record.cookie);
	if (!found)
		return;
	owner = *found;
	record.at = bpf_ktime_get_ns();
	if (!headers_of(skb, IPPROTO_TCP, &headers) || !in_target(&headers, sent) || !skb->dev)
		return;
	copy_out(&of, &record, &headers, &owner);
}

static __always_inline int drop_out(const struct sk_buff *skb, __u64 cookie, __u32 reason)
{
	struct copy_dropped_record record = {
		.kind = RECORD_COPY_DROPPED,
		.reason = reason,
		.at = bpf_ktime_get_ns(),
		.cookie = cookie,
		.buffer = (__u64)skb,
	};

	/* A reason that finds no room is one that is not told: its packet is in the file. */
	bpf_ringbuf_output(&records, &record, sizeof(record), BPF_RB_NO_WAKEUP);
	return 0;
}

/* A packet of a socket was dropped. Whoever reads it knows whether it was copied: a packet that is
 * dropped before is none of these. */
static __always_inline int dropped(const struct sk_buff *skb, struct sock *sk, __u32 reason)
{
	if (!full_socket(sk->__sk_common.skc_state))
		return 0;
	switch (sk->sk_protocol) {
	case IPPROTO_TCP:
		if (!bpf_sk_storage_get(&sockets, sk, NULL, 0))
			return 0;
		break;
	case IPPROTO_UDP:
		if (!bpf_sk_storage_get(&udp_sockets, sk, NULL, 0))
			return 0;
		break;
	default:
		return 0;
	}
	return drop_out(skb, sk->__sk_common.skc_cookie.counter, reason);
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(copy_late_received, struct sk_buff *skb, void *location, __u32 reason, struct sock *receiver)
{
	struct sock *sk = skb->sk;

	if (!receiver)
		return sk ? dropped(skb, sk, reason) : 0;
	if (receiver->__sk_common.skc_state != TCP_TIME_WAIT)
		return dropped(skb, receiver, reason);
	copy_late(skb, receiver, false);
	return 0;
}

/* Numbers differ between kernels, and so does which of them there are. */
enum skb_drop_reason {
	SKB_DROP_REASON_SOCKET_FILTER = 1,
	SKB_DROP_REASON_SOCKET_RCVBUFF = 2,
	SKB_DROP_REASON_SOCKET_BACKLOG = 3,
	SKB_DROP_REASON_PROTO_MEM = 4,
};
#define IS_REASON(reason, name)                                       \
	(bpf_core_enum_value_exists(enum skb_drop_reason, SKB_DROP_REASON_##name) && \
	 (reason) == bpf_core_enum_value(enum skb_drop_reason, SKB_DROP_REASON_##name))

/* Reasons of a socket, which has had the packet: all packets of a socket pass the program that
 * copies. */
static __always_inline bool is_of_socket(__u32 reason)
{
	return IS_REASON(reason, SOCKET_FILTER) || IS_REASON(reason, SOCKET_RCVBUFF) || IS_REASON(reason, SOCKET_BACKLOG) ||
	       IS_REASON(reason, PROTO_MEM);
}

/* 5.17 to 6.10: only what the socket sent, or found early, is known to be of it; and what a socket
 * refuses that it has got last on this CPU. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(copy_dropped_before_6_11, struct sk_buff *skb, void *location, __u32 reason)
{
	struct sock *sk = skb->sk;
	struct last_received *last;
	__u32 zero = 0;

	if (sk)
		return dropped(skb, sk, reason);
	last = bpf_map_lookup_elem(&last_received, &zero);
	if (!last || last->skb != (__u64)skb || !is_of_socket(reason))
		return 0;
	last->skb = 0;
	return drop_out(skb, last->cookie, reason);
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(copy_late_sent, struct sk_buff *skb)
{
	const struct sock *sk = skb->sk;

	if (sk && sk->__sk_common.skc_state == TCP_TIME_WAIT)
		copy_late(skb, sk, true);
	return 0;
}
