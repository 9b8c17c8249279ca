/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the programs of several probes ask of a packet and of the socket that it belongs to. */
#pragma once
#include "kernel.h"

static __always_inline bool full_socket(__u32 state)
{
	return state != TCP_TIME_WAIT && state != TCP_NEW_SYN_RECV;
}

static __always_inline const struct skb_shared_info *shared_of(const struct sk_buff *skb)
{
	/* skb_end_pointer(), where offsets are used: on all 64-bit kernels. */
	return (const struct skb_shared_info *)(READ(skb, head) + READ(skb, end));
}

static __always_inline __u32 segments_of(const struct sk_buff *skb)
{
	__u16 segments = BPF_CORE_READ(shared_of(skb), gso_segs);

	return segments ? segments : 1;
}
