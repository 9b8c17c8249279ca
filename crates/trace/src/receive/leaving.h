/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Bytes that are read, or never will be: how they leave the row, each with its record or in a
 * counter. */
#pragma once

struct walk {
	__u32 number;
	__u32 until; /* sequence number */
	__u32 held; /* after the last byte that TCP has in order */
	__u64 now;
	__u32 pid;
	__u32 buffer;
	__u32 buffer_used;
	__u32 last; /* all that is left, read or not */
	__u32 foreign; /* by a process that is not of the target */
	__u32 thread;
	char comm[16];
};

/* Hands a record to user space. */
static __always_inline void receive_out(const struct receive_record *record)
{
	if (!record->kind)
		return;
	if (!bpf_ringbuf_output(&records, (void *)record, sizeof(*record), BPF_RB_NO_WAKEUP))
		return;
	COUNT_RECEIVE(ring_buffer, 1);
	if (record->read)
		COUNT_RECEIVE(missed_bytes, record->arrival.end - record->arrival.first);
}

/* Bytes before `seq` are done with. Those that are in no arrival lay there before the trace, were
 * skipped and counted then, or the kernel ran no program when they came: it skips a program that is
 * running on that CPU already. */
static __always_inline void account(struct receive_row *row, struct receive_record *record, __u32 seq)
{
	__u32 first = row->accounted;

	if (!before(first, seq))
		return;
	row->accounted = seq;
	if (before(first, row->before)) {
		__u32 end = before(seq, row->before) ? seq : row->before;

		COUNT_RECEIVE(unseen_bytes, end - first);
		first = end;
	}
	if (seq - first <= row->passed_over) {
		row->passed_over -= seq - first;
		return;
	}
	first += row->passed_over;
	row->passed_over = 0;
	COUNT_RECEIVE(untold_bytes, seq - first);
	if (!record->read)
		return;
	__builtin_memset(&record->arrival, 0, sizeof(record->arrival));
	record->arrival.first = first;
	record->arrival.end = seq;
	record->arrival.segments = 1;
	receive_out(record);
}

static __always_inline void record_begin(struct receive_record *record, const struct walk *walk, const struct receive_row *row)
{
	if (walk->foreign)
		record->kind = 0;
	record->cookie = row->cookie;
	record->buffer = walk->buffer;
	record->buffer_used = walk->buffer_used;
	if (walk->last)
		return;
	record->read = walk->now;
	record->pid = walk->pid;
	record->thread = walk->thread;
	__builtin_memcpy(record->comm, walk->comm, sizeof(record->comm));
}

static long read_one(__u32 i, void *context)
{
	struct walk *walk = context;
	struct receive_row *row = receive_row_at(walk->number);
	struct receive_record record = { .kind = RECORD_RECEIVE };
	struct arrival *arrival;

	if (!row || row->head == row->tail)
		return 1;
	arrival = arrival_at(walk->number, row->head);
	if (!arrival)
		return 1;
	if (before(walk->until, arrival->end) && !walk->last)
		return 1;
	record_begin(&record, walk, row);
	/* What is beyond rcv_nxt has a hole before it. */
	account(row, &record, before(walk->held, arrival->first) ? walk->held : arrival->first);
	row->accounted = arrival->end;
	record.arrival = *arrival;
	if (walk->last)
		COUNT_RECEIVE(never_read, 1);
	if (row->ready_next == row->head)
		row->ready_next++;
	row->head++;
	receive_out(&record);
	return 0;
}

#if OLDER
/* Of each row, the walk that is going on: a function of numbers finds it here. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct walk);
	__uint(max_entries, 1);
} walks SEC(".maps");

__noinline int read_next(__u32 number)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &number);

	return walk ? read_one(0, walk) : 1;
}
#endif

/* Everything that was read leaves. */
static __always_inline void read_all(struct walk *walk)
{
#if OLDER
	bpf_map_update_elem(&walks, &walk->number, walk, BPF_ANY);
#endif
	EACH(receive.slots, read_one, walk, read_next(walk->number));
}

static __always_inline void walk_begin(struct walk *walk, struct sock *sk, const struct tcp_sock *tp)
{
	const struct sock___receive *view = (const struct sock___receive *)sk;

	walk->now = bpf_ktime_get_ns();
	walk->until = copied_seq(tp);
	walk->held = rcv_nxt(tp) - finished(sk);
	walk->buffer = view->sk_rcvbuf;
	walk->buffer_used = view->sk_backlog.rmem_alloc.counter;
}
