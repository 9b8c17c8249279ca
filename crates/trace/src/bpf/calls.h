/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* When the call that writes bytes began, and whether it waits for room in the send buffer. */
#pragma once
#include "connections.h"

/* include/linux/socket.h */
enum { MSG_DONTWAIT = 0x40 };

/* sk_stream_memory_free() */
static __always_inline bool memory_free(const struct tcp_sock *tp)
{
	const struct sock *sk = sock_of(tp);
	__u32 least = tp->notsent_lowat;

	if (sk->sk_wmem_queued >= sk->sk_sndbuf)
		return false;
	if (!least)
		least = sk->__sk_common.skc_net.net->ipv4.sysctl_tcp_notsent_lowat;
	return tp->write_seq - tp->snd_nxt < least;
}

/* Whether a call that stands before its next packet, with `left` bytes to copy, is the one of the
 * round before: just the bytes between were copied. A program writes the rest of a call that was
 * cut short in just that way; where the call before slept and there has been room since it was
 * last seen asleep, it is over. */
static __always_inline bool call_goes_on(const struct queue *queue, __u32 write_seq, __u32 left)
{
	if (!queue->call || queue->call_left - (write_seq - queue->call_seq) != left)
		return false;
	return queue->call_room == CALL_HAS_ROOM || (queue->call_room == CALL_SLEEPS && queue->full_since);
}

/* A call stands before its next packet, with `left` bytes to copy and `size_goal` as the size of a
 * packet (net/ipv4/tcp.c, tcp_sendmsg_locked()). */
static __always_inline void call_round(struct queue *queue, const struct tcp_sock *tp, __u32 left, bool waits, int size_goal, __u64 now)
{
	const struct sock *sk = sock_of(tp);
	const struct sk_buff *end = (const struct sk_buff *)&sk->sk_write_queue, *tail = sk->sk_write_queue.prev;
	__u32 write_seq = tp->write_seq;
	bool first = !call_goes_on(queue, write_seq, left);

	/* The call before has ended without a stamp. One that waits for room has not ended. */
	if (STAMPS && first && !sk->sk_write_pending)
		unstamped_count(queue, write_seq);
	drained(queue, tp, now);
	if (waits && !first)
		buffer_freed(queue, now);
	buffer_tried(queue, tp, sk, now);
	if (first)
		queue->call = now;
	queue->call_left = left;
	queue->call_seq = write_seq;
	queue->call_room = CALL_HAS_ROOM;
	if ((tail != end && (int)tail->len < size_goal) || memory_free(tp))
		return;
	/* It sleeps until there is room, or ends here. The end of a call that has copied nothing is
	 * not reported, and by tracepoints none is. */
	clocks_run(queue, now);
	hold(queue, tp, NULL, 0, false, true, 0, now);
	buffer_filled(queue, now, now);
	queue->call_room = waits ? CALL_SLEEPS : CALL_ENDS;
	if (!waits && (first || !STAMPS))
		queue->call = 0;
}
