/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Connections that wait for accept() where following begins. No process holds them yet: whose they
 * are, their listener says. */
#pragma once
#include "sockets.h"
#include "arena.h"

/* So many of each listener are found. */
#define UNACCEPTED_MOST 1024

/* Who has the listener. */
struct listens {
	__u32 pid;
	char comm[16];
};

/* By address, from a pass's visit to the listener to its visit to the connection, which comes
 * later. Where the connection ends in between, the oldest make room. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct listens);
} unaccepted SEC(".maps");

struct accept_queue {
	const struct request_sock *next;
	struct listens listens;
};

static long unaccepted_one(__u32 i, void *context)
{
	struct accept_queue *queue = context;
	const struct request_sock *request = queue->next;
	__u64 child;

	if (!request)
		return 1;
	child = (__u64)BPF_CORE_READ(request, sk);
	queue->next = BPF_CORE_READ(request, dl_next);
	if (child)
		bpf_map_update_elem(&unaccepted, &child, &queue->listens, BPF_ANY);
	return 0;
}

/* Takes down what waits in the queue of a listener (inet_csk_reqsk_queue_add() in
 * net/ipv4/inet_connection_sock.c), of which a process of the target is the owner. */
static __always_inline void unaccepted_note(const struct tcp_sock *listener, const struct socket_info *info)
{
	struct accept_queue queue = {
		.next = BPF_CORE_READ(listener, inet_conn.icsk_accept_queue.rskq_accept_head),
		.listens = { .pid = info->pid },
	};

	__builtin_memcpy(queue.listens.comm, info->comm, sizeof(queue.listens.comm));
	bpf_loop(UNACCEPTED_MOST, unaccepted_one, &queue, 0);
	if (queue.next)
		COUNT(connections_full);
}

/* Whether a connection waits there, with its owner in `fresh`. */
static __always_inline bool unaccepted_take(const void *sk, struct socket_info *fresh)
{
	__u64 key = (__u64)sk;
	struct listens *listens = bpf_map_lookup_elem(&unaccepted, &key);

	if (!listens)
		return false;
	fresh->pid = listens->pid;
	__builtin_memcpy(fresh->comm, listens->comm, sizeof(fresh->comm));
	bpf_map_delete_elem(&unaccepted, &key);
	return true;
}
