/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How the connections of the target are set up, and how they end. Both backends.
 *
 * One record an attempt lies in its socket's storage, and is handed on when the socket is closed. A
 * received SYN has no socket: it lies in `requests` until the ACK makes one. The socket operations
 * of a SYN (BPF_SOCK_OPS_RWND_INIT, _TIMEOUT_INIT) and of a connect() call come without being asked
 * for; the changes of state are asked for socket by socket, so that nothing is added to others. */
#pragma once
#include "requests.h"
#include "connections.h"

/* include/uapi/linux/bpf.h */
enum { BPF_SOCK_OPS_TIMEOUT_INIT = 1, BPF_SOCK_OPS_RWND_INIT = 2 };
/* include/linux/sched.h */
enum { PF_EXITING = 0x4 };
/* include/net/sock.h: enum sock_flags */
enum { SOCK_DONE_FLAG = 1 << 1 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_struct___ending {
	unsigned int flags;
	int exit_code;
};
struct sock_common___flags {
	unsigned long skc_flags;
};
struct sock___ending {
	int sk_err;
	atomic_t sk_drops;
};
struct tcp_sock___fast_open {
	__u8 syn_data : 1;
	__u8 syn_fastopen : 1;
	__u8 syn_data_acked : 1;
	void *fastopen_rsk;
};
#pragma clang attribute pop

/* The ports that the target listens on: of a received SYN there is no more to go by. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct listener_key);
	__type(value, __u8);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} listeners SEC(".maps");

static __always_inline bool connects_wanted(void)
{
	return config.flags & CONFIG_CONNECTS;
}

/* What a listener of the target had dropped when it was found. Not copied to its children. */
SOCKET_STORAGE(dropped_before, __u32, 0);

/* A socket of the target listens. */
static __always_inline void connect_listening(void *socket, const struct sock *sk)
{
	struct listener_key key = { .network = network_of(&sk->__sk_common), .port = sk->__sk_common.skc_num };
	const struct sock___ending *ending = (const void *)sk;
	__u32 *before;
	__u8 one = 1;

	if (!connects_wanted())
		return;
	bpf_map_update_elem(&listeners, &key, &one, BPF_ANY);
	before = bpf_sk_storage_get(&dropped_before, socket, ZERO_OF(__u32), BPF_SK_STORAGE_GET_F_CREATE);
	if (before)
		*before = ending->sk_drops.counter;
}

/* A SYN came: the socket operations `op` is asked with the request that it has made. */
static __noinline void connect_requested(struct bpf_sock_ops *skops, __u32 op)
{
	struct request_key key = {};
	struct request fresh = {}, *request;
	__u32 *local = (__u32 *)key.local, *remote = (__u32 *)key.remote, local4, remote4;
	__u64 now;

	if (!connects_wanted())
		return;
	key.network = OLDER ? 0 : bpf_get_netns_cookie(skops);
	key.local_port = skops->local_port;
	key.remote_port = bpf_ntohl(skops->remote_port);
	/* Each read by itself: the verifier takes no context pointer that was chosen between two.
	 */
	local4 = skops->local_ip4;
	barrier_var(local4);
	remote4 = skops->remote_ip4;
	barrier_var(remote4);
	local[0] = skops->local_ip6[0];
	local[1] = skops->local_ip6[1];
	local[2] = skops->local_ip6[2];
	local[3] = skops->local_ip6[3];
	remote[0] = skops->remote_ip6[0];
	remote[1] = skops->remote_ip6[1];
	remote[2] = skops->remote_ip6[2];
	remote[3] = skops->remote_ip6[3];
	barrier();
	if (skops->family == AF_INET) {
		local[0] = local[1] = remote[0] = remote[1] = 0;
		local[2] = remote[2] = bpf_htonl(0xffff);
		local[3] = local4;
		remote[3] = remote4;
	}
	now = bpf_ktime_get_ns();
	if (op == BPF_SOCK_OPS_TIMEOUT_INIT) {
		request = bpf_map_lookup_elem(&requests, &key);
		if (request && !request->answered)
			request->answered = now;
		return;
	}
	{
		struct listener_key listener = { .network = key.network, .port = key.local_port };

		if (!bpf_map_lookup_elem(&listeners, &listener))
			return;
	}
	fresh.syn = now;
	if (bpf_map_update_elem(&requests, &key, &fresh, BPF_ANY))
		COUNT_CONNECT(requests_full, 1);
}

/* The current process closes, or resets, the connection: the first time counts. */
static __always_inline void connect_closer(struct setup *connect)
{
	const struct task_struct___ending *task = (const void *)bpf_get_current_task_btf();

	if (connect->closer)
		return;
	connect->closer = current_pid();
	if (FIELD(task, flags) & PF_EXITING) {
		connect->flags |= CONNECT_EXITING;
		connect->exit_code = FIELD(task, exit_code);
	}
}

/* Hands a connection's record on, now that it is closed or tracing ends. */
static __always_inline void connect_over(struct socket_info *info, const struct row *row, const struct tcp_sock *tp, struct setup_end *end)
{
	const struct tcp_sock___fast_open *fast_open = (const void *)tp;
	struct setup *connect = &info->setup;

	if (row) {
		end->first_out = row->first_out;
		end->first_in = row->first_in;
		if (row->used)
			connect->flags &= ~CONNECT_OTHERS;
	}
	if (BPF_CORE_READ_BITFIELD(fast_open, syn_data_acked))
		connect->flags |= CONNECT_SYN_DATA_ACKED;
	if (!(connect->flags & CONNECT_OTHERS))
		setup_out(info, sock_of(tp), RECORD_CONNECT, end);
	connect->known = 0;
	if (connect->retries) {
		__u64 cookie = sock_of(tp)->__sk_common.skc_cookie.counter;

		bpf_map_delete_elem(&setup_retries, &cookie);
	}
}

/* A socket goes, or tracing ends, before its connection is closed. */
static OWN_STACK void connect_gone(struct socket_info *info, const struct row *row, const struct tcp_sock *tp)
{
	if (info->setup.known) {
		struct setup_end open = {};

		connect_over(info, row, tp, &open);
	}
}

/* Counts what a listener has dropped since it was looked at last: `before` is what it had dropped
 * by then, NULL of other sockets. */
static __always_inline void listener_look(const struct socket_info *info, const struct sock *sk, __u32 *before)
{
	const struct sock___ending *ending = (const void *)sk;
	__u32 dropped;

	if (!before)
		return;
	dropped = (__u32)ending->sk_drops.counter - *before;
	if (!dropped)
		return;
	*before += dropped;
	COUNT_CONNECT(listen_drops, dropped);
	listener_count(sk, info->comm, dropped);
}

/* Its state changes from `from` to `to`. */
static __always_inline void connect_state(struct socket_info *info, const struct row *row, const struct tcp_sock *tp,
					  __u32 from, __u32 to, __u64 now)
{
	const struct sock *sk = sock_of(tp);
	const struct sock___ending *ending = (const void *)sk;
	const struct sock_common___flags *common = (const void *)&sk->__sk_common;
	struct setup_end end = {};
	struct setup *connect;

	if (!info || !info->setup.known)
		return;
	connect = &info->setup;
	switch (to) {
	case TCP_FIN_WAIT1:
	case TCP_LAST_ACK:
		connect->fin_out = now;
		connect_closer(connect);
		return;
	case TCP_CLOSE_WAIT:
	case TCP_CLOSING:
		connect->fin_in = now;
		return;
	case TCP_CLOSE:
		break;
	default:
		return;
	}
	end.state = from;
	end.closed = now;
	end.error = ending->sk_err;
	if (!connect->fin_in && connect->fin_out && common->skc_flags & SOCK_DONE_FLAG)
		connect->fin_in = now;
	if (!end.error && !connect->fin_out)
		connect_closer(connect);
	connect_over(info, row, tp, &end);
}

/* A packet of the socket was retransmitted. */
static __always_inline void connect_retransmitted(struct socket_info *info, const struct sock *sk)
{
	if (info && info->setup.known && sk->__sk_common.skc_state == TCP_SYN_SENT)
		setup_retried(&info->setup, sk->__sk_common.skc_cookie.counter, bpf_ktime_get_ns());
}

/* The caller has asked for the socket's cookie: so it has one. */
static __always_inline void connect_begin(struct setup *connect, const struct tcp_sock *tp, __u32 opening)
{
	__builtin_memset(connect, 0, sizeof(*connect));
	connect->known = 1;
	connect->begun = bpf_ktime_get_ns();
	connect->opening = opening;
	connect->had = tp->bpf_sock_ops_cb_flags & (CALLS | PACKETS);
	connect->syn_bytes = tp->write_seq;
}

/* A SYN is about to be sent: `info` is there where the socket is in the target. */
static __always_inline void connect_begun(struct bpf_sock_ops *skops, struct bpf_sock *sk, const struct tcp_sock *tp)
{
	struct socket_info *info = bpf_sk_storage_get(&sockets, sk, NULL, 0);
	const struct control *now_set = control();

	if (!connects_wanted() || !info || !now_set || now_set->ending)
		return;
	bpf_get_socket_cookie(skops);
	connect_begin(&info->setup, tp, OPENING_CONNECTED);
	info->setup.flags = CONNECT_SYN;
	if (STAMPS)
		bpf_sock_ops_cb_flags_set(skops, skops->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG |
							 BPF_SOCK_OPS_RETRANS_CB_FLAG);
}

/* A connection is established, and followed where it is in the target and there is room. */
static __noinline void connect_established(struct bpf_sock_ops *skops, struct bpf_sock *sk, const struct tcp_sock *tp,
						bool accepted)
{
	struct socket_info *info = bpf_sk_storage_get(&sockets, sk, NULL, 0);
	const struct tcp_sock___fast_open *fast_open = (const void *)tp;
	const struct control *now_set = control();
	struct setup *connect;
	struct request_key key = {};
	struct request *request;
	struct row *row;

	if (!connects_wanted() || !info)
		return;
	connect = &info->setup;
	if (accepted) {
		request_key_of(&key, &sock_of(tp)->__sk_common);
		request = bpf_map_lookup_elem(&requests, &key);
		if (now_set && !now_set->ending && addresses_match(sock_of(tp), false)) {
			__u64 cookie = bpf_get_socket_cookie(skops);

			connect_begin(connect, tp, OPENING_ACCEPTED);
			if (fast_open->fastopen_rsk)
				connect->flags |= CONNECT_FAST_OPEN;
			if (request) {
				connect->flags |= CONNECT_SYN;
				connect->begun = request->syn;
				connect->answered = request->answered;
				connect->retries = request->retries;
			}
			if (request && request->retries) {
				struct setup_retries retries = {};

				for (int i = 0; i < CONNECT_RETRIES; i++)
					if (request->retried[i])
						retries.at[i] = (request->retried[i] - request->syn) / 1000;
				bpf_map_update_elem(&setup_retries, &cookie, &retries, BPF_ANY);
			}
		}
		if (request)
			bpf_map_delete_elem(&requests, &key);
	} else {
		if (connect->known) {
			connect->syn_bytes = tp->write_seq - connect->syn_bytes - 1;
			if (BPF_CORE_READ_BITFIELD(fast_open, syn_data) || BPF_CORE_READ_BITFIELD(fast_open, syn_fastopen))
				connect->flags |= CONNECT_FAST_OPEN;
		}
	}
	if (!connect->known)
		return;
	if (accepted)
		connect->syn_bytes = 0;
	connect->established = bpf_ktime_get_ns();
	setup_done(info, sock_of(tp));
	row = row_at(info->row);
	if (row) {
		row->callbacks = connect->had;
		/* Data in the SYN was written before the connection was followed: it lowers the
		 * coverage. */
		row->position -= connect->syn_bytes;
	} else if (STAMPS)
		bpf_sock_ops_cb_flags_set(skops, skops->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG);
}

/* A connection was there when tracing began, perhaps not established yet. */
static __always_inline void connect_found(struct tcp_sock *tp, const struct tcp_sock *view, struct socket_info *info)
{
	struct setup *connect = &info->setup;

	if (!connects_wanted() || connect->known)
		return;
	bpf_get_socket_cookie(tp);
	connect_begin(connect, view, OPENING_FOUND);
	if (sock_of(view)->__sk_common.skc_state == TCP_SYN_SENT)
		connect->opening = OPENING_CONNECTED;
}
