/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The sends of a queue: their slots, taken from the pool and given back, and how they are found,
 * acknowledged and handed on. */
#pragma once
#include "arena.h"
#include "../histograms/histograms.h"

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

	/* On older kernels user space puts all of them into the lists. */
	if (OLDER || of->fresh >= most)
		return 0;
	number = FETCH_AND_ADD(&of->fresh, 1) + 1;
	/* Other CPUs may have taken the last ones meanwhile. */
	return number > most ? 0 : number;
}

/* A number from a list of those that were given back, else one that was never taken; 0 where there
 * is neither. */
static __always_inline __u32 number_take(void *free, enum pool_of which, __u32 most)
{
	__u32 number;

	return bpf_map_pop_elem(free, &number) ? fresh(which, most) : number;
}

/* A directory, all of whose numbers are 0; 0 where there is none left. */
static __always_inline __u32 directory_take(void)
{
	__u32 number = number_take(&free_directories, POOL_DIRECTORIES, config.directories);

	if (number)
		__sync_fetch_and_add(&pools.of[POOL_DIRECTORIES].taken, 1);
	return number;
}

/* Gives the number at `where` back to the list of its pool, if there is one. */
static __always_inline void number_give_back(__u32 *where, void *free, enum pool_of which)
{
	__u32 number;

	if (!where || !*where)
		return;
	number = *where;
	*where = 0;
	bpf_map_push_elem(free, &number, BPF_ANY);
	__sync_fetch_and_sub(&pools.of[which].taken, 1);
}

static __always_inline void directory_give_back(__u32 *where)
{
	number_give_back(where, &free_directories, POOL_DIRECTORIES);
}

/* Sees to it that a counter has a directory for its place; 0 where there is none left. */
static __always_inline int leaf_take(__u32 directory, __u32 counter)
{
	__u32 *leaf = leaf_in(directory, counter);

	if (!leaf)
		return 0;
	if (!*leaf)
		*leaf = directory_take();
	return *leaf != 0;
}

/* Gives a queue a directory; 0 where there are too few left. */
static __always_inline int root_take(struct queue *queue)
{
	__u32 head = queue->head, root = directory_take();
	__u32 *first, *second;

	if (!root)
		return 0;
	if (leaf_take(root, head) && leaf_take(root, head + CHUNK)) {
		first = chunk_in(root, head);
		second = chunk_in(root, head + CHUNK);
		if (first && second) {
			*first = *near_at(queue, head);
			*second = *near_at(queue, head + CHUNK);
			barrier();
			queue->directory = root;
			queue->near[0] = 0;
			queue->near[1] = 0;
			return 1;
		}
	}
	directory_give_back(leaf_in(root, head));
	directory_give_back(&root);
	return 0;
}

/* Sees to it that the place of the next send has a chunk; 0 where there is none left. */
__noinline int chunk_take(__u32 of)
{
	struct queue *queue = queue_at(of);
	__u32 *chunk, number;

	if (!queue)
		return 0;
	if (!queue->directory && reach(queue, queue->tail) >= 2 * CHUNK && !root_take(queue))
		return 0;
	if (queue->directory && !leaf_take(queue->directory, queue->tail))
		return 0;
	chunk = chunk_at(queue, queue->tail);
	if (!chunk)
		return 0;
	if (*chunk)
		return 1;
	number = queue->spare;
	if (number) {
		queue->spare = 0;
	} else {
		number = number_take(&free_chunks, POOL_CHUNKS, config.chunks);
		if (!number)
			return 0;
		__sync_fetch_and_add(&pools.of[POOL_CHUNKS].taken, 1);
	}
	*chunk = number;
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

static __always_inline void chunk_give_back(__u32 *chunk)
{
	number_give_back(chunk, &free_chunks, POOL_CHUNKS);
}

/* Gives back all chunks of a queue that has no sends. */
static __always_inline void chunks_give_back(struct queue *queue)
{
	__u32 head = queue->head, directory = queue->directory;

	if (!directory) {
		chunk_give_back(near_at(queue, 0));
		chunk_give_back(near_at(queue, CHUNK));
		return;
	}
	/* What is behind the oldest send has gone back. */
	chunk_give_back(chunk_in(directory, head));
	chunk_give_back(&queue->spare);
	directory_give_back(leaf_in(directory, head));
	directory_give_back(&queue->directory);
}

/* Whether queues are to keep nothing that no send needs. */
static __always_inline bool pool_short(void)
{
	return pools.of[POOL_CHUNKS].taken * 2 >= config.chunks ||
	       pools.of[POOL_DIRECTORIES].taken * 2 >= config.directories;
}

/* The oldest send of a queue has left its slot, the last of its place or of all. */
__noinline int places_empty(__u32 number)
{
	struct queue *queue = queue_at(number);
	__u32 on_way, *chunk;

	if (!queue)
		return 0;
	on_way = queue->tail - queue->head;
	if (!on_way && pool_short()) {
		chunks_give_back(queue);
		return 0;
	}
	if (queue->head % CHUNK)
		return 0;
	/* Newer sends may have come into the place before from the other end. */
	if (on_way > (queue->directory ? RING_SLOTS - CHUNK : CHUNK))
		return 0;
	if (!queue->directory) {
		chunk_give_back(near_at(queue, queue->head - 1));
		return 0;
	}
	chunk = chunk_in(queue->directory, queue->head - 1);
	if (chunk && !queue->spare) {
		queue->spare = *chunk;
		*chunk = 0;
	} else {
		chunk_give_back(chunk);
	}
	if (!(queue->head % (CHUNK * PLACES)) && on_way <= RING_SLOTS - CHUNK * PLACES)
		directory_give_back(leaf_in(queue->directory, queue->head - 1));
	return 0;
}

/* The oldest send of a queue has left its slot. */
static __always_inline void slot_left(struct queue *queue, __u32 number)
{
	bool place_left = !(queue->head % CHUNK);

	if ((place_left && queue->directory) || ((place_left || queue->head == queue->tail) && pool_short()))
		places_empty(number);
}

/* The first send in [head, tail) with a last byte that is not before `seq`; tail where there is
 * none. */
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

/* The counter of the send with this very key, where `expected` is a guess; queue->tail where there
 * is none. */
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

/* Whether `max_rate` lets one more send be recorded. The count may be off by a few when CPUs meet.
 */
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
	return FETCH_AND_ADD(&second[1], 1) < config.max_rate;
}

/* Bytes that were written while the connection was looked at are in no record. */
static __always_inline void coverage_less(struct queue *queue, __u32 bytes)
{
	struct row *row = row_at(queue->row);

	if (queue->armed_since)
		queue->armed_position += bytes;
	else if (row)
		row->bytes_armed -= bytes;
}

/* Hands on a send of a queue. */
static __always_inline void record_out(struct queue *queue, struct slot *slot)
{
	if (config.flags & CONFIG_HISTOGRAMS) {
		__u32 number = queue->row;
		struct row *row = row_at(number);

		if (row)
			series_add(row, number, slot);
	}
	if (config.flags & CONFIG_NO_RECORDS)
		return;
	if (bpf_ringbuf_output(&records, &slot->record, sizeof(slot->record), BPF_RB_NO_WAKEUP)) {
		COUNT(ring_buffer);
		coverage_less(queue, slot->record.bytes);
	}
}

/* A send has gone to the driver by `until`, in a packet that gave no stamp there: after it was in
 * the qdisc, and after the last packet before that gave one. Bytes keep their order. */
static __always_inline void driver_bound(const struct queue *queue, struct slot *slot, __u64 until)
{
	__u64 from = slot->record.sched;

	if (from < queue->driver_last)
		from = queue->driver_last;
	if (from >= until || until - from > 0xffffffffu)
		return;
	slot->record.driver = from;
	slot->record.driver_span = until - from;
}

/* The same of both stages, by the ACK. */
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
	driver_bound(queue, slot, until);
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
	slot_left(queue, number);
}

/* The oldest send of a queue, and the queue; NULL where there is none. */
static __always_inline struct slot *slot_oldest(__u32 number, struct queue **queue)
{
	*queue = queue_at(number);
	if (!*queue || (*queue)->head == (*queue)->tail)
		return NULL;
	return slot_at(*queue, (*queue)->head);
}

/* Whether nothing of the connection waits for an ACK of `bytes` bytes: no byte that was written is
 * still to be sent, there is room in the send buffer, and a peer that sends an ACK for every second
 * packet owed none. */
static __always_inline bool acked_alone(const struct queue *queue, const struct tcp_sock *tp, __u32 bytes)
{
	return bytes <= tp->mss_cache && !before(tp->snd_nxt, queue->write_seq) && !queue->full_since;
}

struct acked {
	__u32 number;
	__u32 end;
	__u64 now;
	__u64 from; /* bytes beyond `begin` were not acknowledged by then; 0: not before `now` */
	__u32 begin;
	__u32 stamped; /* the send with this key was not before `now` in any case */
	__u32 any_stamped; /* whether there is one */
	__u32 alone; /* as in a send's record, if that is late */
};

/* The ACK of a send was one of several that were not seen themselves. They come as fast as the
 * path carries the bytes. */
static __always_inline void ack_between(struct slot *slot, const struct acked *acked)
{
	__u32 all = acked->end - acked->begin, part = slot->key + 1 - acked->begin;
	__u64 least = slot->record.send, at, until = acked->now, span = until - acked->from;

	if (acked->from >= until || span >> 40 || !all || part > all)
		return;
	at = acked->from + ((span >> 8) * part / all << 8);
	if (least < slot->record.sched)
		least = slot->record.sched;
	if (least < slot->record.driver)
		least = slot->record.driver;
	if (least < acked->from)
		least = acked->from;
	if (at < least)
		at = least;
	if (at > until)
		return;
	span = at - least > until - at ? at - least : until - at;
	slot->record.ack = at;
	slot->record.ack_span = span < 0xffffffff ? span : 0xffffffff;
}

static long acked_one(__u32 i, void *context)
{
	struct acked *acked = context;
	struct queue *queue;
	struct slot *slot = slot_oldest(acked->number, &queue);

	if (!queue || !slot || !before(slot->key, acked->end))
		return 1;
	slot->record.ack = acked->now;
	slot->record.alone = acked->alone && acked->now - slot->record.send >= LATE_NS;
	if (acked->from && !(acked->any_stamped && slot->key == acked->stamped))
		ack_between(slot, acked);
	slot_pop(queue, acked->number, slot);
	return 0;
}

#if OLDER
__noinline int acked_next(__u32 number, __u32 end, __u32 alone, __u64 now)
{
	struct acked acked = { .number = number, .end = end, .alone = alone, .now = now };

	return acked_one(0, &acked);
}
#endif

static __always_inline void slots_acked(struct queue *queue, struct acked *acked)
{
	struct slot *oldest;

	if (queue->head == queue->tail)
		return;
	/* What came before has mostly left nothing: no call for that. */
	oldest = slot_at(queue, queue->head);
	if (oldest && before(oldest->key, acked->end))
		EACH(config.slots, acked_one, acked, acked_next(acked->number, acked->end, acked->alone, acked->now));
}

/* Everything before `end` is acknowledged, by an ACK that has just come. */
static __always_inline void slots_acked_before(struct queue *queue, __u32 number, __u32 end, bool alone, __u64 now)
{
	struct acked acked = { .number = number, .end = end, .alone = alone, .now = now };

	slots_acked(queue, &acked);
}

/* What has been acknowledged by `now`, where the kernel does not call back for each ACK. The last
 * ACK came at `at`. Where it is the only segment since the last look, it was this one. `key`: that
 * of the ACK stamp, or NULL. */
static __always_inline void acks_look(struct queue *queue, __u32 number, const struct tcp_sock *tp, const __u32 *key, __u64 at,
				      __u64 now)
{
	__u32 segments = tp->segs_in, data = tp->data_segs_in;
	struct acked acked = { .number = number, .end = tp->snd_una, .now = at };

	if (segments - queue->looked_segments > 1) {
		acked.from = queue->looked;
		acked.begin = queue->looked_una;
	}
	if (key) {
		acked.stamped = *key;
		acked.any_stamped = 1;
	}
	if (segments - queue->looked_segments == 1 && data == queue->looked_data)
		acked.alone = acked_alone(queue, tp, acked.end - queue->looked_una);
	slots_acked(queue, &acked);
	queue->looked_segments = segments;
	queue->looked_data = data;
	queue->looked_una = acked.end;
	queue->looked = now;
}

/* The last send was cut short (the send buffer was full and the socket does not block): it ends at
 * `write_seq`. */
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
		if (slot->record.full) {
			queue->full += slot->record.full;
			for (int i = 0; i < CLOCKS; i++)
				queue->full_clocks[i] += slot->record.full_waits[i];
		}
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
