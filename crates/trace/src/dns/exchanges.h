/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Datagrams of a UDP socket that alternate: one is sent, and the next one is its answer. Where
 * either end sends several in a row, what answers what cannot be told, and nothing is handed on.
 *
 * QUIC is known by its Initial packets (RFC 9000, section 17.2.2; RFC 9369). Within a connection of
 * it acknowledgements alternate with data, so that of those only the handshake is timed: from the
 * first Initial packet of a client to its first packet with a short header, which it cannot send
 * before. */
#pragma once
#include "../bpf/headers.h"
#include "exchange_record.h"

/* One CPU hands on at most a record in so many ns, and so many without delay: what is beyond that
 * is counted by its socket. */
#define APART 5000000ULL
#define AT_ONCE 100

enum { ASKS_UNKNOWN, ASKS_LOCAL, ASKS_PEER };

struct udp_turns {
	__u64 asked; /* when the datagram passed that has no answer yet; 0: there is none */
	__u64 initial; /* when the first Initial packet was sent; 0: none, or it is over */
	__u8 peer[16];
	__u16 peer_port;
	__u8 asks; /* which end */
	__u8 quic;
	__u8 versions; /* which ends began a datagram with version 2 of RTP */
	__u8 pad[3];
	__u32 questions; /* datagrams in a row of the end that asks, */
	__u32 answers; /* and of the other one */
	__u32 passed_over; /* exchanges that were not handed on */
	__u32 pad2;
};
SHARED(struct udp_turns);

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct udp_turns);
} udp_turns SEC(".maps");

/* Up to when each CPU has handed on what it may. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} exchanges_until SEC(".maps");

static __always_inline void exchange_out(struct __sk_buff *ctx, const struct dns_record *of, struct udp_turns *turns,
					 __u64 asked, __u64 took, __u32 marks)
{
	struct exchange_record *out = bpf_ringbuf_reserve(&records, sizeof(*out), 0);

	if (!out) {
		turns->passed_over++;
		return;
	}
	out->kind = RECORD_EXCHANGE;
	out->pid = of->pid;
	out->cookie = bpf_get_socket_cookie(ctx);
	out->cgroup = bpf_skb_cgroup_id(ctx);
	out->asked = asked;
	out->took = took;
	__builtin_memcpy(out->local, of->local, sizeof(out->local));
	__builtin_memcpy(out->peer, of->server, sizeof(out->peer));
	out->local_port = of->local_port;
	out->peer_port = of->server_port;
	out->times = turns->passed_over + 1;
	__builtin_memcpy(out->comm, of->comm, sizeof(out->comm));
	out->marks = marks;
	out->pad = 0;
	turns->passed_over = 0;
	bpf_ringbuf_submit(out, BPF_RB_NO_WAKEUP);
}

/* Whether a packet with a long header is an Initial one of a version whose types are known. */
static __always_inline bool is_initial(const __u8 *begin)
{
	__u32 version = (__u32)begin[1] << 24 | (__u32)begin[2] << 16 | (__u32)begin[3] << 8 | begin[4];

	if ((begin[0] & 0xc0) != 0xc0)
		return false;
	if (version == 1)
		return !(begin[0] & 0x30);
	return version == 0x6b3343cf && (begin[0] & 0x30) == 0x10;
}

/* Whether a record may be handed on. From half of what there is room for, every other one is left
 * out at random: both ends of a connection within a machine come at the same time, the same one
 * first. */
static __always_inline bool has_room(__u64 now)
{
	__u32 zero = 0;
	__u64 *until = bpf_map_lookup_elem(&exchanges_until, &zero), used;

	if (!until)
		return false;
	used = *until > now ? *until : now;
	if (used > now + AT_ONCE * APART)
		return false;
	if (used > now + AT_ONCE * APART / 2 && bpf_get_prandom_u32() & 1)
		return false;
	*until = used + APART;
	return true;
}

static __always_inline bool same_peer(const struct udp_turns *turns, const struct dns_record *of)
{
	const __u64 *one = (const __u64 *)turns->peer, *other = (const __u64 *)of->server;

	return turns->peer_port == of->server_port && one[0] == other[0] && one[1] == other[1];
}

static __always_inline void quic(struct __sk_buff *ctx, const struct dns_record *of, struct udp_turns *turns,
				 const __u8 *begin, bool sent, __u64 now)
{
	__u64 initial = turns->initial;

	if (!turns->quic) {
		turns->quic = 1;
		turns->passed_over = 0;
		turns->initial = sent ? now : 0;
		exchange_out(ctx, of, turns, now, 0, EXCHANGE_QUIC | (sent ? 0 : EXCHANGE_SERVER));
		return;
	}
	if (!sent || !initial || (begin[0] & 0xc0) != 0x40)
		return;
	turns->initial = 0;
	exchange_out(ctx, of, turns, initial, now - initial, EXCHANGE_QUIC | EXCHANGE_OVER);
}

/* A datagram with its payload at `at` was sent, or came; `held` says that its socket is older than
 * the trace. */
static __always_inline void exchange(struct __sk_buff *ctx, const struct bpf_sock *sk, __u32 at,
				     const struct dns_record *of, bool sent, bool held)
{
	__u64 now = bpf_ktime_get_ns(), asked;
	struct udp_turns *turns;
	__u8 begin[5] = {};
	bool asks;

	turns = bpf_sk_storage_get(&udp_turns, (void *)sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!turns)
		return;
	if (!bpf_skb_load_bytes(ctx, at, begin, sizeof(begin)) && (turns->quic || is_initial(begin))) {
		quic(ctx, of, turns, begin, sent, now);
		return;
	}
	/* Both ends of a call speak all the time (RTP, RFC 3550). */
	if (begin[0] >> 6 == 2)
		turns->versions |= sent ? 1 : 2;
	if (turns->asks == ASKS_UNKNOWN) {
		bool is_server = held ? of->local_port < of->server_port : !sent;

		turns->asks = is_server ? ASKS_PEER : ASKS_LOCAL;
	}
	asks = sent == (turns->asks == ASKS_LOCAL);
	if (asks) {
		/* After several answers the next datagram may be an acknowledgement. */
		turns->questions = turns->answers > 1 ? 2 : turns->answers ? 1 : turns->questions + 1;
		turns->answers = 0;
		turns->asked = now;
		__builtin_memcpy(turns->peer, of->server, sizeof(turns->peer));
		turns->peer_port = of->server_port;
		return;
	}
	asked = turns->asked;
	turns->asked = 0;
	turns->answers++;
	if (!asked || turns->questions != 1 || turns->versions == 3 || !same_peer(turns, of))
		return;
	if (!has_room(now)) {
		turns->passed_over++;
		return;
	}
	exchange_out(ctx, of, turns, asked, now - asked, EXCHANGE_OVER | (turns->asks == ASKS_PEER ? EXCHANGE_SERVER : 0));
}
