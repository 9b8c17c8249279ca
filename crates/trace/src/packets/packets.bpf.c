// SPDX-License-Identifier: MIT OR Apache-2.0
/* Every packet of followed TCP sockets, every datagram of UDP sockets of the target, and what
 * becomes of them.
 *
 * The tracepoints run for all packets of the machine; each program looks first whether the packet's
 * socket has our storage.
 * A packet's stages are joined by the address of its skb, from the packet scheduler to the driver.
 * Here is what leaves, and TCP's acknowledgements; the headers hold the rest by subject and belong
 * to this one program. */
#include "kernel.h"
#include "packet.h"

#define STAMPS 0
#include "sockets.h"
#include "datagram_sockets.h"
#include "records.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile struct packet_config wanted SEC(".rodata.wanted");

#include "types.h"
#include "books.h"
#include "skb.h"

/* Fills in a packet of TCP that leaves, but for its moments. */
static __always_inline bool segment_leaves(struct packet_record *record, const struct sk_buff *skb, struct sock *sk,
					   bool counted)
{
	__u32 end, next;
	struct headers headers;
	struct tcp_sock *tp = TCP_SOCK(sk);
	__u32 segments = segments_of(skb);
	struct stream *stream = tp ? stream_of(sk, tp, segments) : NULL;

	if (!stream || !headers_of(skb, IPPROTO_TCP, &headers))
		return false;
	/* Inside a tunnel the ports are not this socket's; a packet on its way in has them the
	 * other way round. */
	if (headers.source_port != sk->__sk_common.skc_num || headers.destination_port != bpf_ntohs(sk->__sk_common.skc_dport))
		return false;
	end = headers.first_seq + headers.bytes + !!(headers.flags & TCP_FLAG_SYN) + !!(headers.flags & TCP_FLAG_FIN);
	stream->seen += segments;
	stream_compare(stream, tp);
	/* What the packet scheduler itself refuses TCP sends anew without calling that a
	 * retransmission: snd_nxt has not moved. A SYN may have waited for its neighbour's address,
	 * and finds it moved the first time. */
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

/* The SYN-ACK of a listener of the target: the child will have the cookie that the request has. */
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
	struct packet_record record = {}, *before;
	struct in_hand *hand;
	struct sending *call;
	struct way way;
	__u64 thread;

	if (!sk || !may_be_followed(sk) || !at_home(skb, sk))
		return 0;
	hand = in_hand();
	if (hand && hand->skb == (__u64)skb) {
		/* A device on another one: the packet is on its way already. */
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
	if (!bpf_map_update_elem(&on_way, &way, &record, BPF_NOEXIST))
		return 0;
	before = bpf_map_lookup_elem(&on_way, &way);
	if (before) {
		/* Its packet left without being seen, or leaves beside this one (the same bytes
		 * once more): it has what is known of it. */
		COUNT(unfinished);
		packet_out(before);
		if (!bpf_map_update_elem(&on_way, &way, &record, BPF_ANY))
			return 0;
	}
	COUNT(no_room);
	packet_out(&record);
	return 0;
}

/* Where the entry of a packet that comes out of the scheduler is: under its own address, or under
 * that of the GSO packet it was the first segment of. */
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

/* Everything before `ack` has reached the peer. */
static __always_inline void acked(struct sock *sk, __u32 ack)
{
	struct stream *stream = bpf_sk_storage_get(&streams, sk, NULL, 0);

	if (!stream || (stream->acks && !before(stream->acked, ack)))
		return;
	if (!note_out(RECORD_ACK, ack, bpf_get_socket_cookie(sk), bpf_ktime_get_ns())) {
		/* The next one reports it. */
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
	struct stream *stream;
	struct tcp_sock *tp;
	__u64 key = (__u64)sk;

	if (sk->sk_protocol != IPPROTO_TCP)
		return 0;
	if (from == TCP_LISTEN) {
		bpf_map_delete_elem(&listeners, &key);
		return 0;
	}
	stream = bpf_sk_storage_get(&streams, sk, NULL, 0);
	tp = TCP_SOCK(sk);
	if (!stream || !tp)
		return 0;
	stream_compare(stream, tp);
	acked(sk, tp->snd_una);
	if (to == TCP_CLOSE)
		note_out(RECORD_GONE, 0, bpf_get_socket_cookie(sk), bpf_ktime_get_ns());
	return 0;
}

/* Round-trip times are measured in states in which tcp_probe is silent too; the sending side asks
 * for the callback. */
SEC("sockops")
int stream_called(struct bpf_sock_ops *skops)
{
	const struct control *now_set;
	struct bpf_sock *sk = skops->sk;
	struct stream *stream;
	struct tcp_sock *tp;
	__u64 key;
	__u8 one = 1;

	switch (skops->op) {
	case BPF_SOCK_OPS_TIMEOUT_INIT:
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		/* Of a request, before its SYN-ACK; the child inherits its cookie. Of a client's
		 * socket, before its SYN. */
		bpf_get_socket_cookie(skops);
		return 1;
	}
	if (!sk)
		return 1;
	if (skops->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || skops->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB) {
		now_set = control();
		tp = bpf_skc_to_tcp_sock(sk);
		if (tp && now_set && !now_set->ending && bpf_sk_storage_get(&sockets, sk, NULL, 0))
			stream_begins(tp);
		return 1;
	}
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

/* The listeners of the target, and the segments that its connections have sent when tracing begins
 * and ends. Each connection is locked meanwhile, so no packet is between the kernel's count and
 * ours. */
SEC("iter/tcp")
int look_at_streams(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	const struct control *now_set = control();
	struct stream *stream;
	struct tcp_sock *tp;
	__u64 key;
	__u8 one = 1;

	if (!common || !now_set || !full_socket(common->skc_state))
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp || !bpf_sk_storage_get(&sockets, tp, NULL, 0))
		return 0;
	if (common->skc_state == TCP_LISTEN) {
		key = (__u64)tp;
		if (!now_set->ending)
			bpf_map_update_elem(&listeners, &key, &one, BPF_ANY);
		return 0;
	}
	stream = bpf_sk_storage_get(&streams, tp, NULL, 0);
	if (now_set->ending) {
		if (!stream)
			return 0;
		stream_compare(stream, tp);
		stream->over = 1;
	} else if (!stream) {
		stream_begins(tp);
	} else if (stream->over) {
		stream->over = 0;
		stream->before = tp->segs_out - stream->seen - stream->unseen;
	}
	return 0;
}

#include "sending.h"
#include "arriving.h"
#include "dropped.h"
