/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The arena: one row a followed connection. One that is looked at has a queue beside it, with the sends that are on their way, in order of
 * sequence number. Where sampling is on few have one at a time: queues come from a pool, as slots do.
 *
 * Sends enter a queue at `tail` when they are made and leave at `head` when they are acknowledged, so the ACK finds
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
	__u32 epoch; /* the queue's, when the send was made */
	__u32 clocks[REASONS];
	__u32 changes; /* the queue's, when `clocks` was copied */
	struct send_record record;
};
SHARED(struct slot);

struct row {
	/* Between the stretches of a sample each ACK looks at these alone: they lie together. */
	__u64 cookie; /* 0: free */
	__u64 stretch; /* when the stretch of sampling began: following.h */
	__u8 opening;
	__u8 callbacks; /* sockops callbacks the socket had when it was followed, of those that are asked for */
	__u8 window_end; /* 0: it is looked at, or WINDOW_CLOSED */
	__u8 frozen; /* totals are final: a FIN has taken a sequence number */
	__u8 armed_now; /* the kernel calls back for the socket, though its window may be over */
	__u8 no_bytes; /* what no_bytes() gave when followed */
	__u8 announced; /* announce.h */
	__u8 used; /* a process of the target has opened or used it, or processes are no criterion */
	__u64 followed_since;
	__u64 position; /* bytes written since the connection began, when followed */
	/* Totals. The two of what was looked at are without the stretch that is looked at now. */
	__u64 followed;
	__u64 armed;
	__u64 bytes_written;
	__u64 bytes_armed;
	/* The first bytes that were written, and that came: connects.h */
	__u64 first_out;
	__u64 first_in;
	__u32 first_seq;
	__u32 every; /* stretches in a block */
	__u32 left; /* of them, those still to come */
	__u32 pick; /* the one that is looked at */
	__u32 queue; /* 0: none */
	__u32 dropped; /* segments, since the series was counted: histograms/drops.h */
};
SHARED(struct row);

#define WINDOW_CLOSED 1

/* What is kept of a connection from the beginning of a stretch that is looked at until its last send has been acknowledged. */
struct queue {
	__u32 row; /* the connection's; NO_ROW: not used */
	__u32 head;
	__u32 tail;
	__u32 sched_next;
	__u32 driver_next;
	__u32 write_seq; /* at the last SENDMSG, or when armed; by tracepoints where the bytes of the last call end that was seen */
	__u32 last_key; /* key of slot tail-1, valid while head != tail */
	__u32 popped_key; /* the last that was acknowledged */
	__u16 popped; /* whether any was */
	__u16 places; /* that have a chunk */
	__u32 near[2]; /* chunks of the places with even and with odd number, while there is no directory */
	__u32 directory; /* 0: none */
	/* what holds back the head of the write queue */
	__u64 since;
	__u64 paced_until;
	__u32 clocks[REASONS];
	__u32 blocked;
	__u32 behind; /* what holds it from `paced_until` on, where pacing does until then; else as `blocked` */
	__u32 changes; /* how often `blocked` was decided afresh */
	__u32 epoch; /* grows with everything that happens outside a send call */
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
	__u64 armed_since; /* 0: not looked at now */
	__u64 armed_position;
	/* The last tagged packet of new data: when it went to the qdisc, and to the driver. */
	__u64 sched_last;
	__u64 driver_last;
};
SHARED(struct queue);

/* Slots come from a pool that all queues share, in chunks of CHUNK. A queue's ring of counters is cut into as many places. Sends that are on
 * their way lie in one or two of them at most connections: these have the numbers of their chunks in the queue itself. Where they reach
 * into a third, the queue takes a directory, which has the number of a chunk, or 0, for each of its places. A place gets a chunk when a
 * send begins there. It keeps it while less than half of the pool is taken, so that a busy one needs no chunk but its first ones; else
 * it goes back once no send of the place is on its way. All of this is written while the socket is locked. */
enum chunk { CHUNK = 4 };
SHARED(enum chunk);

enum pool_of { POOL_CHUNKS = 0, POOL_DIRECTORIES = 1, POOL_ROWS = 2, POOL_QUEUES = 3, POOLS };
SHARED(enum pool_of);

struct pool {
	__u64 taken; /* of chunks: that queues have; of the others, those in use are not counted */
	__u64 fresh; /* that were ever taken: numbers above that are in no use, nor in a list of free ones */
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
	__type(value, struct queue);
	__uint(max_entries, 1);
} queues SEC(".maps");

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
	__uint(type, BPF_MAP_TYPE_STACK);
	__type(value, __u32);
	__uint(max_entries, 1);
} free_queues SEC(".maps");

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

static __always_inline struct queue *queue_at(__u32 number)
{
	return bpf_map_lookup_elem(&queues, &number);
}

/* The queue of row `of`, and its number; NULL where it has none. On the way to the driver the socket is not locked: meanwhile it may become
 * that of another. */
static __always_inline struct queue *queue_of(const struct row *row, __u32 of, __u32 *number)
{
	struct queue *queue;

	*number = row->queue - 1;
	queue = queue_at(*number);
	return queue && queue->row == of ? queue : NULL;
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

/* Where a queue without a directory has it. */
static __always_inline __u32 *near_at(struct queue *queue, __u32 counter)
{
	/* As above. */
	barrier_var(queue);
	return &queue->near[counter / CHUNK & 1];
}

/* Where the chunk of a counter stands. */
static __always_inline __u32 *chunk_at(struct queue *queue, __u32 counter)
{
	if (queue->directory)
		return chunk_in(queue->directory, counter);
	return near_at(queue, counter);
}

/* The slot of a counter; NULL where its place has no chunk. */
static __always_inline struct slot *slot_at(struct queue *queue, __u32 counter)
{
	__u32 *chunk = chunk_at(queue, counter), number;

	if (!chunk)
		return NULL;
	/* Chunk 0 is none, and its slots are beyond the array. */
	number = (*chunk - 1) * CHUNK + counter % CHUNK;
	return bpf_map_lookup_elem(&slots, &number);
}

/* How many counters from the beginning of the place of the oldest send up to `counter`. */
static __always_inline __u32 reach(const struct queue *queue, __u32 counter)
{
	return counter - (queue->head & ~(CHUNK - 1));
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

/* A number from a list of those that were given back, else one that was never taken; 0 where there is neither. */
static __always_inline __u32 number_take(void *free, enum pool_of which, __u32 most)
{
	__u32 number;

	return bpf_map_pop_elem(free, &number) ? fresh(which, most) : number;
}

/* Gives a queue a directory; 0 where there is none left. */
static __always_inline int directory_take(struct queue *queue)
{
	__u32 head = queue->head, number = number_take(&free_directories, POOL_DIRECTORIES, config.directories);
	__u32 *first, *second;

	if (!number)
		return 0;
	first = chunk_in(number, head);
	second = chunk_in(number, head + CHUNK);
	if (!first || !second)
		return 0;
	*first = *near_at(queue, head);
	*second = *near_at(queue, head + CHUNK);
	barrier();
	queue->directory = number;
	queue->near[0] = 0;
	queue->near[1] = 0;
	return 1;
}

/* Sees to it that the place of the next send has a chunk; 0 where there is none left. */
__noinline int chunk_take(__u32 of)
{
	struct queue *queue = queue_at(of);
	__u32 *chunk, number;

	if (!queue)
		return 0;
	if (!queue->directory && reach(queue, queue->tail) >= 2 * CHUNK && !directory_take(queue))
		return 0;
	chunk = chunk_at(queue, queue->tail);
	if (!chunk)
		return 0;
	if (*chunk)
		return 1;
	number = number_take(&free_chunks, POOL_CHUNKS, config.chunks);
	if (!number)
		return 0;
	__sync_fetch_and_add(&pools.of[POOL_CHUNKS].taken, 1);
	*chunk = number;
	queue->places++;
	return 1;
}

/* The slot of the next send; NULL where there is none left. */
static __always_inline struct slot *slot_next(struct queue *queue, __u32 number)
{
	struct slot *slot;

	if (queue->directory || reach(queue, queue->tail) < 2 * CHUNK) {
		slot = slot_at(queue, queue->tail);
		if (slot)
			return slot;
	}
	return chunk_take(number) ? slot_at(queue, queue->tail) : NULL;
}

static __always_inline void chunk_give_back(struct queue *queue, __u32 *chunk)
{
	__u32 number;

	if (!chunk || !*chunk)
		return;
	number = *chunk;
	*chunk = 0;
	queue->places--;
	bpf_map_push_elem(&free_chunks, &number, BPF_ANY);
	__sync_fetch_and_sub(&pools.of[POOL_CHUNKS].taken, 1);
}

static long chunk_one(__u32 i, void *context)
{
	__u32 *number = context;
	struct queue *queue = queue_at(*number);

	if (!queue || !queue->places)
		return 1;
	chunk_give_back(queue, chunk_in(queue->directory, i * CHUNK));
	return 0;
}

/* Gives back all chunks of a queue that has no sends. */
static __always_inline void chunks_give_back(struct queue *queue, __u32 number)
{
	__u32 directory = queue->directory;

	if (directory) {
		bpf_loop(config.slots / CHUNK, chunk_one, &number, 0);
		queue->directory = 0;
		bpf_map_push_elem(&free_directories, &directory, BPF_ANY);
		return;
	}
	chunk_give_back(queue, near_at(queue, 0));
	chunk_give_back(queue, near_at(queue, CHUNK));
}

/* Whether places are to go without a chunk as soon as no send needs it. */
static __always_inline bool pool_short(void)
{
	return pools.of[POOL_CHUNKS].taken * 2 >= config.chunks;
}

/* The pool is short, and the oldest send of a queue has left its slot, the last of its place or of all. */
__noinline int places_empty(__u32 number)
{
	struct queue *queue = queue_at(number);
	__u32 on_way;

	if (!queue)
		return 0;
	on_way = queue->tail - queue->head;
	if (!on_way)
		chunks_give_back(queue, number);
	/* Newer sends may have come into the place before from the other end. */
	else if (!(queue->head % CHUNK) && on_way <= (queue->directory ? config.slots - CHUNK : CHUNK))
		chunk_give_back(queue, chunk_at(queue, queue->head - 1));
	return 0;
}

/* The first send in [head, tail) with a last byte that is not before `seq`; tail where there is none. */
__noinline __u32 slot_search(__u32 number, __u32 seq)
{
	struct queue *queue = queue_at(number);
	__u32 from, to;

	if (!queue)
		return 0;
	from = queue->head;
	to = queue->tail;
	for (int i = 0; i < 17; i++) {
		__u32 middle;
		struct slot *slot;

		if ((__s32)(to - from) <= 0)
			break;
		middle = from + (to - from) / 2;
		slot = slot_at(queue, middle);
		if (!slot)
			break;
		if (before(slot->key, seq))
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

/* The counter of the send with this very key, where `expected` is a guess; queue->tail where there is none. */
static __always_inline __u32 slot_find(struct queue *queue, __u32 number, __u32 key, __u32 expected)
{
	struct slot *slot;
	__u32 at;

	if ((__s32)(expected - queue->head) >= 0 && (__s32)(expected - queue->tail) < 0) {
		slot = slot_at(queue, expected);
		if (slot && slot->key == key)
			return expected;
	}
	at = slot_search(number, key);
	slot = slot_at(queue, at);
	if (at != queue->tail && slot && slot->key == key)
		return at;
	return queue->tail;
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

/* Hands on a send of a queue. */
static __always_inline void record_out(const struct queue *queue, struct slot *slot)
{
	if (slot->record.merged)
		COUNT_BY(merged, slot->record.merged);
	if (config.flags & CONFIG_HISTOGRAMS) {
		__u32 number = queue->row;
		struct row *row = row_at(number);

		if (row)
			series_add(row, number, slot);
	}
	if (config.flags & CONFIG_NO_RECORDS)
		return;
	if (bpf_ringbuf_output(&records, &slot->record, sizeof(slot->record), BPF_RB_NO_WAKEUP))
		COUNT(ring_buffer);
}

/* A stage that gave no stamp was passed after the last packet before that gave one, and before the ACK: bytes keep their order. */
static __always_inline void slot_bound(const struct queue *queue, struct slot *slot)
{
	__u64 from = slot->record.send, until = slot->record.ack;

	if (!slot->record.sched) {
		if (from < queue->sched_last)
			from = queue->sched_last;
		if (from >= until || until - from > 0xffffffffu)
			return;
		slot->record.sched = from;
		slot->record.sched_span = until - from;
	}
	from = slot->record.sched;
	if (from < queue->driver_last)
		from = queue->driver_last;
	if (from >= until || until - from > 0xffffffffu)
		return;
	slot->record.driver = from;
	slot->record.driver_span = until - from;
}

/* Hands on the oldest send. */
static __always_inline void slot_pop(struct queue *queue, __u32 number, struct slot *slot)
{
	if (!slot->record.driver)
		slot_bound(queue, slot);
	if (!slot->record.sched)
		COUNT(no_sched);
	if (!slot->record.driver)
		COUNT(no_driver);
	record_out(queue, slot);
	queue->popped_key = slot->key;
	queue->popped = 1;
	queue->head++;
	if (pool_short() && (!(queue->head % CHUNK) || queue->head == queue->tail))
		places_empty(number);
}

/* The ACK stamp of `key`: everything up to it is acknowledged. The sends before it that are still here were acknowledged by no ACK
 * that gave a round-trip sample (slots_acked_before() has taken those), so by this very one, unless ACKs of retransmitted
 * packets came in between, which give none. */
static __always_inline void slots_acked(struct queue *queue, __u32 number, __u32 key, __u64 now)
{
	for (int i = 0; i < 16; i++) {
		struct slot *slot;

		if (queue->head == queue->tail)
			break;
		slot = slot_at(queue, queue->head);
		if (!slot || before(key, slot->key))
			break;
		if (slot->key == key || !slot->record.retransmissions)
			slot->record.ack = now;
		else
			COUNT(no_ack);
		slot_pop(queue, number, slot);
	}
}

/* The oldest send of a queue, and the queue; NULL where there is none. */
static __always_inline struct slot *slot_oldest(__u32 number, struct queue **queue)
{
	*queue = queue_at(number);
	if (!*queue || (*queue)->head == (*queue)->tail)
		return NULL;
	return slot_at(*queue, (*queue)->head);
}

struct acked {
	__u32 number;
	__u32 end;
	__u64 now;
};

static long acked_one(__u32 i, void *context)
{
	struct acked *acked = context;
	struct queue *queue;
	struct slot *slot = slot_oldest(acked->number, &queue);

	if (!queue || !slot || !before(slot->key, acked->end))
		return 1;
	slot->record.ack = acked->now;
	slot_pop(queue, acked->number, slot);
	return 0;
}

/* Everything before `end` is acknowledged, by an ACK that has just come. */
static __always_inline void slots_acked_before(struct queue *queue, __u32 number, __u32 end, __u64 now)
{
	struct acked acked = { .number = number, .end = end, .now = now };
	struct slot *oldest;

	if (queue->head == queue->tail)
		return;
	/* The ACK's stamps have mostly left nothing: no call for that. */
	oldest = slot_at(queue, queue->head);
	if (oldest && before(oldest->key, end))
		bpf_loop(config.slots, acked_one, &acked, 0);
}

/* The last send was cut short (the send buffer was full and the socket does not block): it ends at `write_seq`. */
static __always_inline void slot_trim(struct queue *queue, __u32 number, __u32 write_seq)
{
	struct slot *slot;

	if (queue->head == queue->tail || before(queue->last_key, write_seq))
		return;
	slot = slot_at(queue, queue->tail - 1);
	if (!slot)
		return;
	if (!before(slot->record.first_seq, write_seq)) {
		/* Not a byte of it was taken: there was no send. */
		queue->full += slot->record.full;
		queue->tail--;
		slot = slot_at(queue, queue->tail - 1);
		if (slot)
			queue->last_key = slot->key;
		return;
	}
	slot->record.bytes = write_seq - slot->record.first_seq;
	slot->key = write_seq - 1;
	queue->last_key = slot->key;
}

struct flush {
	__u32 number;
	__u32 finishing;
};

static long flush_one(__u32 i, void *context)
{
	struct flush *flush = context;
	struct queue *queue;
	struct slot *slot = slot_oldest(flush->number, &queue);

	if (!queue || !slot)
		return 1;
	if (flush->finishing)
		COUNT(unfinished);
	else
		COUNT(closed_unacked);
	record_out(queue, slot);
	queue->head++;
	return 0;
}

/* Gives up what is still on its way: the connection has ended, or tracing has. */
static __always_inline void slots_flush(__u32 number, bool finishing)
{
	struct flush flush = { .number = number, .finishing = finishing };

	bpf_loop(config.slots, flush_one, &flush, 0);
}
