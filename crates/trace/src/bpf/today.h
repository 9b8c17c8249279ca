/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What older.h replaces on older kernels, as kernels of today have it. */
#pragma once

/* What is kept with a socket, and goes with it. */
#define SOCKET_STORAGE(name, of, flags)                                                       \
	struct {                                                                              \
		__uint(type, BPF_MAP_TYPE_SK_STORAGE);                                        \
		__uint(map_flags, BPF_F_NO_PREALLOC | (flags));                               \
		__type(key, int);                                                             \
		__type(value, of);                                                            \
	} name SEC(".maps")
#define FORGET(storage, sk)
#define STORAGE_FULL()
#define INHERITED(storage)

#define FETCH_AND_ADD(at, by) __sync_fetch_and_add(at, by)
#define TAKE_ALL(at) __sync_lock_test_and_set(at, 0)

/* Up to so many turns. */
#define EACH(most, callback, context, next) bpf_loop(most, callback, context, 0)

/* A field of what may be an address alone, and a word of a task's name. */
#define FIELD(task, field) ((task)->field)
#define NAME_WORD(name, word) (name)[word]

/* Sets what nobody has set yet: gives 0, or what stands there. */
#define SET_FIRST(at, value, entry, place) __sync_val_compare_and_swap(at, 0, value)

#define SOCKET_OF(file) bpf_sock_from_file(file)

/* The peer's address as IPv6. */
#define PEER_V6(sk) (&(sk)->__sk_common.skc_v6_daddr)

/* Storage begins as zeros. */
#define ZERO_OF(type) NULL

static __always_inline const struct cgroup *cgroup_of(const struct sock *sk)
{
	return sk->sk_cgrp_data.cgroup;
}

#define ANCESTOR_ID(cgroup, at, ancestor)                                                     \
	({                                                                                    \
		bpf_probe_read_kernel(&(ancestor), sizeof(ancestor), &(cgroup)->ancestors[at]); \
		BPF_CORE_READ(ancestor, kn, id);                                              \
	})

/* A function of pointers, verified by itself. */
#define TAKES_POINTERS __noinline

/* Inlined, where the stack of its caller has room for it. */
#define OWN_STACK __always_inline
