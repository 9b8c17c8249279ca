/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which sockets are in the target. Criteria of different kinds are ANDed, several of one kind ORed. */
#pragma once
#include "processes.h"

struct owner {
	__u32 pid;
	char comm[16];
};
SHARED(struct owner);

/* Socket inodes that target processes hold open, as found in /proc; used by the iterator only. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u64);
	__type(value, struct owner);
	__uint(max_entries, 131072);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} inodes SEC(".maps");

/* The process of the target that holds the socket open; NULL where none is known to. */
static __always_inline struct owner *owner_of(const struct sock *sk)
{
	const struct socket_alloc *alloc = (const struct socket_alloc *)sk->sk_socket;
	__u64 inode;

	if (!alloc)
		return NULL;
	inode = BPF_CORE_READ(alloc, vfs_inode.i_ino);
	return bpf_map_lookup_elem(&inodes, &inode);
}

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u16);
	__type(value, __u8);
	__uint(max_entries, 1024);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__type(key, struct prefix);
	__type(value, __u8);
	__uint(max_entries, 1024);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} peers SEC(".maps");

/* Whether processes are a criterion. */
static __always_inline bool by_process(void)
{
	struct control *now_set;

	if (config.flags & CONFIG_PIDS)
		return true;
	now_set = control();
	return now_set && now_set->by_process;
}

/* An address as 16 bytes, IPv4 as IPv4-mapped IPv6. */
static __always_inline void address(__u8 *to, __u16 family, __be32 v4, const struct in6_addr *v6)
{
	__u32 *words = (__u32 *)to;

	if (family == AF_INET) {
		words[0] = 0;
		words[1] = 0;
		words[2] = bpf_htonl(0xffff);
		words[3] = v4;
	} else {
		for (int i = 0; i < 4; i++)
			words[i] = v6->in6_u.u6_addr32[i];
	}
}

/* Whether an address is in one of the networks of the target. The longest prefix of an IPv4 address is one of IPv4 where there is any. */
static __always_inline bool peer_matches(const struct prefix *prefix)
{
	const __u32 *words = (const __u32 *)prefix->address;
	__u8 *of = bpf_map_lookup_elem(&peers, prefix);

	if (!of)
		return false;
	return *of == PEER_IPV4 || words[0] || words[1] || words[2] != bpf_htonl(0xffff);
}

/* Sets the addresses and ports of a record. */
#define ENDS(record, sk)                                                                                \
	({                                                                                              \
		const struct sock_common *ends_ = &(sk)->__sk_common;                                   \
		__u16 family_ = ends_->skc_family;                                                      \
		(record)->local_port = ends_->skc_num;                                                  \
		(record)->remote_port = bpf_ntohs(ends_->skc_dport);                                    \
		address((record)->local, family_, ends_->skc_rcv_saddr, &ends_->skc_v6_rcv_saddr);      \
		address((record)->remote, family_, ends_->skc_daddr, &ends_->skc_v6_daddr);             \
	})

/* The criteria that addresses decide: ports and peers. A listener has no peer: its children are looked at. */
static __always_inline bool addresses_match(const struct sock *sk, bool listener)
{
	__u16 local = sk->__sk_common.skc_num, remote = bpf_ntohs(sk->__sk_common.skc_dport);

	if ((config.flags & CONFIG_PORTS) && !bpf_map_lookup_elem(&ports, &local) &&
	    (listener || !bpf_map_lookup_elem(&ports, &remote)))
		return false;
	if ((config.flags & CONFIG_PEERS) && !listener) {
		struct prefix prefix = { .bits = 128 };

		address(prefix.address, sk->__sk_common.skc_family, sk->__sk_common.skc_daddr, &sk->__sk_common.skc_v6_daddr);
		if (!peer_matches(&prefix))
			return false;
	}
	return true;
}

/* Whether the socket belongs to the target cgroup or one below it. (A sockops program is attached there, so it need not ask.) */
static __always_inline bool cgroup_matches(const struct sock *sk)
{
	const struct cgroup *cgroup;

	if (!(config.flags & CONFIG_CGROUP))
		return true;
	cgroup = sk->sk_cgrp_data.cgroup;
	if (!cgroup || cgroup->level < config.cgroup_level || config.cgroup_level < 0 || config.cgroup_level > 256)
		return false;
	{
		struct cgroup *ancestor = NULL;

		bpf_probe_read_kernel(&ancestor, sizeof(ancestor), &cgroup->ancestors[config.cgroup_level]);
		return BPF_CORE_READ(ancestor, kn, id) == config.cgroup_id;
	}
}
