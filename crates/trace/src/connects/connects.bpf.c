// SPDX-License-Identifier: MIT OR Apache-2.0
/* What the socket operations do not say of how connections are set up and end. The records
 * themselves lie in storage that the sends' programs share.
 *
 * fexit/inet_csk_accept: a program has accepted a connection; once for each accept() of the
 * machine.
 * cgroup/getpeername (5.8): the same where there is no fexit: accept() asks for the peer's address,
 * where its caller wants to know it.
 * inet_sock_set_state (4.16): no port of this host was free for a connection. There is no SYN then,
 * and no socket operation. At each change of state of the machine's TCP sockets.
 * tcp_receive_reset (4.16): a RST came. tcp_retransmit_synack (4.16): a SYN-ACK was retransmitted.
 * Neither of these two runs but where that happens. */
#include "../bpf/kernel.h"
#define STAMPS 0
#include "../bpf/requests.h"
#include "../bpf/targets.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* include/uapi/asm-generic/errno.h */
enum { EADDRNOTAVAIL = 99 };

/* An attempt of the current process ends before its socket has a port: none was free
 * (inet_hash_connect()). */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(state_set, struct sock *sk, int from, int to)
{
	struct setup_end end = { .error = EADDRNOTAVAIL, .state = TCP_SYN_SENT };
	struct socket_info info = { .row = NO_ROW };
	const struct control *now_set;
	const struct tcp_sock *tp;

	if (from != TCP_SYN_SENT || to != TCP_CLOSE)
		return 0;
	tp = TCP_SOCK(sk);
	/* Its number is given back before the state changes: this is what it was. */
	if (!tp || ((const struct inet_sock___setup *)sock_of(tp))->inet_sport)
		return 0;
	now_set = control();
	if (!now_set || now_set->ending || !(config.flags & CONFIG_CONNECTS))
		return 0;
	info.pid = current_pid();
	if ((by_process() && !pid_is_target(info.pid)) || !cgroup_matches(sk) || !addresses_match(sk, false))
		return 0;
	current_comm(info.comm);
	info.setup.opening = OPENING_CONNECTED;
	end.closed = bpf_ktime_get_ns();
	setup_out(&info, sock_of(tp), RECORD_CONNECT, &end);
	return 0;
}

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
