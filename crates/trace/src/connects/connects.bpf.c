// SPDX-License-Identifier: MIT OR Apache-2.0
/* What the socket operations do not say of how connections are set up and end. The records themselves lie in storage that the sends'
 * programs share.
 *
 * fexit/inet_csk_accept: a program has accepted a connection; once for each accept() of the machine.
 * cgroup/getpeername (5.8): the same where there is no fexit: accept() asks for the peer's address, where its caller wants to know it.
 * tcp_receive_reset (4.16): a RST came. tcp_retransmit_synack (4.16): a SYN-ACK was retransmitted. Neither runs but where that happens. */
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
static __always_inline int on_accept(struct setup *connect)
{
	if (!connect || !connect->known || connect->opening != OPENING_ACCEPTED || connect->accepted)
		return 0;
	connect->accepted = bpf_ktime_get_ns();
	connect->pid = current_pid();
	current_comm(connect->comm);
	if (by_process() && !pid_is_target(connect->pid))
		connect->flags |= CONNECT_OTHERS;
	else
		setup_done(connect);
	return 0;
}

/* 6.10 and later */
SEC("fexit/inet_csk_accept")
int BPF_PROG(accept_returned, struct sock *listener, void *arg, struct sock *sk)
{
	return sk ? on_accept(bpf_sk_storage_get(&connects, sk, NULL, 0)) : 0;
}

/* Before that */
SEC("fexit/inet_csk_accept")
int BPF_PROG(accept_returned_before, struct sock *listener, int flags, int *error, bool kern, struct sock *sk)
{
	return sk ? on_accept(bpf_sk_storage_get(&connects, sk, NULL, 0)) : 0;
}

SEC("cgroup/getpeername4")
int peer_asked4(struct bpf_sock_addr *ctx)
{
	struct bpf_sock *sk = ctx->sk;

	if (sk)
		on_accept(bpf_sk_storage_get(&connects, sk, NULL, 0));
	return 1;
}

SEC("cgroup/getpeername6")
int peer_asked6(struct bpf_sock_addr *ctx)
{
	struct bpf_sock *sk = ctx->sk;

	if (sk)
		on_accept(bpf_sk_storage_get(&connects, sk, NULL, 0));
	return 1;
}

SEC("tp_btf/tcp_receive_reset")
int BPF_PROG(reset_received, struct sock *sk)
{
	struct setup *connect = bpf_sk_storage_get(&connects, sk, NULL, 0);

	if (connect && connect->known && !connect->reset_in)
		connect->reset_in = bpf_ktime_get_ns();
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
