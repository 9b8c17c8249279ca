/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Received bytes that wait to be read, in the order of their sequence numbers: how new ones are put
 * among them. */
#pragma once

/* Where a segment that is not the next one belongs. */
struct place {
	__u32 number;
	__u32 at; /* before which the new one goes */
	__u32 first;
};

/* One step from the tail: past an arrival that is later than the new one. It is moved up by a place
 * where `shift` says so. */
static __always_inline long step(struct place *place, bool shift)
{
	struct receive_row *row = receive_row_at(place->number);
	struct arrival *from = arrival_at(place->number, place->at - 1);

	if (!row || !from || place->at == row->head || before(from->first, place->first))
		return 1;
	if (shift) {
		struct arrival *to = arrival_at(place->number, place->at);

		if (!to)
			return 1;
		*to = *from;
	}
	place->at--;
	return 0;
}

static long shift_one(__u32 i, void *context)
{
	return step(context, true);
}

static long find_one(__u32 i, void *context)
{
	return step(context, false);
}

#if OLDER
__noinline int step_next(__u32 number, __u32 at, __u32 first, __u32 shift)
{
	struct place place = { .number = number, .at = at, .first = first };

	return step(&place, shift);
}
#endif

static __always_inline __u32 steps(__u32 number, __u32 first, long (*one)(__u32, void *), bool shift)
{
	struct place place = { .number = number, .first = first };
	struct receive_row *row = receive_row_at(number);

	if (!row)
		return 0;
	place.at = row->tail;
	EACH(receive.slots, one, &place,
	     step_next(number, place.at, first, shift) ? 1 : (place.at--, 0));
	return place.at;
}

/* Before which arrival a new one goes. Not static, as the next ones: the verifier then looks at
 * each once and by itself. */
__noinline __u32 place_of(__u32 number, __u32 first)
{
	return steps(number, first, find_one, false);
}

/* Moves every arrival after the new one up by a place. */
__noinline int make_room(__u32 number, __u32 first)
{
	steps(number, first, shift_one, true);
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
TAKES_POINTERS int put_piece(struct coming *coming)
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
			/* It came before. If it was the next one, TCP has not kept it: then this is
			 * the one that counts. */
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
		COUNT_RECEIVE(missed_bytes, end - first);
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

/* Bytes come in; those that are there already are skipped. */
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
