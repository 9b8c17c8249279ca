/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What an skb says: its headers, its socket, how it is segmented, and whether it may be followed.
 */
#pragma once

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
			/* RFC 8200, section 4.5: next header, reserved, offset with the flag for
			 * more. */
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
	if ((config.flags & CONFIG_PORTS) && !port_matches(local) && !port_matches(remote))
		return false;
	if (config.flags & CONFIG_PEERS) {
		struct prefix prefix = { .bits = 128 };

		__builtin_memcpy(prefix.address, peer, 16);
		return peer_matches(&prefix);
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
