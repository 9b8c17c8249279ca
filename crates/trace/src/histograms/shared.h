/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What user space and the programs share of histograms. */
#pragma once
#include "../bpf/kernel.h"

/* What can have histograms: the legs, as `record::Leg` counts them, without that of the NIC, whose
 * clock is converted in user space; and TCP's round trips. */
enum histogram_leg {
	HISTOGRAM_CALL = 0,
	HISTOGRAM_TCP = 1,
	HISTOGRAM_QDISC = 2,
	HISTOGRAM_NETWORK = 4,
	HISTOGRAM_TOTAL = 5,
	HISTOGRAM_ROUND_TRIP = 6,
	HISTOGRAM_LEGS = 7,
};
SHARED(enum histogram_leg);

/* Buckets 0 and 1 are for durations of 0 and 1 ns, the last is for everything above 1,024 s.
 * Buckets that lie side by side share a block, which is there once a duration is in one of them. */
enum histogram_size {
	HISTOGRAM_BUCKETS = 320,
	HISTOGRAM_LAST = 314, /* those after it are not used */
	HISTOGRAM_SKIPPED = 6, /* of the first power of two, which has one duration alone */
	HISTOGRAM_IN_BLOCK = 16,
	HISTOGRAM_BLOCKS = HISTOGRAM_BUCKETS / HISTOGRAM_IN_BLOCK,
	/* Blocks that there are for each histogram, on average over all of them: two powers of two
	 * each. */
	HISTOGRAM_BLOCKS_EACH = 10,
	/* Powers of two that a duration is looked up in, and the parts that each is cut into for
	 * that. */
	HISTOGRAM_POWERS = 40,
	HISTOGRAM_CELLS = 16,
	HISTOGRAM_REASONS = 11,
	HISTOGRAM_NO_LEG = 0xff,
	/* A connection's round trip counts once in 2^27 ns. */
	HISTOGRAM_ROUND_TRIP_SHIFT = 27,
};
SHARED(enum histogram_size);

/* What series are kept apart by. */
enum histogram_flags {
	HISTOGRAM_CGROUP = 1 << 0,
	HISTOGRAM_PROGRAM = 1 << 1,
	HISTOGRAM_PORTS_LISTENING = 1 << 2,
	HISTOGRAM_PORTS_ALL = 1 << 3,
	/* Whether there are series of what finds no room, too. */
	HISTOGRAM_FOLDS = 1 << 4,
};
SHARED(enum histogram_flags);

/* What a series of what finds no room still has of the key. */
enum histogram_fold {
	FOLD_NONE, /* it has room */
	FOLD_PORTS, /* all but the higher of the two ports */
	FOLD_PEERS, /* and without the peer */
};
SHARED(enum histogram_fold);

/* Fixed when the programs are loaded. */
struct histogram_config {
	/* Of each cell of the highest power of two, in the lowest four bits the bucket of its
	 * lowest duration, of the eight; above these the highest duration, ns, of that bucket. */
	__u64 edges[HISTOGRAM_CELLS];
	__u32 flags;
	__u32 legs; /* how many have histograms */
	__u8 places[HISTOGRAM_LEGS]; /* the place of each leg among them, or HISTOGRAM_NO_LEG */
	__u8 pad;
	__u8 peer_ipv4[16]; /* which bits of a peer's address count */
	__u8 peer_ipv6[16];
};
SHARED(struct histogram_config);

/* What the sends of a series have in common; zero where series are not kept apart by it. */
struct series_key {
	__u8 peer[16]; /* IPv4 as IPv4-mapped */
	__u64 cgroup;
	char program[16];
	__u16 peer_port;
	__u16 local_port;
	__u32 fold; /* enum histogram_fold */
};
SHARED(struct series_key);

/* The series of a connection's sends. */
struct row_series {
	struct series_key key; /* with the program of the last send that was added to one */
	__u32 series; /* that of the key, while the generation is right */
	__u32 generation;
	__u64 bytes; /* written since it was followed, as far as they are in a series */
	__u32 retransmitted; /* segments since it began, likewise, and those of before */
	__u32 first_seq; /* of its first byte */
	__u32 sent; /* segments with data, with those that were retransmitted, likewise */
	__u32 spurious; /* segments that the peer had already, likewise */
	__u32 limited; /* jiffies for which the peer's window held data back, likewise */
	__u32 cause; /* of the segments that are retransmitted right now: enum retransmission */
	__u32 round_trip; /* when one was counted last, in 2^HISTOGRAM_ROUND_TRIP_SHIFT ns */
	__u32 zero_windows; /* of the peer, so far */
	__u64 zero_until; /* window_closed(): of the last one, in bytes that are acknowledged */
};
SHARED(struct row_series);

/* Why a segment is retransmitted, by the state of congestion control at that moment, as
 * `record::Again` counts them. */
enum retransmission {
	RETRANSMISSION_UNKNOWN,
	RETRANSMISSION_PROBE, /* neither of the others: a tail loss probe */
	RETRANSMISSION_RECOVERY, /* fast: ACKs tell of a loss */
	RETRANSMISSION_LOSS, /* after a time-out */
	RETRANSMISSIONS,
};
SHARED(enum retransmission);

/* The figures of a series beside its histograms, from its beginning: those that every send adds to
 * are in the first cache line. Bytes, segments and `limited` are of all that its connections wrote,
 * the others of what was looked at. */
struct series_figures {
	__u64 sends; /* the last to be added to */
	__u64 bytes;
	__u64 sums[HISTOGRAM_LEGS]; /* ns, by the place of the leg */
	__u64 sent; /* segments with data, with those that were retransmitted */
	__u64 retransmitted[RETRANSMISSIONS]; /* segments, by why */
	__u64 spurious; /* of these, those that the peer had already */
	__u64 limited; /* jiffies for which the peer's window held data back */
	__u64 listen_drops; /* SYNs and ACKs that listeners dropped */
	__u64 dropped; /* segments, on this host */
	__u64 unacked;
	__u64 vague;
	__u64 waited[HISTOGRAM_REASONS]; /* ns */
	__u64 zero_windows; /* of its peers */
};
SHARED(struct series_figures);

struct leg_histogram {
	__u32 blocks[HISTOGRAM_BLOCKS]; /* their numbers; 0 where there is none */
};
SHARED(struct leg_histogram);

struct histogram_block {
	__u32 counts[HISTOGRAM_IN_BLOCK]; /* wrap; user space carries them over */
};
SHARED(struct histogram_block);

/* The series of what found no room. Numbers of others begin after it. */
enum series_number { SERIES_OVERFLOW = 0 };
SHARED(enum series_number);
