/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The headers of a packet, read from its skb, and whether its ends are in the target. */
#pragma once
#include "targets.h"

enum { IPPROTO_UDP = 17, IPPROTO_FRAGMENT = 44 };
/* include/uapi/linux/tcp.h */
enum { TCP_FLAG_FIN = 1, TCP_FLAG_SYN = 2, TCP_FLAG_RST = 4, TCP_FLAG_ACK = 16 };

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

/* What the headers of a packet say. */
struct headers {
	__u8 source[16];
	__u8 destination[16];
	__u16 source_port;
	__u16 destination_port;
	__u32 first_seq;
	__u32 bytes;
	__u16 length; /* of all of them, from the outermost IP header on */
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
	__u64 head = (__u64)READ(skb, head), ip = head + READ(skb, network_header), at;
	__u64 end = (__u64)READ(skb, data) + READ(skb, len);
	__u16 transport;
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
			transport = READ(skb, transport_header);
			if (transport == 0xffff || head + transport < at)
				return false;
			at = head + transport;
		}
	}
	to->length = at - ip;
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
	to->length = at - ip;
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
