/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Why bytes wait in TCP: the tests of tcp_push() (net/ipv4/tcp.c) and tcp_write_xmit()
 * (net/ipv4/tcp_output.c) in their own order. Each test names the function that it mirrors.
 *
 * A queue holds one clock for each reason (clocks.h). At every event of the socket they run; then
 * it is decided again what holds the head of the queue.
 * A send copies the clocks when it is made. When it leaves, how far each went since then is why it
 * waited. docs/waiting.md explains the same without code. */
#pragma once
#include "buffer.h"
#include "judge.h"

/* tcp_packets_in_flight() (include/net/tcp.h) */
static __always_inline __u32 in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

/* When TCP took up the segment that it works on, by the clock of bpf_ktime_get_ns():
 * tcp_mstamp_refresh() (net/ipv4/tcp_output.c) reads it for every segment that comes in
 * (tcp_rcv_established(), net/ipv4/tcp_input.c), and before new ones leave. Reading
 * the clock is the most expensive step of a callback, and here it has just been read. */
static __always_inline __u64 taken_up(const struct tcp_sock *tp)
{
	return tp->tcp_clock_cache;
}

/* tcp_small_queue_check() (net/ipv4/tcp_output.c): the bytes that may wait below TCP, but for what
 * TCP_TX_DELAY adds. */
static __always_inline __u64 small_queue_limit(const struct sock *sk, __u32 truesize)
{
	__u64 limit = sk->sk_pacing_rate >> sk->sk_pacing_shift;

	if (limit < 2 * (__u64)truesize)
		limit = 2 * (__u64)truesize;
	if (sk->sk_pacing_status == 0) {
		__u64 most = (__u32)sk->__sk_common.skc_net.net->ipv4.sysctl_tcp_limit_output_bytes;

		if (limit > most)
			limit = most;
	}
	return limit;
}

/* The memory of a packet of `length` bytes when TCP tries to send it: before that it is cut to what
 * tcp_tso_autosize() (net/ipv4/tcp_output.c) allows, and tso_fragment() (same file) gives what is
 * cut off its share. A packet that was not tried yet is as long as the writes have made it. */
static __always_inline __u32 truesize_cut(const struct tcp_sock *tp, __u32 length, __u32 truesize, __u32 mss)
{
	const struct sock *sk = sock_of(tp);
	const struct tcp_sock___of_state *more = (const void *)tp;
	__u64 most;
	__u32 shift;

	if (length <= 2 * mss)
		return truesize;
	most = sk->sk_pacing_rate >> sk->sk_pacing_shift;
	/* net.ipv4.tcp_tso_rtt_log, by its default */
	shift = more->rtt_min.s[0].v >> 9;
	if (shift < 16)
		most += 65536 >> shift;
	if (most < 2 * (__u64)mss)
		most = 2 * (__u64)mss;
	return length > most ? truesize - (length - (__u32)most) : truesize;
}

/* tcp_rtx_queue_empty_or_single_skb() (net/ipv4/tcp_output.c), negated: with at most one packet
 * unacknowledged, tcp_small_queue_check() holds nothing. Older kernels hold with one, too; that
 * shows when tcp_wfree() lets the bytes go (waiting_event()). `sent`: one more is about to enter
 * the queue. */
static __always_inline bool several_unacknowledged(const struct sock *sk, bool sent)
{
	const struct rb_node *root = sk->tcp_rtx_queue.rb_node;

	return root && (sent || root->rb_left || root->rb_right);
}

/* The part of tcp_should_autocork() (net/ipv4/tcp.c) that looks at the packet alone: there is room
 * in it, up to the size goal, which is several segments with GSO (tcp_xmit_size_goal(), same file).
 */
static __always_inline bool may_autocork(const struct tcp_sock *tp, __u32 length)
{
	__u32 segments = tp->gso_segs ? tp->gso_segs : 1;

	return length < segments * tp->mss_cache && sock_of(tp)->__sk_common.skc_net.net->ipv4.sysctl_tcp_autocorking;
}

static __always_inline struct sender sender_read(const struct tcp_sock *tp)
{
	return (struct sender){
		.snd_nxt = tp->snd_nxt,
		.snd_una = tp->snd_una,
		.snd_wnd = tp->snd_wnd,
		.cwnd = tp->snd_cwnd,
		.mss = tp->mss_cache,
		.packets_out = tp->packets_out,
		.in_flight = in_flight(tp),
		.congestion = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state),
	};
}

/* tcp_urg_mode() (net/ipv4/tcp_output.c) */
static __always_inline bool urgent(const struct tcp_sock *tp, __u32 snd_una)
{
	return tp->snd_up != snd_una;
}

/* Whether the packet at the end of the write queue has a FIN: tcp_nagle_test()
 * (net/ipv4/tcp_output.c) asks its flags. tcp_close_state() (net/ipv4/tcp.c) leaves these two
 * states before tcp_send_fin() puts it there. */
static __always_inline bool fin_queued(const struct sock *sk)
{
	__u32 state = sk->__sk_common.skc_state;

	return state != TCP_ESTABLISHED && state != TCP_CLOSE_WAIT;
}

/* What would keep the head of the write queue from leaving at this moment; REASON_SENT_AT_ONCE
 * where nothing would.
 * `sending`: the packet with byte `key` is on its way down right now, and TCP has not yet moved
 * past it.
 * `pushing`: TCP is about to push, after a write (the tests of tcp_push() come first).
 * `coming`: bytes that the write is about to add to the queue; where that is empty, they are its
 * head.
 * `handed_down`: the memory of a packet that is about to be below TCP.
 * `known`: what the caller has read of the sender already, or NULL.
 * `paced_until`: set where pacing holds the head first, to when it ends; what is given holds from
 * then on. */
static __always_inline __u32 blocked_by(const struct tcp_sock *tp, const struct sender *known, __u32 key, bool sending,
					bool pushing, __u32 coming, __u32 handed_down, __u64 now,
					__u64 *paced_until)
{
	const struct sock *sk = sock_of(tp);
	const struct sk_buff *end = (const struct sk_buff *)&sk->sk_write_queue;
	const struct sk_buff *head = sk->sk_write_queue.next, *tail = sk->sk_write_queue.prev;
	__u32 length, truesize, tail_truesize, next = 0, sent = 0, window_end, flying, nonagle;
	struct sender sender;
	int queued_below;
	bool last;

	if (sending && head != end) {
		/* New data is at the head until it was sent: tcp_event_new_data_sent()
		 * (net/ipv4/tcp_output.c) moves it to the queue of what is unacknowledged. A
		 * retransmission is in that queue. */
		const struct tcp_skb_cb *cb = VIEW(&head->cb, struct tcp_skb_cb);

		next = cb->end_seq;
		if (!before(key, cb->seq) && before(key, next)) {
			sent = head->len;
			head = head->next;
		}
	}
	if (head == end && !coming)
		return REASON_SENT_AT_ONCE;
	sender = known ? *known : sender_read(tp);
	flying = sender.in_flight;
	window_end = sender.snd_una + sender.snd_wnd;
	queued_below = sk->sk_wmem_alloc.refs.counter + handed_down;
	if (sent) {
		/* tcp_set_skb_tso_segs() (net/ipv4/tcp_output.c) */
		flying += sender.mss && sent > sender.mss ? (sent + sender.mss - 1) / sender.mss : 1;
		sender.packets_out++;
	} else {
		next = sender.snd_nxt;
	}
	if (head != end) {
		length = head->len;
		truesize = head->truesize;
		tail_truesize = tail->truesize;
		last = head == tail;
	} else {
		length = coming;
		/* What tcp_stream_alloc_skb() (net/ipv4/tcp.c) will take for it is not known yet:
		 * this is the least. */
		truesize = tail_truesize = sizeof(struct sk_buff) + sizeof(struct skb_shared_info) + length;
		last = coming < sender.mss;
	}
	nonagle = BPF_CORE_READ_BITFIELD(tp, nonagle);
	/* tcp_skb_entail() (net/ipv4/tcp.c) takes the push away. */
	if (head == end)
		nonagle &= ~TCP_NAGLE_PUSH;

	/* tcp_should_autocork() (net/ipv4/tcp.c): the tail is part-filled, something is
	 * unacknowledged, and an earlier packet is still below TCP. */
	if (last && (pushing || (sk->sk_tsq_flags & TSQF_THROTTLED)) && sk->tcp_rtx_queue.rb_node &&
	    queued_below > (int)tail_truesize && may_autocork(tp, length))
		return REASON_AUTOCORK;
	/* tcp_pacing_check() (net/ipv4/tcp_output.c) */
	if (sk->sk_pacing_status == SK_PACING_NEEDED && tp->tcp_wstamp_ns > now)
		*paced_until = tp->tcp_wstamp_ns;
	/* tcp_xmit_recovery() (net/ipv4/tcp_input.c): tcp_xmit_retransmit_queue()
	 * (net/ipv4/tcp_output.c) retransmits what is lost before new data leaves. */
	if (sender.congestion >= TCP_CA_Recovery && tp->lost_out > tp->retrans_out)
		return REASON_RETRANSMISSION;
	/* tcp_cwnd_test() (net/ipv4/tcp_output.c). While a loss is repaired, the window belongs to
	 * the retransmissions. */
	if (flying >= sender.cwnd)
		return sender.congestion >= TCP_CA_Recovery ? REASON_RETRANSMISSION : REASON_CONGESTION_WINDOW;
	/* tcp_snd_wnd_test() (net/ipv4/tcp_output.c) */
	if (before(window_end, next + (length < sender.mss ? length : sender.mss)))
		return REASON_RECEIVE_WINDOW;
	if (length < sender.mss) {
		/* tcp_nagle_test(), tcp_nagle_check() and tcp_minshall_check()
		 * (net/ipv4/tcp_output.c): only the last packet of the queue is held, and not once
		 * it was pushed. */
		if (last && !(nonagle & TCP_NAGLE_PUSH) && !urgent(tp, sender.snd_una) && !fin_queued(sk)) {
			if (nonagle & TCP_NAGLE_CORK)
				return REASON_CORK;
			if (!nonagle && sender.packets_out && before(sender.snd_una, tp->snd_sml) && !before(next, tp->snd_sml))
				return REASON_NAGLE;
		}
		/* tcp_push() (net/ipv4/tcp.c) without tcp_mark_push(): MSG_MORE corks for one call,
		 * and leaves no mark except that the tail was not pushed. */
		if (last && !pushing && !sending && !urgent(tp, sender.snd_una) && before(tp->pushed_seq, tp->write_seq))
			return REASON_CORK;
	}
	/* tcp_small_queue_check() (net/ipv4/tcp_output.c) */
	if (several_unacknowledged(sk, sent) &&
	    queued_below > (__s64)small_queue_limit(sk, truesize_cut(tp, length, truesize, sender.mss)))
		return REASON_SMALL_QUEUE;
	/* The head is free to go, and TCP is about to send, after a write or on an ACK: where will
	 * it stop? With pacing, every packet waits for its turn (tcp_update_skb_after_send(),
	 * net/ipv4/tcp_output.c), and a window that is not full yet may never be, because ACKs come
	 * meanwhile. Otherwise the nearer window ends it, with what tcp_tso_should_defer() (same
	 * file) then keeps back. */
	if (!last && sk->sk_pacing_status == SK_PACING_NEEDED && sk->sk_pacing_rate != ~0ul)
		return REASON_PACING;
	{
		__u64 unsent = (__u64)(tp->write_seq - next) + coming, by_cwnd = (__u64)(sender.cwnd - flying) * sender.mss;
		__u32 by_window = window_end - next;

		if (by_cwnd < unsent || by_window < unsent)
			return by_cwnd <= by_window ? REASON_CONGESTION_WINDOW : REASON_RECEIVE_WINDOW;
	}
	return REASON_SENT_AT_ONCE;
}

/* Decides again what holds the head back. The arguments are those of blocked_by(). */
static __always_inline void hold(struct queue *queue, const struct tcp_sock *tp, const struct sender *known, __u32 key, bool sending,
				 bool pushing, __u32 coming, __u64 now)
{
	__u64 paced_until = 0;
	__u32 reason = blocked_by(tp, known, key, sending, pushing, coming, queue->handed_down, now, &paced_until);

	queue->blocked = paced_until ? REASON_PACING : reason;
	queue->behind = reason;
	queue->paced_until = paced_until;
}

/* Looked at first at each event: where all bytes have left since the last one, nothing has held any
 * from when the last of them did. ACKs let them go, and most of those are no event. */
static __noinline void drained(struct queue *queue, const struct tcp_sock *tp, __u64 now)
{
	__u32 sent = tp->snd_nxt;
	__u64 left = tp->tcp_wstamp_ns;

	if (queue->blocked == REASON_SENT_AT_ONCE || (before(sent, tp->write_seq) && sent != queue->write_seq))
		return;
	if (left < queue->since)
		left = queue->since;
	if (left >= now)
		return;
	if (queue->blocked == REASON_CONGESTION_WINDOW)
		judge_window(queue, tp, left);
	buffer_run(queue, left);
	clocks_run(queue, left);
	queue->blocked = queue->behind = REASON_SENT_AT_ONCE;
	queue->paced_until = 0;
}

/* A time without an ACK, in which a program went on writing, until its last write. */
struct silence {
	__u64 from;
	__u64 to;
	__u32 number;
	__u32 at;
	__u32 reason;
};

/* The next send that waits: what it has of the silence moves from what held the queue to
 * retransmission. Its clocks are those of its beginning, so what is added there is taken away of
 * the wait. */
static long waits_in_silence(__u32 i, void *context)
{
	struct silence *silence = context;
	struct queue *queue = queue_at(silence->number);
	__u64 reason = silence->reason, from;
	__u32 had, moved;
	struct slot *slot;

	/* In one register, whose bounds an older verifier follows. */
	barrier_var(reason);
	if (!queue || reason >= CLOCKS || (__s32)(silence->at - queue->tail) >= 0)
		return 1;
	slot = slot_at(queue, silence->at);
	silence->at++;
	if (!slot || slot->record.sched)
		return 0;
	from = slot->record.send > silence->from ? slot->record.send : silence->from;
	if (from >= silence->to)
		return 0;
	moved = ticks(from, silence->to);
	had = queue->clocks[reason] - slot->record.waits[reason];
	if (moved > had)
		moved = had;
	slot->record.waits[reason] += moved;
	slot->record.waits[REASON_RETRANSMISSION] -= moved;
	return 0;
}

/* The retransmission timer has run out: tcp_write_timeout() (net/ipv4/tcp_timer.c). Nothing has
 * been acknowledged for as long, since what was under way is lost, and that has held whatever
 * waits, but for a round trip: so long every ACK takes. */
static __noinline void timed_out(struct queue *queue, __u32 number, const struct tcp_sock *tp, __u64 now)
{
	const struct slot *oldest = slot_at(queue, queue->head);
	__u64 round_trip = (__u64)(tp->srtt_us >> 3) * 1000, from;
	struct silence silence;

	drained(queue, tp, now);
	/* The last ACK came a round trip after `progress` at the latest. */
	silence.from = queue->progress;
	if (oldest && silence.from < oldest->record.send)
		silence.from = oldest->record.send;
	silence.from += 2 * round_trip;
	silence.to = queue->since;
	silence.number = number;
	silence.at = queue->sched_next;
	silence.reason = queue->blocked;
	if (oldest && silence.from < silence.to && silence.reason != REASON_SENT_AT_ONCE && silence.reason < CLOCKS)
		bpf_loop(config.slots, waits_in_silence, &silence, 0);
	from = queue->since + round_trip;
	if (from >= now)
		return;
	if (queue->blocked == REASON_CONGESTION_WINDOW)
		judge_window(queue, tp, from);
	buffer_event(queue, tp, sock_of(tp), from);
	clocks_run(queue, from);
	/* The kernel's own clock of the send buffer does not stop for losses. */
	if (queue->blocked == REASON_SENT_AT_ONCE && queue->full_since)
		queue->without_room += ticks(queue->full_since, now);
	queue->blocked = queue->behind = REASON_RETRANSMISSION;
	queue->paced_until = 0;
	buffer_event(queue, tp, sock_of(tp), now);
	clocks_run(queue, now);
}

static __always_inline void clocks_copy(struct slot *slot, const struct queue *queue)
{
	for (int i = 0; i < CLOCKS; i++)
		slot->record.waits[i] = queue->clocks[i];
}

/* Something happened on a followed socket; `key` and `sending` as above. */
static __always_inline void waiting_event(struct queue *queue, const struct tcp_sock *tp, __u32 key, bool sending,
					  bool same_epoch, __u64 now)
{
	const struct sock *sk = sock_of(tp);

	drained(queue, tp, now);
	if (queue->blocked == REASON_CONGESTION_WINDOW)
		judge_window(queue, tp, now);
	if (sk->sk_write_pending > 0) {
		/* sk_stream_wait_memory() (net/core/stream.c): a task sleeps in its call, and
		 * tcp_sendmsg_locked() (net/ipv4/tcp.c) has pushed what it has written so far. */
	} else if (queue->blocked == REASON_SENT_AT_ONCE && !before(tp->snd_nxt, tp->pushed_seq) &&
		   before(tp->pushed_seq, tp->write_seq)) {
		/* tcp_push() (net/ipv4/tcp.c): MSG_MORE shows only after the call. The bytes were
		 * free to go and were not pushed. */
		queue->blocked = REASON_CORK;
	} else if (queue->blocked == REASON_SENT_AT_ONCE && sending && same_epoch && !sk->sk_lock.owned &&
		   sk->sk_pacing_status != SK_PACING_NEEDED && sk->tcp_rtx_queue.rb_node) {
		/* No call, ACK or pacing timer made this packet leave: a packet of the socket left
		 * the qdisc, and tcp_wfree() and tcp_tsq_write() (net/ipv4/tcp_output.c) sent on.
		 * Only that held the bytes. The last packet, with room left in it, was autocorked;
		 * a full one, or one with more behind it, had met the limit of the small queue. */
		const struct sk_buff *head = sk->sk_write_queue.next;

		queue->blocked = head == sk->sk_write_queue.prev && may_autocork(tp, head->len) ? REASON_AUTOCORK :
												REASON_SMALL_QUEUE;
	}
	buffer_event(queue, tp, sk, now);
	clocks_run(queue, now);
	hold(queue, tp, NULL, key, sending, false, 0, now);
}

/* The send has left TCP, `since` long ago, or is given up there: why did it wait? The clocks are up
 * to date. They have run on since it left, so what holds the queue now is given no more than it had
 * by then. */
static __always_inline void waiting_decide(struct slot *slot, const struct queue *queue, bool in_call, __u64 since)
{
	__u32 last = queue->blocked;

	if (in_call) {
		slot->record.wait = WAIT_NONE;
		return;
	}
	for (int i = 0; i < CLOCKS; i++)
		slot->record.waits[i] = queue->clocks[i] - slot->record.waits[i];
	if (since && last < CLOCKS) {
		__u32 held = slot->record.waits[last], over = since >> CLOCK_SHIFT;

		slot->record.waits[last] = held > over ? held - over : 0;
	}
	slot->record.wait = WAIT_CLOCKS;
}
