// SPDX-License-Identifier: MIT OR Apache-2.0
/* What the socket operations do not say of how connections are set up and end. The records
 * themselves lie in storage that the sends' programs share.
 *
 * fexit/inet_csk_accept: a program has accepted a connection; once for each accept() of the
 * machine.
 * cgroup/getpeername (5.8): the same where there is no fexit: accept() asks for the peer's address,
 * where its caller wants to know it.
 * tcp_receive_reset (4.16): a RST came. tcp_retransmit_synack (4.16): a SYN-ACK was retransmitted.
 * Neither runs but where that happens. */
#include "../bpf/kernel.h"
#define STAMPS 0
#include "../bpf/requests.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct request_sock {
	struct sock_common __req_common;
};
#pragma clang attribute pop

/* The current process has accepted a connection. */
static __always_inline int on_accept(struct socket_info *info, const struct tcp_sock *tp)
{
	struct setup *connect;

	if (!info || !tp)
		return 0;
	connect = &info->setup;
	if (!connect->known || connect->opening != OPENING_ACCEPTED || connect->accepted)
		return 0;
	connect->accepted = bpf_ktime_get_ns();
	info->pid = current_pid();
	current_comm(info->comm);
	if (by_process() && !pid_is_target(info->pid))
		connect->flags |= CONNECT_OTHERS;
	else
		setup_done(info, sock_of(tp));
	return 0;
}

/* 6.10 and later */
SEC("fexit/inet_csk_accept")
int BPF_PROG(accept_returned, struct sock *listener, void *arg, struct sock *sk)
{
	return sk ? on_accept(bpf_sk_storage_get(&sockets, sk, NULL, 0), TCP_SOCK(sk)) : 0;
}

/* Before that */
SEC("fexit/inet_csk_accept")
int BPF_PROG(accept_returned_before, struct sock *listener, int flags, int *error, bool kern, struct sock *sk)
{
	return sk ? on_accept(bpf_sk_storage_get(&sockets, sk, NULL, 0), TCP_SOCK(sk)) : 0;
}

SEC("cgroup/getpeername4")
int peer_asked4(struct bpf_sock_addr *ctx)
{
	struct bpf_sock *sk = ctx->sk;

	if (sk)
		on_accept(bpf_sk_storage_get(&sockets, sk, NULL, 0), bpf_skc_to_tcp_sock(sk));
	return 1;
}

SEC("cgroup/getpeername6")
int peer_asked6(struct bpf_sock_addr *ctx)
{
	struct bpf_sock *sk = ctx->sk;

	if (sk)
		on_accept(bpf_sk_storage_get(&sockets, sk, NULL, 0), bpf_skc_to_tcp_sock(sk));
	return 1;
}

SEC("tp_btf/tcp_receive_reset")
int BPF_PROG(reset_received, struct sock *sk)
{
	struct socket_info *info = bpf_sk_storage_get(&sockets, sk, NULL, 0);

	if (info && info->setup.known && !info->setup.reset_in)
		info->setup.reset_in = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/tcp_retransmit_synack")
int BPF_PROG(answered_again, const struct sock *listener, const struct request_sock *req)
{
	struct request_key key = {};
	struct request *request;

	request_key_of(&key, &req->__req_common);
	request = bpf_map_lookup_elem(&requests, &key);
	if (request)
		retried(request->retried, &request->retries, bpf_ktime_get_ns());
	return 0;
}
