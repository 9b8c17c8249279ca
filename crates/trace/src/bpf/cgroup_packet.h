/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Packets as programs of a cgroup (cgroup_skb, 4.10) see them. */
#pragma once
#include "kernel.h"

/* A context: its offsets are ABI (include/uapi/linux/bpf.h) and are not relocated. */
struct __sk_buff {
	__u32 len;
	__u32 before_sk[41];
	union {
		struct bpf_sock *sk;
		__u64 : 64;
	} __attribute__((aligned(8)));
};

/* The packet itself: the context is its address. Verifiers have taken it for that since 6.2
 * (bpf_cast_to_kern_ctx); before, its fields can be copied, which READ of kernel.h does. */
#define SKB_OF(ctx)                                                                            \
	(bpf_ksym_exists(bpf_cast_to_kern_ctx) ? CAST(bpf_cast_to_kern_ctx(ctx), struct sk_buff) \
					       : (const struct sk_buff *)(ctx))
