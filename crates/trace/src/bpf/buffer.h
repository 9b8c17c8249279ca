/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How long a program waits for room in the send buffer, asleep in its call or until the socket is
 * writable again, and what holds the queue meanwhile.
 *
 * The wait begins when TCP finds no room (seen in the call where calls are traced, and at its end
 * where it was cut short; else at the next event), and ends when the call goes on. Outside of a
 * call it ends with the segment that made room: the last that came in before the next call, unless
 * an event in between saw that the kernel had cleared its mark (SOCK_NOSPACE) before. */
#pragma once
#include "clocks.h"

/* include/linux/net.h */
enum { SOCK_NOSPACE = 2 };

/* Whether TCP found no room for a write, and there has been none since. */
static __always_inline bool buffer_marked(const struct sock *sk)
{
	const struct socket *socket = sk->sk_socket;

	return socket && (socket->flags & (1 << SOCK_NOSPACE));
}

/* Counts the time without room up to `at`, by what holds the queue since the last event. */
static __always_inline void buffer_run(struct queue *queue, __u64 at)
{
	if (!queue->full_since || at <= queue->full_since)
		return;
	clocks_add(queue->full_clocks, queue, queue->full_since, at);
	if (queue->blocked == REASON_SENT_AT_ONCE)
		queue->without_room += ticks(queue->full_since, at);
	queue->full += at - queue->full_since;
	queue->full_since = at;
}

/* There is no room `now`, from `at` on or longer. */
static __always_inline void buffer_filled(struct queue *queue, __u64 at, __u64 now)
{
	if (!queue->full_since)
		queue->full_since = at;
	buffer_run(queue, now);
}

/* There is room from `at` on. */
static __always_inline void buffer_freed(struct queue *queue, __u64 at)
{
	buffer_run(queue, at);
	queue->full_since = 0;
}

/* What was counted is no send's, or has been given to one. */
static __always_inline void buffer_forget(struct queue *queue)
{
	if (!queue->full)
		return;
	queue->full = 0;
	for (int i = 0; i < CLOCKS; i++)
		queue->full_clocks[i] = 0;
}

/* The program writes again: with room since the last segment that came in, or without. */
static __always_inline void buffer_tried(struct queue *queue, const struct tcp_sock *tp, const struct sock *sk, __u64 now)
{
	__u64 until = tp->tcp_clock_cache;

	if (!queue->full_since)
		return;
	if (until < queue->full_since)
		until = queue->full_since;
	buffer_freed(queue, until > now || buffer_marked(sk) ? now : until);
}

/* An event of the socket: a task sleeps in sk_stream_wait_memory(), or the mark is set. Where the
 * beginning was not seen, it is no earlier than the event before and the last packet. */
static __always_inline void buffer_event(struct queue *queue, const struct tcp_sock *tp, const struct sock *sk, __u64 now)
{
	if (sk->sk_write_pending > 0 || buffer_marked(sk)) {
		__u64 from = queue->since > tp->tcp_wstamp_ns ? queue->since : tp->tcp_wstamp_ns;

		buffer_filled(queue, from < now ? from : now, now);
	} else if (queue->full_since) {
		/* No event after the last one that found none has seen it. */
		buffer_freed(queue, queue->full_since);
	}
}

/* Gives a send the wait before it. */
static __always_inline void buffer_take(struct queue *queue, struct slot *slot)
{
	bool more = slot->record.full != 0;

	if (!queue->full)
		return;
	for (int i = 0; i < CLOCKS; i++)
		slot->record.full_waits[i] = (more ? slot->record.full_waits[i] : 0) + queue->full_clocks[i];
	slot->record.full += queue->full;
	buffer_forget(queue);
}
