/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Why bytes wait in TCP: the tests of tcp_push() and tcp_write_xmit() (net/ipv4/tcp.c, tcp_output.c) in their own order.
 *
 * A row holds one clock a reason. At every event of the socket the time since the last event is added to the clock of what
 * held the head of the write queue back meanwhile, and then it is decided afresh. A send copies the clocks when it is made;
 * when it leaves, the clock that grew most since is why it waited. docs/waiting.md says the same in plain words. */
#pragma once
#include "slots.h"

static __always_inline __u32 in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

static __always_inline struct sock *sock_of(const struct tcp_sock *tp)
{
	return (struct sock *)&tp->inet_conn.icsk_inet.sk;
}

/* When TCP took up the segment that it works on, by the clock of bpf_ktime_get_ns(): tcp_mstamp_refresh() reads it for every segment
 * that comes in. Reading the clock is the dearest thing that a callback does, and here it has just been read. */
static __always_inline __u64 taken_up(const struct tcp_sock *tp)
{
	return tp->tcp_clock_cache;
}

/* tcp_small_queue_check(): the bytes that may wait below TCP. */
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

/* The part of tcp_should_autocork() that asks for the packet alone: there is room in it, up to a size goal of several segments
 * with GSO. */
static __always_inline bool may_autocork(const struct tcp_sock *tp, __u32 length)
{
	__u32 segments = tp->gso_segs ? tp->gso_segs : 1;

	return length < segments * tp->mss_cache && sock_of(tp)->__sk_common.skc_net.net->ipv4.sysctl_tcp_autocorking;
}

/* What the tests ask of the sender. Read once where several ask: each field that is read through a view costs a check of its address. */
struct sender {
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 snd_wnd;
	__u32 cwnd;
	__u32 mss;
	__u32 packets_out;
	__u32 in_flight;
	__u32 congestion;
};

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

/* What would keep the head of the write queue from leaving at this moment; REASON_SENT_AT_ONCE where nothing would.
 * `sending`: the packet with byte `key` is on its way down right now, and TCP has not yet moved past it.
 * `pushing`: TCP is about to push, after a write (the tests of tcp_push() come first).
 * `coming`: bytes that the write is about to add to the queue; where that is empty, they are its head.
 * `known`: what the caller has read of the sender already, or NULL. */
static __always_inline __u32 blocked_by(const struct tcp_sock *tp, const struct sender *known, __u32 key, bool sending,
					bool pushing, __u32 coming, __u64 now)
{
	const struct sock *sk = sock_of(tp);
	const struct sk_buff *end = (const struct sk_buff *)&sk->sk_write_queue;
	const struct sk_buff *head = sk->sk_write_queue.next, *tail = sk->sk_write_queue.prev;
	__u32 length, truesize, tail_truesize, next = 0, sent = 0, window_end, flying, nonagle;
	struct sender sender;
	int queued_below;
	bool last;

	if (sending && head != end) {
		/* New data is still at the head while it is sent; a retransmission is not in this queue at all. */
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
	queued_below = sk->sk_wmem_alloc.refs.counter;
	if (sent) {
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
		/* What the kernel will take for it is not known yet: this is the least. */
		truesize = tail_truesize = sizeof(struct sk_buff) + sizeof(struct skb_shared_info) + length;
		last = coming < sender.mss;
	}
	nonagle = BPF_CORE_READ_BITFIELD(tp, nonagle);
	/* tcp_skb_entail() takes the push away. */
	if (head == end)
		nonagle &= ~TCP_NAGLE_PUSH;

	/* tcp_should_autocork(): the tail is part-filled, something is unacknowledged, and an earlier packet is still below. */
	if (last && (pushing || (sk->sk_tsq_flags & TSQF_THROTTLED)) && sk->tcp_rtx_queue.rb_node &&
	    queued_below > (int)tail_truesize && may_autocork(tp, length))
		return REASON_AUTOCORK;
	/* tcp_pacing_check() */
	if (sk->sk_pacing_status == SK_PACING_NEEDED && tp->tcp_wstamp_ns > now)
		return REASON_PACING;
	/* tcp_xmit_retransmit_queue() goes first: what is lost is repaired before new data leaves. */
	if (sender.congestion >= TCP_CA_Recovery && tp->lost_out > tp->retrans_out)
		return REASON_RETRANSMISSION;
	/* tcp_cwnd_test(); while a loss is repaired the window belongs to the retransmissions. */
	if (flying >= sender.cwnd)
		return sender.congestion >= TCP_CA_Recovery ? REASON_RETRANSMISSION : REASON_CONGESTION_WINDOW;
	/* tcp_snd_wnd_test() */
	if (before(window_end, next + (length < sender.mss ? length : sender.mss)))
		return REASON_RECEIVE_WINDOW;
	if (length < sender.mss) {
		/* tcp_nagle_test(): only the last packet of the queue is held, and not once it was pushed. */
		if (last && !(nonagle & TCP_NAGLE_PUSH)) {
			if (nonagle & TCP_NAGLE_CORK)
				return REASON_CORK;
			if (!nonagle && sender.packets_out && before(sender.snd_una, tp->snd_sml) && !before(next, tp->snd_sml))
				return REASON_NAGLE;
		}
		/* MSG_MORE corks for one call and leaves no mark but that the tail was not pushed (tcp_mark_push()). */
		if (last && !pushing && !sending && before(tp->pushed_seq, tp->write_seq))
			return REASON_CORK;
	}
	/* tcp_small_queue_check() */
	if (sk->tcp_rtx_queue.rb_node && queued_below > (__s64)small_queue_limit(sk, truesize))
		return REASON_SMALL_QUEUE;
	/* The head is free to go, and TCP is about to send (after a write, or on an ACK): where will it stop? The nearer window
	 * ends it, with what tcp_tso_should_defer() then keeps back; paced, every packet waits for its turn. */
	{
		__u64 unsent = (__u64)(tp->write_seq - next) + coming, by_cwnd = (__u64)(sender.cwnd - flying) * sender.mss;
		__u32 by_window = window_end - next;

		if (by_cwnd < unsent || by_window < unsent)
			return by_cwnd <= by_window ? REASON_CONGESTION_WINDOW : REASON_RECEIVE_WINDOW;
		if (!last && sk->sk_pacing_status == SK_PACING_NEEDED && sk->sk_pacing_rate != ~0ul)
			return REASON_PACING;
	}
	return REASON_SENT_AT_ONCE;
}

/* Adds the time since the last event to the clock of what held the head back. */
static __always_inline void clocks_run(struct row *row, __u64 now)
{
	__u32 reason = row->blocked;

	if (reason < REASONS && now > row->since)
		row->clocks[reason] += now - row->since;
	row->since = now;
}

static __always_inline void blocked_set(struct row *row, __u32 reason)
{
	row->blocked = reason;
	row->changes++;
}

static __always_inline void clocks_copy(struct slot *slot, const struct row *row)
{
	for (int i = 0; i < REASONS; i++)
		slot->clocks[i] = row->clocks[i] >> CLOCK_SHIFT;
	slot->changes = row->changes;
}

/* Something happened on a followed socket; `key` and `sending` as above. */
static __always_inline void waiting_event(struct row *row, const struct tcp_sock *tp, __u32 key, bool sending,
					  bool same_epoch, __u64 now)
{
	const struct sock *sk = sock_of(tp);

	if (sk->sk_write_pending > 0) {
		/* A task sleeps in sk_stream_wait_memory() at least since the later of the last event and the last packet. */
		__u64 from = row->since > tp->tcp_wstamp_ns ? row->since : tp->tcp_wstamp_ns;

		if (now > from)
			row->blocked_in_call += now - from;
	} else if (row->blocked == REASON_SENT_AT_ONCE && !before(tp->snd_nxt, tp->pushed_seq) &&
		   before(tp->pushed_seq, tp->write_seq)) {
		/* MSG_MORE shows only after the call: the bytes were free to go and were not pushed. */
		row->blocked = REASON_CORK;
	} else if (row->blocked == REASON_SENT_AT_ONCE && sending && same_epoch && !sk->sk_lock.owned &&
		   sk->sk_pacing_status != SK_PACING_NEEDED && sk->tcp_rtx_queue.rb_node) {
		/* No call, no ACK and no pacing timer made this packet leave: a packet of the socket left the qdisc (tcp_wfree()),
		 * and the bytes were free to go but for that. The last packet, with room left in it, was autocorked; a full one, or
		 * one with more behind it, met the limit. */
		const struct sk_buff *head = sk->sk_write_queue.next;

		row->blocked = head == sk->sk_write_queue.prev && may_autocork(tp, head->len) ? REASON_AUTOCORK :
												REASON_SMALL_QUEUE;
	}
	clocks_run(row, now);
	blocked_set(row, blocked_by(tp, NULL, key, sending, false, 0, now));
}

/* The send leaves TCP: why did it wait? */
static __always_inline void waiting_decide(struct slot *slot, const struct row *row, bool in_call)
{
	__u32 most = 0, reason = REASON_UNKNOWN, unexplained;

	if (in_call) {
		slot->record.reason = slot->blocked_in_call ? REASON_SEND_BUFFER : REASON_SENT_AT_ONCE;
		slot->record.waited = slot->blocked_in_call;
		return;
	}
	unexplained = (__u32)(row->clocks[0] >> CLOCK_SHIFT) - slot->clocks[0];
	for (int i = 1; i < REASON_UNKNOWN; i++) {
		__u32 grown = (__u32)(row->clocks[i] >> CLOCK_SHIFT) - slot->clocks[i];

		if (grown > most) {
			most = grown;
			reason = i;
		}
	}
	if (unexplained > most) {
		most = unexplained;
		reason = REASON_UNKNOWN;
	}
	slot->record.reason = reason;
	slot->record.waited = (__u64)most << CLOCK_SHIFT;
}
