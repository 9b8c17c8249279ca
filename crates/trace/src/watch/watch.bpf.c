// SPDX-License-Identifier: MIT OR Apache-2.0
/* The fields of TCP connections: of all that are there, when the iterator passes, and of each when
 * it is established or ends.
 * The tracepoint sees every change of state on the machine and no packet, so it costs nothing while
 * connections last. */
#include "holders.h"
#include "targets.h"
#include "sample.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* Fields that only the watch reads. */
struct tcp_options_received___watch {
	__u16 wscale_ok : 1;
	__u16 snd_wscale : 4;
};
struct sock___watch {
	int sk_rcvbuf;
	struct {
		atomic_t rmem_alloc;
	} sk_backlog;
};
struct inet_connection_sock___watch {
	struct {
		__u8 quick;
		__u8 pingpong;
		/* A whole word before 6.10. */
		__u32 ato : 8;
	} icsk_ack;
};
struct tcp_sock___watch {
	__u16 tcp_header_len;
	__u32 mdev_us;
	struct tcp_options_received___watch rx_opt;
};

#pragma clang attribute pop

struct owner {
	__u32 pid;
	char comm[16];
};

/* Who opened a socket. Copied from a listener to its children. */
SOCKET_STORAGE(owners, struct owner, BPF_F_CLONE);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} records SEC(".maps");

/* Samples that found the ring buffer full. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} lost SEC(".maps");

static __always_inline void fill(struct sample_record *record, const struct tcp_sock *tp, const struct owner *owner,
				 __u64 cookie, __u8 moment)
{
	const struct sock *sk = (const struct sock *)tp;
	const struct sock___watch *buffers = (const void *)tp;
	const struct inet_connection_sock___watch *acks = (const void *)tp;
	const struct tcp_sock___watch *more = (const void *)tp;

	record->cookie = cookie;
	record->moment = moment;
	record->pacing_rate = sk->sk_pacing_rate;
	ENDS(record, sk);
	if (owner) {
		record->pid = owner->pid;
		__builtin_memcpy(record->comm, owner->comm, sizeof(record->comm));
	}
	record->header_length = more->tcp_header_len;
	record->mss = tp->mss_cache;
	record->srtt_us_8 = tp->srtt_us;
	record->rttvar_us_4 = more->mdev_us;
	record->cwnd = tp->snd_cwnd;
	record->retransmits = tp->total_retrans;
	record->ato = BPF_CORE_READ_BITFIELD(acks, icsk_ack.ato);
	record->quick_acks = acks->icsk_ack.quick;
	record->ping_pong = acks->icsk_ack.pingpong;
	record->receive_buffer = buffers->sk_rcvbuf;
	record->receive_buffer_used = buffers->sk_backlog.rmem_alloc.counter;
	record->scaling = BPF_CORE_READ_BITFIELD(more, rx_opt.wscale_ok);
	record->peer_scale = BPF_CORE_READ_BITFIELD(more, rx_opt.snd_wscale);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(state_set, const struct sock *sk, int from, int to)
{
	struct sample_record record = {};
	struct owner *owner;
	struct tcp_sock *tp;
	__u8 moment;

	if (sk->sk_protocol != IPPROTO_TCP)
		return 0;
	/* The task that connects or listens makes these two changes itself; the others may come in
	 * softirq. */
	if (to == TCP_SYN_SENT || to == TCP_LISTEN) {
		struct owner fresh = { .pid = current_pid() };

		if (by_process() && !pid_is_target(fresh.pid))
			return 0;
		current_comm(fresh.comm);
		bpf_sk_storage_get(&owners, (void *)sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
		return 0;
	}
	if (to == TCP_ESTABLISHED && (config.flags & CONFIG_AT_CONNECT))
		moment = MOMENT_CONNECT;
	/* What ends without having been established has no fields worth looking at. */
	else if (to == TCP_CLOSE && (config.flags & CONFIG_AT_CLOSE) && from != TCP_LISTEN && from != TCP_SYN_SENT &&
		 from != TCP_SYN_RECV && from != TCP_NEW_SYN_RECV && from != TCP_CLOSE)
		moment = MOMENT_CLOSE;
	else
		return 0;
	owner = bpf_sk_storage_get(&owners, (void *)sk, NULL, 0);
	if ((by_process() && !owner) || !addresses_match(sk, false) || !cgroup_matches(sk))
		return 0;
	tp = bpf_skc_to_tcp_sock((void *)sk);
	if (!tp)
		return 0;
	fill(&record, tp, owner, bpf_get_socket_cookie((void *)sk), moment);
	if (bpf_ringbuf_output(&records, &record, sizeof(record), 0)) {
		__u32 zero = 0;
		__u64 *n = bpf_map_lookup_elem(&lost, &zero);

		if (n)
			__sync_fetch_and_add(n, 1);
	}
	return 0;
}

INHERITED(owners)

#if OLDER
SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(destroyed, struct sock *sk)
{
	FORGET(owners, sk);
	return 0;
}
#endif

/* The owners of sockets that are there already. */
SEC("iter/task_file")
int held(struct bpf_iter__task_file *ctx)
{
	struct owner fresh = {};
	struct sock *sk = held_socket(ctx, SOCK_STREAM, IPPROTO_TCP);
	struct owner *owner;

	if (!sk)
		return 0;
	fresh.pid = holder_of(ctx, fresh.comm);
	if (!fresh.pid)
		return 0;
	owner = bpf_sk_storage_get(&owners, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
	if (owner)
		*owner = fresh;
	return 0;
}

/* One pass over the TCP sockets of a network namespace. */
SEC("iter/tcp")
int read_all(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct sample_record record = {};
	struct owner *known;
	const struct sock *sk;
	struct tcp_sock *tp;
	__u8 state;

	if (!common)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp)
		return 0;
	sk = (const struct sock *)tp;
	state = sk->__sk_common.skc_state;
	known = bpf_sk_storage_get(&owners, tp, NULL, 0);
	if (state == TCP_LISTEN || state == TCP_CLOSE || state == TCP_SYN_SENT || state == TCP_SYN_RECV)
		return 0;
	if ((by_process() && !known) || !addresses_match(sk, false) || !cgroup_matches(sk))
		return 0;
	fill(&record, tp, known, bpf_get_socket_cookie(tp), MOMENT_EVERY);
	bpf_seq_write(ctx->meta->seq, &record, sizeof(record));
	return 0;
}
