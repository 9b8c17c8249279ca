/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What an skb says: its socket, and whether it may be followed. */
#pragma once

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

static __always_inline bool ipv4_or_6(const struct sock *sk)
{
	return sk->__sk_common.skc_family == AF_INET || sk->__sk_common.skc_family == AF_INET6;
}

/* Whether anybody keeps anything in the storage of this socket: where not, it is not followed, and
 * this one load says so. Not for what is no full socket: that has no such field. */
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

/* The packet's device is in its socket's network namespace: beyond, the packet is somebody else's.
 */
static __always_inline bool at_home(const struct sk_buff *skb, const struct sock *sk)
{
	const struct sk_buff___packets *view = (const void *)skb;

	return BPF_CORE_READ(view, dev, nd_net.net) == BPF_CORE_READ(sk, __sk_common.skc_net.net);
}

/* By reading: a packet's pointer to its socket is none that the helper takes. The cookie is there:
 * it was asked for when the socket was picked up, or before its first packet. */
static __always_inline __u64 cookie_of(const struct sock *sk)
{
	return BPF_CORE_READ(sk, __sk_common.skc_cookie.counter);
}

static __always_inline struct in_hand *in_hand(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&hands, &zero);
}

/* The stream of a socket that a packet of so many segments leaves from. */
static __always_inline struct stream *stream_of(struct sock *sk, const struct tcp_sock *tp, __u32 segments)
{
	struct stream fresh = { .before = tp->segs_out - segments };

	if (!bpf_sk_storage_get(&sockets, sk, NULL, 0) || !addresses_match(sk, false))
		return NULL;
	return bpf_sk_storage_get(&streams, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
}

/* The stream of a socket that has sent no packet since it is followed. */
static __always_inline void stream_begins(struct tcp_sock *tp)
{
	struct stream fresh = { .before = tp->segs_out };

	if (addresses_match((const struct sock *)tp, false))
		bpf_sk_storage_get(&streams, tp, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
}
