/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Following a connection: from the record that announces it, over its sends, to its end. Both
 * backends. */
#pragma once
#include "announce.h"
#include "rows.h"
#include "waiting.h"
#include "targets.h"
#include "../histograms/histograms.h"

/* The sockops callbacks that a connection needs while it is looked at, and between such stretches.
 */
#define CALLS                                                                                              \
	(BPF_SOCK_OPS_STATE_CB_FLAG | BPF_SOCK_OPS_RETRANS_CB_FLAG | BPF_SOCK_OPS_RTO_CB_FLAG | \
	 BPF_SOCK_OPS_RTT_CB_FLAG)
#define BETWEEN (BPF_SOCK_OPS_STATE_CB_FLAG | BPF_SOCK_OPS_RETRANS_CB_FLAG | BPF_SOCK_OPS_RTT_CB_FLAG)
/* That of each packet, where packets without a tag are to be seen: untagged.h. */
#define PACKETS BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG

static __always_inline bool drawn(void)
{
	return !config.draw_below || bpf_get_prandom_u32() < config.draw_below;
}

/* A send that was to be recorded is not: it is not in the coverage. By tracepoints it is not known
 * yet how much of it will be written. */
static __always_inline void send_missed(struct queue *queue, __u32 first, __u32 bytes)
{
	if (STAMPS) {
		coverage_less(queue, bytes);
	} else {
		queue->missed_seq = first;
		queue->missed = 1;
	}
}

/* The same once that is known: bytes are written up to `until`. */
static __always_inline void missed_check(struct queue *queue, __u32 until)
{
	if (!queue->missed)
		return;
	if (before(queue->refused, until))
		until = queue->refused;
	if (before(queue->missed_seq, until))
		coverage_less(queue, until - queue->missed_seq);
	queue->missed = 0;
}

/* A send of `bytes` bytes from `first` on was made by the current task. Gives its slot, or NULL
 * where it is not recorded. */
static __always_inline struct slot *slot_open(struct row *row, struct queue *queue, __u32 number, const struct tcp_sock *tp,
					      __u32 first, __u32 bytes, __u64 now)
{
	__u32 tail = queue->tail, pid = current_pid();
	struct sender sender;
	struct slot *slot;
	bool own;

	own = used_by(row, pid, tp);
	if (first == row->first_seq && !row->first_out && row->opening != OPENING_FOUND)
		row->first_out = now;
	/* What others write on the connection is not the target's. By tracepoints it is not known
	 * yet how much that will be. */
	if (!own && STAMPS) {
		row->position += bytes;
		queue->armed_position += bytes;
	}
	queue->epoch++;
	if (!drawn())
		return NULL;
	sender = sender_read(tp);
	clocks_run(queue, now);
	hold(queue, tp, &sender, 0, false, true, STAMPS ? 0 : bytes, now);
	if (!own)
		return NULL;
	if (!rate_allows(now)) {
		COUNT(over_rate);
		send_missed(queue, first, bytes);
		return NULL;
	}
	slot = tail - queue->head < config.slots ? slot_next(queue, number) : NULL;
	if (!slot) {
		COUNT(slots_full);
		send_missed(queue, first, bytes);
		return NULL;
	}
	slot->key = first + bytes - 1;
	slot->epoch = queue->epoch;
	clocks_copy(slot, queue);
	slot->record.kind = RECORD_SEND;
	slot->record.pid = pid;
	slot->record.cookie = row->cookie;
	slot->record.send = now;
	slot->record.sched = 0;
	slot->record.driver = 0;
	slot->record.nic = 0;
	slot->record.ack = 0;
	slot->record.wait = WAIT_NOT_KNOWN;
	slot->record.call = queue->call;
	slot->record.full = 0;
	buffer_take(queue, slot);
	slot->record.first_seq = first;
	slot->record.bytes = bytes;
	slot->record.retransmissions = 0;
	slot->record.alone = 0;
	slot->record.sched_span = 0;
	slot->record.driver_span = 0;
	slot->record.ack_span = 0;
	slot->down = 0;
	slot->record.idle = 0;
	if (histogram_config.flags & HISTOGRAM_PROGRAM)
		name_of(FIELD(bpf_get_current_task_btf(), group_leader), slot->record.comm);
	else if (!(config.flags & CONFIG_NO_RECORDS))
		name_of(bpf_get_current_task_btf(), slot->record.comm);
	if (!(config.flags & CONFIG_NO_RECORDS)) {
		slot->record.thread = FIELD(bpf_get_current_task_btf(), pid);
		state_read(&slot->record.state, tp, &sender);
	}
	queue->last_key = slot->key;
	barrier();
	queue->tail = tail + 1;
	return slot;
}

/* The packet with the last byte of this send enters the qdisc. `more`: it is not the first send of
 * the packet; `blocked` is what held the queue before that one. */
static __always_inline void slot_sched(struct queue *queue, struct slot *slot, __u32 at, const struct tcp_sock *tp, bool more,
				       __u32 *blocked, __u64 now)
{
	__u32 key = slot->key;
	bool in_call;

	if (slot->record.sched) {
		COUNT(repeated);
		return;
	}
	slot->record.sched = now;
	queue->sched_next = at + 1;
	if (!more)
		*blocked = queue->blocked;
	in_call = sock_of(tp)->sk_lock.owned && slot->epoch == queue->epoch && before(key, tp->pushed_seq) &&
		  (*blocked == REASON_SENT_AT_ONCE || now - slot->record.send < 5000 ||
		   (*blocked == REASON_NAGLE && urgent(tp, tp->snd_una)));
	if (!more)
		waiting_event(queue, tp, key, true, slot->epoch == queue->epoch, now);
	waiting_decide(slot, queue, in_call, 0);
}

/* It goes to the driver. */
static __always_inline void slot_driver(struct queue *queue, struct slot *slot, __u32 at, __u64 now)
{
	if (slot->record.driver) {
		COUNT(repeated);
		return;
	}
	slot->record.driver = now;
	queue->driver_next = at + 1;
}

/* The same, where only the key is known: its slot, and in `at` its counter; NULL where it has none.
 */
static __always_inline struct slot *slot_of_key(struct queue *queue, __u32 number, __u32 key, __u32 expected, __u32 *at)
{
	*at = slot_find(queue, number, key, expected);
	if (*at != queue->tail)
		return slot_at(queue, *at);
	if (queue->popped && !before(queue->popped_key, key))
		COUNT(after_ack);
	return NULL;
}

static __always_inline void stage_sched(struct queue *queue, __u32 number, __u32 key, const struct tcp_sock *tp, bool more,
					__u32 *blocked, __u64 now)
{
	__u32 at;
	struct slot *slot = slot_of_key(queue, number, key, queue->sched_next, &at);

	if (slot)
		slot_sched(queue, slot, at, tp, more, blocked, now);
}

static __always_inline void stage_driver(struct queue *queue, __u32 number, __u32 key, __u64 now)
{
	__u32 at;
	struct slot *slot = slot_of_key(queue, number, key, queue->driver_next, &at);

	if (slot)
		slot_driver(queue, slot, at, now);
}

struct retransmitted {
	__u32 number;
	__u32 at;
	__u32 end;
};

static long retransmitted_one(__u32 i, void *context)
{
	struct retransmitted *packet = context;
	struct queue *queue = queue_at(packet->number);
	struct slot *slot;

	if (!queue || (__s32)(packet->at - queue->tail) >= 0)
		return 1;
	slot = slot_at(queue, packet->at);
	if (!slot)
		return 1;
	if (!before(slot->key, packet->end))
		return 1;
	if (slot->record.retransmissions < 0xffff)
		slot->record.retransmissions++;
	packet->at++;
	return 0;
}

#if OLDER
__noinline int retransmitted_next(__u32 number, __u32 at, __u32 end)
{
	struct retransmitted packet = { .number = number, .at = at, .end = end };

	return retransmitted_one(0, &packet);
}
#endif

/* A packet from `seq` on was retransmitted. */
static __always_inline void stage_retransmit(__u32 number, __u32 seq, __u32 bytes)
{
	struct retransmitted packet = {
		.number = number,
		.at = slot_search(number, seq),
		.end = seq + bytes,
	};

	EACH(config.slots, retransmitted_one, &packet, retransmitted_next(packet.number, packet.at++, packet.end));
}

/* The bytes beyond the last SENDMSG were written without one. */
static __always_inline void unstamped_count(struct queue *queue, __u32 end)
{
	if (!queue->armed_since || !before(queue->write_seq, end))
		return;
	/* The coverage does not include them. */
	queue->armed_position += end - queue->write_seq;
	queue->write_seq = end;
	COUNT(unstamped);
}

/* Outside of a call: what the write queue holds beyond the last SENDMSG left before the kernel
 * could stamp it. */
static __always_inline void unstamped_check(const struct row *row, struct queue *queue, const struct tcp_sock *tp)
{
	const struct sock *sk = sock_of(tp);

	if (!sk->sk_lock.owned && !sk->sk_write_pending && !row->frozen && !fin_taken(row, tp))
		unstamped_count(queue, tp->write_seq);
}

/* By tracepoints: bytes were written from the end of the last call that was seen up to `until`, by
 * calls that no program ran for. */
static __always_inline void left_out_check(struct queue *queue, __u32 until)
{
	if (!before(queue->write_seq, until))
		return;
	if (queue->armed_since) {
		queue->armed_position += until - queue->write_seq;
		COUNT(left_out);
	}
	queue->write_seq = until;
}

/* No more is written to row `of`, or none of it is seen: what was written past the calls is
 * counted. A call that waits for room has written a part. */
static __always_inline void calls_end(const struct row *row, __u32 of, const struct tcp_sock *tp)
{
	__u32 end = tp->write_seq - fin_taken(row, tp), at;
	struct queue *queue = queue_of(row, of, &at);

	if (!queue || row->frozen)
		return;
	if (!STAMPS) {
		missed_check(queue, end);
		slot_trim(queue, at, end);
		left_out_check(queue, end);
	} else if (!sock_of(tp)->sk_write_pending) {
		unstamped_count(queue, end);
	}
}

/* Picks a connection up. The caller arms it. */
static __always_inline struct row *follow(struct socket_info *info, const struct tcp_sock *tp, __u64 cookie,
					  __u32 opening, __u64 now)
{
	struct row *row;

	if (info->row != NO_ROW)
		return NULL;
	row = row_take(info, tp, cookie, opening, now);
	if (row) {
		row->callbacks = tp->bpf_sock_ops_cb_flags & (CALLS | PACKETS);
		series_begin(row, info->row, tp, info->comm);
		if (opening != OPENING_ACCEPTED) {
			row->used = 1;
			announce(row, info->pid, info->comm, tp);
		}
	}
	return row;
}

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct inet_connection_sock___timeouts {
	__u8 icsk_retransmits;
};
#pragma clang attribute pop

struct flush {
	__u64 now;
	__u32 number;
	__u32 finishing;
	__u32 snd_nxt;
	__u16 timeouts; /* in a row, since an ACK came */
};

static long flush_one(__u32 i, void *context)
{
	struct flush *flush = context;
	struct queue *queue;
	struct slot *slot = slot_oldest(flush->number, &queue);
	__u64 since, idle;

	if (!queue || !slot)
		return 1;
	if (flush->finishing)
		COUNT(unfinished);
	else
		COUNT(closed_unacked);
	slot->record.ack = flush->now;
	if (!before(slot->key, flush->snd_nxt)) {
		if (!slot->record.sched)
			waiting_decide(slot, queue, false, 0);
	} else if (!slot->record.driver) {
		slot_bound(queue, slot);
	}
	/* Timeouts retransmit the oldest packet. */
	if (slot->record.retransmissions < flush->timeouts)
		slot->record.retransmissions = flush->timeouts;
	flush->timeouts = 0;
	since = slot->record.send > queue->progress ? slot->record.send : queue->progress;
	idle = flush->now > since ? (flush->now - since) / 1000 + 1 : 1;
	slot->record.idle = idle < 0xffffffff ? idle : 0xffffffff;
	record_out(queue, slot);
	queue->head++;
	slot_left(queue, flush->number);
	return 0;
}

#if OLDER
__noinline int flush_next(__u32 number, __u32 finishing, __u32 snd_nxt, __u32 timeouts, __u64 now)
{
	struct flush flush = {
		.now = now,
		.number = number,
		.finishing = finishing,
		.snd_nxt = snd_nxt,
		.timeouts = timeouts,
	};

	return flush_one(0, &flush);
}
#endif

/* Gives up what is still on its way: the connection has ended, or tracing has. */
static __always_inline void sends_flush(struct queue *queue, __u32 number, const struct tcp_sock *tp, __u64 now, bool finishing)
{
	const struct inet_connection_sock___timeouts *timers = (const void *)tp;
	struct flush flush = {
		.now = now,
		.number = number,
		.finishing = finishing,
		.snd_nxt = tp->snd_nxt,
		.timeouts = timers->icsk_retransmits,
	};

	drained(queue, tp, now);
	buffer_event(queue, tp, sock_of(tp), now);
	clocks_run(queue, now);
	EACH(config.slots, flush_one, &flush, flush_next(number, finishing, flush.snd_nxt, turn_ ? 0 : flush.timeouts, now));
}

/* Lets a connection go. One that no process of the target has used was none of it. */
static __always_inline void connection_over(struct socket_info *info, struct row *row, const struct tcp_sock *tp, __u64 now,
					    bool finishing)
{
	struct queue *queue;
	__u32 at;

	if (!by_process()) {
		row->used = 1;
		if (!row->announced)
			announce(row, info->pid, info->comm, tp);
	}
	calls_end(row, info->row, tp);
	queue = queue_of(row, info->row, &at);
	if (queue)
		sends_flush(queue, at, tp, now, finishing);
	row_release(info, row, tp, now);
}

/* The state changes from `from` to `to`. */
static __always_inline void state_changed(struct socket_info *info, struct row *row, const struct tcp_sock *tp,
					  __u32 from, __u32 to, __u64 now)
{
	/* A FIN is about to take a sequence number: write_seq counts bytes up to here. */
	if (!row->frozen && (to == TCP_FIN_WAIT1 || to == TCP_LAST_ACK || to == TCP_CLOSE)) {
		__u32 number = info->row, at;
		struct queue *queue = queue_of(row, number, &at);

		calls_end(row, number, tp);
		totals_update(row, number, tp, now);
		if (queue)
			totals_disarm(row, queue, tp, now);
		row->frozen = 1;
	}
	if (to == TCP_CLOSE)
		connection_over(info, row, tp, now, false);
}
