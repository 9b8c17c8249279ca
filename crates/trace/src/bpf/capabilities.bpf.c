// SPDX-License-Identifier: MIT OR Apache-2.0
/* One empty program of each type, loaded one at a time to see what this kernel allows. */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ring SEC(".maps");

struct __sk_buff {
	__u32 len;
};
struct xdp_md {
	__u32 data;
};

SEC("sockops")
int try_sockops(struct bpf_sock_ops *ctx)
{
	return 1;
}

SEC("tp_btf/tcp_probe")
int try_tp_btf(void *ctx)
{
	return 0;
}

SOCKET_STORAGE(storage, __u32, 0);

static long turn(__u32 i, void *context)
{
	return 1;
}

/* What all programs for kernels of today have: older.h replaces it. */
SEC("tp_btf/tcp_probe")
int BPF_PROG(try_today, struct sock *sk)
{
	__u32 *kept = bpf_sk_storage_get(&storage, sk, NULL, 0);

	bpf_loop(bpf_get_current_task_btf()->tgid, turn, NULL, 0);
	return kept ? FETCH_AND_ADD(kept, 1) : 0;
}

SEC("tp_btf/tcp_sendmsg_locked")
int try_tp_sendmsg(void *ctx)
{
	return 0;
}

SEC("raw_tp/sched_switch")
int try_raw_tp(void *ctx)
{
	return 0;
}

SEC("iter/tcp")
int try_iter_tcp(struct bpf_iter__tcp *ctx)
{
	return 0;
}

SEC("fentry/tcp_sendmsg_locked")
int try_fentry(void *ctx)
{
	return 0;
}

SEC("cgroup_skb/egress")
int try_cgroup_skb(struct __sk_buff *ctx)
{
	return 1;
}

SEC("xdp")
int try_xdp(struct xdp_md *ctx)
{
	return 2;
}

SEC("tc")
int try_tc(struct __sk_buff *ctx)
{
	return 0;
}

SEC("raw_tp/sched_switch")
int try_ring_buffer(void *ctx)
{
	__u64 nothing = 0;

	bpf_ringbuf_output(&ring, &nothing, sizeof(nothing), BPF_RB_NO_WAKEUP);
	return 0;
}
