/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What takes the place of today.h in programs for older kernels, from 5.10 on: each source is
 * compiled a second time, with OLDER. Which of the two a kernel takes is tried (try_today in
 * capabilities.bpf.c).
 *
 * What such kernels lack, and the version that brought it: bpf_loop(), 5.17; settings of a socket
 * in iterators, 5.15; atomic operations that give the value before, the cookie of a socket in
 * tracepoints, functions of pointers that are verified by themselves, sections without a variable
 * in type information, 5.12; storage of sockets in tracepoints, the current task as a typed
 * pointer, 5.11. */
#pragma once

/* A bounded loop, which the verifier walks turn by turn. What may take more turns than it can walk
 * is a function of numbers alone, which it looks at once: `next` of EACH. */
enum { LOOP_TURNS = 24, EACH_TURNS = 2048 };
#define TURNS(most, ends)                                                                     \
	({                                                                                    \
		_Pragma("clang loop unroll(disable)")                                         \
		for (__u32 turn_ = 0; turn_ < (most); turn_++)                                \
			if (ends)                                                             \
				break;                                                        \
	})
#define bpf_loop(most, callback, context, flags)                                              \
	TURNS(__builtin_constant_p(most) ? (most) : LOOP_TURNS, callback(turn_, context))
#define EACH(most, callback, context, next) TURNS(EACH_TURNS, next)

/* What is kept with a socket, by its address: its end deletes it (FORGET). */
#define SOCKET_STORAGE(name, of, flags)                                                       \
	struct {                                                                              \
		__uint(type, BPF_MAP_TYPE_HASH);                                              \
		__uint(map_flags, BPF_F_NO_PREALLOC);                                         \
		__uint(max_entries, 131072);                                                  \
		__type(key, __u64);                                                           \
		__type(value, of);                                                            \
	} name SEC(".maps")
#define FORGET(storage, sk)                                                                   \
	({                                                                                    \
		__u64 key_ = (__u64)(sk);                                                     \
		bpf_map_delete_elem(&(storage), &key_);                                       \
	})

/* A connection found no room there. */
#define STORAGE_FULL() COUNT(connections_full)

/* A listener's children begin with what is kept with it. */
#define INHERITED(storage)                                                                    \
	SEC("fexit/inet_csk_clone_lock")                                                      \
	int BPF_PROG(cloned, struct sock *listener, void *request, unsigned int priority,     \
		     struct sock *child)                                                      \
	{                                                                                     \
		__u64 key_ = (__u64)child;                                                    \
		void *of_ = child ? storage_get(&(storage), listener, NULL, 0) : NULL;        \
                                                                                              \
		if (of_)                                                                      \
			bpf_map_update_elem(&(storage), &key_, of_, BPF_ANY);                 \
		return 0;                                                                     \
	}

static __always_inline void *storage_get(void *storage, const void *sk, const void *fresh, __u64 flags)
{
	__u64 key = (__u64)sk;
	void *found;

	if (!sk)
		return NULL;
	found = bpf_map_lookup_elem(storage, &key);
	if (found || !(flags & BPF_SK_STORAGE_GET_F_CREATE))
		return found;
	bpf_map_update_elem(storage, &key, fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(storage, &key);
}

/* The socket of a context is the same address as a typed pointer: only that may be a key. */
#define IS(value, type) __builtin_types_compatible_p(typeof(value), type)
#define ADDRESS_OF(sk)                                                                        \
	__builtin_choose_expr(IS(sk, struct bpf_sock *), (const void *)bpf_skc_to_tcp_sock((void *)(sk)), (const void *)(sk))
#define bpf_sk_storage_get(storage, sk, fresh, flags) storage_get(storage, ADDRESS_OF(sk), fresh, flags)

/* In tracepoints and iterators a socket has the cookie that someone has asked for before: of those
 * that were there already user space does. */
#define bpf_get_socket_cookie(context)                                                        \
	__builtin_choose_expr(IS(context, struct bpf_sock_ops *) || IS(context, struct __sk_buff *), \
			      bpf_get_socket_cookie(context), cookie_of((const void *)(context)))
static __always_inline __u64 cookie_of(const struct sock *sk)
{
	return sk->__sk_common.skc_cookie.counter;
}

/* Iterators set nothing: tracepoints report what the callbacks would. */
#define bpf_setsockopt(context, level, name, value, length)                                   \
	__builtin_choose_expr(IS(context, struct bpf_sock_ops *),                             \
			      bpf_setsockopt((void *)(context), level, name, value, length), 0)

/* The current task is an address alone: what is behind it is copied. */
#define bpf_get_current_task_btf() ((struct task_struct *)bpf_get_current_task())
#define FIELD(task, field) BPF_CORE_READ(task, field)
#define NAME_WORD(name, word)                                                                 \
	({                                                                                    \
		__u64 word_ = 0;                                                              \
		bpf_probe_read_kernel(&word_, sizeof(word_), (name) + (word));                \
		word_;                                                                        \
	})

/* Where two CPUs meet, both may be given the same value. */
#define FETCH_AND_ADD(at, by)                                                                 \
	({                                                                                    \
		typeof(*(at)) was_ = *(volatile typeof(at))(at);                              \
		__sync_fetch_and_add(at, by);                                                 \
		was_;                                                                         \
	})
#define TAKE_ALL(at)                                                                          \
	({                                                                                    \
		typeof(*(at)) was_ = *(volatile typeof(at))(at);                              \
		__sync_fetch_and_add(at, -was_);                                              \
		was_;                                                                         \
	})

/* Who is about to set a number, by its two names: one CPU at a time. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32[2]);
	__type(value, __u8);
} claims SEC(".maps");
static __always_inline __u32 set_first(__u32 *at, __u32 value, __u32 entry, __u32 place)
{
	__u32 key[2] = { entry, place }, there;
	__u8 one = 1;

	if (bpf_map_update_elem(&claims, key, &one, BPF_NOEXIST))
		return NOT_SET;
	there = *at;
	if (!there)
		*at = value;
	bpf_map_delete_elem(&claims, key);
	return there;
}
#define SET_FIRST(at, value, entry, place) set_first(at, value, entry, place)

/* bpf_sock_from_file() (5.11): files of sockets lie in a file system of their own. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct super_block___of_sockets {
	unsigned long s_magic;
};
struct inode___of_sockets {
	struct super_block___of_sockets *i_sb;
};
struct file___of_sockets {
	struct inode___of_sockets *f_inode;
	void *private_data;
};
#pragma clang attribute pop
static __always_inline const struct socket *socket_of(const void *of)
{
	const struct file___of_sockets *file = of;

	return BPF_CORE_READ(file, f_inode, i_sb, s_magic) == 0x534f434b ? BPF_CORE_READ(file, private_data) : NULL;
}
#define SOCKET_OF(file) socket_of(file)

#define PEER_V6(sk)                                                                           \
	({                                                                                    \
		struct in6_addr *to_ = &(struct in6_addr){};                                  \
		bpf_core_read(to_, sizeof(*to_), &(sk)->__sk_common.skc_v6_daddr);            \
		to_;                                                                          \
	})

#define ZERO_OF(type) (&(type){ 0 })

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct cgroup___before {
	int level;
	__u64 ancestor_ids[];
};
/* Before 5.15: the lowest two bits are flags. */
struct sock_cgroup_data___before {
	__u64 val;
};
#pragma clang attribute pop

/* The root's cgroup, where the flags are set, is no one's target. */
static __always_inline const struct cgroup *cgroup_of(const struct sock *sk)
{
	const struct sock_cgroup_data___before *before = (const void *)&sk->sk_cgrp_data;
	__u64 of;

	if (bpf_core_field_exists(sk->sk_cgrp_data.cgroup))
		return (const void *)BPF_CORE_READ(sk, sk_cgrp_data.cgroup);
	of = BPF_CORE_READ(before, val);
	return of & 3 ? NULL : (const struct cgroup *)of;
}

#define ANCESTOR_ID(cgroup, at, ancestor)                                                     \
	({                                                                                    \
		const struct cgroup___before *before_ = (const void *)(cgroup);               \
		__u64 id_ = 0;                                                                \
		if (bpf_core_field_exists((cgroup)->ancestors)) {                             \
			bpf_probe_read_kernel(&(ancestor), sizeof(ancestor), &(cgroup)->ancestors[at]); \
			id_ = BPF_CORE_READ(ancestor, kn, id);                                \
		} else {                                                                      \
			bpf_probe_read_kernel(&id_, sizeof(id_), &before_->ancestor_ids[at]); \
		}                                                                             \
		id_;                                                                          \
	})

/* Before 5.12 only functions of numbers are verified by themselves. */
#define TAKES_POINTERS static __noinline

/* A function of its own, with a stack of its own: before 5.13 there are 512 bytes for all that call
 * each other, and what is inlined has its share for good. */
#define OWN_STACK __noinline
