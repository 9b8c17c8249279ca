/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sends as histograms: where a send is finished it is added to the series of its key, and to no
 * ring buffer.
 *
 * A series has a number: `series` finds it by the key, `figures` and `histograms` are arrays by it.
 * Durations of a leg lie within a few powers of two, so a histogram has only those blocks of
 * buckets that something is in; they come from one pool. A connection remembers the number of the
 * series that it was in last, so that a look-up is for its first send, for one by another program,
 * and after user space has removed a series (which changes the generation). What finds no room,
 * series or block, is in a series of what finds none where HISTOGRAM_FOLDS is set and there is one,
 * and else in the series SERIES_OVERFLOW, which has all blocks from the start. All
 * counts are added to by atomic operations: ACKs of several connections with one key come in on
 * several CPUs.
 *
 * Bytes and segments are TCP's own counts, of stretches that are not looked at too:
 * what has come is added to the series when a send finishes, when a stretch ends, and at each pass
 * over the sockets. */
#pragma once
#include "../bpf/arena.h"
#include "../bpf/processes.h"
#include "../bpf/ends.h"
#include "../bpf/state.h"

const volatile struct histogram_config histogram_config SEC(".rodata.histograms");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct series_key);
	__type(value, __u32);
	__uint(max_entries, 1);
} series SEC(".maps");

/* By the number of a connection's row; one where there are no histograms. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct row_series);
	__uint(max_entries, 1);
} row_series SEC(".maps");

/* Numbers of series that are not in use; user space fills it. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__type(value, __u32);
	__uint(max_entries, 1);
} free_series SEC(".maps");

/* Numbers that are for series of what finds no room: of those with a peer, and of those without. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__type(value, __u32);
	__uint(max_entries, 1);
} free_with_peer SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__type(value, __u32);
	__uint(max_entries, 1);
} free_without_peer SEC(".maps");

/* The values of an array that can be mapped begin at a page, so these are in whole cache lines;
 * likewise the blocks. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct series_figures);
	__uint(max_entries, 1);
} figures SEC(".maps");

/* One for each leg of each series. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct leg_histogram);
	__uint(max_entries, 1);
} histograms SEC(".maps");

/* The pool of blocks. Number 0 is not used. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct histogram_block);
	__uint(max_entries, 1);
} blocks SEC(".maps");

/* Numbers of blocks that are not in use; user space fills it. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__type(value, __u32);
	__uint(max_entries, 1);
} free_blocks SEC(".maps");

/* Ports that a socket listens at, as passes over the sockets find them; one where series are not
 * kept apart by them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u16);
	__type(value, __u8);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} listening SEC(".maps");

static __always_inline void listens_at(const struct sock *sk)
{
	__u16 port = sk->__sk_common.skc_num;
	__u8 one = 1;

	if ((config.flags & CONFIG_HISTOGRAMS) && (histogram_config.flags & HISTOGRAM_PORTS_LISTENING))
		bpf_map_update_elem(&listening, &port, &one, BPF_ANY);
}

/* Sets the ports of a connection's key: of the two that which a server listens at, or both. */
static __always_inline void key_ports(struct series_key *key, const struct sock *sk, __u32 opening)
{
	__u16 local = sk->__sk_common.skc_num, peer = bpf_ntohs(sk->__sk_common.skc_dport);
	bool here = opening == OPENING_ACCEPTED;

	if (histogram_config.flags & HISTOGRAM_PORTS_ALL) {
		key->local_port = local;
		key->peer_port = peer;
	} else if (histogram_config.flags & HISTOGRAM_PORTS_LISTENING) {
		if (opening == OPENING_FOUND)
			here = bpf_map_lookup_elem(&listening, &local) != NULL;
		if (here)
			key->local_port = local;
		else
			key->peer_port = peer;
	}
}

/* The name of the current task's process, where series are kept apart by it, else that of the task.
 */
static __always_inline void owner_name(char to[16])
{
	if (histogram_config.flags & HISTOGRAM_PROGRAM)
		name_of(FIELD(bpf_get_current_task_btf(), group_leader), to);
	else
		current_comm(to);
}

/* Sets the program and the cgroup of a socket's key. */
static __always_inline void key_owner(struct series_key *key, const struct sock *sk, const char owner[16])
{
	if (histogram_config.flags & HISTOGRAM_PROGRAM)
		__builtin_memcpy(key->program, owner, sizeof(key->program));
	if (histogram_config.flags & HISTOGRAM_CGROUP) {
		const struct cgroup *cgroup = cgroup_of(sk);

		if (cgroup)
			key->cgroup = BPF_CORE_READ(cgroup, kn, id);
	}
}

/* Sets the key of a connection that is followed from now on. Its program is the owner, until one
 * sends. */
static __always_inline void series_begin(const struct row *row, __u32 number, const struct tcp_sock *tp, const char owner[16])
{
	const struct sock *sk = sock_of(tp);
	const volatile __u32 *mask;
	struct row_series *of;
	struct series_key *key;
	__u32 *words;

	if (!(config.flags & CONFIG_HISTOGRAMS))
		return;
	of = bpf_map_lookup_elem(&row_series, &number);
	if (!of)
		return;
	__builtin_memset(of, 0, sizeof(*of));
	of->retransmitted = tp->total_retrans;
	of->sent = tp->data_segs_out;
	of->spurious = tp->dsack_dups;
	of->limited = chronos_read(tp).receive_window_limited;
	of->first_seq = tp->write_seq - (__u32)row->position;
	key = &of->key;
	key_owner(key, sk, owner);
	words = (__u32 *)key->peer;
	address(key->peer, sk->__sk_common.skc_family, sk->__sk_common.skc_daddr, &sk->__sk_common.skc_v6_daddr);
	if (!words[0] && !words[1] && words[2] == bpf_htonl(0xffff))
		mask = (const volatile __u32 *)histogram_config.peer_ipv4;
	else
		mask = (const volatile __u32 *)histogram_config.peer_ipv6;
	for (int i = 0; i < 4; i++)
		words[i] &= mask[i];
	key_ports(key, sk, row->opening);
}

/* The number of the series of a key: of one that is there, of a new one with a number of `free`, or
 * of the one for what finds no room. */
static __always_inline __u32 number_from(const struct series_key *key, void *free)
{
	__u32 *known = bpf_map_lookup_elem(&series, key), number;

	if (known)
		return *known;
	if (bpf_map_pop_elem(free, &number))
		return SERIES_OVERFLOW;
	if (bpf_map_update_elem(&series, key, &number, BPF_NOEXIST)) {
		/* Another CPU was first. */
		bpf_map_push_elem(free, &number, BPF_ANY);
		known = bpf_map_lookup_elem(&series, key);
		return known ? *known : SERIES_OVERFLOW;
	}
	return number;
}

static __always_inline __u32 series_number(const struct series_key *key)
{
	return number_from(key, &free_series);
}

/* Has a connection remember the number of the series of its key. A function that is called, as it
 * hardly ever has to be. */
__noinline int series_find(__u32 row_number, __u32 generation)
{
	struct row_series *of = bpf_map_lookup_elem(&row_series, &row_number);

	if (!of)
		return 0;
	of->generation = generation;
	of->series = series_number(&of->key);
	return 0;
}

/* The same for a key that finds no room, with so much of it as `fold` leaves. The higher of two
 * ports is mostly of one connection alone. The stack has no room for another key: the connection's
 * own is changed, and then changed back. Its socket is locked, but by iterators before Linux 5.15:
 * a key that is changed already is left to whoever does that. */
__noinline int series_fold(__u32 row_number, __u32 fold)
{
	struct row_series *of = bpf_map_lookup_elem(&row_series, &row_number);
	__u64 *peer, first, last;
	__u16 local_port, peer_port;

	if (!of)
		return 0;
	peer = (__u64 *)of->key.peer;
	first = peer[0];
	last = peer[1];
	local_port = of->key.local_port;
	peer_port = of->key.peer_port;
	barrier();
	if (of->key.fold)
		return 0;
	of->key.fold = fold;
	barrier();
	if (local_port && peer_port) {
		if (local_port > peer_port)
			of->key.local_port = 0;
		else
			of->key.peer_port = 0;
	}
	if (fold == FOLD_PORTS) {
		of->series = number_from(&of->key, &free_with_peer);
	} else {
		peer[0] = peer[1] = 0;
		of->series = number_from(&of->key, &free_without_peer);
		peer[0] = first;
		peer[1] = last;
	}
	of->key.local_port = local_port;
	of->key.peer_port = peer_port;
	barrier();
	of->key.fold = FOLD_NONE;
	return 0;
}

/* A listener has dropped so many SYNs and ACKs. No peer is known of them. */
static OWN_STACK void listener_count(const struct sock *sk, const char owner[16], __u32 dropped)
{
	struct series_key key = {};
	struct series_figures *to;
	__u32 number;

	if (!(config.flags & CONFIG_HISTOGRAMS))
		return;
	key_owner(&key, sk, owner);
	if (histogram_config.flags & (HISTOGRAM_PORTS_ALL | HISTOGRAM_PORTS_LISTENING))
		key.local_port = sk->__sk_common.skc_num;
	number = series_number(&key);
	to = bpf_map_lookup_elem(&figures, &number);
	if (to)
		__sync_fetch_and_add(&to->listen_drops, dropped);
}

/* The number of the series of a connection's key. */
static __always_inline __u32 series_now(struct row_series *of, __u32 number)
{
	struct control *now_set = control();
	__u32 generation = now_set ? now_set->generation : 0;

	if (of->generation == generation)
		return of->series;
	series_find(number, generation);
	if (histogram_config.flags & HISTOGRAM_FOLDS) {
		if (of->series == SERIES_OVERFLOW)
			series_fold(number, FOLD_PORTS);
		if (of->series == SERIES_OVERFLOW)
			series_fold(number, FOLD_PEERS);
	}
	return of->series;
}

/* The number of the series of a send of row `number`. */
static __always_inline __u32 series_of(__u32 number, const struct slot *slot)
{
	struct row_series *of = bpf_map_lookup_elem(&row_series, &number);
	const __u64 *program = (const __u64 *)slot->record.comm;
	__u64 *last;

	if (!of)
		return SERIES_OVERFLOW;
	last = (__u64 *)of->key.program;
	if ((histogram_config.flags & HISTOGRAM_PROGRAM) && (last[0] != program[0] || last[1] != program[1])) {
		last[0] = program[0];
		last[1] = program[1];
		of->generation = 0;
	}
	return series_now(of, number);
}

/* Two numbers as one: a function that is verified by itself takes five, and the stack of its
 * callers has no room for more. */
#define BOTH(high, low) ((__u64)(high) << 32 | (low))

/* Adds to the series of row `number` what is not in one yet of what TCP has counted: of `written`
 * bytes since it was followed, and since it began of the segments that were retransmitted and all
 * that were sent (`segments`), and of those that the peer had already, as its DSACKs (RFC 2883)
 * say, and the jiffies for which its window held data back (`peer`). */
__noinline int series_count(__u32 number, __u64 written, __u64 segments, __u64 peer)
{
	__u32 retransmitted = segments >> 32, sent = segments, spurious = peer >> 32, limited = peer;
	struct row_series *of = bpf_map_lookup_elem(&row_series, &number);
	struct row *row = row_at(number);
	struct series_figures *to;
	__u64 bytes = 0;
	__u32 more, cause, in;

	if (!of || !row)
		return 0;
	if ((__s64)(written - of->bytes) > 0)
		bytes = written - of->bytes;
	more = retransmitted - of->retransmitted;
	if (!bytes && !more && sent == of->sent && spurious == of->spurious && limited == of->limited && !row->dropped)
		return 0;
	in = series_now(of, number);
	to = bpf_map_lookup_elem(&figures, &in);
	if (!to)
		return 0;
	of->bytes += bytes;
	__sync_fetch_and_add(&to->bytes, bytes);
	__sync_fetch_and_add(&to->sent, sent - of->sent);
	of->sent = sent;
	if (more) {
		cause = of->cause;
		if (cause < RETRANSMISSIONS)
			__sync_fetch_and_add(&to->retransmitted[cause], more);
		of->retransmitted = retransmitted;
	}
	if (spurious != of->spurious) {
		__sync_fetch_and_add(&to->spurious, spurious - of->spurious);
		of->spurious = spurious;
	}
	if (limited != of->limited) {
		__sync_fetch_and_add(&to->limited, limited - of->limited);
		of->limited = limited;
	}
	if (row->dropped)
		__sync_fetch_and_add(&to->dropped, TAKE_ALL(&row->dropped));
	return 0;
}

/* The peer of row `number` takes no more data, having acknowledged `acked` bytes of its connection,
 * with `sent` more on their way. Counts that unless it is the zero window of the look before: one
 * goes on until bytes beyond all that was sent by then are acknowledged. Those left through a
 * window that was open meanwhile, if only between two looks. */
__noinline int window_closed(__u32 number, __u64 acked, __u32 sent)
{
	struct row_series *of = bpf_map_lookup_elem(&row_series, &number);
	struct series_figures *to;
	__u32 in;

	if (!of || acked < of->zero_until)
		return 0;
	of->zero_until = acked + sent + 1;
	of->zero_windows++;
	in = series_now(of, number);
	to = bpf_map_lookup_elem(&figures, &in);
	if (to)
		__sync_fetch_and_add(&to->zero_windows, 1);
	return 0;
}

/* The zero windows of row `number` so far. */
static __always_inline __u32 zero_windows(__u32 number)
{
	const struct row_series *of = (config.flags & CONFIG_HISTOGRAMS) ? bpf_map_lookup_elem(&row_series, &number) : NULL;

	return of ? of->zero_windows : NOT_COUNTED;
}

/* The bytes up to the last one of a send that are in no series yet. */
static __always_inline __u32 bytes_up_to(const struct row *row, __u32 number, __u32 key)
{
	struct row_series *of = bpf_map_lookup_elem(&row_series, &number);
	__u32 more;

	if (!of)
		return 0;
	more = key + 1 - of->first_seq - (__u32)row->position - (__u32)of->bytes;
	if ((__s32)more <= 0)
		return 0;
	of->bytes += more;
	return more;
}

/* 1 where `n` is above `most`, else 0; both are below 2^63. Without a branch: for durations that
 * vary, the CPU could not foresee which way it goes. */
static __always_inline __u64 above(__u64 n, __u64 most)
{
	__u64 less = most - n;

	barrier_var(less);
	return less >> 63;
}

/* The number of the highest bit that is set in `n`, which is below 2^63; 0 for 0. */
static __always_inline __u64 power_of(__u64 n)
{
	__u64 power = 0, step;

	/* Hardly any takes four seconds. */
	if (n >> 32) {
		power = 32;
		n >>= 32;
	}
	step = above(n, 0xffff) << 4;
	n >>= step;
	power += step;
	step = above(n, 0xff) << 3;
	n >>= step;
	power += step;
	step = above(n, 0xf) << 2;
	n >>= step;
	power += step;
	step = above(n, 3) << 1;
	n >>= step;
	return power + step + (n >> 1);
}

/* The bucket of a duration: eight to a power of two. The four bits after its first one say which of
 * the eight it is, or the next. Without the table of all bounds: its cache lines would be gone from
 * one send to the next. */
static __always_inline __u64 bucket_of(__u64 ns)
{
	__u64 power, mantissa, cell, edge;

	if (ns < 2)
		return ns;
	if (ns >> HISTOGRAM_POWERS)
		return HISTOGRAM_LAST;
	power = power_of(ns);
	mantissa = ns << (HISTOGRAM_POWERS - 1 - power);
	cell = mantissa >> (HISTOGRAM_POWERS - 5) & (HISTOGRAM_CELLS - 1);
	edge = histogram_config.edges[cell];
	return power * 8 + (edge & 15) + above(mantissa << 4, edge) - HISTOGRAM_SKIPPED;
}

#define BLOCK_OF_OVERFLOW (1U << 31)

/* The number of a histogram's block that was not there yet. Where there are no more it is the block
 * of SERIES_OVERFLOW, with BLOCK_OF_OVERFLOW.
 * Takes numbers of map entries, as it is a function that is called: for the first duration in a
 * block. */
__noinline int block_begin(__u32 entry, __u32 place, __u32 at)
{
	struct leg_histogram *histogram = bpf_map_lookup_elem(&histograms, &entry);
	__u32 number, there;

	if (!histogram || at >= HISTOGRAM_BLOCKS)
		return 0;
	if (!bpf_map_pop_elem(&free_blocks, &number)) {
		there = SET_FIRST(&histogram->blocks[at], number, entry, at);
		if (!there)
			return number;
		/* Another CPU was first. */
		bpf_map_push_elem(&free_blocks, &number, BPF_ANY);
		if (!OLDER || there != NOT_SET)
			return there;
	}
	histogram = bpf_map_lookup_elem(&histograms, &place);
	return histogram ? histogram->blocks[at] | BLOCK_OF_OVERFLOW : 0;
}

/* Adds a duration to the leg at `place`. Not a function that is called: on CPUs where the kernel
 * has to guard returns that takes 10 ns. */
static __always_inline void leg_add(struct series_figures *of, __u32 number, __u32 place, __u64 ns)
{
	__u32 entry = number * histogram_config.legs + place, in;
	struct leg_histogram *histogram;
	struct histogram_block *block;
	__u64 bucket, at;

	if (place >= HISTOGRAM_LEGS)
		return;
	histogram = bpf_map_lookup_elem(&histograms, &entry);
	if (!histogram)
		return;
	bucket = bucket_of(ns);
	/* In 64 bits: verifiers of 6.1 lose the bound of a 32-bit number in a comparison. */
	at = bucket / HISTOGRAM_IN_BLOCK;
	barrier_var(at);
	at &= 0x1f;
	if (at >= HISTOGRAM_BLOCKS)
		return;
	in = histogram->blocks[at];
	if (!in) {
		in = block_begin(entry, place, at);
		if (in & BLOCK_OF_OVERFLOW) {
			in &= ~BLOCK_OF_OVERFLOW;
			number = SERIES_OVERFLOW;
			of = bpf_map_lookup_elem(&figures, &number);
			if (!of)
				return;
		}
	}
	block = bpf_map_lookup_elem(&blocks, &in);
	if (!block)
		return;
	bucket &= HISTOGRAM_IN_BLOCK - 1;
	__sync_fetch_and_add(&block->counts[bucket], 1);
	if (ns)
		__sync_fetch_and_add(&of->sums[place], ns);
}

/* Adds the round trip of row `number`, as TCP has smoothed it: in eighths of a microsecond. */
__noinline int round_trip_add(__u32 number, __u32 smoothed)
{
	struct row_series *of = bpf_map_lookup_elem(&row_series, &number);
	__u32 place = histogram_config.places[HISTOGRAM_ROUND_TRIP], in;
	struct series_figures *to;

	if (!of)
		return 0;
	in = series_now(of, number);
	to = bpf_map_lookup_elem(&figures, &in);
	if (to)
		leg_add(to, in, place, (__u64)smoothed * 125);
	return 0;
}

/* TCP has measured a round trip. Those of a connection count at equal distances in time, so that
 * one with many ACKs does not hide the others. */
static __always_inline void round_trip_measured(__u32 number, const struct tcp_sock *tp, __u64 now)
{
	__u32 turn = now >> HISTOGRAM_ROUND_TRIP_SHIFT;
	struct row_series *of;

	if (!(config.flags & CONFIG_HISTOGRAMS) || histogram_config.places[HISTOGRAM_ROUND_TRIP] >= HISTOGRAM_LEGS)
		return;
	of = bpf_map_lookup_elem(&row_series, &number);
	if (!of || of->round_trip == turn)
		return;
	of->round_trip = turn;
	round_trip_add(number, tp->srtt_us);
}

/* A leg between two stages that were passed, with the bound on its error. */
static __always_inline void leg_between(struct series_figures *of, __u32 number, __u32 leg, __u64 from, __u64 to, __u64 error)
{
	if (to < from) {
		if (config.flags & CONFIG_NO_RECORDS)
			COUNT(disorder);
	} else if (error > to - from) {
		if (histogram_config.places[leg] < HISTOGRAM_LEGS)
			__sync_fetch_and_add(&of->vague, 1);
	} else if (histogram_config.places[leg] < HISTOGRAM_LEGS) {
		leg_add(of, number, histogram_config.places[leg], to - from);
	}
}

/* Adds what a send waited for in TCP: `left` ns, divided as in sends/waits.rs. */
static __always_inline void waits_add(struct series_figures *of, const struct send_record *send, __u64 left)
{
	__u32 most = REASON_UNKNOWN;
	__u64 longest = 0;

	/* Unrolled: Linux 6.1 takes no loop that is entered anywhere but at its first instruction,
	 * which compilers make of one that mostly goes on to the next turn. */
#pragma clang loop unroll(full)
	for (__u32 i = 1; i < CLOCKS; i++) {
		__u64 time = send->wait == WAIT_CLOCKS ? (__u64)send->waits[i] << CLOCK_SHIFT : 0;

		if (!time)
			continue;
		if (time > left)
			time = left;
		if (time > longest) {
			longest = time;
			most = i;
		}
		left -= time;
		__sync_fetch_and_add(&of->waited[i], time);
	}
	/* Less than a clock shows. */
	if (left >> CLOCK_SHIFT)
		most = REASON_UNKNOWN;
	if (left && most < HISTOGRAM_REASONS)
		__sync_fetch_and_add(&of->waited[most], left);
}

/* Adds a finished send of row `number` to its series. What is inferred too roughly is omitted as in
 * sends/settle.rs; the legs are those of `record::Send::leg`, without the NIC's stamp. */
TAKES_POINTERS int series_add(struct row *row, __u32 number, struct slot *slot)
{
	const struct send_record *send;
	struct series_figures *of;
	__u64 sched, driver, ack, total = 0, sched_span, driver_span, ack_span;
	__u32 in;

	if (!row || !slot)
		return 0;
	in = series_of(number, slot);
	of = bpf_map_lookup_elem(&figures, &in);
	if (!of)
		return 0;
	send = &slot->record;
	sched = send->sched;
	driver = send->driver;
	sched_span = send->sched_span;
	driver_span = send->driver_span;
	ack_span = send->ack_span;
	ack = send->idle ? 0 : send->ack;
	if (ack > send->send)
		total = ack - send->send;
	if (sched_span > total / 16) {
		if (ack && (config.flags & CONFIG_NO_RECORDS))
			COUNT(no_sched);
		sched = sched_span = 0;
	}
	if (driver_span > total / 16) {
		if (ack && (config.flags & CONFIG_NO_RECORDS))
			COUNT(no_driver);
		driver = driver_span = 0;
	}
	if ((config.flags & CONFIG_NO_RECORDS) && (sched_span || driver_span || ack_span))
		COUNT(inferred);
	/* By tracepoints the two are one moment where all is copied in one round. */
	if (send->call && send->call != send->send)
		leg_between(of, in, HISTOGRAM_CALL, send->call, send->send, 0);
	if (sched)
		leg_between(of, in, HISTOGRAM_TCP, send->send, sched, sched_span);
	if (sched && driver)
		leg_between(of, in, HISTOGRAM_QDISC, sched, driver, sched_span + driver_span);
	if (driver && ack)
		leg_between(of, in, HISTOGRAM_NETWORK, driver, ack, driver_span + ack_span);
	if (ack)
		leg_between(of, in, HISTOGRAM_TOTAL, send->send, ack, ack_span);
	else
		__sync_fetch_and_add(&of->unacked, 1);
	if (sched > send->send && send->wait != WAIT_NONE)
		waits_add(of, send, sched - send->send);
	if (send->full)
		__sync_fetch_and_add(&of->waited[REASON_SEND_BUFFER], send->full);
	if (row->dropped)
		__sync_fetch_and_add(&of->dropped, TAKE_ALL(&row->dropped));
	__sync_fetch_and_add(&of->bytes, bytes_up_to(row, number, slot->key));
	__sync_fetch_and_add(&of->sends, 1);
	return 0;
}
