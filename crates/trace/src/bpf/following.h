/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* When following a socket begins and ends: sockops callbacks and the socket iterator. Both backends.
 * STAMPS says whether the kernel's timestamp callbacks are asked for. */
#pragma once
#include "connections.h"

/* Sockets of other tracers' making or of a listener's inheritance have no row: nothing is done for them. */
static __always_inline struct socket_info *info_of(struct bpf_sock *sk)
{
	return bpf_sk_storage_get(&sockets, sk, NULL, 0);
}

/* Arms or disarms, with the other callbacks `wanted`: `context` is the sockops context or, in an iterator, the socket. What a program
 * that is no tracer's may have asked for before this tracer followed the socket stays, and so does what another tracer asks for. What
 * a tracer that was killed left behind does not. */
#define SET_ARMED(context, tp, row, stamps, wanted)                                                            \
	({                                                                                                     \
		const struct control *set_ = control();                                                        \
		bool shared_ = set_ && set_->shared;                                                           \
		int stamp_ = (stamps) ? SK_BPF_CB_TX_TIMESTAMPING : 0;                                         \
		int had_ = (tp)->bpf_sock_ops_cb_flags;                                                        \
		int calls_ = (had_ & ~CALLS) | (wanted);                                                       \
		if (shared_)                                                                                   \
			calls_ |= had_;                                                                        \
		if (!set_ || set_->foreign)                                                                    \
			calls_ |= (row)->callbacks;                                                            \
		bpf_setsockopt(context, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &calls_, sizeof(calls_));          \
		if (STAMPS && (stamp_ || !shared_))                                                            \
			bpf_setsockopt(context, SOL_SOCKET, SK_BPF_CB_FLAGS, &stamp_, sizeof(stamp_));         \
	})

static __always_inline void window_close(struct bpf_sock_ops *skops, struct row *row, const struct tcp_sock *tp, __u64 now)
{
	struct control *now_set = control();

	bool drained = row->head == row->tail;

	if (!row->window_end || now < row->window_end)
		return;
	totals_disarm(row, tp, now);
	if (!now_set || now_set->shared || !(row->armed || drained))
		return;
	/* The ACKs of what is on its way are still waited for; after that a connection costs nothing until its next window. */
	SET_ARMED(skops, tp, row, false, drained ? BPF_SOCK_OPS_STATE_CB_FLAG : CALLS);
	row->armed = 0;
}

/* The window of a connection that is followed from now on. It is drawn to be in the middle of one with the chance that any moment
 * has, and then what is left of it is drawn as well: so at every age connections are armed for the share that was asked for, be they
 * shorter than a window or longer than a period. */
static __always_inline __u64 window_draw(__u64 now)
{
	struct control *now_set = control();

	if (!(config.flags & CONFIG_WINDOWS))
		return 0;
	if (!now_set || !now_set->every)
		return WINDOW_CLOSED;
	if (now_set->every == 1)
		return 0;
	if (bpf_get_prandom_u32() > 0xffffffffu / now_set->every)
		return WINDOW_CLOSED;
	return now + (((__u64)WINDOW_NS * bpf_get_prandom_u32()) >> 32);
}

/* An established connection that is in the target, by its storage or its addresses. */
static __always_inline void on_established(struct bpf_sock_ops *skops, struct bpf_sock *sk, const struct tcp_sock *tp,
					   bool accepted)
{
	struct socket_info *info = info_of(sk);
	const struct control *now_set = control();
	__u64 now = bpf_ktime_get_ns();
	struct row *row;

	if (!now_set || now_set->ending)
		return;
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
	row->window_end = window_draw(now);
	row->armed = row->window_end != WINDOW_CLOSED;
	if (row->armed)
		totals_arm(row, tp, now);
	SET_ARMED(skops, tp, row, row->armed, row->armed ? CALLS : BPF_SOCK_OPS_STATE_CB_FLAG);
}

/* A task of the target connects or listens: remember it, as the connection is established in softirq. */
static __always_inline void on_owner(struct bpf_sock *sk, const struct sock *view, bool listener)
{
	struct socket_info fresh = { .row = NO_ROW };

	fresh.pid = current_pid();
	if (by_process() && !pid_is_target(fresh.pid))
		return;
	/* A listener's children may match by the port of their peer. */
	if (!listener && !addresses_match(view, false))
		return;
	current_comm(fresh.comm);
	bpf_sk_storage_get(&sockets, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
}

/* Callbacks of a followed socket that both backends use, but for those of its state. */
static __always_inline void on_callback(struct bpf_sock_ops *skops, __u32 op, struct row *row, __u32 number,
					const struct tcp_sock *tp)
{
	/* A round-trip sample is taken of a segment that has just come in. */
	__u64 now = STAMPS && op == BPF_SOCK_OPS_RTT_CB ? taken_up(tp) : bpf_ktime_get_ns();

	if (op == BPF_SOCK_OPS_RETRANS_CB)
		stage_retransmit(row, number, skops->args[0], skops->args[1] * tp->mss_cache);
	row->epoch++;
	if (STAMPS)
		unstamped_check(row, tp);
	/* The RTT callback comes from within tcp_clean_rtx_queue(), after its ACK stamps: what has none yet and is acknowledged gets this
	 * time. In the others no new bytes are acknowledged, or tcp_probe has reported them already. */
	if (!STAMPS || op == BPF_SOCK_OPS_RTT_CB)
		slots_acked_before(row, number, tp->snd_una, now);
	waiting_event(row, tp, 0, false, false, now);
	if (op == BPF_SOCK_OPS_RTT_CB)
		window_close(skops, row, tp, now);
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
		struct owner *owner;

		if (info && info->row != NO_ROW)
			return 0;
		if (!listener && state != TCP_ESTABLISHED && state != TCP_CLOSE_WAIT)
			return 0;
		if (!addresses_match(sk, listener) || !cgroup_matches(sk))
			return 0;
		owner = owner_of(sk);
		if (owner) {
			fresh.pid = owner->pid;
			__builtin_memcpy(fresh.comm, owner->comm, sizeof(fresh.comm));
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
		row->window_end = window_draw(now);
		row->armed = row->window_end != WINDOW_CLOSED;
		if (row->armed)
			totals_arm(row, view, now);
		SET_ARMED(tp, view, row, row->armed, row->armed ? CALLS : BPF_SOCK_OPS_STATE_CB_FLAG);
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
		totals_disarm(row, view, now);
		/* Where the last window is still open, this one follows it: the share stays right. */
		if (now_set->window == ~0ull)
			row->window_end = 0;
		else
			row->window_end = (row->window_end > now ? row->window_end : now) + now_set->window;
		if (!row->armed || row->write_seq != view->write_seq) {
			row->write_seq = view->write_seq;
			row->since = now;
			row->blocked = REASON_SENT_AT_ONCE;
		}
		row->armed = 1;
		totals_arm(row, view, now);
		SET_ARMED(tp, view, row, true, CALLS);
		break;
	case PASS_CLOSE:
		totals_disarm(row, view, now);
		row->window_end = WINDOW_CLOSED;
		if (row->armed && !now_set->shared) {
			SET_ARMED(tp, view, row, false, CALLS);
			row->armed = 0;
		}
		break;
	case PASS_TOTALS:
		totals_update(row, view, now);
		/* Another tracer that ended may have disarmed it. */
		if (row->armed)
			SET_ARMED(tp, view, row, true, CALLS);
		break;
	case PASS_FINISH:
		if (!STAMPS)
			slot_trim(row, info->row, view->write_seq);
		if (!now_set->shared)
			SET_ARMED(tp, view, row, false, 0);
		row_release(info, row, view, now, true);
		break;
	}
	return 0;
}
