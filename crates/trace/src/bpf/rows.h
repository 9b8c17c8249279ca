/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The rows of followed connections: their totals, and how they, and the queues of those that are
 * looked at, are taken and given back. */
#pragma once
#include "judge.h"
#include "processes.h"

/* Sequence numbers that were sent and are no bytes: those of SYN and FIN. */
static __always_inline __u8 no_bytes(const struct tcp_sock *tp)
{
	return tp->bytes_acked + (__u32)(tp->snd_nxt - tp->snd_una) - (tp->bytes_sent - tp->bytes_retrans);
}

/* Whether a FIN has taken a sequence number. Its change of state says so before it does, unless a
 * program of others took that callback away. Of a closed socket it is then known by what was sent:
 * a FIN that still waited behind other bytes is not. */
static __always_inline bool fin_taken(const struct row *row, const struct tcp_sock *tp)
{
	switch (sock_of(tp)->__sk_common.skc_state) {
	case TCP_FIN_WAIT1:
	case TCP_FIN_WAIT2:
	case TCP_CLOSING:
	case TCP_LAST_ACK:
		return true;
	case TCP_CLOSE:
		return (__u8)(no_bytes(tp) - row->no_bytes) == 1;
	}
	return false;
}

/* Bytes the application has written since the connection began. */
static __always_inline __u64 written(const struct row *row, const struct tcp_sock *tp)
{
	return tp->bytes_acked + (__u32)(tp->write_seq - tp->snd_una) - fin_taken(row, tp);
}

static __always_inline void totals_arm(const struct row *row, struct queue *queue, const struct tcp_sock *tp, __u64 now)
{
	if (queue->armed_since)
		return;
	queue->armed_since = now;
	queue->armed_position = written(row, tp);
}

static __always_inline void totals_disarm(struct row *row, struct queue *queue, const struct tcp_sock *tp, __u64 now)
{
	if (!queue->armed_since)
		return;
	if (now > queue->armed_since)
		row->armed += now - queue->armed_since;
	row->bytes_armed += written(row, tp) - queue->armed_position;
	queue->armed_since = 0;
}

/* Whether the connection of a row has a series. What others than the target wrote before it used
 * the connection is in none. */
static __always_inline bool has_series(const struct row *row)
{
	return (config.flags & CONFIG_HISTOGRAMS) && (row->used || !by_process());
}

/* Looks at the window of the peer of row `number`. */
static __always_inline void window_look(const struct row *row, __u32 number, const struct tcp_sock *tp)
{
	if (!tp->snd_wnd && has_series(row))
		window_closed(number, tp->bytes_acked, tp->snd_nxt - tp->snd_una);
}

/* Brings the series of row `number` up to now. */
static __always_inline void totals_series(const struct row *row, __u32 number, const struct tcp_sock *tp)
{
	if (has_series(row))
		series_count(number, row->frozen ? row->bytes_written : written(row, tp) - row->position,
			     BOTH(tp->total_retrans, tp->data_segs_out),
			     BOTH(tp->dsack_dups, chronos_read(tp).receive_window_limited));
}

/* TCP has just counted segments that it retransmits: it is known why. A function with a stack of
 * its own: that of its callers is full. */
static __noinline void totals_retransmitted(const struct row *row, __u32 number, const struct tcp_sock *tp)
{
	struct row_series *of = (config.flags & CONFIG_HISTOGRAMS) ? bpf_map_lookup_elem(&row_series, &number) : NULL;
	__u32 state = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);

	if (!of)
		return;
	of->cause = state == TCP_CA_Loss     ? RETRANSMISSION_LOSS :
		    state == TCP_CA_Recovery ? RETRANSMISSION_RECOVERY :
					       RETRANSMISSION_PROBE;
	totals_series(row, number, tp);
	of->cause = RETRANSMISSION_UNKNOWN;
}

/* Brings the totals of row `number` up to now. */
static __always_inline void totals_update(struct row *row, __u32 number, const struct tcp_sock *tp, __u64 now)
{
	struct queue *queue;
	__u32 at;

	window_look(row, number, tp);
	totals_series(row, number, tp);
	if (row->frozen)
		return;
	row->followed = now - row->followed_since;
	row->bytes_written = written(row, tp) - row->position;
	queue = queue_of(row, number, &at);
	if (queue && queue->armed_since) {
		totals_disarm(row, queue, tp, now);
		if (!row->window_end)
			totals_arm(row, queue, tp, now);
	}
}

/* Gives row `of` a queue; NULL where there is none left. */
static __always_inline struct queue *queue_take(struct row *row, __u32 of, const struct tcp_sock *tp, __u64 now)
{
	struct queue *queue;
	__u32 number;

	number = number_take(&free_queues, POOL_QUEUES, config.queues);
	if (!number) {
		COUNT(stretches_full);
		return NULL;
	}
	queue = queue_at(number - 1);
	if (!queue)
		return NULL;
	__builtin_memset(queue, 0, sizeof(*queue));
	queue->write_seq = tp->write_seq;
	queue->since = now;
	queue->looked = now;
	queue->looked_segments = tp->segs_in;
	queue->looked_data = tp->data_segs_in;
	queue->looked_una = tp->snd_una;
	queue->chronos = chronos_read(tp);
	queue->row = of;
	barrier();
	row->queue = number;
	return queue;
}

/* Takes the queue of a row back, with its chunks. It has no sends. */
__noinline int queue_give_back(__u32 of)
{
	struct row *row = row_at(of);
	struct queue *queue;
	__u32 at, number;

	if (!row)
		return 0;
	queue = queue_of(row, of, &at);
	if (!queue)
		return 0;
	chunks_give_back(queue);
	queue->row = NO_ROW;
	row->queue = 0;
	number = at + 1;
	bpf_map_push_elem(&free_queues, &number, BPF_ANY);
	return 0;
}

/* Takes a row for a socket, or counts that there is none. */
static __always_inline struct row *row_take(struct socket_info *info, const struct tcp_sock *tp, __u64 cookie,
					    __u32 opening, __u64 now)
{
	struct row *row;
	__u32 number;

	if (bpf_map_pop_elem(&free_rows, &number)) {
		number = fresh(POOL_ROWS, config.rows);
		if (!number) {
			COUNT(connections_full);
			return NULL;
		}
		number--;
	}
	row = row_at(number);
	if (!row)
		return NULL;
	__builtin_memset(row, 0, sizeof(*row));
	row->cookie = cookie;
	row->opening = opening;
	row->first_seq = tp->write_seq;
	row->followed_since = now;
	row->no_bytes = no_bytes(tp);
	row->position = written(row, tp);
	info->acked = tp->bytes_acked;
	info->retransmitted = tp->total_retrans;
	info->row = number;
	return row;
}

/* Says goodbye to a connection whose sends are given up, and gives its row back. */
static OWN_STACK void row_release(struct socket_info *info, struct row *row, const struct tcp_sock *tp, __u64 now)
{
	struct closed_record closed = { .kind = RECORD_CLOSED, .cookie = row->cookie };
	__u32 number = info->row, at;
	struct queue *queue = queue_of(row, number, &at);

	if (queue)
		judge(&closed.judged, queue, tp);
	totals_update(row, number, tp, now);
	closed.totals.followed = row->followed;
	closed.totals.armed = row->armed;
	closed.totals.bytes_written = row->bytes_written;
	closed.totals.bytes_armed = row->bytes_armed;
	closed.totals.bytes_acked = tp->bytes_acked - info->acked;
	closed.totals.retransmitted = tp->total_retrans - info->retransmitted;
	closed.totals.zero_windows = zero_windows(number);
	if (row->used && ((config.flags & CONFIG_NO_RECORDS) || !row->announced ||
			  bpf_ringbuf_output(&records, &closed, sizeof(closed), BPF_RB_NO_WAKEUP))) {
		if (!(config.flags & CONFIG_NO_RECORDS))
			COUNT(connection_records);
		COUNT_BY(followed, closed.totals.followed);
		COUNT_BY(armed, closed.totals.armed);
		COUNT_BY(bytes_written, closed.totals.bytes_written);
		COUNT_BY(bytes_armed, closed.totals.bytes_armed);
	}
	info->row = NO_ROW;
	queue_give_back(number);
	row->cookie = 0;
	bpf_map_push_elem(&free_rows, &number, BPF_ANY);
}
