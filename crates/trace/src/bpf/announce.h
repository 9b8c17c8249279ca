/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The record that announces a connection, with the process that uses it. Whoever accepts a
 * connection is not known when it is established: of several processes that share a listener any
 * may. So an accepted connection is announced when it is first used. */
#pragma once
#include "ends.h"
#include "arena.h"
#include "connect_record.h"
#include "processes.h"

/* The ports that a socket listens on, in every network namespace whose sockets were walked over:
 * connections that were there before the tracer were accepted there, or made elsewhere. Port 0 of
 * no namespace says whether there were more than it has room for. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct listener_key);
	__type(value, __u8);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} listened SEC(".maps");

/* The port of a socket, in its network namespace. */
static __always_inline struct listener_key port_of(const struct sock *sk)
{
	const struct sock_common *common = &sk->__sk_common;

	return (struct listener_key){ .network = common->skc_net.net->ns.inum, .port = common->skc_num };
}

static __always_inline __u8 listens(const struct sock *sk)
{
	struct listener_key key = port_of(sk), full = {};
	const __u8 *is_full;

	if (bpf_map_lookup_elem(&listened, &key))
		return LISTENS;
	is_full = bpf_map_lookup_elem(&listened, &full);
	return is_full && *is_full ? LISTENS_NOT_ASKED : LISTENS_NOT;
}

/* Announces it; where the ring buffer is full, the next use tries again. */
static __noinline bool announce(struct row *row, __u32 pid, const char comm[16], const struct tcp_sock *tp)
{
	const struct sock *sk = (const struct sock *)&tp->inet_conn.icsk_inet.sk;
	struct connection_record record = { .kind = RECORD_CONNECTION, .pid = pid };

	if (config.flags & CONFIG_NO_RECORDS)
		return row->announced = 1;
	record.cookie = row->cookie;
	record.at = row->followed_since;
	record.opening = row->opening;
	if (row->opening == OPENING_FOUND)
		record.listens = listens(sk);
	ENDS(&record, sk);
	__builtin_memcpy(record.comm, comm, sizeof(record.comm));
	bpf_probe_read_kernel_str(record.congestion_control, sizeof(record.congestion_control),
				  tp->inet_conn.icsk_ca_ops->name);
	row->announced = !bpf_ringbuf_output(&records, &record, sizeof(record), BPF_RB_NO_WAKEUP);
	return row->announced;
}

/* The current process uses the connection. Gives whether it is one of the target. */
static __always_inline bool used_by(struct row *row, __u32 pid, const struct tcp_sock *tp)
{
	char comm[16];

	if (by_process() && !pid_is_target(pid))
		return false;
	row->used = 1;
	if (!row->announced) {
		current_comm(comm);
		announce(row, pid, comm, tp);
	}
	return true;
}
