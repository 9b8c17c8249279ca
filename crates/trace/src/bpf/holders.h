/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sockets that processes of the target hold open, found through the files of all tasks. It takes no
 * right to look into a process. */
#pragma once
#include "processes.h"

/* The socket behind a file; NULL for a file that is none of this type and protocol of the Internet.
 */
static __always_inline struct sock *held_socket(const struct bpf_iter__task_file *ctx, short type, __u16 protocol)
{
	struct file *file = ctx->file;
	const struct socket *socket;
	struct sock *sk;
	unsigned short family;

	if (!file)
		return NULL;
	socket = SOCKET_OF(file);
	if (!socket || FIELD(socket, type) != type)
		return NULL;
	sk = FIELD(socket, sk);
	if (!sk || FIELD(sk, sk_protocol) != protocol)
		return NULL;
	family = FIELD(sk, __sk_common.skc_family);
	return family == AF_INET || family == AF_INET6 ? sk : NULL;
}

/* The process that has the file open, and its name; 0 where it is not of the target, or not visible
 * to the tracer. */
static __always_inline __u32 holder_of(const struct bpf_iter__task_file *ctx, char comm[16])
{
	const struct task_struct *task = ctx->task;
	__u32 pid;

	if (!task)
		return 0;
	pid = pid_of(task);
	if (!pid || (by_process() && !pid_is_target(pid)))
		return 0;
	bpf_probe_read_kernel_str(comm, 16, task->group_leader->comm);
	return pid;
}
