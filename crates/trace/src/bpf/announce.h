/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The record that announces a connection, with the process that uses it. Whoever accepts a
 * connection is not known when it is established: of several processes that share a listener any
 * may. So an accepted connection is announced when it is first used. */
#pragma once
#include "ends.h"
#include "arena.h"
#include "processes.h"

/* Of a connection that was found, whether this end was accepted: one that connected has its SYN
 * among what was acknowledged (tcp_rcv_synsent_state_process()), and one that was accepted begins
 * after its own (tcp_create_openreq_child()). None had sent a FIN when it was found. */
static __always_inline __u8 accepted(const struct row *row)
{
	return row->no_bytes == 0 ? ACCEPTED : row->no_bytes == 1 ? ACCEPTED_NOT : ACCEPTED_NOT_KNOWN;
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
		record.accepted = accepted(row);
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
