/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* ICMP errors about packets that sockets of the target have sent. No program of a cgroup sees them:
 * they are for the kernel, which tells the socket that it finds by the quoted packet
 * (icmp_socket_deliver() and icmpv6_notify() of the kernel). Here that is the socket which sent a
 * packet between the quoted ends last. */
#pragma once

enum { ETH_P_IP = 0x0800, ETH_P_IPV6 = 0x86dd };
enum { IPPROTO_ICMP = 1, IPPROTO_ICMPV6 = 58 };

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct copy_ends);
	__type(value, struct copy_sender);
	__uint(max_entries, 16384);
} senders SEC(".maps");

/* Also of its state: a socket that waits for the answer to its SYN is another sender. */
static __always_inline __u32 hash_of(const struct headers *headers, __u32 marks)
{
	const __u32 *source = (const __u32 *)headers->source, *destination = (const __u32 *)headers->destination;
	__u32 hash = (__u32)headers->source_port << 16 | headers->destination_port;

	for (int word = 0; word < 4; word++)
		hash = (hash * 31 + source[word]) * 31 + destination[word];
	/* 0 is that none was copied. */
	return (hash ^ (marks & COPY_OPENING)) | 1;
}

/* A socket sends between other ends than before. */
static __noinline int sends_between(const struct sk_buff *skb, const struct headers *headers, const struct copy_sender *sender)
{
	struct copy_ends ends = {
		.network = network_of(READ(skb, dev)),
		.local_port = headers->source_port,
		.remote_port = headers->destination_port,
		.protocol = sender->marks & COPY_TCP ? IPPROTO_TCP : IPPROTO_UDP,
	};

	__builtin_memcpy(ends.local, headers->source, 16);
	__builtin_memcpy(ends.remote, headers->destination, 16);
	bpf_map_update_elem(&senders, &ends, sender, BPF_ANY);
	return 0;
}

/* The last error or fragment that was seen on this CPU. */
struct last_seen {
	__u64 skb;
	__u32 interface;
	__u32 mark;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct last_seen);
	__uint(max_entries, 1);
} last_seen SEC(".maps");

/* A device on another one has the same packet: a bridge on its way in (br_pass_frame_up() of the
 * kernel), a VLAN on its way out. `mark` is a number out of the packet. */
static __always_inline bool is_handed_on(const struct sk_buff *skb, __u32 interface, __u32 mark)
{
	__u32 zero = 0;
	struct last_seen *last = bpf_map_lookup_elem(&last_seen, &zero);
	bool same;

	if (!last)
		return false;
	same = last->skb == (__u64)skb && last->mark == mark && last->interface != interface;
	last->skb = (__u64)skb;
	last->mark = mark;
	last->interface = interface;
	return same;
}

/* The part of a packet that can be read without its context, and what is looked at in it. */
struct view {
	const unsigned char *begin;
	__u32 length;
	__u32 at;
};

/* Reads what comes next, and goes beyond it. */
#define NEXT(view, to) next(view, to, sizeof(*(to)), sizeof(*(to)))

static __always_inline bool next(struct view *view, void *to, __u32 bytes, __u32 beyond)
{
	if (view->at + beyond > view->length || bpf_probe_read_kernel(to, bytes, view->begin + view->at))
		return false;
	view->at += beyond;
	return true;
}

/* The ends of the packet that an error quotes; false where it quotes none that has ports. */
static __always_inline bool quoted_ends(struct copy_ends *ends, struct view *view, bool v6)
{
	__be16 ports[2];

	if (!v6) {
		struct ipv4_header v4;

		if (!NEXT(view, &v4) || v4.fragment & bpf_htons(0x1fff))
			return false;
		mapped(ends->local, v4.source);
		mapped(ends->remote, v4.destination);
		ends->protocol = v4.protocol;
		view->at += (v4.version_length & 15) * 4 - sizeof(v4);
	} else {
		struct ipv6_header header;
		__u8 fragment[8];

		if (!NEXT(view, &header))
			return false;
		__builtin_memcpy(ends->local, header.source, 16);
		__builtin_memcpy(ends->remote, header.destination, 16);
		ends->protocol = header.next;
		if (header.next == IPPROTO_FRAGMENT) {
			if (!NEXT(view, &fragment) || fragment[2] || fragment[3] & 0xf8)
				return false;
			ends->protocol = fragment[0];
		}
	}
	/* RFC 792: eight bytes at least are quoted beyond the header. */
	if (!next(view, ports, sizeof(ports), 8))
		return false;
	ends->local_port = bpf_ntohs(ports[0]);
	ends->remote_port = bpf_ntohs(ports[1]);
	return true;
}

/* Whether the kernel takes it for an error: icmp_pointers[] and icmpv6_rcv() of the kernel, without
 * redirects. */
static __always_inline bool is_error(__u8 kind, bool v6)
{
	return v6 ? kind >= 1 && kind <= 4 : kind == 3 || kind == 4 || kind == 11 || kind == 12;
}

static __noinline int error_came(struct sk_buff *skb, __u32 icmp, bool v6)
{
	struct view view = { .begin = skb->data, .length = skb->len - skb->data_len, .at = icmp };
	struct source of = { .skb = skb, .ip = data_of(skb) };
	struct copy_record record = { .marks = COPY_ICMP };
	const struct copy_sender *sender;
	struct headers headers = {};
	struct copy_ends ends = {};
	struct owner owner = {};
	__u8 header[8]; /* type, code, checksum */

	if (!NEXT(&view, &header) || !is_error(header[0], v6) || !quoted_ends(&ends, &view, v6))
		return 0;
	ends.network = network_of(skb->dev);
	sender = bpf_map_lookup_elem(&senders, &ends);
	if (!sender || is_handed_on(skb, skb->dev->ifindex, (__u32)header[2] << 8 | header[3]))
		return 0;
	record.at = bpf_ktime_get_ns();
	record.cookie = sender->cookie;
	record.marks |= sender->marks;
	owner.cgroup = sender->cgroup;
	owner.pid = sender->pid;
	__builtin_memcpy(owner.comm, sender->comm, sizeof(owner.comm));
	headers.length = view.at;
	headers.bytes = view.length - view.at;
	copy_out(&of, &record, &headers, &owner);
	return 0;
}
