// SPDX-License-Identifier: MIT OR Apache-2.0
/* The backend for kernels without BPF timestamping: tracepoints on the path of every packet of the machine, which look
 * whether the packet's socket is followed. A send is stamped by its last byte, wherever that lies in a packet, so merged
 * sends have stages of their own here. */
#include "kernel.h"

#define STAMPS 0
#include "following.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("sockops")
int following(struct bpf_sock_ops *skops)
{
	__u32 op = skops->op;
	struct bpf_sock *sk = skops->sk;
	struct bpf_sock_ops_kern *kern;
	struct socket_info *info;
	struct row *row;

	if (!sk)
		return 1;
	switch (op) {
	case BPF_SOCK_OPS_RTT_CB:
	case BPF_SOCK_OPS_RETRANS_CB:
	case BPF_SOCK_OPS_RTO_CB:
	case BPF_SOCK_OPS_STATE_CB:
		info = info_of(sk);
		if (!info)
			return 1;
		row = row_at(info->row);
		if (!row)
			return 1;
		kern = bpf_cast_to_kern_ctx(skops);
		on_callback(skops, op, info, row, VIEW(kern->sk, struct tcp_sock));
		return 1;
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		kern = bpf_cast_to_kern_ctx(skops);
		on_owner(sk, VIEW(kern->sk, struct sock), op == BPF_SOCK_OPS_TCP_LISTEN_CB);
		return 1;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		kern = bpf_cast_to_kern_ctx(skops);
		on_established(skops, sk, VIEW(kern->sk, struct tcp_sock), op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB);
		return 1;
	}
	return 1;
}

/* A call of `left` more bytes stands before copying (once for each packet it fills). Its last byte is known, so all its rounds
 * are one send; `send` is the last round's time. */
static __always_inline int on_write(struct sock *sk, __u64 left)
{
	struct socket_info *info = bpf_sk_storage_get(&sockets, sk, NULL, 0);
	const struct tcp_sock *tp;
	__u64 now;
	struct row *row;
	struct slot *slot;
	__u32 end, number;

	if (!info)
		return 0;
	number = info->row;
	row = row_at(number);
	if (!row || !left || left > 0x7fffffff)
		return 0;
	now = bpf_ktime_get_ns();
	if (row->window_end && now >= row->window_end)
		return 0;
	tp = VIEW(sk, struct tcp_sock);
	end = tp->write_seq + left;
	if (row->head != row->tail && row->last_key == end - 1) {
		slot = slot_at(number, row->tail - 1);
		if (slot) {
			/* The leg begins anew, and so does what is asked of it: the call may have slept since its last round. */
			clocks_run(row, now);
			blocked_set(row, blocked_by(tp, 0, false, true, left, now));
			clocks_copy(slot, row);
			slot->epoch = ++row->epoch;
			slot->blocked_in_call += row->blocked_in_call;
			row->blocked_in_call = 0;
			slot->record.send = now;
		}
		return 0;
	}
	slot_trim(row, number, tp->write_seq);
	slot_open(row, number, tp, tp->write_seq, left, now);
	return 0;
}

SEC("tp_btf/tcp_sendmsg_locked")
int BPF_PROG(written_round, struct sock *sk, struct msghdr *msg)
{
	return on_write(sk, msg->msg_iter.count);
}

/* Kernels before 6.16 have no such tracepoint. */
SEC("fentry/tcp_sendmsg_locked")
int BPF_PROG(written_call, struct sock *sk, struct msghdr *msg, unsigned long size)
{
	return on_write(sk, size);
}

struct packet {
	__u32 number;
	__u32 at;
	__u32 end;
	__u32 driver;
	__u64 now;
	const struct tcp_sock *tp;
};

static long packet_one(__u32 i, void *context)
{
	struct packet *packet = context;
	struct row *row = row_at(packet->number);
	struct slot *slot;

	if (!row || (__s32)(packet->at - row->tail) >= 0)
		return 1;
	slot = slot_at(packet->number, packet->at);
	if (!slot || !before(slot->key, packet->end))
		return 1;
	if (packet->driver)
		stage_driver(row, packet->number, slot->key, packet->now);
	else
		stage_sched(row, packet->number, slot->key, packet->tp, packet->now);
	packet->at++;
	return 0;
}

/* A packet passes the qdisc or goes to the driver: every send whose last byte it carries does so. */
static __always_inline int on_packet(struct sk_buff *skb, bool driver)
{
	struct sock *sk = skb->sk;
	struct socket_info *info;
	struct packet packet = {};
	const struct tcphdr *tcp;
	struct row *row;
	__u32 seq, length, headers, state;

	if (!sk)
		return 0;
	state = sk->__sk_common.skc_state;
	if (sk->sk_protocol != IPPROTO_TCP || state == TCP_TIME_WAIT || state == TCP_NEW_SYN_RECV)
		return 0;
	info = bpf_sk_storage_get(&sockets, sk, NULL, 0);
	if (!info)
		return 0;
	row = row_at(info->row);
	if (!row || row->head == row->tail)
		return 0;
	tcp = VIEW(skb->head + skb->transport_header, struct tcphdr);
	headers = (__u32)(skb->head + skb->transport_header - skb->data) + BPF_CORE_READ_BITFIELD(tcp, doff) * 4;
	/* Inside a tunnel the transport header is the tunnel's: then the ports are not this socket's. */
	if (tcp->dest != sk->__sk_common.skc_dport || skb->len <= headers)
		return 0;
	seq = bpf_ntohl(tcp->seq);
	length = skb->len - headers;
	packet.number = info->row;
	packet.end = seq + length;
	packet.driver = driver;
	packet.now = bpf_ktime_get_ns();
	packet.tp = VIEW(sk, struct tcp_sock);
	if (before(seq, packet.tp->snd_una) && !before(packet.tp->snd_una, packet.end)) {
		if (row->popped)
			COUNT(after_ack);
		return 0;
	}
	packet.at = slot_search(packet.number, seq);
	bpf_loop(config.slots, packet_one, &packet, 0);
	return 0;
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(queued, struct sk_buff *skb)
{
	return on_packet(skb, false);
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(started, struct sk_buff *skb)
{
	return on_packet(skb, true);
}

/* tcp_rcv_established() is about to look at a segment: the ACK in it has come. In later states the RTT callback tells. */
SEC("tp_btf/tcp_probe")
int BPF_PROG(received, struct sock *sk, struct sk_buff *skb)
{
	struct socket_info *info = bpf_sk_storage_get(&sockets, sk, NULL, 0);
	const struct tcp_sock *tp;
	struct row *row;
	__u32 ack;

	if (!info)
		return 0;
	row = row_at(info->row);
	if (!row)
		return 0;
	tp = VIEW(sk, struct tcp_sock);
	ack = VIEW(&skb->cb, struct tcp_skb_cb)->ack_seq;
	if (before(tp->snd_nxt, ack))
		return 0;
	slots_acked_before(row, info->row, ack, bpf_ktime_get_ns());
	return 0;
}
