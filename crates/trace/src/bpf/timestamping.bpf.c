// SPDX-License-Identifier: MIT OR Apache-2.0
/* The backend for kernels with BPF timestamping (6.15 and later): the kernel calls back for armed sockets only. */
#include "kernel.h"
#include "record.h"
#include "slots.h"
#include "waiting.h"
#include "targets.h"
#include "connections.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Sockets of other tracers' making or of a listener's inheritance have no row: nothing is done for them. */
static __always_inline struct socket_info *info_of(struct bpf_sock *sk)
{
	return bpf_sk_storage_get(&sockets, sk, NULL, 0);
}

static __always_inline void on_sendmsg(struct bpf_sock_ops_kern *kern, struct row *row, __u32 number)
{
	const struct tcp_sock *tp = VIEW(kern->sk, struct tcp_sock);
	__u32 end = tp->write_seq, first = row->write_seq, bytes = end - first, tail = row->tail;
	struct slot *slot;
	__u64 now;

	row->write_seq = end;
	now = bpf_ktime_get_ns();
	if (row->window_end && now >= row->window_end)
		return;
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

/* SCHED, SND and ACK: the packet bears the key. */
static __always_inline void on_stage(struct bpf_sock_ops_kern *kern, __u32 op, struct row *row, __u32 number)
{
	const struct sk_buff *skb = kern->skb;
	const struct skb_shared_info *shared = VIEW(skb->head + skb->end, struct skb_shared_info);
	__u32 key = shared->tskey;

	switch (op) {
	case BPF_SOCK_OPS_TSTAMP_SCHED_CB:
		stage_sched(row, number, key, VIEW(kern->sk, struct tcp_sock), skb, bpf_ktime_get_ns());
		break;
	case BPF_SOCK_OPS_TSTAMP_SND_SW_CB:
		stage_driver(row, number, key, bpf_ktime_get_ns());
		break;
	case BPF_SOCK_OPS_TSTAMP_SND_HW_CB:
		stage_nic(row, number, key, shared->hwtstamps.hwtstamp);
		break;
	case BPF_SOCK_OPS_TSTAMP_ACK_CB:
		slots_acked(row, number, key, bpf_ktime_get_ns());
		break;
	}
}

/* Arms or disarms: `context` is the sockops context or, in an iterator, the socket. The other callbacks a socket already has
 * stay, as another tracer may want them; those we need are never taken away, for the same reason. */
#define SET_ARMED(context, tp, armed)                                                                     \
	({                                                                                                \
		int stamp_ = (armed) ? SK_BPF_CB_TX_TIMESTAMPING : 0;                                     \
		int calls_ = (tp)->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG |                   \
			     BPF_SOCK_OPS_RETRANS_CB_FLAG | BPF_SOCK_OPS_RTO_CB_FLAG |                    \
			     BPF_SOCK_OPS_RTT_CB_FLAG;                                                    \
		bpf_setsockopt(context, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &calls_, sizeof(calls_));     \
		bpf_setsockopt(context, SOL_SOCKET, SK_BPF_CB_FLAGS, &stamp_, sizeof(stamp_));            \
	})

static __always_inline void window_close(struct bpf_sock_ops *skops, struct row *row, const struct tcp_sock *tp, __u64 now)
{
	struct control *now_set = control();

	if (!row->window_end || now < row->window_end || !row->armed_since)
		return;
	totals_disarm(row, tp, now);
	if (now_set && !now_set->shared)
		SET_ARMED(skops, tp, false);
}

/* An established connection whose storage says, or whose addresses say, that it is in the target. */
static __always_inline void on_established(struct bpf_sock_ops *skops, struct bpf_sock *sk, const struct tcp_sock *tp,
					   bool accepted)
{
	struct socket_info *info = info_of(sk);
	__u64 now = bpf_ktime_get_ns();
	struct control *now_set = control();
	struct row *row;

	if (!info && by_process())
		return;
	if (!addresses_match(sock_of(tp), false))
		return;
	if (!info) {
		struct socket_info fresh = { .row = NO_ROW };

		info = bpf_sk_storage_get(&sockets, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
		if (!info)
			return;
	}
	row = follow(info, tp, bpf_get_socket_cookie(skops), accepted ? OPENING_ACCEPTED : OPENING_CONNECTED, now);
	if (!row)
		return;
	if (config.flags & CONFIG_WINDOWS) {
		row->window_end = now_set ? now_set->window_end : 1;
		if (row->window_end <= now)
			row->window_end = 1;
	}
	if (row->window_end != 1)
		totals_arm(row, tp, now);
	SET_ARMED(skops, tp, row->window_end != 1);
}

/* A task of the target connects or listens: remember it, as the connection is established in softirq. */
static __always_inline void on_owner(struct bpf_sock *sk)
{
	struct socket_info fresh = { .row = NO_ROW };

	fresh.pid = current_pid();
	if (by_process() && !pid_is_target(fresh.pid))
		return;
	bpf_get_current_comm(fresh.comm, sizeof(fresh.comm));
	bpf_sk_storage_get(&sockets, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
}

SEC("sockops")
int timestamping(struct bpf_sock_ops *skops)
{
	__u32 op = skops->op;
	struct bpf_sock *sk = skops->sk;
	struct bpf_sock_ops_kern *kern;
	const struct tcp_sock *tp;
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
		tp = VIEW(kern->sk, struct tcp_sock);
		if (op == BPF_SOCK_OPS_STATE_CB) {
			state_changed(info, row, tp, skops->args[0], skops->args[1], bpf_ktime_get_ns());
			return 1;
		}
		if (op == BPF_SOCK_OPS_RETRANS_CB)
			stage_retransmit(row, number, skops->args[0], skops->args[1] * tp->mss_cache);
		row->epoch++;
		{
			__u64 now = bpf_ktime_get_ns();

			unstamped_check(row, tp);
			waiting_event(row, tp, NULL, now);
			if (op == BPF_SOCK_OPS_RTT_CB)
				window_close(skops, row, tp, now);
		}
		return 1;
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		on_owner(sk);
		return 1;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		kern = bpf_cast_to_kern_ctx(skops);
		on_established(skops, sk, VIEW(kern->sk, struct tcp_sock), op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB);
		return 1;
	}
	return 1;
}

/* One pass over the TCP sockets of a network namespace. */
SEC("iter/tcp")
int pass(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct control *now_set = control();
	struct socket_info *info;
	struct tcp_sock *tp;
	const struct tcp_sock *view;
	const struct sock *sk;
	__u64 now = bpf_ktime_get_ns();
	struct row *row = NULL;
	__u32 state, what;

	if (!common || !now_set)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp)
		return 0;
	what = now_set->pass;
	view = VIEW(tp, struct tcp_sock);
	sk = sock_of(view);
	state = sk->__sk_common.skc_state;
	info = bpf_sk_storage_get(&sockets, tp, NULL, 0);
	if (what == PASS_FOLLOW) {
		struct socket_info fresh = { .row = NO_ROW };
		bool listener = state == TCP_LISTEN;

		if (info && info->row != NO_ROW)
			return 0;
		if (!listener && state != TCP_ESTABLISHED && state != TCP_CLOSE_WAIT)
			return 0;
		if (!addresses_match(sk, listener) || !cgroup_matches(sk))
			return 0;
		if (sk->sk_socket) {
			const struct socket_alloc *alloc = VIEW(sk->sk_socket, struct socket_alloc);
			__u64 inode = alloc->vfs_inode.i_ino;
			struct owner *owner = bpf_map_lookup_elem(&inodes, &inode);

			if (owner) {
				fresh.pid = owner->pid;
				__builtin_memcpy(fresh.comm, owner->comm, sizeof(fresh.comm));
			} else if (by_process() && !info) {
				return 0;
			}
		} else if (by_process() && !info) {
			return 0;
		}
		if (!info)
			info = bpf_sk_storage_get(&sockets, tp, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
		if (!info || listener)
			return 0;
		row = follow(info, view, bpf_get_socket_cookie(tp), OPENING_FOUND, now);
		if (!row)
			return 0;
		if (config.flags & CONFIG_WINDOWS)
			row->window_end = 1;
		else
			totals_arm(row, view, now);
		SET_ARMED(tp, view, row->armed_since != 0);
		return 0;
	}
	if (!info)
		return 0;
	row = row_at(info->row);
	if (!row)
		return 0;
	switch (what) {
	case PASS_OPEN:
		if (row->frozen)
			break;
		row->window_end = now_set->window_end;
		row->write_seq = view->write_seq;
		row->since = now;
		row->blocked = REASON_SENT_AT_ONCE;
		totals_arm(row, view, now);
		SET_ARMED(tp, view, true);
		break;
	case PASS_CLOSE:
		if (!row->armed_since || row->window_end > now)
			break;
		totals_disarm(row, view, now);
		if (!now_set->shared)
			SET_ARMED(tp, view, false);
		break;
	case PASS_TOTALS:
		totals_update(row, view, now);
		/* Another tracer that ended may have disarmed it. */
		if (row->armed_since)
			SET_ARMED(tp, view, true);
		break;
	case PASS_FINISH:
		if (!now_set->shared)
			SET_ARMED(tp, view, false);
		row_release(info, row, view, now, true);
		break;
	}
	return 0;
}

/* Children of target processes are target processes. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(forked, struct task_struct *parent, struct task_struct *child)
{
	__u32 pid = pid_of(parent);
	__u8 one = 1;

	if (!pid || !pid_is_target(pid))
		return 0;
	pid = pid_of(child);
	if (pid)
		bpf_map_update_elem(&pids, &pid, &one, BPF_ANY);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(exited, struct task_struct *task)
{
	__u32 pid;

	if (task->signal->live.counter > 0)
		return 0;
	pid = pid_of(task);
	if (pid)
		bpf_map_delete_elem(&pids, &pid);
	return 0;
}
