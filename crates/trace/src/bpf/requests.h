/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* SYNs that were received and have no socket yet, and what the probe of connections shares with the sends' programs. */
#pragma once
#include "announce.h"
#include "connect_record.h"

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct connect_record);
} connects SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct request_key);
	__type(value, struct request);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} requests SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct connect_lost);
	__uint(max_entries, 1);
} connect_losses SEC(".maps");

#define COUNT_CONNECT(field, by)                                                             \
	do {                                                                                 \
		__u32 zero_ = 0;                                                             \
		struct connect_lost *l_ = bpf_map_lookup_elem(&connect_losses, &zero_);      \
		if (l_)                                                                      \
			__sync_fetch_and_add(&l_->field, (by));                              \
	} while (0)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct net___cookie {
	__u64 net_cookie; /* 5.12 */
};
#pragma clang attribute pop

static __always_inline __u64 network_of(const struct sock_common *common)
{
	const struct net___cookie *net = (const void *)common->skc_net.net;

	return BPF_CORE_READ(net, net_cookie);
}

static __always_inline void request_key_of(struct request_key *key, const struct sock_common *common)
{
	__u16 family = common->skc_family;

	key->network = network_of(common);
	key->local_port = common->skc_num;
	key->remote_port = bpf_ntohs(common->skc_dport);
	address(key->local, family, common->skc_rcv_saddr, &common->skc_v6_rcv_saddr);
	address(key->remote, family, common->skc_daddr, &common->skc_v6_daddr);
}

static __always_inline void retried(__u64 at[CONNECT_RETRIES], __u32 *count, __u64 now)
{
	__u32 n = *count;

	if (n < CONNECT_RETRIES)
		at[n & (CONNECT_RETRIES - 1)] = now;
	*count = n + 1;
}

static __always_inline void connect_out(struct connect_record *connect, __u32 kind)
{
	connect->kind = kind;
	if (bpf_ringbuf_output(&records, connect, sizeof(*connect), BPF_RB_NO_WAKEUP))
		COUNT_CONNECT(ring_buffer, 1);
}
