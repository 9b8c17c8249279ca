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

/* A call stands before its next packet, with `left` bytes to copy and `size_goal` as the size of a
 * packet (net/ipv4/tcp.c, tcp_sendmsg_locked()). It is the same call as in the round before where
 * just the bytes between were copied. */
static __always_inline void call_round(struct queue *queue, const struct tcp_sock *tp, __u32 left, bool waits, int size_goal, __u64 now)
{
	const struct sock *sk = sock_of(tp);
	const struct sk_buff *end = (const struct sk_buff *)&sk->sk_write_queue, *tail = sk->sk_write_queue.prev;
	__u32 write_seq = tp->write_seq;
	bool first = !queue->call || queue->call_left - (write_seq - queue->call_seq) != left;

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
	if ((tail != end && (int)tail->len < size_goal) || memory_free(tp))
		return;
	/* It sleeps until there is room, or ends here. The end of a call that has copied nothing is
	 * not reported, and by tracepoints none is. */
	clocks_run(queue, now);
	hold(queue, tp, NULL, 0, false, true, 0, now);
	buffer_filled(queue, now, now);
	if (!waits && (first || !STAMPS))
		queue->call = 0;
}
