/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The arena: one row a followed connection. One that is looked at has a queue beside it, with the
 * sends that are on their way, in order of sequence number. Where sampling is on few have one at a
 * time: queues come from a pool, as slots do.
 *
 * Sends enter a queue at `tail` when they are made and leave at `head` when they are acknowledged,
 * so the ACK finds its sends without a search. Stages come in order as well, but for
 * retransmissions: `sched_next` and `driver_next` say which send is expected, and a binary search
 * finds it where that is wrong. Counters run freely; the slot is the counter modulo the size.
 *
 * Who writes: SENDMSG, SCHED and ACK run while the socket is locked (by the task or by softirq), so
 * one at a time. SND runs from the qdisc, perhaps on another CPU; it writes only the `driver` and
 * `nic` stamps of a slot after comparing its key. */
#pragma once
#include "packet.h"
#include "settings.h"
#include "sockets.h"
#include "../histograms/shared.h"

struct slot {
	__u32 key; /* sequence number of the last byte: the kernel's tskey */
	__u32 epoch; /* the queue's, when the send was made */
	/* the queue's `down` with the packet of its last byte; 0: not known */
	__u32 down;
	__u32 pad;
	struct send_record record;
};
SHARED(struct slot);

struct row {
	/* Between the stretches of a sample each ACK looks at these alone: they lie together. */
	__u64 cookie; /* 0: free */
	__u64 stretch; /* when the stretch of sampling began: following.h */
	__u8 opening;
	/* sockops callbacks the socket had when it was followed, of those that are asked for */
	__u8 callbacks;
	__u8 window_end; /* 0: it is looked at, or WINDOW_CLOSED */
	__u8 frozen; /* totals are final: a FIN has taken a sequence number */
	__u8 armed_now; /* the kernel calls back for the socket, though its window may be over */
	__u8 no_bytes; /* what no_bytes() gave when followed */
	__u8 announced; /* announce.h */
	/* a process of the target has opened or used it, or processes are no criterion */
	__u8 used;
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

/* What is kept of a connection from the beginning of a stretch that is looked at until its last
 * send has been acknowledged. */
struct queue {
	__u32 row; /* the connection's; NO_ROW: not used */
	__u32 head;
	__u32 tail;
	__u32 sched_next;
	__u32 driver_next;
	/* at the last SENDMSG, or when armed; by tracepoints where the bytes of the last call
	 * end that was seen */
	__u32 write_seq;
	__u32 last_key; /* key of slot tail-1, valid while head != tail */
	__u32 popped_key; /* the last that was acknowledged */
	__u8 popped; /* whether any was */
	__u8 missed; /* by tracepoints: `missed_seq` is still to be taken off the coverage */
	/* untagged.h: packets without a tag are to be looked for; and whether the release of their
	 * memory shows that packets have gone to the driver (RELEASED_…) */
	__u8 untagged;
	__u8 released;
	/* chunks of the places with even and with odd number, while there is no directory */
	__u32 near[2];
	__u32 directory; /* 0: none; else the one that names the others */
	__u32 spare; /* a chunk for the next place, where there is a directory; 0: none */
	/* the sends in the last packet without a tag that TCP handed down; and how long one with a
	 * tag took at most from there to the qdisc, ns */
	__u32 handed_at;
	__u32 handed_until;
	__u32 handed_longest;
	/* what holds back the head of the write queue */
	__u64 since;
	__u64 paced_until;
	__u32 clocks[CLOCKS];
	__u32 blocked;
	/* what holds it from `paced_until` on, where pacing does until then; else as
	 * `blocked` */
	__u32 behind;
	__u32 epoch; /* grows with everything that happens outside a send call */
	/* where the bytes of the last tagged packet of new data ended, at the driver */
	__u32 driver_end;
	__u32 released_next; /* the first send that may not have gone to the driver */
	__u32 down; /* the memory of all packets that were handed down, bytes */
	/* The call that writes now, and what it waits for: buffer.h and calls.h. */
	__u64 call; /* when it began; 0: not known */
	__u32 call_left;
	__u32 call_seq;
	__u64 full; /* ns without room in the send buffer since the last send */
	/* there is none since, and it is counted up to here; 0: there is */
	__u64 full_since;
	__u32 full_clocks[CLOCKS]; /* what held the queue in the time of `full` */
	/* judge.h: the kernel's own clocks when the queue was taken, and since then two of what is
	 * compared with them */
	struct chronos chronos;
	__u32 without_room;
	__u32 not_marked;
	/* the memory of a packet that is being handed down and does not count as below TCP yet */
	__u32 handed_down;
	/* by tracepoints: where the bytes of the last send end that was not recorded */
	__u32 refused;
	__u32 missed_seq; /* likewise, of one that was to be recorded: where it begins */
	__u32 looked_una; /* up to where bytes were acknowledged at the last look (`looked`) */
	__u32 looked_segments; /* how many segments had come by then */
	__u32 looked_data; /* and how many of them with data */
	__u32 call_room; /* what the last round of `call` found (CALL_…) */
	__u64 armed_since; /* 0: not looked at now */
	__u64 armed_position;
	/* The last tagged packet of new data: when it went to the qdisc, and to the driver. */
	__u64 sched_last;
	__u64 driver_last;
	__u64 progress; /* when bytes were last acknowledged */
	/* When the last packet without a tag, and that with one, were handed down; 0: they are in
	 * the qdisc. */
	__u64 handed;
	__u64 handed_tagged;
	__u64 looked; /* when the ACKs were last looked at */
};
SHARED(struct queue);

/* There was room; or there was none, and the call sleeps, or is cut short. */
enum call_room { CALL_HAS_ROOM = 0, CALL_SLEEPS, CALL_ENDS };

enum release { RELEASED_UNTRIED = 0, RELEASED_AT_DRIVER, RELEASED_EARLIER };

/* Slots come from a pool that all queues share, in chunks of CHUNK, so that a queue has as many as
 * it has sends on their way. Its ring of counters is cut into places of a chunk each. Sends that
 * are on their way lie in one or two of them at most connections: these have the numbers of their
 * chunks in the queue itself. Where they reach into a third, the queue takes a directory of PLACES
 * numbers of further directories, each with the numbers of the chunks of PLACES places; 0 is none.
 *
 * A place gets a chunk when a send begins there. Without a directory it keeps it while less than
 * half of the pool is taken, so that a busy one needs no chunk but its first ones. With one, the
 * chunk that the oldest send leaves is kept for the next place, or goes back, and so does the
 * directory of places that are all behind it. All of this is written while the socket is locked. */
enum chunk { CHUNK = 4, PLACES = 128, RING_SLOTS = CHUNK * PLACES * PLACES };
SHARED(enum chunk);

enum pool_of { POOL_CHUNKS = 0, POOL_DIRECTORIES = 1, POOL_ROWS = 2, POOL_QUEUES = 3, POOLS };
SHARED(enum pool_of);

struct pool {
	/* of chunks and directories: that queues have; of the others it is not counted */
	__u64 taken;
	/* that were ever taken: numbers above that are in no use, nor in a list of free ones */
	__u64 fresh;
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

/* The directories: their numbers, two in an entry. */
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

/* Atomic: softirq may interrupt a task on the same CPU between the read and the write of a plain
 * increment. */
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

/* The queue of row `of`, and its number; NULL where it has none. On the way to the driver the
 * socket is not locked: meanwhile it may become that of another. */
static __always_inline struct queue *queue_of(const struct row *row, __u32 of, __u32 *number)
{
	struct queue *queue;

	*number = row->queue - 1;
	queue = queue_at(*number);
	return queue && queue->row == of ? queue : NULL;
}

/* The row of the connection that a packet of this socket belongs to; NULL where none is followed.
 */
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

/* A number of a directory; NULL where there is no such directory. */
static __always_inline __u32 *number_in(__u32 directory, __u32 index)
{
	__u32 place = (directory - 1) * PLACES + (index & (PLACES - 1)), pair = place / 2;
	__u32 *numbers = bpf_map_lookup_elem(&places, &pair);

	if (!numbers)
		return NULL;
	/* Else the address is computed before it is known not to be NULL, which the verifier
	 * refuses. */
	barrier_var(numbers);
	return numbers + (place & 1);
}

/* Where the directory of the place of a counter stands, below a queue's. */
static __always_inline __u32 *leaf_in(__u32 directory, __u32 counter)
{
	return number_in(directory, counter / (CHUNK * PLACES));
}

/* Where the chunk of a counter stands, below a queue's directory; NULL where that has none. */
static __always_inline __u32 *chunk_in(__u32 directory, __u32 counter)
{
	__u32 *leaf = leaf_in(directory, counter);

	/* There is no directory 0: its numbers are beyond the array. */
	return leaf ? number_in(*leaf, counter / CHUNK) : NULL;
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
