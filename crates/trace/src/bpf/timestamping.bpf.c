// SPDX-License-Identifier: MIT OR Apache-2.0
/* The backend for kernels with BPF timestamping (6.15 and later): the kernel calls back for armed sockets only. */
#include "kernel.h"
#define STAMPS 1
#include "following.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

static __always_inline void on_sendmsg(struct bpf_sock_ops_kern *kern, struct row *row, __u32 number)
{
	const struct tcp_sock *tp = VIEW(kern->sk, struct tcp_sock);
	__u32 end = tp->write_seq, first = row->write_seq, bytes = end - first, tail = row->tail;
	struct slot *slot;
	__u64 now;

	row->write_seq = end;
	now = bpf_ktime_get_ns();
	if (row->window_end && now >= row->window_end) {
		totals_disarm_at(row, written(tp) - bytes, now);
		return;
	}
	/* The packet at the end of the queue holds the last byte of the send before: that one loses its stamps to this one. The
	 * row says so, not the tag, which another tracer may have set. */
	if (tail != row->head && !before(row->last_key, end - kern->skb->len)) {
		slot = slot_at(number, tail - 1);
		if (!slot)
			return;
		clocks_run(row, now);
		if (slot->changes == row->changes)
			slot->clocks[row->blocked & 15] = row->clocks[row->blocked & 15] >> CLOCK_SHIFT;
		else
			clocks_copy(slot, row);
		if (!slot->record.merged++)
			slot->record.oldest = slot->record.send;
		slot->record.merged_bytes += slot->record.bytes;
		slot->record.send = now;
		slot->record.first_seq = first;
		slot->record.bytes = bytes;
		slot->blocked_in_call = row->blocked_in_call;
		row->blocked_in_call = 0;
		slot->epoch = ++row->epoch;
		slot->key = end - 1;
		row->last_key = end - 1;
		bpf_sock_ops_enable_tx_tstamp(kern, 0);
		return;
	}
	if (slot_open(row, number, tp, first, bytes, now))
		bpf_sock_ops_enable_tx_tstamp(kern, 0);
}

/* A tagged packet goes through the stage `op`. Its tag may be of a byte that it does not carry: tcp_grow_skb() (6.10 and later) fills
 * a packet up with bytes of the next one and leaves the tag behind there. And it may carry the last bytes of more sends than the
 * tagged one. So the packet's bytes decide: every send that ends in them is at this stage, and no other. */
static __always_inline void on_packet(struct bpf_sock_ops_kern *kern, bool driver, struct row *row, __u32 number)
{
	struct payload payload;
	const struct tcp_sock *tp = VIEW(kern->sk, struct tcp_sock);
	__u32 at = driver ? row->driver_next : row->sched_next;
	__u64 now = bpf_ktime_get_ns();
	struct slot *slot;
	bool found = false;

	if (!payload_of(kern->skb, &payload))
		return;
	/* The guess is right but for retransmissions and after packets that had no tag. */
	slot = slot_at(number, at);
	if ((__s32)(at - row->head) < 0 || (__s32)(at - row->tail) >= 0 || !slot || before(slot->key, payload.first) ||
	    !before(slot->key, payload.end))
		at = slot_search(number, payload.first);
	for (int i = 0; i < 16; i++) {
		if ((__s32)(at - row->tail) >= 0)
			break;
		slot = slot_at(number, at);
		if (!slot || !before(slot->key, payload.end))
			break;
		found = true;
		if (driver)
			slot_driver(row, slot, at, now);
		else
			slot_sched(row, slot, at, tp, now);
		at++;
	}
	if (!found && row->popped && !before(row->popped_key, payload.end - 1))
		COUNT(after_ack);
}

/* SCHED, SND and ACK: the packet bears the key. */
static __always_inline void on_stage(struct bpf_sock_ops_kern *kern, __u32 op, struct row *row, __u32 number)
{
	const struct sk_buff *skb = kern->skb;
	const struct skb_shared_info *shared = VIEW(skb->head + skb->end, struct skb_shared_info);
	__u32 key = shared->tskey;

	switch (op) {
	case BPF_SOCK_OPS_TSTAMP_SCHED_CB:
	case BPF_SOCK_OPS_TSTAMP_SND_SW_CB:
		on_packet(kern, op == BPF_SOCK_OPS_TSTAMP_SND_SW_CB, row, number);
		break;
	case BPF_SOCK_OPS_TSTAMP_SND_HW_CB:
		stage_nic(row, number, key, shared->hwtstamps.hwtstamp);
		break;
	case BPF_SOCK_OPS_TSTAMP_ACK_CB:
		slots_acked(row, number, key, bpf_ktime_get_ns());
		break;
	}
}

SEC("sockops")
int timestamping(struct bpf_sock_ops *skops)
{
	__u32 op = skops->op;
	struct bpf_sock *sk = skops->sk;
	struct bpf_sock_ops_kern *kern;
	struct socket_info *info;
	struct row *row;
	__u32 number;

	if (!sk)
		return 1;
	switch (op) {
	case BPF_SOCK_OPS_TSTAMP_SENDMSG_CB:
	case BPF_SOCK_OPS_TSTAMP_SCHED_CB:
	case BPF_SOCK_OPS_TSTAMP_SND_SW_CB:
	case BPF_SOCK_OPS_TSTAMP_SND_HW_CB:
	case BPF_SOCK_OPS_TSTAMP_ACK_CB:
	case BPF_SOCK_OPS_RTT_CB:
	case BPF_SOCK_OPS_RETRANS_CB:
	case BPF_SOCK_OPS_RTO_CB:
	case BPF_SOCK_OPS_STATE_CB:
		info = info_of(sk);
		if (!info)
			return 1;
		number = info->row;
		row = row_at(number);
		if (!row)
			return 1;
		kern = bpf_cast_to_kern_ctx(skops);
		if (op == BPF_SOCK_OPS_TSTAMP_SENDMSG_CB) {
			on_sendmsg(kern, row, number);
			return 1;
		}
		if (op >= BPF_SOCK_OPS_TSTAMP_SCHED_CB) {
			on_stage(kern, op, row, number);
			return 1;
		}
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
