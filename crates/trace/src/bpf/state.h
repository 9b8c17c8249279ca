/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What is recorded of the sender with each send: the state, and how it is read. A further field is
 * a line of `struct state`, one of `state_read`, and its line in `sender_state!`
 * (crates/record/src/send.rs). A field of the kernel that kernel.h does not have can be in a view
 * of its structure here, as `struct tcp_sock___of_state`. */
#pragma once
#include "kernel.h"

/* State of the sender when the send was made. */
struct state {
	__u64 pacing_rate;
	__u64 max_pacing_rate; /* all ones: none is set */
	__u64 delivery_rate; /* bytes a second; 0: not measured */
	__u32 cwnd;
	__u32 ssthresh;
	__u32 in_flight;
	__u32 unacked;
	__u32 unsent;
	__u32 peer_window;
	__u32 mss;
	__u32 srtt_us_8; /* eighths of a microsecond, as the kernel keeps it */
	__u32 send_buffer;
	__u32 send_buffer_used;
	__u32 busy; /* jiffies */
	__u32 receive_window_limited;
	__u32 send_buffer_limited;
	__u32 min_rtt_us; /* all ones: not measured */
	__u32 rto; /* jiffies */
	__u32 reordering;
	__u8 congestion;
	__u8 app_limited; /* whether it is */
	__u8 pad[6];
};
SHARED(struct state);

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* Fields that only the state has. */
struct minmax_sample___of_state {
	__u32 v;
};
struct minmax___of_state {
	struct minmax_sample___of_state s[3];
};
struct inet_connection_sock___of_state {
	__u32 icsk_rto;
};
struct tcp_sock___of_state {
	struct minmax___of_state rtt_min;
	__u32 rate_delivered;
	__u32 rate_interval_us;
	__u32 reordering;
	__u32 app_limited;
};

#pragma clang attribute pop

static __always_inline struct sock *sock_of(const struct tcp_sock *tp)
{
	return (struct sock *)&tp->inet_conn.icsk_inet.sk;
}

/* What the tests ask of the sender. Read once where several ask: each field that is read through a
 * view costs a check of its address. */
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

static __always_inline __u32 jiffies(void)
{
	return bpf_jiffies64();
}

/* The kernel's own clocks of a connection, jiffies. */
struct chronos {
	__u32 busy;
	__u32 receive_window_limited;
	__u32 send_buffer_limited;
};
SHARED(struct chronos);

/* tcp_get_info_chrono_stats() */
static __always_inline struct chronos chronos_read(const struct tcp_sock *tp)
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
	return (struct chronos){
		.busy = busy + window + buffer,
		.receive_window_limited = window,
		.send_buffer_limited = buffer,
	};
}

/* tcp_compute_delivery_rate() */
static __always_inline __u64 delivery_rate(const struct tcp_sock___of_state *tp, __u32 mss)
{
	__u32 interval = tp->rate_interval_us;

	return interval ? (__u64)tp->rate_delivered * mss * 1000000 / interval : 0;
}

static __always_inline void state_read(struct state *to, const struct tcp_sock *tp, const struct sender *sender)
{
	const struct sock *sk = sock_of(tp);
	const struct tcp_sock___of_state *more = (const void *)tp;
	const struct inet_connection_sock___of_state *timers = (const void *)tp;
	struct chronos chronos = chronos_read(tp);

	to->cwnd = sender->cwnd;
	to->in_flight = sender->in_flight;
	to->unacked = sender->snd_nxt - sender->snd_una;
	to->unsent = tp->write_seq - sender->snd_nxt;
	to->peer_window = sender->snd_wnd;
	to->mss = sender->mss;
	to->congestion = sender->congestion;
	to->pacing_rate = sk->sk_pacing_rate;
	to->max_pacing_rate = sk->sk_max_pacing_rate;
	to->app_limited = more->app_limited != 0;
	to->ssthresh = tp->snd_ssthresh;
	to->srtt_us_8 = tp->srtt_us;
	to->min_rtt_us = more->rtt_min.s[0].v;
	to->rto = timers->icsk_rto;
	to->reordering = more->reordering;
	to->delivery_rate = delivery_rate(more, sender->mss);
	to->send_buffer = sk->sk_sndbuf;
	to->send_buffer_used = sk->sk_wmem_queued;
	to->busy = chronos.busy;
	to->receive_window_limited = chronos.receive_window_limited;
	to->send_buffer_limited = chronos.send_buffer_limited;
}
