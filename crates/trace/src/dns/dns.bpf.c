// SPDX-License-Identifier: MIT OR Apache-2.0
/* Messages of DNS between the target's sockets and servers, each with the owner of its socket. And,
 * where that is wanted, how long other datagrams of UDP wait for the next one.
 *
 * cgroup_skb (4.10): IP is about to hand a packet to the packet scheduler, or a socket has got one.
 * A connected TCP socket knows the port of its server, so nearly all packets of a machine are done
 * with after that comparison; a datagram is looked at where its socket is of the target. */
#include "../bpf/cgroup_packet.h"
#include "../bpf/kernel.h"
#define STAMPS 0
#include "../bpf/sockets.h"
#include "../bpf/datagram_sockets.h"
#include "dns_record.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile struct dns_config asking SEC(".rodata.asking");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct dns_lost);
	__uint(max_entries, 1);
} dns_losses SEC(".maps");

static __always_inline bool is_server_port(__u16 port)
{
	bool is = false;

#pragma unroll
	for (int i = 0; i < DNS_PORTS; i++)
		is |= asking.ports[i] == port;
	return is && port;
}

#include "exchanges.h"

/* Reads addresses and what protocol follows; gives where that begins, or 0. Of IPv6 with extension
 * headers nothing is read, and a later fragment has no ports. */
static __always_inline __u32 read_ip(struct __sk_buff *ctx, __u32 protocol, __u8 *source, __u8 *destination)
{
	struct ipv4_header v4;
	struct ipv6_header v6;

	if (bpf_skb_load_bytes(ctx, 0, &v4, sizeof(v4)))
		return 0;
	if (v4.version_length >> 4 == 4) {
		if (v4.protocol != protocol || v4.fragment & bpf_htons(0x1fff))
			return 0;
		mapped(source, v4.source);
		mapped(destination, v4.destination);
		return (v4.version_length & 15) * 4;
	}
	if (v4.version_length >> 4 != 6 || bpf_skb_load_bytes(ctx, 0, &v6, sizeof(v6)) || v6.next != protocol)
		return 0;
	__builtin_memcpy(source, v6.source, 16);
	__builtin_memcpy(destination, v6.destination, 16);
	return sizeof(v6);
}

/* Hands a message on with room for `size` bytes of it. */
#define OUT(size)                                                                                         \
	({                                                                                                \
		struct {                                                                                  \
			struct dns_record head;                                                           \
			__u8 bytes[size];                                                                 \
		} *out_ = bpf_ringbuf_reserve(&records, sizeof(*out_), 0);                                \
		if (out_) {                                                                               \
			out_->head = *record;                                                             \
			if (!load(ctx, at, out_->bytes, captured, size))                                  \
				out_->head.captured = 0;                                                  \
			bpf_ringbuf_submit(out_, BPF_RB_NO_WAKEUP);                                       \
		}                                                                                         \
		out_;                                                                                     \
	})

static __always_inline bool load(struct __sk_buff *ctx, __u32 at, __u8 *to, __u64 bytes, __u64 most)
{
	/* The verifier is to see the bounds in the very register that the helper gets. That of 6.1
	 * does not learn from a comparison with 0 that a number is at least 1. */
	bytes--;
	asm volatile("" : "+r"(bytes));
	if (bytes >= most)
		return false;
	return !bpf_skb_load_bytes(ctx, at, to, bytes + 1);
}

static __always_inline void hand_on(struct __sk_buff *ctx, __u32 at, struct dns_record *record)
{
	__u64 captured = record->payload < DNS_BYTES ? record->payload : DNS_BYTES;
	__u32 zero = 0;
	struct dns_lost *lost;

	record->kind = RECORD_DNS;
	record->captured = captured;
	record->at = bpf_ktime_get_ns();
	record->cgroup = bpf_skb_cgroup_id(ctx);
	if (captured <= 128) {
		if (OUT(128))
			return;
	} else if (captured <= 512) {
		if (OUT(512))
			return;
	} else if (OUT(DNS_BYTES)) {
		return;
	}
	lost = bpf_map_lookup_elem(&dns_losses, &zero);
	if (lost)
		__sync_fetch_and_add(&lost->ring_buffer, 1);
}

/* Reads the header of the transport and tells whether the packet goes to a server or comes from
 * one. */
static __always_inline void message(struct __sk_buff *ctx, const struct bpf_sock *sk, struct dns_record *record,
				    bool held)
{
	bool sent = record->marks & DNS_SENT, tcp = record->marks & DNS_TCP;
	__u8 *source = sent ? record->local : record->server, *destination = sent ? record->server : record->local;
	__u32 at = read_ip(ctx, tcp ? IPPROTO_TCP : IPPROTO_UDP, source, destination), length = ctx->len;
	__be16 ports[2];
	bool is_dns;

	if (!at || bpf_skb_load_bytes(ctx, at, ports, sizeof(ports)))
		return;
	record->local_port = bpf_ntohs(sent ? ports[0] : ports[1]);
	record->server_port = bpf_ntohs(sent ? ports[1] : ports[0]);
	is_dns = is_server_port(record->server_port);
	if ((!is_dns && (tcp || !asking.exchanges)) ||
	    !ends_match(record->local_port, record->server_port, record->server))
		return;
	if (!is_dns) {
		exchange(ctx, sk, at + sizeof(struct udp_header), record, sent, held);
		return;
	}
	if (tcp) {
		struct tcp_header header;

		if (bpf_skb_load_bytes(ctx, at, &header, sizeof(header)))
			return;
		record->first_seq = bpf_ntohl(header.seq);
		record->flags = header.flags;
		at += (header.offset >> 4) * 4;
	} else {
		at += sizeof(struct udp_header);
	}
	record->payload = length > at ? length - at : 0;
	if (record->payload || record->flags & (TCP_FLAG_FIN | TCP_FLAG_RST))
		hand_on(ctx, at, record);
}

static __always_inline void look(struct __sk_buff *ctx, bool sent)
{
	struct dns_record record = { .marks = sent ? DNS_SENT : 0 };
	struct bpf_sock *sk = ctx->sk;
	bool held = false;

	if (!sk)
		return;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return;
	if (sk->protocol == IPPROTO_TCP) {
		const struct socket_info *info;

		if (!is_server_port(bpf_ntohs(sk->dst_port)))
			return;
		info = bpf_sk_storage_get(&sockets, sk, NULL, 0);
		if (!info)
			return;
		record.marks |= DNS_TCP;
		record.pid = info->pid;
		__builtin_memcpy(record.comm, info->comm, sizeof(record.comm));
	} else if (sk->protocol == IPPROTO_UDP) {
		const struct udp_info *info = bpf_sk_storage_get(&udp_sockets, sk, NULL, 0);

		if (!info)
			return;
		record.pid = info->pid;
		__builtin_memcpy(record.comm, info->comm, sizeof(record.comm));
		held = info->held;
	} else {
		return;
	}
	message(ctx, sk, &record, held);
}

SEC("cgroup_skb/egress")
int dns_sent(struct __sk_buff *ctx)
{
	look(ctx, true);
	return 1;
}

SEC("cgroup_skb/ingress")
int dns_received(struct __sk_buff *ctx)
{
	look(ctx, false);
	return 1;
}
