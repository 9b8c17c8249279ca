/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The calls that send datagrams of UDP sockets of the target, and the ends of those. */
#pragma once

SEC("cgroup/sock_release")
int udp_gone(struct bpf_sock *sk)
{
	if (sk->protocol == IPPROTO_UDP && bpf_sk_storage_get(&udp_sockets, sk, NULL, 0))
		note_out(RECORD_GONE, 0, bpf_get_socket_cookie(sk), bpf_ktime_get_ns());
	return 1;
}

static __always_inline void sending_begins(__u64 cookie)
{
	struct sending call = { .at = bpf_ktime_get_ns(), .cookie = cookie, .left = 1 };
	__u64 thread = bpf_get_current_pid_tgid();
	struct sending *there = bpf_map_lookup_elem(&sendings, &thread);

	/* Where both hooks are there, the first one's time stands. Another call's is old. */
	if (there && there->left && there->cookie == cookie && call.at - there->at < 1000000)
		return;
	bpf_map_update_elem(&sendings, &thread, &call, BPF_ANY);
}

/* A call sends a datagram to an address that it names itself. */
SEC("cgroup/sendmsg4")
int sends_v4(struct bpf_sock_addr *ctx)
{
	struct bpf_sock *sk = ctx->sk;

	if (sk && bpf_sk_storage_get(&udp_sockets, sk, NULL, 0))
		sending_begins(bpf_get_socket_cookie(ctx));
	return 1;
}

SEC("cgroup/sendmsg6")
int sends_v6(struct bpf_sock_addr *ctx)
{
	struct bpf_sock *sk = ctx->sk;

	if (sk && bpf_sk_storage_get(&udp_sockets, sk, NULL, 0))
		sending_begins(bpf_get_socket_cookie(ctx));
	return 1;
}

/* Connected sockets too, where the kernel lets functions be watched. */
SEC("fentry/udp_sendmsg")
int BPF_PROG(sends_any_v4, struct sock *sk)
{
	if (bpf_sk_storage_get(&udp_sockets, sk, NULL, 0))
		sending_begins(bpf_get_socket_cookie(sk));
	return 0;
}

SEC("fentry/udpv6_sendmsg")
int BPF_PROG(sends_any_v6, struct sock *sk)
{
	if (bpf_sk_storage_get(&udp_sockets, sk, NULL, 0))
		sending_begins(bpf_get_socket_cookie(sk));
	return 0;
}

/* Numbers of system calls that send by one socket: write, writev, sendto, sendmsg, sendmmsg. */
#ifdef __TARGET_ARCH_arm64
enum { CALL_WRITE = 64, CALL_WRITEV = 66, CALL_SENDTO = 206, CALL_SENDMSG = 211, CALL_SENDMMSG = 269 };
#else
enum { CALL_WRITE = 1, CALL_WRITEV = 20, CALL_SENDTO = 44, CALL_SENDMSG = 46, CALL_SENDMMSG = 307 };
#endif

/* Where functions cannot be watched: the system call begins in which a datagram is sent. What it is
 * about is found by the descriptor: the socket of the packet that comes out must be that one. */
SEC("tp_btf/sys_enter")
int BPF_PROG(call_begins, struct pt_regs *regs, long id)
{
	const struct task_struct___packets *task;
	const struct fdtable___packets *table;
	const struct file___packets *file = NULL;
	const struct file___packets **files;
	const struct socket___packets *socket;
	struct sending call = { .left = 1 };
	__u64 thread, fd, datagrams = 1;

	if (id != CALL_SENDTO && id != CALL_SENDMSG && id != CALL_SENDMMSG && id != CALL_WRITE && id != CALL_WRITEV)
		return 0;
	if (by_process() && !pid_is_target(current_pid()))
		return 0;
#ifdef __TARGET_ARCH_arm64
	fd = BPF_CORE_READ((const struct user_pt_regs___packets *)regs, regs[0]);
	datagrams = BPF_CORE_READ((const struct user_pt_regs___packets *)regs, regs[2]);
#else
	fd = BPF_CORE_READ((const struct pt_regs___packets *)regs, di);
	datagrams = BPF_CORE_READ((const struct pt_regs___packets *)regs, dx);
#endif
	task = (const void *)bpf_get_current_task_btf();
	table = BPF_CORE_READ(task, files, fdt);
	fd = (__u32)fd;
	if (fd >= BPF_CORE_READ(table, max_fds))
		return 0;
	files = (const struct file___packets **)BPF_CORE_READ(table, fd);
	if (bpf_probe_read_kernel(&file, sizeof(file), files + fd) || !file)
		return 0;
	/* Of what is no socket this is anything: only an address that is compared. */
	socket = BPF_CORE_READ(file, private_data);
	call.sk = (__u64)BPF_CORE_READ(socket, sk);
	if (!call.sk)
		return 0;
	if (id == CALL_SENDMMSG)
		call.left = (__u32)datagrams;
	call.at = bpf_ktime_get_ns();
	thread = bpf_get_current_pid_tgid();
	bpf_map_update_elem(&sendings, &thread, &call, BPF_ANY);
	return 0;
}
