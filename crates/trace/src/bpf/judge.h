/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the kernel itself says of what held a connection, compared with the reasons: its clocks of
 * the receive window and the send buffer (tcp_chrono_start(), net/ipv4/tcp_output.c), and its mark
 * of a full congestion window (tcp_cwnd_validate(), same file). */
#pragma once
#include "clocks.h"

/* The congestion window has held the head since the last event. TCP marks that for a window of
 * data, each time that it stops sending because of it. */
static __always_inline void judge_window(struct queue *queue, const struct tcp_sock *tp, __u64 now)
{
	if (now > queue->since && !BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		queue->not_marked += ticks(queue->since, now);
}

/* What both say since the queue was taken. The clocks of the reasons are up to date. */
static __always_inline void judge(struct judged *to, const struct queue *queue, const struct tcp_sock *tp)
{
	struct chronos chronos = chronos_read(tp);

	to->busy = chronos.busy - queue->chronos.busy;
	to->receive_window_limited = chronos.receive_window_limited - queue->chronos.receive_window_limited;
	to->send_buffer_limited = chronos.send_buffer_limited - queue->chronos.send_buffer_limited;
	to->receive_window = queue->clocks[REASON_RECEIVE_WINDOW];
	to->send_buffer = queue->without_room;
	to->not_marked = queue->not_marked;
}
