/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Following a connection: from the record that announces it, over its sends, to its end. Both backends. */
#pragma once
#include "slots.h"
#include "waiting.h"
#include "targets.h"

/* The sockops callbacks that a connection in a window needs; between windows its end is enough. */
#define CALLS                                                                                              \
	(BPF_SOCK_OPS_STATE_CB_FLAG | BPF_SOCK_OPS_RETRANS_CB_FLAG | BPF_SOCK_OPS_RTO_CB_FLAG | \
	 BPF_SOCK_OPS_RTT_CB_FLAG)

static __always_inline __u32 jiffies(void)
{
	return bpf_jiffies64();
}

/* tcp_get_info_chrono_stats() */
static __always_inline void state_clocks(struct state *to, const struct tcp_sock *tp)
{
	__u32 type = BPF_CORE_READ_BITFIELD(tp, chrono_type);
	__u32 running = type ? jiffies() - tp->chrono_start : 0;
	__u32 busy = tp->chrono_stat[0], window = tp->chrono_stat[1], buffer = tp->chrono_stat[2];

	if (type == TCP_CHRONO_BUSY)
		busy += running;
	else if (type == TCP_CHRONO_RWND_LIMITED)
		window += running;
	else if (type == TCP_CHRONO_SNDBUF_LIMITED)
		buffer += running;
	to->busy = busy + window + buffer;
	to->receive_window_limited = window;
	to->send_buffer_limited = buffer;
}

static __always_inline void state_read(struct state *to, const struct tcp_sock *tp, const struct sender *sender)
{
	const struct sock *sk = sock_of(tp);

	to->cwnd = sender->cwnd;
	to->in_flight = sender->in_flight;
	to->unacked = sender->snd_nxt - sender->snd_una;
	to->unsent = tp->write_seq - sender->snd_nxt;
	to->peer_window = sender->snd_wnd;
	to->mss = sender->mss;
	to->congestion = sender->congestion;
	to->pacing_rate = sk->sk_pacing_rate;
	to->ssthresh = tp->snd_ssthresh;
	to->srtt_us_8 = tp->srtt_us;
	to->send_buffer = sk->sk_sndbuf;
	to->send_buffer_used = sk->sk_wmem_queued;
	state_clocks(to, tp);
}

static __always_inline bool drawn(void)
{
	return !config.draw_below || bpf_get_prandom_u32() < config.draw_below;
}

/* A send of `bytes` bytes from `first` on was made by the current task. Gives its slot, or NULL where it is not recorded. */
static __always_inline struct slot *slot_open(struct row *row, __u32 number, const struct tcp_sock *tp, __u32 first,
					      __u32 bytes, __u64 now)
{
	__u32 tail = row->tail, pid = current_pid();
	struct sender sender;
	struct slot *slot;

	row->epoch++;
	if (!drawn())
		return NULL;
	sender = sender_read(tp);
	clocks_run(row, now);
	blocked_set(row, blocked_by(tp, &sender, 0, false, true, STAMPS ? 0 : bytes, now));
	if (by_process() && !pid_is_target(pid))
		return NULL;
	if (tail - row->head >= config.slots) {
		COUNT(slots_full);
		return NULL;
	}
	if (!rate_allows(now)) {
		COUNT(over_rate);
		return NULL;
	}
	slot = slot_at(number, tail);
	if (!slot)
		return NULL;
	slot->key = first + bytes - 1;
	slot->epoch = row->epoch;
	slot->blocked_in_call = row->blocked_in_call;
	row->blocked_in_call = 0;
	clocks_copy(slot, row);
	slot->record.kind = RECORD_SEND;
	slot->record.pid = pid;
	slot->record.cookie = row->cookie;
	slot->record.send = now;
	slot->record.sched = 0;
	slot->record.driver = 0;
	slot->record.nic = 0;
	slot->record.ack = 0;
	slot->record.oldest = 0;
	slot->record.waited = 0;
	slot->record.first_seq = first;
	slot->record.bytes = bytes;
	slot->record.merged = 0;
	slot->record.merged_bytes = 0;
	slot->record.retransmissions = 0;
	slot->record.sched_span = 0;
	slot->record.driver_span = 0;
	slot->record.reason = REASON_UNKNOWN;
	bpf_get_current_comm(slot->record.comm, sizeof(slot->record.comm));
	state_read(&slot->record.state, tp, &sender);
	row->last_key = slot->key;
	barrier();
	row->tail = tail + 1;
	return slot;
}

/* The packet with the last byte of this send enters the qdisc. */
static __always_inline void slot_sched(struct row *row, struct slot *slot, __u32 at, const struct tcp_sock *tp, __u64 now)
{
	__u32 key = slot->key;
	bool in_call;

	if (slot->record.sched) {
		COUNT(repeated);
		return;
	}
	slot->record.sched = now;
	row->sched_next = at + 1;
	in_call = sock_of(tp)->sk_lock.owned && slot->epoch == row->epoch && before(key, tp->pushed_seq) &&
		  (row->blocked == REASON_SENT_AT_ONCE || now - slot->record.send < 5000);
	waiting_event(row, tp, key, true, slot->epoch == row->epoch, now);
	waiting_decide(slot, row, in_call);
}

/* It goes to the driver. */
static __always_inline void slot_driver(struct row *row, struct slot *slot, __u32 at, __u64 now)
{
	if (slot->record.driver) {
		COUNT(repeated);
		return;
	}
	slot->record.driver = now;
	row->driver_next = at + 1;
}

/* The same, where only the key is known: its slot, and in `at` its counter; NULL where it has none. */
static __always_inline struct slot *slot_of_key(struct row *row, __u32 number, __u32 key, __u32 expected, __u32 *at)
{
	*at = slot_find(row, number, key, expected);
	if (*at != row->tail)
		return slot_at(number, *at);
	if (row->popped && !before(row->popped_key, key))
		COUNT(after_ack);
	return NULL;
}

static __always_inline void stage_sched(struct row *row, __u32 number, __u32 key, const struct tcp_sock *tp,
					__u64 now)
{
	__u32 at;
	struct slot *slot = slot_of_key(row, number, key, row->sched_next, &at);

	if (slot)
		slot_sched(row, slot, at, tp, now);
}

static __always_inline void stage_driver(struct row *row, __u32 number, __u32 key, __u64 now)
{
	__u32 at;
	struct slot *slot = slot_of_key(row, number, key, row->driver_next, &at);

	if (slot)
		slot_driver(row, slot, at, now);
}

/* A packet of `segments` segments from `seq` on was retransmitted. */
static __always_inline void stage_retransmit(struct row *row, __u32 number, __u32 seq, __u32 bytes)
{
	__u32 at = slot_search(number, seq);

	for (int i = 0; i < 64; i++) {
		struct slot *slot;

		if ((__s32)(at - row->tail) >= 0)
			break;
		slot = slot_at(number, at);
		if (!slot || !before(slot->key, seq + bytes))
			break;
		if (slot->record.retransmissions < 0xffff)
			slot->record.retransmissions++;
		at++;
	}
}

/* Outside of a call: what the write queue holds beyond the last SENDMSG left before the kernel could stamp it. */
static __always_inline void unstamped_check(struct row *row, const struct tcp_sock *tp)
{
	const struct sock *sk = sock_of(tp);

	if (!row->armed_since || sk->sk_lock.owned || sk->sk_write_pending || row->frozen || tp->write_seq == row->write_seq)
		return;
	row->write_seq = tp->write_seq;
	COUNT(unstamped);
}

/* Reports a connection that is followed from here on. */
static __always_inline bool connection_out(const struct row *row, const struct socket_info *info,
					   const struct tcp_sock *tp)
{
	const struct sock *sk = sock_of(tp);
	struct connection_record record = { .kind = RECORD_CONNECTION, .pid = info->pid };

	record.cookie = row->cookie;
	record.at = row->followed_since;
	record.opening = row->opening;
	ENDS(&record, sk);
	__builtin_memcpy(record.comm, info->comm, sizeof(record.comm));
	bpf_probe_read_kernel_str(record.congestion_control, sizeof(record.congestion_control),
				  tp->inet_conn.icsk_ca_ops->name);
	if (bpf_ringbuf_output(&records, &record, sizeof(record), BPF_RB_NO_WAKEUP)) {
		COUNT(connection_records);
		return false;
	}
	return true;
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
		row->callbacks = tp->bpf_sock_ops_cb_flags & CALLS;
		connection_out(row, info, tp);
	}
	return row;
}

/* The state changes from `from` to `to`. */
static __always_inline void state_changed(struct socket_info *info, struct row *row, const struct tcp_sock *tp,
					  __u32 from, __u32 to, __u64 now)
{
	/* A FIN is about to take a sequence number: write_seq counts bytes up to here. */
	if (!row->frozen && (to == TCP_FIN_WAIT1 || to == TCP_LAST_ACK || to == TCP_CLOSE)) {
		if (STAMPS)
			unstamped_check(row, tp);
		else
			slot_trim(row, info->row, tp->write_seq);
		totals_update(row, tp, now);
		totals_disarm(row, tp, now);
		row->frozen = 1;
	}
	if (to == TCP_CLOSE)
		row_release(info, row, tp, now, false);
}
