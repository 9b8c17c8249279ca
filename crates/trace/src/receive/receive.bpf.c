// SPDX-License-Identifier: MIT OR Apache-2.0
/* The receiving side of followed connections. Which those are is decided by the sending side's programs: this object shares
 * their storage of sockets, and looks there first of all.
 *
 * tcp_probe (4.16): a segment is looked at by TCP, with the kernel's receive stamp in it, if the kernel takes such stamps.
 * sk_data_ready (6.3): the socket is readable up to rcv_nxt.
 * tcp_rcv_space_adjust (4.18): the application has copied up to copied_seq.
 * tcp_destroy_sock (4.16): nobody will read any more. (Not the state TCP_CLOSE: a program may read after that.)
 *
 * All of them run while the socket is locked, so a row has one writer at a time. */
#include "../bpf/kernel.h"
#define STAMPS 0
#include "../bpf/slots.h"
#include "../bpf/processes.h"
#include "receive_record.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sk_buff___receive {
	__s64 tstamp;
};
struct tcp_sock___receive {
	__u32 rcv_nxt;
	__u32 copied_seq;
};
struct sock_common___receive {
	unsigned long skc_flags;
};
struct sock___receive {
	void *sk_bpf_storage; /* 5.2 */
	int sk_rcvbuf;
	struct {
		atomic_t rmem_alloc;
	} sk_backlog;
};
#pragma clang attribute pop

/* include/uapi/linux/bpf.h; only whether it exists is asked */
enum bpf_func_id___receive {
	BPF_FUNC_ktime_get_tai_ns = 208,
};
/* include/net/sock.h: enum sock_flags */
#define SOCK_DONE_BIT (1ul << 1)
/* RFC 9293, section 3.1 */
enum { TCP_FLAG_FIN = 1, TCP_FLAG_SYN = 2 };

/* A receive stamp older than this is of a clock that was set in the meantime. */
#define OLDEST_NS 10000000000ull

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct receive_row);
	__uint(max_entries, 1);
} receive_rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct arrival);
	__uint(max_entries, 1);
} arrivals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__type(value, __u32);
	__uint(max_entries, 1);
} free_receive_rows SEC(".maps");

/* The number of a socket's row; gone with the socket. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u32);
} receivers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct receive_lost);
	__uint(max_entries, 1);
} receive_losses SEC(".maps");

const volatile struct receive_config receive SEC(".rodata.receive");

#define COUNT_RECEIVE(field, by)                                                              \
	do {                                                                                  \
		__u32 zero_ = 0;                                                              \
		struct receive_lost *l_ = bpf_map_lookup_elem(&receive_losses, &zero_);       \
		if (l_)                                                                       \
			__sync_fetch_and_add(&l_->field, (by));                               \
	} while (0)

static __always_inline struct receive_row *receive_row_at(__u32 number)
{
	return bpf_map_lookup_elem(&receive_rows, &number);
}

static __always_inline struct arrival *arrival_at(__u32 row, __u32 counter)
{
	__u32 number = row * receive.slots + (counter & (receive.slots - 1));

	return bpf_map_lookup_elem(&arrivals, &number);
}

static __always_inline __u32 rcv_nxt(const struct tcp_sock *tp)
{
	return ((const struct tcp_sock___receive *)tp)->rcv_nxt;
}

static __always_inline __u32 copied_seq(const struct tcp_sock *tp)
{
	return ((const struct tcp_sock___receive *)tp)->copied_seq;
}

/* The peer's FIN was received: rcv_nxt counts it as a byte. */
static __always_inline bool finished(struct sock *sk)
{
	return ((const struct sock_common___receive *)sk)->skc_flags & SOCK_DONE_BIT;
}

/* The row of a followed socket, taken where it has none yet. */
static __always_inline struct receive_row *row_of(struct sock *sk, __u32 *number)
{
	struct socket_info *info;
	struct receive_row *row;
	struct row *followed;
	struct tcp_sock *tp;
	__u32 *known;
	__u32 fresh;

	/* One load: nobody keeps anything in the storage of this socket, so it is not followed. */
	if (!((struct sock___receive *)sk)->sk_bpf_storage)
		return NULL;
	known = bpf_sk_storage_get(&receivers, sk, NULL, 0);
	if (known) {
		*number = *known;
		row = receive_row_at(*number);
		/* Another's, or nobody's, once user space has taken all rows back. */
		if (!row || row->cookie == sk->__sk_common.skc_cookie.counter)
			return row;
	}
	info = bpf_sk_storage_get(&sockets, sk, NULL, 0);
	if (!info || info->row == NO_ROW)
		return NULL;
	followed = row_at(info->row);
	tp = TCP_SOCK(sk);
	if (!followed || !tp)
		return NULL;
	if (bpf_map_pop_elem(&free_receive_rows, &fresh)) {
		COUNT_RECEIVE(connections_full, 1);
		/* Told once a connection: NO_ROW is beyond the array, so it has no row from here on. */
		fresh = NO_ROW;
		bpf_sk_storage_get(&receivers, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
		return NULL;
	}
	row = receive_row_at(fresh);
	if (!known)
		known = bpf_sk_storage_get(&receivers, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
	if (!row || !known) {
		bpf_map_push_elem(&free_receive_rows, &fresh, 0);
		return NULL;
	}
	*known = fresh;
	row->head = 0;
	row->tail = 0;
	row->ready_next = 0;
	row->accounted = copied_seq(tp);
	/* What is unread in a connection that was found came before the trace; in a new one it came without tcp_probe. */
	row->arrived = followed->opening == OPENING_FOUND ? rcv_nxt(tp) : row->accounted;
	row->before = row->arrived;
	row->passed_over = 0;
	row->followed = info->row;
	row->cookie = followed->cookie;
	*number = fresh;
	return row;
}

/* Whether what comes now is to be recorded, by the sampling that was asked for. */
static __always_inline bool sampled(const struct receive_row *row, __u64 now)
{
	struct row *followed;

	if (config.draw_below && bpf_get_prandom_u32() >= config.draw_below)
		return false;
	if (!(config.flags & CONFIG_WINDOWS))
		return true;
	followed = row_at(row->followed);
	return followed && followed->cookie == row->cookie && (!followed->window_end || now < followed->window_end);
}

/* The packet's receive stamp on the monotonic clock: its age is read on the clock it bears, REALTIME. */
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

static __always_inline __u16 segments_of(struct sk_buff *skb, __u32 bytes)
{
	struct skb_shared_info *shared = (struct skb_shared_info *)(skb->head + skb->end);
	__u16 count = BPF_CORE_READ(shared, gso_segs), size = BPF_CORE_READ(shared, gso_size);

	if (count)
		return count;
	return size ? (bytes + size - 1) / size : 1;
}

/* Where a segment that is not the next one belongs. */
struct place {
	__u32 number;
	__u32 at; /* before which the new one goes */
	__u32 first;
};

/* One step from the tail: moves an arrival that is later than the new one up by a place. */
static long shift_one(__u32 i, void *context)
{
	struct place *place = context;
	struct arrival *from = arrival_at(place->number, place->at - 1), *to = arrival_at(place->number, place->at);
	struct receive_row *row = receive_row_at(place->number);

	if (!row || !from || !to || place->at == row->head || before(from->first, place->first))
		return 1;
	*to = *from;
	place->at--;
	return 0;
}

static long find_one(__u32 i, void *context)
{
	struct place *place = context;
	struct receive_row *row = receive_row_at(place->number);
	struct arrival *from = arrival_at(place->number, place->at - 1);

	if (!row || !from || place->at == row->head || before(from->first, place->first))
		return 1;
	place->at--;
	return 0;
}

/* Before which arrival a new one goes. Not static, as the next ones: the verifier then looks at each once and by itself. */
__noinline __u32 place_of(__u32 number, __u32 first)
{
	struct place place = { .number = number, .first = first };
	struct receive_row *row = receive_row_at(number);

	if (!row)
		return 0;
	place.at = row->tail;
	bpf_loop(receive.slots, find_one, &place, 0);
	return place.at;
}

/* Moves every arrival after the new one up by a place. */
__noinline int make_room(__u32 number, __u32 first)
{
	struct place place = { .number = number, .first = first };
	struct receive_row *row = receive_row_at(number);

	if (!row)
		return 0;
	place.at = row->tail;
	bpf_loop(receive.slots, shift_one, &place, 0);
	return 0;
}

/* What came in one frame, while it is put among what is there. */
struct coming {
	struct arrival new;
	__u32 number;
	__u32 next; /* rcv_nxt */
	__u32 added; /* pieces */
};

/* The next piece of it: up to what is there already, or past that. */
__noinline int put_piece(struct coming *coming)
{
	struct receive_row *row;
	struct arrival *slot;
	__u32 first, end, at;

	if (!coming)
		return 1;
	row = receive_row_at(coming->number);
	first = coming->new.first;
	end = coming->new.end;
	if (!row || !before(first, end))
		return 1;
	at = row->tail;
	if (row->head != row->tail && before(first, row->arrived)) {
		at = place_of(coming->number, first);
		slot = arrival_at(coming->number, at - 1);
		if (slot && at != row->head && before(first, slot->end)) {
			coming->new.first = slot->end;
			return 0;
		}
		slot = arrival_at(coming->number, at);
		if (slot && at != row->tail && slot->first == first) {
			/* It came before. If it was the next one, TCP has not kept it: then this is the one that counts. */
			if (first == coming->next && !(slot->flags & ARRIVAL_OUT_OF_ORDER)) {
				slot->tcp_rx = coming->new.tcp_rx;
				slot->driver_rx = coming->new.driver_rx;
			}
			coming->new.first = slot->end;
			return 0;
		}
		if (slot && at != row->tail && before(slot->first, end))
			end = slot->first;
	}
	coming->added++;
	coming->new.first = end;
	if (before(row->arrived, end))
		row->arrived = end;
	if (row->tail - row->head >= receive.slots) {
		COUNT_RECEIVE(slots_full, 1);
		row->passed_over += end - first;
		return 0;
	}
	if (at != row->tail)
		make_room(coming->number, first);
	slot = arrival_at(coming->number, at);
	if (!slot)
		return 1;
	*slot = coming->new;
	slot->first = first;
	slot->end = end;
	row->tail++;
	return 0;
}

static long put_one(__u32 i, void *context)
{
	return put_piece(context) ? 1 : 0;
}

/* Bytes come in; those that are there already are left out. */
static __always_inline void arrive(struct coming *coming, struct receive_row *row, const struct tcp_sock *tp)
{
	coming->next = rcv_nxt(tp);
	if (before(coming->new.first, coming->next))
		coming->new.first = coming->next;
	else if (coming->new.first != coming->next)
		coming->new.flags |= ARRIVAL_OUT_OF_ORDER;
	coming->new.queued = coming->next - copied_seq(tp);
	/* The common case is the next bytes, behind all that are there. */
	if (before(row->arrived, coming->new.end) && !before(coming->new.first, row->arrived) &&
	    row->tail - row->head < receive.slots && before(coming->new.first, coming->new.end)) {
		struct arrival *slot = arrival_at(coming->number, row->tail);

		if (slot) {
			*slot = coming->new;
			row->tail++;
			row->arrived = coming->new.end;
			coming->added = 1;
		}
	} else {
		bpf_loop(2 * receive.slots, put_one, coming, 0);
	}
	if (!coming->added)
		COUNT_RECEIVE(duplicate, 1);
	else if (coming->new.flags & ARRIVAL_OUT_OF_ORDER)
		COUNT_RECEIVE(out_of_order, coming->added);
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
	new->segments = segments_of(skb, new->end - new->first);
	arrive(&coming, row, tp);
	return 0;
}

struct walk {
	__u32 number;
	__u32 until; /* sequence number */
	__u32 held; /* after the last byte that TCP has in order */
	__u64 now;
	__u32 pid;
	__u32 buffer;
	__u32 buffer_used;
	__u32 last; /* all that is left, read or not */
	char comm[16];
};

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

/* Hands a record to user space. */
static __always_inline void receive_out(const struct receive_record *record)
{
	if (!record->arrival.driver_rx)
		COUNT_RECEIVE(no_driver_rx, 1);
	if (!record->arrival.tcp_rx)
		COUNT_RECEIVE(no_tcp_rx, 1);
	if (record->read && !record->arrival.ready)
		COUNT_RECEIVE(no_ready, 1);
	if (bpf_ringbuf_output(&records, (void *)record, sizeof(*record), BPF_RB_NO_WAKEUP))
		COUNT_RECEIVE(ring_buffer, 1);
}

/* Bytes before `seq` are done with. Those that are in no arrival lay there before the trace, were passed over and counted then, or the
 * kernel ran no program when they came: it leaves one out where it is at work on that processor already. */
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
	record->cookie = row->cookie;
	record->buffer = walk->buffer;
	record->buffer_used = walk->buffer_used;
	if (walk->last)
		return;
	record->read = walk->now;
	record->pid = walk->pid;
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

static __always_inline void walk_begin(struct walk *walk, struct sock *sk, const struct tcp_sock *tp)
{
	const struct sock___receive *view = (const struct sock___receive *)sk;

	walk->now = bpf_ktime_get_ns();
	walk->until = copied_seq(tp);
	walk->held = rcv_nxt(tp) - finished(sk);
	walk->buffer = view->sk_rcvbuf;
	walk->buffer_used = view->sk_backlog.rmem_alloc.counter;
}

SEC("tp_btf/tcp_rcv_space_adjust")
int BPF_PROG(copied, struct sock *sk)
{
	struct walk walk = {};
	struct receive_row *row = row_of(sk, &walk.number);
	struct arrival *next;
	struct tcp_sock *tp;
	__u32 seen;

	if (!row)
		return 0;
	tp = TCP_SOCK(sk);
	if (!tp)
		return 0;
	walk_begin(&walk, sk, tp);
	walk.pid = current_pid();
	bpf_get_current_comm(walk.comm, sizeof(walk.comm));
	if (row->head != row->tail)
		bpf_loop(receive.slots, read_one, &walk, 0);
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

/* Gives every followed socket its row at once, so that bytes which lay there before are known when they are read. */
SEC("iter/tcp")
int pick_up(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct tcp_sock *tp;
	__u32 number;

	if (!common || common->skc_state == TCP_TIME_WAIT || common->skc_state == TCP_NEW_SYN_RECV)
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

	if (!((struct sock___receive *)sk)->sk_bpf_storage)
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
	bpf_loop(receive.slots, read_one, &walk, 0);
	if (before(row->accounted, walk.held)) {
		struct receive_record record = { .kind = RECORD_RECEIVE };

		record_begin(&record, &walk, row);
		account(row, &record, walk.held);
	}
	row->cookie = 0;
	*known = NO_ROW;
	bpf_map_push_elem(&free_receive_rows, &walk.number, 0);
	return 0;
}
