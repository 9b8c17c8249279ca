/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Fragments of datagrams. Programs of a cgroup run before IP cuts a datagram up, and after it has
 * put one together; here are the pieces, each at its own time. The first has the ports, and the
 * others follow it by addresses and identification (RFC 791, RFC 8200, section 4.5): one that
 * overtakes the first is not seen, and user space then has the datagram whole.
 * Whose an arriving fragment is nobody knows before the datagram is whole, so user space joins
 * it. */
#pragma once

struct piece {
	__u32 network;
	__u32 id;
	__u8 source[16];
	__u8 destination[16];
};

/* Datagrams of which the first fragment was copied. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct piece);
	__type(value, __u32);
	__uint(max_entries, 4096);
} pieces SEC(".maps");

/* Reads up to where the payload of a fragment of UDP begins; false where it is none. */
static __always_inline bool piece_of(struct piece *piece, struct view *view, bool v6, bool *first)
{
	if (!v6) {
		struct ipv4_header v4;

		if (!NEXT(view, &v4) || v4.protocol != IPPROTO_UDP)
			return false;
		mapped(piece->source, v4.source);
		mapped(piece->destination, v4.destination);
		piece->id = v4.id;
		*first = !(v4.fragment & bpf_htons(0x1fff));
		view->at += (v4.version_length & 15) * 4 - sizeof(v4);
	} else {
		struct ipv6_header header;
		struct {
			__u8 next;
			__u8 reserved;
			__be16 offset;
			__be32 id;
		} fragment;

		if (!NEXT(view, &header) || !NEXT(view, &fragment) || fragment.next != IPPROTO_UDP)
			return false;
		__builtin_memcpy(piece->source, header.source, 16);
		__builtin_memcpy(piece->destination, header.destination, 16);
		piece->id = fragment.id;
		*first = !(fragment.offset & bpf_htons(0xfff8));
	}
	return true;
}

/* `ip` is where its IP header is, from `head` on; `sk` has sent it, or is NULL. */
static __noinline int piece_seen(struct sk_buff *skb, __u32 ip, bool v6, struct sock *sk)
{
	struct view view = { .begin = skb->head + ip, .length = data_of(skb) + skb->len - skb->data_len - ip };
	struct copy_record record = { .marks = COPY_FRAGMENT | (sk ? COPY_SENT : 0) };
	struct source of = { .skb = skb, .ip = ip };
	struct headers headers = {};
	struct piece piece = {};
	struct owner owner = {};
	__u32 one = 1;
	bool first;

	if (!piece_of(&piece, &view, v6, &first))
		return 0;
	piece.network = network_of(skb->dev);
	if (first) {
		struct udp_header udp;

		if (!NEXT(&view, &udp))
			return 0;
		__builtin_memcpy(headers.source, piece.source, 16);
		__builtin_memcpy(headers.destination, piece.destination, 16);
		headers.source_port = bpf_ntohs(udp.source);
		headers.destination_port = bpf_ntohs(udp.destination);
		/* In a tunnel the ports are not this socket's. */
		if (!in_target(&headers, sk) || (sk && headers.source_port != sk->__sk_common.skc_num))
			return 0;
		bpf_map_update_elem(&pieces, &piece, &one, BPF_ANY);
	} else if (!bpf_map_lookup_elem(&pieces, &piece)) {
		return 0;
	}
	if (is_handed_on(skb, skb->dev->ifindex, piece.id))
		return 0;
	record.at = bpf_ktime_get_ns();
	if (sk) {
		const struct udp_info *info = bpf_sk_storage_get(&udp_sockets, sk, NULL, 0);
		const struct cgroup *cgroup = cgroup_of(sk);

		if (!info)
			return 0;
		record.cookie = sk->__sk_common.skc_cookie.counter;
		record.marks |= info->held ? COPY_HELD : 0;
		owner.cgroup = cgroup ? BPF_CORE_READ(cgroup, kn, id) : 0;
		owner.pid = info->pid;
		__builtin_memcpy(owner.comm, info->comm, sizeof(owner.comm));
	}
	headers.length = view.at;
	headers.bytes = data_of(skb) + skb->len - ip - view.at;
	copy_out(&of, &record, &headers, &owner);
	return 0;
}

/* Whether a packet of IPv4 is a fragment: the flag for more, or an offset. */
static __always_inline bool is_cut(const __u8 *head)
{
	return (head[6] & 0x3f) || head[7];
}

/* Of what IP has cut up (ip_do_fragment() and ip6_fragment() of the kernel), each fragment belongs
 * to the socket that sent the datagram. */
SEC("tp_btf/net_dev_queue")
int BPF_PROG(fragment_sent, struct sk_buff *skb)
{
	struct sock *sk = skb->sk;
	__u32 ip = skb->network_header;
	__u8 head[8];

	if (!sk || !full_socket(sk->__sk_common.skc_state) || sk->sk_protocol != IPPROTO_UDP)
		return 0;
	if (bpf_probe_read_kernel(head, sizeof(head), skb->head + ip))
		return 0;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (is_cut(head))
			piece_seen(skb, ip, false, sk);
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6) && head[6] == IPPROTO_FRAGMENT) {
		piece_seen(skb, ip, true, sk);
	}
	return 0;
}

/* Packets as the stack gets them from a driver: their IP header is where their data begins
 * (__netif_receive_skb_core() of the kernel). */
SEC("tp_btf/netif_receive_skb")
int BPF_PROG(beside_received, struct sk_buff *skb)
{
	const void *ip = skb->data;
	__u8 head[10]; /* of IPv4, up to the protocol */

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (bpf_probe_read_kernel(head, sizeof(head), ip))
			return 0;
		if (head[9] == IPPROTO_ICMP)
			error_came(skb, (head[0] & 15) * 4, false);
		else if (head[9] == IPPROTO_UDP && is_cut(head))
			piece_seen(skb, data_of(skb), false, NULL);
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		if (bpf_probe_read_kernel(head, sizeof(head), ip))
			return 0;
		if (head[6] == IPPROTO_ICMPV6)
			error_came(skb, sizeof(struct ipv6_header), true);
		else if (head[6] == IPPROTO_FRAGMENT)
			piece_seen(skb, data_of(skb), true, NULL);
	}
	return 0;
}
