/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* UDP sockets of the target: those that its tasks make, and those that are there already. */
#pragma once
#include "headers.h"
#include "holders.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct udp_sock {
	struct inet_sock inet;
};
struct bpf_iter__udp {
	struct bpf_iter_meta *meta;
	struct udp_sock *udp_sk;
};
#pragma clang attribute pop

/* What is kept of a UDP socket that may be in the target: ports and peers are looked at for each
 * datagram. */
struct udp_info {
	__u32 pid;
	__u32 sent;
	__u32 received;
	__u32 read;
	char comm[16];
	__u32 held; /* it is older than the trace */
	__u32 copied_ends; /* a hash of the ends of the packet of it that was copied last */
};
SHARED(struct udp_info);
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct udp_info);
} udp_sockets SEC(".maps");

/* A UDP socket is made by a task of the target. */
SEC("cgroup/sock_create")
int udp_made(struct bpf_sock *sk)
{
	struct udp_info fresh = {};

	if (sk->protocol != IPPROTO_UDP || (sk->family != AF_INET && sk->family != AF_INET6))
		return 1;
	fresh.pid = current_pid();
	if ((by_process() && !pid_is_target(fresh.pid)) || !task_matches())
		return 1;
	current_comm(fresh.comm);
	bpf_sk_storage_get(&udp_sockets, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
	bpf_get_socket_cookie(sk);
	return 1;
}

/* UDP sockets that are there when tracing begins: those that a process is known to hold, */
SEC("iter/task_file")
int udp_held(struct bpf_iter__task_file *ctx)
{
	struct udp_info fresh = { .held = 1 };
	struct sock *sk = held_socket(ctx, SOCK_DGRAM, IPPROTO_UDP);
	struct udp_info *info;

	if (!sk || !cgroup_matches(sk))
		return 0;
	fresh.pid = holder_of(ctx, fresh.comm);
	if (!fresh.pid)
		return 0;
	info = bpf_sk_storage_get(&udp_sockets, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
	if (info) {
		info->pid = fresh.pid;
		__builtin_memcpy(info->comm, fresh.comm, sizeof(info->comm));
	}
	return 0;
}

/* and all others. */
SEC("iter/udp")
int find_udp(struct bpf_iter__udp *ctx)
{
	struct udp_sock *udp = ctx->udp_sk;
	struct udp_info fresh = { .held = 1 };
	const struct sock *sk;

	if (!udp)
		return 0;
	sk = &udp->inet.sk;
	if (sk->sk_protocol != IPPROTO_UDP || !cgroup_matches(sk))
		return 0;
	if (by_process() && !bpf_sk_storage_get(&udp_sockets, udp, NULL, 0))
		return 0;
	bpf_sk_storage_get(&udp_sockets, udp, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
	bpf_get_socket_cookie(udp);
	return 0;
}
