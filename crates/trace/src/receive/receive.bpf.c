// SPDX-License-Identifier: MIT OR Apache-2.0
/* The receiving side of followed connections. Which those are is decided by the sending side's
 * programs: this object shares their storage of sockets, and looks there first of all.
 *
 * tcp_probe (4.16): a segment is looked at by TCP, with the kernel's receive stamp in it, if the
 * kernel takes such stamps.
 * sk_data_ready (6.3): the socket is readable up to rcv_nxt.
 * tcp_rcv_space_adjust (4.18): the application has copied up to copied_seq.
 * tcp_destroy_sock (4.16): no one will read any more. (Not the state TCP_CLOSE: a program may read
 * after that.)
 *
 * All of them run while the socket is locked, so a row has one writer at a time. */
#include "../bpf/kernel.h"
#define STAMPS 0
#include "../bpf/arena.h"
#include "../bpf/announce.h"
#include "receive_record.h"
#include "rows.h"
#include "arrivals.h"
#include "leaving.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* A receive stamp older than this is of a clock that was set in the meantime. */
#define OLDEST_NS 10000000000ull

/* The packet's receive stamp on the monotonic clock: its age is read on its own clock, REALTIME. */
static __always_inline __u64 received_at(struct sk_buff *skb, __u64 now)
{
	__s64 stamp = ((struct sk_buff___receive *)skb)->tstamp, age;

	if (!stamp || !bpf_core_enum_value_exists(enum bpf_func_id___receive, BPF_FUNC_ktime_get_tai_ns))
		return 0;
	age = (__s64)bpf_ktime_get_tai_ns() - receive.tai_offset - stamp;
	if (age < 0 || age > (__s64)OLDEST_NS)
		return 0;
	return now - age;
}

static __always_inline __u16 segments_received(const struct sk_buff *skb, __u32 bytes)
{
	const struct skb_shared_info *shared = shared_of(skb);
	__u16 count = BPF_CORE_READ(shared, gso_segs), size = BPF_CORE_READ(shared, gso_size);

	if (count)
		return count;
	return size ? (bytes + size - 1) / size : 1;
}

/* These bytes are the first of their connection, where it began in the trace. */
static __always_inline void first_came(const struct receive_row *row, __u64 now)
{
	struct row *followed = row_at(row->followed);

	if (followed && followed->cookie == row->cookie && followed->opening != OPENING_FOUND && !followed->first_in)
		followed->first_in = now;
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(segment_taken, struct sock *sk, struct sk_buff *skb)
{
	const struct tcp_skb_cb *cb = VIEW(&skb->cb, struct tcp_skb_cb);
	struct coming coming = {};
	struct arrival *new = &coming.new;
	struct receive_row *row = row_of(sk, &coming.number);
	struct tcp_header header;
	struct tcp_sock *tp;
	__u64 now;

	if (!row)
		return 0;
	tp = TCP_SOCK(sk);
	if (!tp || bpf_probe_read_kernel(&header, sizeof(header), skb->head + skb->transport_header))
		return 0;
	new->first = cb->seq;
	/* SYN and FIN take a sequence number each; a SYN does not come here with data. */
	new->end = cb->end_seq - (header.flags & TCP_FLAG_FIN ? 1 : 0) - (header.flags & TCP_FLAG_SYN ? 1 : 0);
	if (!before(new->first, new->end))
		return 0;
	now = bpf_ktime_get_ns();
	if (new->first == row->before)
		first_came(row, now);
	if (!sampled(row, now)) {
		__u32 from = before(row->arrived, new->first) ? new->first : row->arrived;

		if (before(from, new->end)) {
			COUNT_RECEIVE(unsampled_bytes, new->end - from);
			row->passed_over += new->end - from;
			row->arrived = new->end;
		}
		return 0;
	}
	new->tcp_rx = now;
	new->driver_rx = received_at(skb, now);
	new->segments = segments_received(skb, new->end - new->first);
	arrive(&coming, row, tp);
	return 0;
}

static long ready_one(__u32 i, void *context)
{
	struct walk *walk = context;
	struct receive_row *row = receive_row_at(walk->number);
	struct arrival *arrival;

	if (!row || row->ready_next == row->tail)
		return 1;
	arrival = arrival_at(walk->number, row->ready_next);
	if (!arrival || before(walk->until, arrival->end))
		return 1;
	if (!arrival->ready)
		arrival->ready = walk->now;
	row->ready_next++;
	return 0;
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(made_ready, struct sock *sk)
{
	struct walk walk = {};
	struct receive_row *row = row_of(sk, &walk.number);
	struct tcp_sock *tp;

	if (!row)
		return 0;
	tp = TCP_SOCK(sk);
	if (!tp)
		return 0;
	walk.now = bpf_ktime_get_ns();
	walk.until = rcv_nxt(tp) - finished(sk);
	if (before(row->arrived, walk.until)) {
		/* In a state other than ESTABLISHED, where tcp_probe is silent. */
		struct arrival new = { .first = row->arrived, .end = walk.until, .segments = 1 };
		struct arrival *slot = arrival_at(walk.number, row->tail);

		if (!sampled(row, walk.now)) {
			COUNT_RECEIVE(unsampled_bytes, new.end - new.first);
			row->passed_over += new.end - new.first;
		} else if (row->tail - row->head >= receive.slots || !slot) {
			COUNT_RECEIVE(slots_full, 1);
			COUNT_RECEIVE(missed_bytes, new.end - new.first);
			row->passed_over += new.end - new.first;
		} else {
			new.queued = new.first - copied_seq(tp);
			*slot = new;
			row->tail++;
		}
		row->arrived = walk.until;
	}
	bpf_loop(receive.slots, ready_one, &walk, 0);
	return 0;
}

SEC("tp_btf/tcp_rcv_space_adjust")
int BPF_PROG(copied, struct sock *sk)
{
	struct walk walk = {};
	struct receive_row *row = row_of(sk, &walk.number);
	struct arrival *next;
	struct row *followed;
	struct tcp_sock *tp;
	__u32 seen;

	if (!row)
		return 0;
	tp = TCP_SOCK(sk);
	if (!tp)
		return 0;
	walk_begin(&walk, sk, tp);
	walk.pid = current_pid();
	walk.thread = FIELD(bpf_get_current_task_btf(), pid);
	followed = row_at(row->followed);
	walk.foreign = followed && followed->cookie == row->cookie && !used_by(followed, walk.pid, tp);
	bpf_get_current_comm(walk.comm, sizeof(walk.comm));
	if (row->head != row->tail)
		read_all(&walk);
	/* What was read and is in no arrival. */
	seen = walk.until;
	next = arrival_at(walk.number, row->head);
	if (next && row->head != row->tail && before(next->first, seen))
		seen = next->first;
	if (before(row->accounted, seen)) {
		struct receive_record record = { .kind = RECORD_RECEIVE };

		record_begin(&record, &walk, row);
		account(row, &record, seen);
	}
	return 0;
}

/* Gives every followed socket its row at once, so that bytes which lay there before are known when
 * they are read. */
SEC("iter/tcp")
int pick_up(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct tcp_sock *tp;
	__u32 number;

	if (!common || !full_socket(common->skc_state))
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (tp)
		row_of((struct sock *)tp, &number);
	return 0;
}

SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(destroyed, struct sock *sk)
{
	struct walk walk = { .last = 1 };
	struct receive_row *row;
	struct tcp_sock *tp;
	__u32 *known;

	if (!OLDER && !((struct sock___receive *)sk)->sk_bpf_storage)
		return 0;
	known = bpf_sk_storage_get(&receivers, sk, NULL, 0);
	if (!known)
		return 0;
	walk.number = *known;
	row = receive_row_at(walk.number);
	tp = TCP_SOCK(sk);
	if (!row || !tp || row->cookie != sk->__sk_common.skc_cookie.counter)
		return 0;
	walk_begin(&walk, sk, tp);
	read_all(&walk);
	if (before(row->accounted, walk.held)) {
		struct receive_record record = { .kind = RECORD_RECEIVE };

		record_begin(&record, &walk, row);
		account(row, &record, walk.held);
	}
	row->cookie = 0;
	*known = NO_ROW;
	FORGET(receivers, sk);
	bpf_map_push_elem(&free_receive_rows, &walk.number, 0);
	return 0;
}
