/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sends whose last byte leaves in a packet without a tag. A write that is appended to a packet
 * takes over its tag, and where such a packet is cut, the tag stays with its end. Of what leaves
 * before it the kernel reports no stage, and no ACK.
 *
 * Where writes are appended to packets, the kernel is asked to call back for each packet of that
 * connection alone (on_callback()), which says when TCP hands it down. The rest is bounded: by
 * TCP's mark on the packet, by the memory that it gives back, and by the next event of the socket.
 */
#pragma once
#include "connections.h"

/* As the mark of a packet. */
#define TAGGED (~0ull)

struct search {
	const struct rb_node *node;
	__u64 mark;
	__u32 key;
	__u32 tagged;
};

static long packet_search(__u32 i, void *context)
{
	struct search *search = context;
	const struct sk_buff *skb;
	const struct tcp_skb_cb *cb;

	if (!search->node)
		return 1;
	skb = VIEW((void *)search->node - bpf_core_field_offset(struct sk_buff, rbnode), struct sk_buff);
	cb = VIEW(&skb->cb, struct tcp_skb_cb);
	if (before(search->key, cb->seq)) {
		search->node = skb->rbnode.rb_left;
		return 0;
	}
	if (!before(search->key, cb->end_seq)) {
		search->node = skb->rbnode.rb_right;
		return 0;
	}
	search->mark = cb->sacked & TCPCB_EVER_RETRANS ? 0 : skb->skb_mstamp_ns;
	search->tagged = VIEW(skb->head + skb->end, struct skb_shared_info)->tx_flags & SKBTX_BPF;
	return 1;
}

/* When TCP began to send the packet that holds byte `key`, by the packet's own mark in the
 * retransmission queue; 0 where that does not say, and all ones where it has a tag. The mark is the
 * time of tcp_write_xmit()'s call, so the packet left no earlier. With the fq qdisc it is when the
 * packet may leave there, and on a retransmitted packet it is when that was. */
static __noinline __u64 left_after(const struct tcp_sock *tp, __u32 key)
{
	const struct sock *sk = sock_of(tp);
	struct search search = { .key = key };

	search.node = sk->tcp_rtx_queue.rb_node;
	/* A red-black tree of 2^16 packets is no deeper than 32. */
	bpf_loop(32, packet_search, &search, 0);
	if (search.tagged)
		return TAGGED;
	return sk->sk_pacing_status == SK_PACING_FQ ? 0 : search.mark;
}

struct left {
	const struct tcp_sock *tp;
	__u64 now;
	__u32 number;
	__u32 at;
};

/* The next send, and its queue; NULL after the last. */
static __always_inline struct slot *left_next(struct left *left, struct queue **queue)
{
	*queue = queue_at(left->number);
	if (!*queue || (__s32)(left->at - (*queue)->tail) >= 0)
		return NULL;
	return slot_at(*queue, left->at);
}

static long left_one(__u32 i, void *context)
{
	struct left *left = context;
	struct queue *queue;
	struct slot *slot = left_next(left, &queue);
	__u64 from, mark, now = left->now;

	if (!queue || !slot || !before(slot->key, left->tp->snd_nxt))
		return 1;
	left->at++;
	if (slot->record.sched)
		return 0;
	mark = left_after(left->tp, slot->key);
	/* It is still on its way to the qdisc, which will tell. */
	if (mark == TAGGED)
		return 0;
	queue->untagged = 1;
	from = slot->record.send;
	if (from < queue->sched_last)
		from = queue->sched_last;
	if (from < mark && mark < now)
		from = mark;
	if (from >= now || now - from > 0xffffffffu)
		return 0;
	slot->record.sched = from;
	slot->record.sched_span = now - from;
	/* The mark is of the very call that wrote the bytes, or of a later one. */
	waiting_decide(slot, queue, mark && from - slot->record.send < 5000, now - from);
	return 0;
}

/* What TCP has sent by `now` and what gave no stamp has left in packets without a tag, all of them
 * after the last packet that had one: bytes leave in order. */
static __always_inline void sched_left(struct queue *queue, __u32 number, const struct tcp_sock *tp, __u64 now)
{
	struct left left = { .tp = tp, .number = number, .now = now, .at = queue->sched_next };
	struct slot *slot;

	if ((__s32)(left.at - queue->head) < 0)
		left.at = queue->head;
	if ((__s32)(left.at - queue->tail) >= 0)
		return;
	slot = slot_at(queue, left.at);
	if (!slot || !before(slot->key, tp->snd_nxt))
		return;
	if (!slot->record.sched)
		clocks_run(queue, now);
	bpf_loop(config.slots, left_one, &left, 0);
	queue->sched_next = left.at;
}

struct handed {
	__u32 number;
	__u32 at;
	__u32 span;
};

/* The next send of the packet that was handed down last. Gives 1 after the last. */
static __always_inline long handed_next(struct handed *handed, struct queue *queue)
{
	struct slot *slot = slot_at(queue, handed->at);

	if (slot && slot->record.sched == queue->handed && (__s32)(handed->at - queue->head) >= 0)
		slot->record.sched_span = handed->span;
	handed->at++;
	return (__s32)(handed->at - queue->handed_until) >= 0;
}

static long handed_one(__u32 i, void *context)
{
	struct handed *handed = context;
	struct queue *queue = queue_at(handed->number);

	return queue ? handed_next(handed, queue) : 1;
}

/* The socket does something else `now`: the packet without a tag that TCP has handed down last is
 * in the qdisc by then. Nor does it take longer to there than those with a tag do. */
static __always_inline void handed_bound(struct queue *queue, __u32 number, __u64 now)
{
	struct handed handed = { .number = number, .at = queue->handed_at, .span = 0xffffffff };

	if (!queue->handed || now <= queue->handed)
		return;
	if (now - queue->handed < handed.span)
		handed.span = now - queue->handed;
	if (queue->handed_longest && queue->handed_longest < handed.span)
		handed.span = queue->handed_longest;
	/* Mostly there is one: no call for that. */
	if (!handed_next(&handed, queue))
		bpf_loop(config.slots, handed_one, &handed, 0);
	queue->handed = 0;
}

/* A packet with a tag enters the qdisc `now`. */
static __always_inline void handed_measure(struct queue *queue, __u64 now)
{
	__u64 took = now - queue->handed_tagged;

	if (!queue->handed_tagged)
		return;
	if (now > queue->handed_tagged && took < 0xffffffff && took > queue->handed_longest)
		queue->handed_longest = took;
	queue->handed_tagged = 0;
}

struct released {
	__u32 number;
	__u32 below; /* the memory of the packets that are below TCP */
	__u64 now;
};

/* The next send that may have gone to the driver. Gives 1 where it has not. */
static __always_inline long released_next(const struct released *released, struct queue *queue)
{
	struct slot *slot;

	if ((__s32)(queue->released_next - queue->tail) >= 0)
		return 1;
	slot = slot_at(queue, queue->released_next);
	if (!slot || !slot->record.sched)
		return 1;
	if (released->below && (!slot->down || before(queue->down - released->below, slot->down)))
		return 1;
	queue->released_next++;
	if (!slot->record.driver)
		driver_bound(queue, slot, released->now);
	return 0;
}

static long released_one(__u32 i, void *context)
{
	struct released *released = context;
	struct queue *queue = queue_at(released->number);

	return queue ? released_next(released, queue) : 1;
}

/* The memory of what is below TCP: sk_wmem_alloc, but for the 1 of the socket itself (sk_alloc(),
 * net/core/sock.c). */
static __always_inline __u32 memory_below(const struct tcp_sock *tp)
{
	return sock_of(tp)->sk_wmem_alloc.refs.counter - 1;
}

/* A packet with a tag goes to the driver. It still has its memory there, unless a qdisc or a tunnel
 * has released that (skb_orphan()), as it then does for all of them. */
static __always_inline void released_judge(struct queue *queue, const struct tcp_sock *tp, const struct sk_buff *skb)
{
	if (queue->released == RELEASED_UNTRIED)
		queue->released = memory_below(tp) < skb->truesize ? RELEASED_EARLIER : RELEASED_AT_DRIVER;
}

/* Packets whose memory was released by `now` have gone to the driver. */
static __always_inline void driver_released(struct queue *queue, __u32 number, const struct tcp_sock *tp, __u64 now)
{
	struct released released = { .number = number, .below = memory_below(tp), .now = now };

	if (!queue->untagged || queue->released != RELEASED_AT_DRIVER)
		return;
	if ((__s32)(queue->released_next - queue->head) < 0)
		queue->released_next = queue->head;
	if (!released_next(&released, queue))
		bpf_loop(config.slots, released_one, &released, 0);
}

/* An event of the socket: what is known by `now` of sends without stamps. */
static __always_inline void untagged_look(struct queue *queue, __u32 number, const struct tcp_sock *tp, __u64 now)
{
	handed_bound(queue, number, now);
	sched_left(queue, number, tp, now);
	driver_released(queue, number, tp, now);
}

/* When the last ACK came that acknowledged anything (tcp_rate_gen(), net/ipv4/tcp_rate.c). It is
 * kept in microseconds; the clock that they are of is kept as well until it is read again. */
static __always_inline __u64 last_acked(const struct queue *queue, const struct tcp_sock *tp, __u64 now)
{
	__u64 at = tp->delivered_mstamp * 1000, clock = taken_up(tp);

	if (clock - at < 1000)
		at = clock;
	return at < queue->looked || at > now ? now : at;
}
