/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Datagrams on their way in: taken by UDP, queued for the socket, read. */
#pragma once

/* The kernel's receive stamp of a packet is on CLOCK_REALTIME; its age is read against the one
 * clock of that family that programs may read. 0 where there is none. */
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

/* One arrival that did not come to its socket's queue on this CPU: queued by another CPU, where it
 * has no number. */
static __always_inline void arrival_flush(struct arriving *here)
{
	if (!here->skb)
		return;
	packet_out(&here->record);
	here->skb = 0;
}

/* UDP has taken a packet for a socket, and will queue it next. Runs for packets to sockets of the
 * cgroup alone. */
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
	record->first_seq = info->read;
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
	/* Counted whether it has a record or not: another CPU may have begun it. One that does not
	 * match ports or peers has none. */
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
