/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The arena: one row a followed connection, and in it the sends that are on their way, in order of sequence number.
 *
 * A row is a queue. Sends enter at `tail` when they are made and leave at `head` when they are acknowledged, so the ACK finds
 * its sends without a search. Stages come in order as well, but for retransmissions: `sched_next` and `driver_next` say which
 * send is expected, and a binary search finds it where that is wrong. Counters run freely; the slot is the counter modulo the size.
 *
 * Who writes: SENDMSG, SCHED and ACK run while the socket is locked (by the task or by softirq), so one at a time. SND runs
 * from the qdisc, perhaps on another CPU; it writes only the `driver` and `nic` stamps of a slot after comparing its key. */
#pragma once
#include "packet.h"
#include "settings.h"
#include "sockets.h"
#include "../histograms/shared.h"

/* A clock of a reason counts 256 ns: 32 bits of it reach 18 minutes. */
#define CLOCK_SHIFT 8

struct slot {
	__u32 key; /* sequence number of the last byte: the kernel's tskey */
	__u32 epoch; /* the row's, when the send was made */
	__u32 clocks[REASONS];
	__u32 changes; /* the row's, when `clocks` was copied */
	struct send_record record;
};
SHARED(struct slot);

struct row {
	__u64 cookie; /* 0: free */
	__u32 head;
	__u32 tail;
	__u32 sched_next;
	__u32 driver_next;
	__u32 write_seq; /* at the last SENDMSG, or when armed; by tracepoints where the bytes of the last call end that was seen */
	__u32 last_key; /* key of slot tail-1, valid while head != tail */
	__u32 popped_key; /* the last that was acknowledged */
	__u16 popped; /* whether any was */
	__u16 opening;
	/* what holds back the head of the write queue */
	__u64 since;
	__u64 paced_until;
	__u32 clocks[REASONS];
	__u32 window_end; /* 0: it is looked at, or WINDOW_CLOSED */
	__u32 blocked;
	__u32 behind; /* what holds it from `paced_until` on, where pacing does until then; else as `blocked` */
	__u32 changes; /* how often `blocked` was decided afresh */
	__u32 epoch; /* grows with everything that happens outside a send call */
	__u32 near[2]; /* chunks of the places with even and with odd number, while there is no directory */
	__u32 directory; /* 0: none */
	__u32 driver_end; /* where the bytes of the last tagged packet of new data ended, at the driver */
	/* The call that writes now, and what it waits for: buffer.h and calls.h. */
	__u64 call; /* when it began; 0: not known */
	__u32 call_left;
	__u32 call_seq;
	__u64 full; /* ns without room in the send buffer since the last send */
	__u64 full_since; /* there is none since; 0: there is */
	__u64 full_last; /* the last event that found none */
	__u32 full_clocks[REASONS];
	__u32 refused; /* by tracepoints: where the bytes of the last send end that was not recorded */
	/* totals */
	__u64 followed_since;
	__u64 armed_since; /* 0: not armed */
	__u64 position; /* bytes written since the connection began, when followed */
	__u64 armed_position;
	__u64 acked; /* when followed */
	__u32 retransmitted; /* when followed */
	__u8 callbacks; /* sockops callbacks the socket had when it was followed, of those that are asked for */
	__u8 frozen; /* totals are final: a FIN has taken a sequence number */
	__u8 armed; /* the kernel calls back for the socket, though its window may be over */
	__u8 no_bytes; /* what no_bytes() gave when followed */
	__u64 stretch; /* when the stretch of sampling began: following.h */
	__u32 every; /* stretches in a block */
	__u32 left; /* of them, those still to come */
	__u32 pick; /* the one that is looked at */
	__u16 places; /* that have a chunk */
	__u8 announced; /* announce.h */
	__u8 used; /* a process of the target has opened or used it, or processes are no criterion */
	/* The last tagged packet of new data: when it went to the qdisc, and to the driver. */
	__u64 sched_last;
	__u64 driver_last;
	/* The first bytes that were written, and that came: connects.h */
	__u64 first_out;
	__u64 first_in;
	__u32 first_seq;
	__u32 dropped; /* segments, since the last send was added to a series: histograms/drops.h */
	struct totals totals;
};

#define WINDOW_CLOSED 1

/* Slots come from a pool that all rows share, in chunks of CHUNK. A row's ring of counters is cut into as many places. Sends that are on
 * their way lie in one or two of them at most connections: these have the numbers of their chunks in the row itself. Where they reach
 * into a third, the row takes a directory, which has the number of a chunk, or 0, for each of its places. A place gets a chunk when a
 * send begins there. It keeps it while less than half of the pool is taken, so that a busy row needs no chunk but its first ones; else
 * it goes back once no send of the place is on its way. All of this is written while the socket is locked. */
enum chunk { CHUNK = 4 };
SHARED(enum chunk);

enum pool_of { POOL_CHUNKS = 0, POOL_DIRECTORIES = 1, POOL_ROWS = 2, POOLS };
SHARED(enum pool_of);

struct pool {
	__u64 taken; /* that rows have; of rows, those in use are not counted */
	__u64 fresh; /* that were ever taken: numbers above that are in no row, nor in a list of free ones */
};

struct pools {
	struct pool of[POOLS];
};
SHARED(struct pools);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct row);
	__uint(max_entries, 1);
} rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct slot);
	__uint(max_entries, 1);
} slots SEC(".maps");

/* The directories: the chunks of their places, two in an entry. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u32[2]);
	__uint(max_entries, 1);
} places SEC(".maps");

struct pools pools SEC(".data.pools");

/* Numbers of what was given back. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__type(value, __u32);
	__uint(max_entries, 1);
} free_chunks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__type(value, __u32);
	__uint(max_entries, 1);
} free_directories SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__type(value, __u32);
	__uint(max_entries, 1);
} free_rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct lost);
	__uint(max_entries, 1);
} losses SEC(".maps");

/* The `max_rate` second: when it began, and how many sends were recorded in it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64[2]);
	__uint(max_entries, 1);
} rate SEC(".maps");

static __always_inline struct lost *lost(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&losses, &zero);
}

/* Atomic: softirq may interrupt a task on the same CPU between the read and the write of a plain increment. */
#define COUNT_BY(field, by)                                     \
	do {                                                    \
		struct lost *l_ = lost();                       \
		if (l_)                                         \
			__sync_fetch_and_add(&l_->field, (by)); \
	} while (0)
#define COUNT(field) COUNT_BY(field, 1)

static __always_inline struct row *row_at(__u32 number)
{
	return bpf_map_lookup_elem(&rows, &number);
}

/* The row of the connection that a packet of this socket belongs to; NULL where none is followed. */
static __always_inline struct row *row_of_packet(struct sock *sk, __u32 *number)
{
	struct socket_info *info;

	if (!sk || !full_socket(sk->__sk_common.skc_state) || sk->sk_protocol != IPPROTO_TCP)
		return NULL;
	info = bpf_sk_storage_get(&sockets, sk, NULL, 0);
	if (!info)
		return NULL;
	*number = info->row;
	return row_at(*number);
}

/* Where a directory has the chunk of a counter; NULL where there is no such directory. */
static __always_inline __u32 *chunk_in(__u32 directory, __u32 counter)
{
	__u32 place = (directory - 1) * (config.slots / CHUNK) + (counter & (config.slots - 1)) / CHUNK, pair = place / 2;
	__u32 *chunks = bpf_map_lookup_elem(&places, &pair);

	if (!chunks)
		return NULL;
	/* Else the address is computed before it is known not to be NULL, which the verifier refuses. */
	barrier_var(chunks);
	return chunks + (place & 1);
}

/* Where a row without a directory has it. */
static __always_inline __u32 *near_at(struct row *row, __u32 counter)
{
	/* As above. */
	barrier_var(row);
	return &row->near[counter / CHUNK & 1];
}

/* Where the chunk of a counter stands. */
static __always_inline __u32 *chunk_at(struct row *row, __u32 counter)
{
	if (row->directory)
		return chunk_in(row->directory, counter);
	return near_at(row, counter);
}

/* The slot of a counter; NULL where its place has no chunk. */
static __always_inline struct slot *slot_at(struct row *row, __u32 counter)
{
	__u32 *chunk = chunk_at(row, counter), number;

	if (!chunk)
		return NULL;
	/* Chunk 0 is none, and its slots are beyond the array. */
	number = (*chunk - 1) * CHUNK + counter % CHUNK;
	return bpf_map_lookup_elem(&slots, &number);
}

/* How many counters from the beginning of the place of the oldest send up to `counter`. */
static __always_inline __u32 reach(const struct row *row, __u32 counter)
{
	return counter - (row->head & ~(CHUNK - 1));
}

/* A number that was never taken, of `most`; 0 where there is none. */
static __always_inline __u32 fresh(enum pool_of which, __u32 most)
{
	struct pool *of = &pools.of[which];
	__u32 number;

	if (of->fresh >= most)
		return 0;
	number = __sync_fetch_and_add(&of->fresh, 1) + 1;
	/* Other CPUs may have taken the last ones meanwhile. */
	return number > most ? 0 : number;
}

/* Gives a row a directory; 0 where there is none left. */
static __always_inline int directory_take(struct row *row)
{
	__u32 head = row->head, number, *first, *second;

	if (bpf_map_pop_elem(&free_directories, &number)) {
		number = fresh(POOL_DIRECTORIES, config.directories);
		if (!number)
			return 0;
	}
	first = chunk_in(number, head);
	second = chunk_in(number, head + CHUNK);
	if (!first || !second)
		return 0;
	*first = *near_at(row, head);
	*second = *near_at(row, head + CHUNK);
	barrier();
	row->directory = number;
	row->near[0] = 0;
	row->near[1] = 0;
	return 1;
}

/* Sees to it that the place of the next send has a chunk; 0 where there is none left. */
__noinline int chunk_take(__u32 row_number)
{
	struct row *row = row_at(row_number);
	__u32 *chunk, number;

	if (!row)
		return 0;
	if (!row->directory && reach(row, row->tail) >= 2 * CHUNK && !directory_take(row))
		return 0;
	chunk = chunk_at(row, row->tail);
	if (!chunk)
		return 0;
	if (*chunk)
		return 1;
	if (bpf_map_pop_elem(&free_chunks, &number)) {
		number = fresh(POOL_CHUNKS, config.chunks);
		if (!number)
			return 0;
	}
	__sync_fetch_and_add(&pools.of[POOL_CHUNKS].taken, 1);
	*chunk = number;
	row->places++;
	return 1;
}

/* The slot of the next send; NULL where there is none left. */
static __always_inline struct slot *slot_next(struct row *row, __u32 number)
{
	struct slot *slot;

	if (row->directory || reach(row, row->tail) < 2 * CHUNK) {
		slot = slot_at(row, row->tail);
		if (slot)
			return slot;
	}
	return chunk_take(number) ? slot_at(row, row->tail) : NULL;
}

static __always_inline void chunk_give_back(struct row *row, __u32 *chunk)
{
	__u32 number;

	if (!chunk || !*chunk)
		return;
	number = *chunk;
	*chunk = 0;
	row->places--;
	bpf_map_push_elem(&free_chunks, &number, BPF_ANY);
	__sync_fetch_and_sub(&pools.of[POOL_CHUNKS].taken, 1);
}

static long chunk_one(__u32 i, void *context)
{
	__u32 *number = context;
	struct row *row = row_at(*number);

	if (!row || !row->places)
		return 1;
	chunk_give_back(row, chunk_in(row->directory, i * CHUNK));
	return 0;
}

/* Gives back all chunks of a row that has no sends. */
static __always_inline void chunks_give_back(struct row *row, __u32 number)
{
	__u32 directory = row->directory;

	if (directory) {
		bpf_loop(config.slots / CHUNK, chunk_one, &number, 0);
		row->directory = 0;
		bpf_map_push_elem(&free_directories, &directory, BPF_ANY);
		return;
	}
	chunk_give_back(row, near_at(row, 0));
	chunk_give_back(row, near_at(row, CHUNK));
}

/* Whether places are to go without a chunk as soon as no send needs it. */
static __always_inline bool pool_short(void)
{
	return pools.of[POOL_CHUNKS].taken * 2 >= config.chunks;
}

/* The pool is short, and the oldest send of a row has left its slot, the last of its place or of the row. */
__noinline int places_empty(__u32 number)
{
	struct row *row = row_at(number);
	__u32 on_way;

	if (!row)
		return 0;
	on_way = row->tail - row->head;
	if (!on_way)
		chunks_give_back(row, number);
	/* Newer sends may have come into the place before from the other end. */
	else if (!(row->head % CHUNK) && on_way <= (row->directory ? config.slots - CHUNK : CHUNK))
		chunk_give_back(row, chunk_at(row, row->head - 1));
	return 0;
}

/* The first send in [head, tail) with a last byte that is not before `seq`; tail where there is none. */
__noinline __u32 slot_search(__u32 number, __u32 seq)
{
	struct row *row = row_at(number);
	__u32 from, to;

	if (!row)
		return 0;
	from = row->head;
	to = row->tail;
	for (int i = 0; i < 17; i++) {
		__u32 middle;
		struct slot *slot;

		if ((__s32)(to - from) <= 0)
			break;
		middle = from + (to - from) / 2;
		slot = slot_at(row, middle);
		if (!slot)
			break;
		if (before(slot->key, seq))
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

/* The counter of the send with this very key, where `expected` is a guess; row->tail where there is none. */
static __always_inline __u32 slot_find(struct row *row, __u32 number, __u32 key, __u32 expected)
{
	struct slot *slot;
	__u32 at;

	if ((__s32)(expected - row->head) >= 0 && (__s32)(expected - row->tail) < 0) {
		slot = slot_at(row, expected);
		if (slot && slot->key == key)
			return expected;
	}
	at = slot_search(number, key);
	slot = slot_at(row, at);
	if (at != row->tail && slot && slot->key == key)
		return at;
	return row->tail;
}

/* Whether `max_rate` lets one more send be recorded. The count may be off by a few when CPUs meet. */
static __always_inline bool rate_allows(__u64 now)
{
	__u32 zero = 0;
	__u64 *second;

	if (!config.max_rate)
		return true;
	second = bpf_map_lookup_elem(&rate, &zero);
	if (!second)
		return true;
	if (now - second[0] >= 1000000000ull) {
		second[0] = now;
		second[1] = 0;
	}
	return __sync_fetch_and_add(&second[1], 1) < config.max_rate;
}

int series_add(struct row *row, __u32 number, struct slot *slot);

/* Hands on a send of row `number`. */
static __always_inline void record_out(struct row *row, __u32 number, struct slot *slot)
{
	if (slot->record.merged)
		COUNT_BY(merged, slot->record.merged);
	if (config.flags & CONFIG_HISTOGRAMS)
		series_add(row, number, slot);
	if (config.flags & CONFIG_NO_RECORDS)
		return;
	if (bpf_ringbuf_output(&records, &slot->record, sizeof(slot->record), BPF_RB_NO_WAKEUP))
		COUNT(ring_buffer);
}

/* A stage that gave no stamp was passed after the last packet before that gave one, and before the ACK: bytes keep their order. */
static __always_inline void slot_bound(const struct row *row, struct slot *slot)
{
	__u64 from = slot->record.send, until = slot->record.ack;

	if (!slot->record.sched) {
		if (from < row->sched_last)
			from = row->sched_last;
		if (from >= until || until - from > 0xffffffffu)
			return;
		slot->record.sched = from;
		slot->record.sched_span = until - from;
	}
	from = slot->record.sched;
	if (from < row->driver_last)
		from = row->driver_last;
	if (from >= until || until - from > 0xffffffffu)
		return;
	slot->record.driver = from;
	slot->record.driver_span = until - from;
}

/* Hands on the oldest send. */
static __always_inline void slot_pop(struct row *row, __u32 number, struct slot *slot)
{
	if (!slot->record.driver)
		slot_bound(row, slot);
	if (!slot->record.sched)
		COUNT(no_sched);
	if (!slot->record.driver)
		COUNT(no_driver);
	record_out(row, number, slot);
	row->popped_key = slot->key;
	row->popped = 1;
	row->head++;
	if (pool_short() && (!(row->head % CHUNK) || row->head == row->tail))
		places_empty(number);
}

/* The ACK stamp of `key`: everything up to it is acknowledged. The sends before it that are still here were acknowledged by no ACK
 * that gave a round-trip sample (slots_acked_before() has taken those), so by this very one, unless ACKs of retransmitted
 * packets came in between, which give none. */
static __always_inline void slots_acked(struct row *row, __u32 number, __u32 key, __u64 now)
{
	for (int i = 0; i < 16; i++) {
		struct slot *slot;

		if (row->head == row->tail)
			break;
		slot = slot_at(row, row->head);
		if (!slot || before(key, slot->key))
			break;
		if (slot->key == key || !slot->record.retransmissions)
			slot->record.ack = now;
		else
			COUNT(no_ack);
		slot_pop(row, number, slot);
	}
}

/* The oldest send of a row, and the row; NULL where there is none. */
static __always_inline struct slot *slot_oldest(__u32 number, struct row **row)
{
	*row = row_at(number);
	if (!*row || (*row)->head == (*row)->tail)
		return NULL;
	return slot_at(*row, (*row)->head);
}

struct acked {
	__u32 number;
	__u32 end;
	__u64 now;
};

static long acked_one(__u32 i, void *context)
{
	struct acked *acked = context;
	struct row *row;
	struct slot *slot = slot_oldest(acked->number, &row);

	if (!row || !slot || !before(slot->key, acked->end))
		return 1;
	slot->record.ack = acked->now;
	slot_pop(row, acked->number, slot);
	return 0;
}

/* Everything before `end` is acknowledged, by an ACK that has just come. */
static __always_inline void slots_acked_before(struct row *row, __u32 number, __u32 end, __u64 now)
{
	struct acked acked = { .number = number, .end = end, .now = now };
	struct slot *oldest;

	if (row->head == row->tail)
		return;
	/* The ACK's stamps have mostly left nothing: no call for that. */
	oldest = slot_at(row, row->head);
	if (oldest && before(oldest->key, end))
		bpf_loop(config.slots, acked_one, &acked, 0);
}

/* The last send was cut short (the send buffer was full and the socket does not block): it ends at `write_seq`. */
static __always_inline void slot_trim(struct row *row, __u32 number, __u32 write_seq)
{
	struct slot *slot;

	if (row->head == row->tail || before(row->last_key, write_seq))
		return;
	slot = slot_at(row, row->tail - 1);
	if (!slot)
		return;
	if (!before(slot->record.first_seq, write_seq)) {
		/* Not a byte of it was taken: there was no send. */
		row->full += slot->record.full;
		row->tail--;
		slot = slot_at(row, row->tail - 1);
		if (slot)
			row->last_key = slot->key;
		return;
	}
	slot->record.bytes = write_seq - slot->record.first_seq;
	slot->key = write_seq - 1;
	row->last_key = slot->key;
}

struct flush {
	__u32 number;
	__u32 finishing;
};

static long flush_one(__u32 i, void *context)
{
	struct flush *flush = context;
	struct row *row;
	struct slot *slot = slot_oldest(flush->number, &row);

	if (!row || !slot)
		return 1;
	if (flush->finishing)
		COUNT(unfinished);
	else
		COUNT(closed_unacked);
	record_out(row, flush->number, slot);
	row->head++;
	return 0;
}

/* Gives up what is still on its way: the connection has ended, or tracing has. */
static __always_inline void slots_flush(__u32 number, bool finishing)
{
	struct flush flush = { .number = number, .finishing = finishing };

	bpf_loop(config.slots, flush_one, &flush, 0);
}

/* Sequence numbers that were sent and are no bytes: those of SYN and FIN. */
static __always_inline __u8 no_bytes(const struct tcp_sock *tp)
{
	return tp->bytes_acked + (__u32)(tp->snd_nxt - tp->snd_una) - (tp->bytes_sent - tp->bytes_retrans);
}

/* Whether a FIN has taken a sequence number. Its change of state says so before it does, unless a program of others took that callback
 * away. Of a closed socket it is then known by what was sent: a FIN that still waited behind other bytes is not. */
static __always_inline bool fin_taken(const struct row *row, const struct tcp_sock *tp)
{
	switch (sock_of(tp)->__sk_common.skc_state) {
	case TCP_FIN_WAIT1:
	case TCP_FIN_WAIT2:
	case TCP_CLOSING:
	case TCP_LAST_ACK:
		return true;
	case TCP_CLOSE:
		return (__u8)(no_bytes(tp) - row->no_bytes) == 1;
	}
	return false;
}

/* Bytes the application has written since the connection began. */
static __always_inline __u64 written(const struct row *row, const struct tcp_sock *tp)
{
	return tp->bytes_acked + (__u32)(tp->write_seq - tp->snd_una) - fin_taken(row, tp);
}

static __always_inline void totals_arm(struct row *row, const struct tcp_sock *tp, __u64 now)
{
	if (row->armed_since)
		return;
	row->armed_since = now;
	row->armed_position = written(row, tp);
}

/* `position` is what had been written by then. */
static __always_inline void totals_disarm_at(struct row *row, __u64 position, __u64 now)
{
	if (!row->armed_since)
		return;
	if (now > row->armed_since)
		row->totals.armed += now - row->armed_since;
	row->totals.bytes_armed += position - row->armed_position;
	row->armed_since = 0;
}

static __always_inline void totals_disarm(struct row *row, const struct tcp_sock *tp, __u64 now)
{
	totals_disarm_at(row, written(row, tp), now);
}

/* Brings row->totals up to now. */
static __always_inline void totals_update(struct row *row, const struct tcp_sock *tp, __u64 now)
{
	row->totals.followed = now - row->followed_since;
	row->totals.bytes_acked = tp->bytes_acked - row->acked;
	row->totals.retransmitted = tp->total_retrans - row->retransmitted;
	if (row->frozen)
		return;
	row->totals.bytes_written = written(row, tp) - row->position;
	if (row->armed_since) {
		totals_disarm(row, tp, now);
		if (!row->window_end)
			totals_arm(row, tp, now);
	}
}

/* Takes a row for a socket, or counts that there is none. */
static __always_inline struct row *row_take(struct socket_info *info, const struct tcp_sock *tp, __u64 cookie,
					    __u32 opening, __u64 now)
{
	struct row *row;
	__u32 number;

	if (bpf_map_pop_elem(&free_rows, &number)) {
		number = fresh(POOL_ROWS, config.rows);
		if (!number) {
			COUNT(connections_full);
			return NULL;
		}
		number--;
	}
	row = row_at(number);
	if (!row)
		return NULL;
	__builtin_memset(row, 0, sizeof(*row));
	row->cookie = cookie;
	row->opening = opening;
	row->write_seq = tp->write_seq;
	row->first_seq = tp->write_seq;
	row->followed_since = now;
	row->since = now;
	row->no_bytes = no_bytes(tp);
	row->position = written(row, tp);
	row->acked = tp->bytes_acked;
	row->retransmitted = tp->total_retrans;
	info->row = number;
	return row;
}

/* Says goodbye to a connection and gives its row back. */
static __always_inline void row_release(struct socket_info *info, struct row *row, const struct tcp_sock *tp, __u64 now,
					bool finishing)
{
	struct closed_record closed = { .kind = RECORD_CLOSED, .cookie = row->cookie };
	__u32 number = info->row;

	slots_flush(number, finishing);
	totals_update(row, tp, now);
	closed.totals = row->totals;
	if (row->used && ((config.flags & CONFIG_NO_RECORDS) || !row->announced ||
			  bpf_ringbuf_output(&records, &closed, sizeof(closed), BPF_RB_NO_WAKEUP))) {
		if (!(config.flags & CONFIG_NO_RECORDS))
			COUNT(connection_records);
		COUNT_BY(followed, closed.totals.followed);
		COUNT_BY(armed, closed.totals.armed);
		COUNT_BY(bytes_written, closed.totals.bytes_written);
		COUNT_BY(bytes_armed, closed.totals.bytes_armed);
	}
	info->row = NO_ROW;
	row->cookie = 0;
	chunks_give_back(row, number);
	bpf_map_push_elem(&free_rows, &number, BPF_ANY);
}
SHARED(struct row);
