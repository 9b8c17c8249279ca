/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* SYNs that were received and have no socket yet, and what the probe of connections shares with the
 * sends' programs. */
#pragma once
#include "announce.h"
#include "connect_record.h"

/* By the cookie of the socket: of most connections nothing was retransmitted while they were set
 * up. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u64);
	__type(value, struct setup_retries);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} setup_retries SEC(".maps");

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

	return OLDER ? 0 : BPF_CORE_READ(net, net_cookie);
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
static __always_inline void setup_retried(struct setup *setup, __u64 cookie, __u64 now)
{
	struct setup_retries first = {}, *retries;
	__u32 n = setup->retries;

	setup->retries = n + 1;
	if (n >= CONNECT_RETRIES)
		return;
	retries = bpf_map_lookup_elem(&setup_retries, &cookie);
	if (retries) {
		retries->at[n & (CONNECT_RETRIES - 1)] = (now - setup->begun) / 1000;
	} else if (!n) {
		first.at[0] = (now - setup->begun) / 1000;
		bpf_map_update_elem(&setup_retries, &cookie, &first, BPF_ANY);
	}
}

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct inet_sock___setup {
	__be16 inet_sport;
};
#pragma clang attribute pop

/* How a connection ended, and when its first bytes were written and came; all zero where it is
 * open. */
struct setup_end {
	__u64 closed;
	__u64 first_out;
	__u64 first_in;
	__u32 error;
	__u8 state;
};

static __always_inline void setup_out(const struct socket_info *info, const struct sock *sk, __u32 kind, const struct setup_end *end)
{
	struct connect_record *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	const struct setup *setup = &info->setup;
	const struct setup_retries *retries = NULL;
	__u64 cookie = sk->__sk_common.skc_cookie.counter;
	const struct cgroup *cgroup = cgroup_of(sk);

	if (!record) {
		COUNT_CONNECT(ring_buffer, 1);
		return;
	}
	record->kind = kind;
	record->pid = info->pid;
	record->cookie = cookie;
	ENDS(record, sk);
	/* A socket that was just closed may have given its number of the port back. */
	record->local_port = bpf_ntohs(((const struct inet_sock___setup *)sk)->inet_sport);
	record->opening = setup->opening;
	record->state = end->state;
	record->flags = setup->flags;
	record->pad = 0;
	record->syn = setup->flags & CONNECT_SYN ? setup->begun : 0;
	record->answered = setup->answered;
	record->established = setup->established;
	record->accepted = setup->accepted;
	record->first_out = end->first_out;
	record->first_in = end->first_in;
	record->fin_out = setup->fin_out;
	record->fin_in = setup->fin_in;
	record->reset_in = setup->reset_in;
	record->closed = end->closed;
	if (setup->retries)
		retries = bpf_map_lookup_elem(&setup_retries, &cookie);
	for (int i = 0; i < CONNECT_RETRIES; i++)
		record->retried[i] = retries && retries->at[i] ? setup->begun + retries->at[i] * 1000ull : 0;
	record->cgroup = cgroup ? BPF_CORE_READ(cgroup, kn, id) : 0;
	record->retries = setup->retries;
	record->error = end->error;
	record->closer = setup->closer;
	record->exit_code = setup->exit_code;
	record->syn_bytes = setup->established ? setup->syn_bytes : 0;
	record->pad_end = 0;
	__builtin_memcpy(record->comm, info->comm, sizeof(record->comm));
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* The connection is established, or accepted. */
static __always_inline void setup_done(const struct socket_info *info, const struct sock *sk)
{
	struct setup_end open = {};

	setup_out(info, sk, RECORD_SET_UP, &open);
}
