/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the kernel has for packets, datagrams and system calls. */
#pragma once

/* The kernel's types that only this probe reads; relocated like those of kernel.h. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sk_buff___packets {
	struct net_device *dev;
	int skb_iif;
	__s64 tstamp;
};
struct sock_common___packets {
	struct sock *skc_listener;
};
struct sk_backlog {
	atomic_t rmem_alloc;
};
struct sock___packets {
	void *sk_bpf_storage; /* 5.2 */
	struct sk_backlog sk_backlog;
};
struct skb_frag___packets {
	__u64 first_word;
};
struct skb_shared_info___packets {
	__u8 nr_frags;
	struct skb_frag___packets frags[1];
};
struct file___packets {
	void *private_data;
};
struct fdtable___packets {
	unsigned int max_fds;
	struct file___packets **fd;
};
struct files_struct___packets {
	struct fdtable___packets *fdt;
};
struct task_struct___packets {
	struct files_struct___packets *files;
};
struct socket___packets {
	struct sock *sk;
};
#ifdef __TARGET_ARCH_arm64
struct user_pt_regs___packets {
	__u64 regs[31];
};
#else
struct pt_regs___packets {
	unsigned long di;
	unsigned long dx;
};
#endif
#pragma clang attribute pop

enum bpf_func_id___packets {
	BPF_FUNC_ktime_get_tai_ns___packets = 208,
};

/* Contexts: their offsets are ABI (include/uapi/linux/bpf.h) and are not relocated. */
struct __sk_buff {
	__u32 len;
	__u32 before_data[18];
	__u32 data;
	__u32 data_end;
	__u32 before_tstamp[16];
	__u64 tstamp;
	__u32 wire_len;
	__u32 gso_segs;
	union {
		struct bpf_sock *sk;
		__u64 : 64;
	} __attribute__((aligned(8)));
};

enum { BPF_SOCK_OPS_TIMEOUT_INIT = 1 };
/* include/linux/socket.h */
enum { MSG_PEEK = 2, MSG_ERRQUEUE = 0x2000 };
/* include/linux/netdevice.h: the driver gives the packet back. */
enum { NETDEV_TX_BUSY = 0x10 };

/* skb_frag_t: the same sizes and places whether it is bio_vec (before 6.9) or skb_frag, so not
 * relocated. */
struct fragment {
	__u64 page;
	__u32 length;
	__u32 offset;
};
