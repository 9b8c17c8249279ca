/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* One clock for each reason: how long it has held back the head of a write queue. At every event of
 * the socket, the time since the last one is added to the clock of what held it since then. */
#pragma once
#include "slots.h"

/* What a clock counts from one moment to another. Both are rounded down, not their distance: what
 * is lost of one interval is in the next. */
static __always_inline __u32 ticks(__u64 from, __u64 to)
{
	return (to >> CLOCK_SHIFT) - (from >> CLOCK_SHIFT);
}

/* Adds an interval to the clock of what holds the head back: pacing does so until its turn comes,
 * and what is behind it from then on. */
static __always_inline void clocks_add(__u32 *clocks, const struct queue *queue, __u64 from, __u64 to)
{
	__u32 reason = queue->blocked, behind = queue->behind;
	__u64 paced_until = queue->paced_until;

	if (to <= from || reason >= CLOCKS)
		return;
	if (reason == REASON_PACING && behind && behind < CLOCKS && paced_until < to) {
		__u64 turn = from < paced_until ? paced_until : from;

		clocks[REASON_PACING] += ticks(from, turn);
		clocks[behind] += ticks(turn, to);
	} else {
		clocks[reason] += ticks(from, to);
	}
}

/* Adds the time since the last event. */
static __always_inline void clocks_run(struct queue *queue, __u64 now)
{
	clocks_add(queue->clocks, queue, queue->since, now);
	queue->since = now;
}
