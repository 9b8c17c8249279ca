/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* SYNs that were received and have no socket yet, and what the probe of connections shares with the sends' programs. */
#pragma once
#include "announce.h"
#include "connect_record.h"

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct setup);
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

/* A SYN was retransmitted. */
static __always_inline void setup_retried(struct setup *setup, __u64 now)
{
	__u32 n = setup->retries;

	if (n < CONNECT_RETRIES)
		setup->retried[n & (CONNECT_RETRIES - 1)] = (now - setup->begun) / 1000;
	setup->retries = n + 1;
}

/* How a connection ended, and when its first bytes were written and came; all zero where it is open. */
struct setup_end {
	__u64 closed;
	__u64 first_out;
	__u64 first_in;
	__u32 error;
	__u8 state;
};

static __always_inline void setup_out(const struct setup *setup, __u32 kind, const struct setup_end *end)
{
	struct connect_record *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);

	if (!record) {
		COUNT_CONNECT(ring_buffer, 1);
		return;
	}
	record->kind = kind;
	record->pid = setup->pid;
	record->cookie = setup->cookie;
	__builtin_memcpy(record->local, setup->local, sizeof(record->local));
	__builtin_memcpy(record->remote, setup->remote, sizeof(record->remote));
	record->local_port = setup->local_port;
	record->remote_port = setup->remote_port;
	record->opening = setup->opening;
	record->state = end->state;
	record->flags = setup->flags;
	record->pad = 0;
	record->syn = setup->syn;
	record->answered = setup->answered;
	record->established = setup->established;
	record->accepted = setup->accepted;
	record->first_out = end->first_out;
	record->first_in = end->first_in;
	record->fin_out = setup->fin_out;
	record->fin_in = setup->fin_in;
	record->reset_in = setup->reset_in;
	record->closed = end->closed;
	for (int i = 0; i < CONNECT_RETRIES; i++)
		record->retried[i] = i < setup->retries ? setup->begun + setup->retried[i] * 1000ull : 0;
	record->retries = setup->retries;
	record->error = end->error;
	record->closer = setup->closer;
	record->exit_code = setup->exit_code;
	record->syn_bytes = setup->syn_bytes;
	record->pad_end = 0;
	__builtin_memcpy(record->comm, setup->comm, sizeof(record->comm));
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* The connection is established, or accepted. */
static __always_inline void setup_done(const struct setup *setup)
{
	struct setup_end open = {};

	setup_out(setup, RECORD_SET_UP, &open);
}
