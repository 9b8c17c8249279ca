/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* When following a socket begins and ends: sockops callbacks and the socket iterator. Both
 * backends.
 * STAMPS says whether the kernel's timestamp callbacks are asked for. */
#pragma once
#include "untagged.h"
#include "connects.h"
#include "holders.h"
#include "unaccepted.h"

/* Sockets of other tracers' making or of a listener's inheritance have no row: nothing is done for
 * them. */
static __always_inline struct socket_info *info_of(struct bpf_sock *sk)
{
	return bpf_sk_storage_get(&sockets, sk, NULL, 0);
}

/* Arms or disarms, with the other callbacks `wanted`: `context` is the sockops context or, in an
 * iterator, the socket. What a program that is no tracer's may have asked for before this tracer
 * followed the socket stays, and so does what another tracer asks for. What a tracer that was
 * killed left behind does not. */
#define SET_ARMED(context, tp, row, stamps, wanted)                                                            \
	({                                                                                                     \
		const struct control *set_ = control();                                                        \
		bool shared_ = set_ && set_->shared;                                                           \
		int stamp_ = (stamps) ? SK_BPF_CB_TX_TIMESTAMPING : 0;                                         \
		int had_ = (tp)->bpf_sock_ops_cb_flags;                                                        \
		int packets_ = (wanted) == CALLS ? had_ & PACKETS : 0;                                         \
		int calls_ = (had_ & ~(CALLS | PACKETS)) | (wanted) | packets_;                                \
		if (shared_)                                                                                   \
			calls_ |= had_;                                                                        \
		if (!set_ || set_->foreign)                                                                    \
			calls_ |= (row)->callbacks;                                                            \
		bpf_setsockopt(context, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &calls_, sizeof(calls_));          \
		if (STAMPS && (stamp_ || !shared_))                                                            \
			bpf_setsockopt(context, SOL_SOCKET, SK_BPF_CB_FLAGS, &stamp_, sizeof(stamp_));         \
	})

/* Sampling cuts the life of each connection into stretches. One ends with the first RTT sample that
 * comes WINDOW_NS or more after it began; which are looked at is drawn before they begin, one in
 * each block of `every`. So each send has the same chance to be seen, be the connection busy or
 * idle, and no one has to go through the sockets. Between the chosen ones a connection costs its
 * RTT callback. */

/* Whether the stretch that begins now is to be looked at. */
static __always_inline bool stretch_drawn(struct row *row)
{
	struct control *now_set = control();
	__u32 every = now_set ? now_set->every : 1;

	if (every <= 1)
		return every;
	if (row->every != every || !row->left) {
		row->every = every;
		row->left = every;
		row->pick = bpf_get_prandom_u32() % every;
	}
	return --row->left == row->pick;
}

/* The connection is looked at from now on; 0 where there is no room for what that takes. */
static __always_inline struct queue *sample_begin(struct row *row, __u32 number, const struct tcp_sock *tp, __u64 now)
{
	__u32 at;
	struct queue *queue = queue_of(row, number, &at);

	if (!queue)
		queue = queue_take(row, number, tp, now);
	if (!queue)
		return NULL;
	row->window_end = 0;
	totals_arm(row, queue, tp, now);
	return queue;
}

/* The first stretch of a connection, as if it had come into a block anywhere. */
static __always_inline void stretch_first(struct row *row, __u32 number, const struct tcp_sock *tp, __u64 now)
{
	struct control *now_set = control();
	__u32 every = now_set ? now_set->every : 1;

	row->window_end = WINDOW_CLOSED;
	if (config.flags & CONFIG_WINDOWS) {
		row->stretch = now;
		row->every = every;
		if (every > 1) {
			row->left = 1 + bpf_get_prandom_u32() % every;
			row->pick = bpf_get_prandom_u32() % every;
		}
		if (!stretch_drawn(row))
			return;
	}
	row->armed_now = sample_begin(row, number, tp, now) != NULL;
}

static __always_inline void stretch_next(struct row *row, __u32 number, const struct tcp_sock *tp, __u64 now)
{
	struct queue *queue;
	__u32 at;

	row->stretch = now;
	totals_series(row, number, tp);
	if (row->frozen)
		return;
	if (!stretch_drawn(row)) {
		queue = queue_of(row, number, &at);
		if (queue)
			totals_disarm(row, queue, tp, now);
		row->window_end = WINDOW_CLOSED;
		return;
	}
	if (!row->window_end)
		return;
	queue = sample_begin(row, number, tp, now);
	if (!queue)
		return;
	queue->write_seq = tp->write_seq;
	queue->since = now;
	queue->call = 0;
	buffer_forget(queue);
	queue->full_since = 0;
	queue->epoch++;
	hold(queue, tp, NULL, 0, false, false, 0, now);
}

/* A connection is not looked at now: whether all its sends of before have been acknowledged. Then
 * it needs no queue. */
static __always_inline bool sends_over(const struct row *row, __u32 number)
{
	__u32 at;
	struct queue *queue = queue_of(row, number, &at);

	if (!queue)
		return true;
	if (queue->head != queue->tail)
		return false;
	queue_give_back(number);
	return true;
}

/* A segment was acknowledged. `context` takes the settings. */
#define STRETCH_TURN(context, row, number, tp, now)                                                            \
	({                                                                                                     \
		if (now - (row)->stretch >= WINDOW_NS)                                                         \
			stretch_next(row, number, tp, now);                                                    \
		if (!(row)->window_end && !(row)->armed_now) {                                                 \
			(row)->armed_now = 1;                                                                  \
			SET_ARMED(context, tp, row, true, CALLS);                                              \
		/* The stamps and ACKs of what is on its way were waited for. */                               \
		} else if ((row)->window_end && (row)->armed_now && sends_over(row, number)) {                 \
			struct control *turn_ = control();                                                     \
			if (turn_ && !turn_->shared) {                                                         \
				(row)->armed_now = 0;                                                          \
				SET_ARMED(context, tp, row, false, BETWEEN);                                   \
			}                                                                                      \
		}                                                                                              \
	})

/* An established connection that is in the target, by its storage or its addresses. */
static OWN_STACK void on_established(struct bpf_sock_ops *skops, struct bpf_sock *sk, const struct tcp_sock *tp,
					   bool accepted)
{
	struct socket_info *info = info_of(sk);
	const struct control *now_set = control();
	__u64 now = bpf_ktime_get_ns();
	struct row *row;

	if (!now_set || now_set->ending)
		return;
	if (!info && (by_process() || !cgroup_matches(sock_of(tp))))
		return;
	if (!addresses_match(sock_of(tp), false))
		return;
	if (!info) {
		struct socket_info fresh = { .row = NO_ROW };

		info = bpf_sk_storage_get(&sockets, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
		if (!info) {
			STORAGE_FULL();
			return;
		}
	}
	row = follow(info, tp, bpf_get_socket_cookie(skops), accepted ? OPENING_ACCEPTED : OPENING_CONNECTED, now);
	if (!row)
		return;
	stretch_first(row, info->row, tp, now);
	SET_ARMED(skops, tp, row, row->armed_now, row->armed_now ? CALLS : BETWEEN);
}

/* A task of the target connects or listens: remember it, as the connection is established in
 * softirq. */
static OWN_STACK void on_owner(struct bpf_sock *sk, const struct sock *view, bool listener)
{
	struct socket_info fresh = { .row = NO_ROW };

	fresh.pid = current_pid();
	if ((by_process() && !pid_is_target(fresh.pid)) || !cgroup_matches(view))
		return;
	/* A listener's children may match by the port of their peer. */
	if (!listener && !addresses_match(view, false))
		return;
	owner_name(fresh.comm);
	bpf_sk_storage_get(&sockets, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
	if (listener)
		connect_listening(sk, view);
}

/* Callbacks of a followed socket that both backends use, but for those of its state. */
static __always_inline void on_callback(struct bpf_sock_ops *skops, __u32 op, struct row *row, __u32 number,
					const struct tcp_sock *tp)
{
	/* A round-trip sample is taken of a segment that has just come in. */
	__u64 now = STAMPS && op == BPF_SOCK_OPS_RTT_CB ? taken_up(tp) : bpf_ktime_get_ns();

	struct queue *queue;
	__u32 at;

	/* By tracepoints each segment that comes shows it. */
	if (STAMPS)
		window_look(row, number, tp);
	if (op == BPF_SOCK_OPS_RTT_CB && has_series(row))
		round_trip_measured(number, tp, now);
	if (op == BPF_SOCK_OPS_RTT_CB && !row->armed_now) {
		STRETCH_TURN(skops, row, number, tp, now);
		return;
	}
	if (op == BPF_SOCK_OPS_RETRANS_CB)
		totals_retransmitted(row, number, tp);
	queue = queue_of(row, number, &at);
	if (queue) {
		if (op == BPF_SOCK_OPS_RETRANS_CB)
			stage_retransmit(at, skops->args[0], skops->args[1] * tp->mss_cache);
		queue->epoch++;
		/* Before sends that have left are given their waits. */
		if (op == BPF_SOCK_OPS_RTO_CB)
			timed_out(queue, at, tp, now);
		if (op == BPF_SOCK_OPS_RTT_CB)
			queue->progress = now;
		if (STAMPS) {
			untagged_look(queue, at, tp, now);
			unstamped_check(row, queue, tp);
		}
		/* The RTT callback comes from within tcp_clean_rtx_queue(), after its ACK stamps,
		 * once in a round trip. In the others no new bytes are acknowledged, or tcp_probe
		 * has reported them already. */
		if (!STAMPS)
			slots_acked_before(queue, at, tp->snd_una, false, now);
		else if (op == BPF_SOCK_OPS_RTT_CB)
			acks_look(queue, at, tp, NULL, now, now);
		waiting_event(queue, tp, 0, false, false, now);
		if (STAMPS && queue->untagged)
			bpf_sock_ops_cb_flags_set(skops, skops->bpf_sock_ops_cb_flags | PACKETS);
	}
	if (op == BPF_SOCK_OPS_RTT_CB && (config.flags & CONFIG_WINDOWS))
		STRETCH_TURN(skops, row, number, tp, now);
}

/* Whether a socket that is there already is in the target, as far as its process does not decide
 * that. */
static __always_inline bool may_be_followed(const struct sock *sk)
{
	__u8 state = FIELD(sk, __sk_common.skc_state);

	if (state != TCP_LISTEN && state != TCP_ESTABLISHED && state != TCP_CLOSE_WAIT && state != TCP_SYN_SENT)
		return false;
	return addresses_match(sk, state == TCP_LISTEN) && cgroup_matches(sk);
}

/* Before a pass that picks up connections. Of several processes that hold a socket the last is its
 * owner, until one is seen to use it. */
SEC("iter/task_file")
int held(struct bpf_iter__task_file *ctx)
{
	struct socket_info fresh = { .row = NO_ROW };
	struct sock *sk = held_socket(ctx, SOCK_STREAM, IPPROTO_TCP);
	struct socket_info *info;

	if (!sk || !may_be_followed(sk))
		return 0;
	fresh.pid = holder_of(ctx, fresh.comm);
	if (!fresh.pid)
		return 0;
	info = bpf_sk_storage_get(&sockets, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
	if (!info || info->row != NO_ROW)
		return 0;
	info->pid = fresh.pid;
	__builtin_memcpy(info->comm, fresh.comm, sizeof(info->comm));
	return 0;
}

/* One pass over the TCP sockets of a network namespace. Where it gives 1 the kernel ends the read
 * of user space, and the next one comes to the same socket again. */
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
	if (what != PASS_TOTALS && records_wait())
		return 1;
	view = VIEW(tp, struct tcp_sock);
	sk = sock_of(view);
	state = sk->__sk_common.skc_state;
	info = bpf_sk_storage_get(&sockets, tp, NULL, 0);
	if (what == PASS_FOLLOW) {
		struct socket_info fresh = { .row = NO_ROW };
		bool listener = state == TCP_LISTEN;

		/* A walk comes to the sockets that listen before all others. */
		if (listener)
			listens_at(sk);
		if (info && info->row != NO_ROW)
			return 0;
		if (!may_be_followed(sk))
			return 0;
		if (by_process() && !info && (listener || !unaccepted_take(tp, &fresh)))
			return 0;
		if (!info)
			info = bpf_sk_storage_get(&sockets, tp, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
		if (!info) {
			STORAGE_FULL();
			return 0;
		}
		if (listener) {
			if (by_process())
				unaccepted_note(view, info);
			connect_listening(tp, sk);
			return 0;
		}
		connect_found(tp, view, info);
		if (state == TCP_SYN_SENT) {
			int calls = view->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG | BPF_SOCK_OPS_RETRANS_CB_FLAG;

			/* Before 6.12 no iterator may ask for callbacks, and there are none to ask
			 * for: tracepoints report it. */
			bpf_setsockopt(tp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &calls, sizeof(calls));
			return 0;
		}
		row = follow(info, view, bpf_get_socket_cookie(tp), OPENING_FOUND, now);
		if (!row)
			return 0;
		/* All that it has written so far was missed, and is in its bytes. */
		if (is_of_late_cgroup(sk)) {
			row->position = row->no_bytes;
			COUNT(connections_late);
		}
		stretch_first(row, info->row, view, now);
		SET_ARMED(tp, view, row, row->armed_now, row->armed_now ? CALLS : BETWEEN);
		return 0;
	}
	if (!info)
		return 0;
	row = row_at(info->row);
	if (what == PASS_FINISH)
		connect_gone(info, row, view);
	if (state == TCP_LISTEN)
		listener_look(info, sk, bpf_sk_storage_get(&dropped_before, tp, NULL, 0));
	if (!row)
		return 0;
	switch (what) {
	case PASS_TOTALS:
		totals_update(row, info->row, view, now);
		/* Another tracer that ended may have disarmed it. */
		if (row->armed_now)
			SET_ARMED(tp, view, row, true, CALLS);
		break;
	case PASS_FINISH:
		if (!now_set->shared)
			SET_ARMED(tp, view, row, false, 0);
		connection_over(info, row, view, now, true);
		break;
	}
	return 0;
}

INHERITED(sockets)

/* A socket goes. Its end is reported by its state before, but where a program of others took the
 * callbacks away from it. */
SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(destroyed, struct sock *sk)
{
	struct socket_info *info = bpf_sk_storage_get(&sockets, sk, NULL, 0);
	struct tcp_sock *tp;
	struct row *row;

	if (!info)
		return 0;
	row = row_at(info->row);
	tp = TCP_SOCK(sk);
	if (tp)
		connect_gone(info, row, tp);
	listener_look(info, sk, bpf_sk_storage_get(&dropped_before, sk, NULL, 0));
	if (row && tp)
		connection_over(info, row, tp, bpf_ktime_get_ns(), false);
	FORGET(sockets, sk);
	FORGET(dropped_before, sk);
	return 0;
}
