/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which sockets are in the target. Criteria of different kinds are ANDed, several of one kind ORed.
 */
#pragma once
#include "processes.h"
#include "ends.h"

/* A bit for each port of the target. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 65536 / 64);
} ports SEC(".maps");

static __always_inline bool port_matches(__u16 port)
{
	__u32 word = port / 64;
	__u64 *bits = bpf_map_lookup_elem(&ports, &word);

	return bits && (*bits >> (port % 64) & 1);
}

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__type(key, struct prefix);
	__type(value, __u8);
	__uint(max_entries, 1024);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} peers SEC(".maps");

/* Whether an address is in one of the networks of the target. The longest prefix of an IPv4 address
 * is one of IPv4 where there is any. */
static __always_inline bool peer_matches(const struct prefix *prefix)
{
	const __u32 *words = (const __u32 *)prefix->address;
	__u8 *of = bpf_map_lookup_elem(&peers, prefix);

	if (!of)
		return false;
	return *of == PEER_IPV4 || words[0] || words[1] || words[2] != bpf_htonl(0xffff);
}

/* The criteria that addresses decide: ports and peers. A listener has no peer: its children are
 * looked at. */
static __always_inline bool addresses_match(const struct sock *sk, bool listener)
{
	__u16 local = FIELD(sk, __sk_common.skc_num), remote = bpf_ntohs(FIELD(sk, __sk_common.skc_dport));

	if ((config.flags & CONFIG_PORTS) && !port_matches(local) && (listener || !port_matches(remote)))
		return false;
	if ((config.flags & CONFIG_PEERS) && !listener) {
		struct prefix prefix = {};

		prefix.bits = 128;
		address(prefix.address, FIELD(sk, __sk_common.skc_family), FIELD(sk, __sk_common.skc_daddr), PEER_V6(sk));
		if (!peer_matches(&prefix))
			return false;
	}
	return true;
}

/* The cgroups of the target, by id, each with its `cgroup_age`: user space changes it as they come
 * and go. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u64);
	__type(value, __u8);
	__uint(max_entries, MAX_CGROUPS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} cgroups SEC(".maps");

/* The age of the innermost cgroup of the target that this one is or is below; 0 where there is
 * none. */
static __noinline __u8 age_of(const struct cgroup *cgroup)
{
	int level;

	if (!cgroup)
		return 0;
	level = BPF_CORE_READ(cgroup, level);
	for (__u32 above = 0; above <= MAX_LEVELS && level >= 0; above++) {
		struct cgroup *ancestor = NULL;
		/* The verifier is to see that this is a bounded place. */
		__u64 at = level & 255;
		__u64 id;
		__u8 *age;

		barrier_var(at);
		at &= 255;
		id = ANCESTOR_ID(cgroup, at, ancestor);
		age = bpf_map_lookup_elem(&cgroups, &id);
		if (age)
			return *age;
		level--;
	}
	return 0;
}

/* Whether cgroups are a criterion. */
static __always_inline bool by_cgroup(void)
{
	return config.flags & CONFIG_CGROUP;
}

/* Whether the socket was made in a cgroup of the target or one below it. */
static __always_inline bool cgroup_matches(const struct sock *sk)
{
	return !by_cgroup() || age_of(cgroup_of(sk));
}

/* Whether its cgroup has come since the trace began, and it with it. */
static __always_inline bool is_of_late_cgroup(const struct sock *sk)
{
	return by_cgroup() && age_of(cgroup_of(sk)) == CGROUP_CAME;
}

/* Whether the current task is in a cgroup of the target or one below it. */
static __always_inline bool task_matches(void)
{
	return !by_cgroup() || age_of(BPF_CORE_READ(bpf_get_current_task_btf(), cgroups, dfl_cgrp));
}
