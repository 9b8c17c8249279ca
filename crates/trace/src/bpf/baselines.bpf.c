// SPDX-License-Identifier: MIT OR Apache-2.0
/* What the cost of tracing is compared with: the least that any tracer by timestamp callbacks pays,
 * and programs on the path of every send of the machine. They observe nothing. src/baselines.rs
 * says what each is for. */
#define STAMPS 1
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct task {
	__u32 port; /* the local or remote port of the sockets to work on */
	__u32 change; /* one of `enum change` */
};
enum change { CHANGE_NOTHING = 0, CHANGE_ARM = 1, CHANGE_DISARM = 2 };
SHARED(struct task);
SHARED(enum change);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct task);
	__uint(max_entries, 1);
} tasks SEC(".maps");

/* Arms or disarms, and writes each socket's callback flags as they are then: a byte of sockops
 * callbacks, a byte of socket ones. */
SEC("iter/tcp")
int flags(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	__u32 zero = 0;
	const struct task *task = bpf_map_lookup_elem(&tasks, &zero);
	const struct sock *sk;
	struct tcp_sock *tp;
	__u8 seen[2];

	if (!common || !task)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp)
		return 0;
	sk = (const struct sock *)&VIEW(tp, struct tcp_sock)->inet_conn.icsk_inet.sk;
	if (sk->__sk_common.skc_state == TCP_LISTEN ||
	    (sk->__sk_common.skc_num != task->port && bpf_ntohs(sk->__sk_common.skc_dport) != task->port))
		return 0;
	if (task->change != CHANGE_NOTHING) {
		int stamp = task->change == CHANGE_ARM ? SK_BPF_CB_TX_TIMESTAMPING : 0;

		bpf_setsockopt(tp, SOL_SOCKET, SK_BPF_CB_FLAGS, &stamp, sizeof(stamp));
	}
	seen[0] = VIEW(tp, struct tcp_sock)->bpf_sock_ops_cb_flags;
	seen[1] = sk->sk_bpf_cb_flags;
	bpf_seq_write(ctx->meta->seq, seen, sizeof(seen));
	return 0;
}

/* The floor: called for every send of an armed socket, it asks for no stamp. */
SEC("sockops")
int callback_floor(struct bpf_sock_ops *skops)
{
	return 1;
}

/* The floor of timing every send: it asks for the stamps of each, and the callbacks that bring them
 * return at once. */
SEC("sockops")
int callback_tagged(struct bpf_sock_ops *skops)
{
	if (skops->op == BPF_SOCK_OPS_TSTAMP_SENDMSG_CB)
		bpf_sock_ops_enable_tx_tstamp(bpf_cast_to_kern_ctx(skops), 0);
	return 1;
}

struct flow {
	__u64 task;
	__be32 source;
	__be32 destination;
	__be16 destination_port;
};

/* What a filter by address would read of each send, as the reference's second test does. */
static __always_inline void read_flow(const struct sock *sk)
{
	struct flow flow = { .task = bpf_get_current_pid_tgid() };

	flow.source = sk->__sk_common.skc_rcv_saddr;
	flow.destination = sk->__sk_common.skc_daddr;
	flow.destination_port = sk->__sk_common.skc_dport;
	/* Read for nothing, or the compiler would leave it out. */
	barrier_var(flow.task);
	asm volatile("" : : "r"(flow.source), "r"(flow.destination), "r"(flow.destination_port));
}

SEC("tp_btf/tcp_sendmsg_locked")
int tracepoint_empty(void *ctx)
{
	return 0;
}

SEC("tp_btf/tcp_sendmsg_locked")
int BPF_PROG(tracepoint_addresses, const struct sock *sk)
{
	read_flow(sk);
	return 0;
}

SEC("fentry/tcp_sendmsg")
int fentry_empty(void *ctx)
{
	return 0;
}

SEC("fentry/tcp_sendmsg")
int BPF_PROG(fentry_addresses, const struct sock *sk)
{
	read_flow(sk);
	return 0;
}
