/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The callbacks of sockets, in the program of socket operations of both backends.
 *
 * What a probe does at them is in a header of its folder: statements on `callback`, and on `op`,
 * `sk`, `tp`, `row` and `skops` of it. A probe that takes a callback is one inclusion in
 * callback_run().
 *
 * A program calls it once for each kind of callback that it prepares differently: so the compiler
 * knows the kind, and the verifier walks through what is done at that one alone. */
#pragma once
#include "following.h"
#include "connects.h"

struct callback {
	/* NULL where a tracepoint reports what there is no callback for */
	struct bpf_sock_ops *skops;
	struct bpf_sock *sk; /* likewise */
	const struct tcp_sock *tp; /* the same as the kernel has it */
	struct socket_info *info; /* of a change of state: what is kept with the socket, or NULL */
	struct row *row; /* of what is asked for socket by socket: NULL where it is not followed */
	__u32 number; /* of the row */
	__u32 op;
	__u32 from; /* of a change of state: from which, and to which */
	__u32 to;
};

/* At the two callbacks of a received SYN, of which there is no socket yet. */
static __always_inline void callback_of_request(struct bpf_sock_ops *skops, __u32 op)
{
	if (op == BPF_SOCK_OPS_RWND_INIT || op == BPF_SOCK_OPS_TIMEOUT_INIT)
		connect_requested(skops, op);
}

/* A connection is followed before a probe sees it begin, and let go once all have seen it end. */
static __always_inline void callback_run(const struct callback *callback)
{
	struct bpf_sock_ops *skops = callback->skops;
	const struct tcp_sock *tp = callback->tp;
	struct bpf_sock *sk = callback->sk;
	struct row *row = callback->row;
	__u32 op = callback->op;

	switch (op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		on_owner(sk, sock_of(tp), op == BPF_SOCK_OPS_TCP_LISTEN_CB);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		on_established(skops, sk, tp, op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB);
		break;
	}
	{
#include "../connects/callbacks.h"
	}
	if (!row)
		return;
	switch (op) {
	case BPF_SOCK_OPS_RTT_CB:
	case BPF_SOCK_OPS_RETRANS_CB:
	case BPF_SOCK_OPS_RTO_CB:
		on_callback(skops, op, row, callback->number, tp);
		break;
	case BPF_SOCK_OPS_STATE_CB:
		state_changed(callback->info, row, tp, callback->from, callback->to, bpf_ktime_get_ns());
		break;
	}
}
