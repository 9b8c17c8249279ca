/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The kernel types and constants these programs use, with only the fields they read. Offsets are
 * relocated at load time (CO-RE), so the order here means nothing and one build runs on every
 * kernel that has the fields. */
#pragma once

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef __u16 __sum16;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_endian.h>

#ifndef OLDER
#define OLDER 0
#endif

/* Shares a type with user space: build/bindings.rs makes a Rust one of what this section of the
 * object is said to hold. The loader skips the section. */
#define SHARED(type) SHARED_AS(type, __COUNTER__)
#define SHARED_AS(type, number) SHARED_NUMBERED(type, number)
#define SHARED_NUMBERED(type, number) type shared_##number SEC("shared")

/* include/uapi/linux/bpf.h */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LPM_TRIE = 11,
	BPF_MAP_TYPE_QUEUE = 22,
	BPF_MAP_TYPE_STACK = 23,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_F_NO_PREALLOC = 1, BPF_F_CLONE = 1 << 9, BPF_F_MMAPABLE = 1 << 10 };
enum { BPF_SK_STORAGE_GET_F_CREATE = 1 };
enum { BPF_RB_NO_WAKEUP = 1 };
enum { BPF_RB_AVAIL_DATA = 0, BPF_RB_RING_SIZE = 1 };

/* Contexts: their offsets are ABI and are not relocated. */
struct bpf_sock {
	__u32 bound_dev_if;
	__u32 family;
	__u32 type;
	__u32 protocol;
	__u32 mark;
	__u32 priority;
	__u32 src_ip4;
	__u32 src_ip6[4];
	__u32 src_port; /* host byte order */
	__be16 dst_port;
	__u32 dst_ip4;
	__u32 dst_ip6[4];
	__u32 state;
};
struct bpf_sock_addr {
	__u32 user_family;
	__u32 user_ip4;
	__u32 user_ip6[4];
	__u32 user_port;
	__u32 family;
	__u32 type;
	__u32 protocol;
	__u32 msg_src_ip4;
	__u32 msg_src_ip6[4];
	union {
		struct bpf_sock *sk;
		__u64 : 64;
	} __attribute__((aligned(8)));
};
struct bpf_sock_ops {
	__u32 op;
	__u32 args[4];
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 is_fullsock;
	__u32 snd_cwnd;
	__u32 srtt_us;
	__u32 bpf_sock_ops_cb_flags;
	__u32 state;
	__u32 rtt_min;
	__u32 snd_ssthresh;
	__u32 rcv_nxt;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 mss_cache;
	__u32 ecn_flags;
	__u32 rate_delivered;
	__u32 rate_interval_us;
	__u32 packets_out;
	__u32 retrans_out;
	__u32 total_retrans;
	__u32 segs_in;
	__u32 data_segs_in;
	__u32 segs_out;
	__u32 data_segs_out;
	__u32 lost_out;
	__u32 sacked_out;
	__u32 sk_txhash;
	__u64 bytes_received;
	__u64 bytes_acked;
	union {
		struct bpf_sock *sk;
		__u64 : 64;
	} __attribute__((aligned(8)));
};

enum {
	BPF_SOCK_OPS_TCP_CONNECT_CB = 3,
	BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB = 4,
	BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB = 5,
	BPF_SOCK_OPS_RTO_CB = 8,
	BPF_SOCK_OPS_RETRANS_CB = 9,
	BPF_SOCK_OPS_STATE_CB = 10,
	BPF_SOCK_OPS_TCP_LISTEN_CB = 11,
	BPF_SOCK_OPS_RTT_CB = 12,
	BPF_SOCK_OPS_HDR_OPT_LEN_CB = 14,
	/* 6.15 and later */
	BPF_SOCK_OPS_TSTAMP_SCHED_CB = 16,
	BPF_SOCK_OPS_TSTAMP_SND_SW_CB = 17,
	BPF_SOCK_OPS_TSTAMP_SND_HW_CB = 18,
	BPF_SOCK_OPS_TSTAMP_ACK_CB = 19,
	BPF_SOCK_OPS_TSTAMP_SENDMSG_CB = 20,
};
enum {
	BPF_SOCK_OPS_RTO_CB_FLAG = 1 << 0,
	BPF_SOCK_OPS_RETRANS_CB_FLAG = 1 << 1,
	BPF_SOCK_OPS_STATE_CB_FLAG = 1 << 2,
	BPF_SOCK_OPS_RTT_CB_FLAG = 1 << 3,
	BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG = 1 << 6,
};
enum { SOL_SOCKET = 1, SOL_TCP = 6 };
enum { TCP_BPF_SOCK_OPS_CB_FLAGS = 1008, SK_BPF_CB_FLAGS = 1009 };
enum { SK_BPF_CB_TX_TIMESTAMPING = 1 };
/* include/linux/skbuff.h */
enum { SKBTX_BPF = 1 << 7 };

enum { IPPROTO_TCP = 6 };
enum { AF_INET = 2, AF_INET6 = 10 };
enum { SOCK_STREAM = 1, SOCK_DGRAM = 2 };
enum {
	TCP_ESTABLISHED = 1,
	TCP_SYN_SENT = 2,
	TCP_SYN_RECV = 3,
	TCP_FIN_WAIT1 = 4,
	TCP_FIN_WAIT2 = 5,
	TCP_TIME_WAIT = 6,
	TCP_CLOSE = 7,
	TCP_CLOSE_WAIT = 8,
	TCP_LAST_ACK = 9,
	TCP_LISTEN = 10,
	TCP_CLOSING = 11,
	TCP_NEW_SYN_RECV = 12,
};
/* include/net/tcp.h, include/net/inet_connection_sock.h */
enum { TCP_NAGLE_OFF = 1, TCP_NAGLE_CORK = 2, TCP_NAGLE_PUSH = 4 };
enum tcp_ca_state { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };
SHARED(enum tcp_ca_state);
enum { TCP_CHRONO_BUSY = 1, TCP_CHRONO_RWND_LIMITED = 2, TCP_CHRONO_SNDBUF_LIMITED = 3 };
/* include/linux/tcp.h: bit 0 of sk_tsq_flags; include/net/sock.h */
enum { TSQF_THROTTLED = 1 << 0 };
enum { SK_PACING_NEEDED = 1, SK_PACING_FQ = 2 };
enum { TCPCB_EVER_RETRANS = 0x80 };

/* RFC 9293, section 3.1: a header is copied off the wire as it is, so not relocated. */
struct tcp_header {
	__be16 source;
	__be16 dest;
	__be32 seq;
	__be32 ack_seq;
	__u8 offset; /* in the upper four bits, of 4 bytes each */
	__u8 flags;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;
typedef struct {
	__s64 counter;
} atomic64_t;
typedef struct {
	atomic_t refs;
} refcount_t;
struct in6_addr {
	union {
		__u8 u6_addr8[16];
		__be32 u6_addr32[4];
	} in6_u;
};
struct ns_common {
	unsigned int inum;
};
struct netns_ipv4 {
	int sysctl_tcp_limit_output_bytes;
	unsigned int sysctl_tcp_notsent_lowat;
	__u8 sysctl_tcp_autocorking;
};
struct net {
	struct ns_common ns;
	struct netns_ipv4 ipv4;
};
typedef struct {
	struct net *net;
} possible_net_t;
struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	atomic64_t skc_cookie;
};
typedef struct {
	int owned;
} socket_lock_t;
struct sk_buff_head {
	struct sk_buff *next;
	struct sk_buff *prev;
};
struct rb_node {
	struct rb_node *rb_right;
	struct rb_node *rb_left;
};
struct rb_root {
	struct rb_node *rb_node;
};
struct kernfs_node {
	__u64 id;
};
struct cgroup {
	struct kernfs_node *kn;
	int level;
	/* 6.1 and later; before, ancestor_ids */
	struct cgroup *ancestors[];
};
struct css_set {
	struct cgroup *dfl_cgrp;
};
struct sock_cgroup_data {
	struct cgroup *cgroup;
};
struct socket {
	short type;
	unsigned long flags;
	struct sock *sk;
};
struct sock {
	struct sock_common __sk_common;
	socket_lock_t sk_lock;
	refcount_t sk_wmem_alloc;
	unsigned long sk_tsq_flags;
	struct sk_buff_head sk_write_queue;
	struct rb_root tcp_rtx_queue;
	int sk_wmem_queued;
	int sk_sndbuf;
	__u32 sk_pacing_status;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	__u8 sk_pacing_shift;
	int sk_write_pending;
	struct socket *sk_socket;
	struct sock_cgroup_data sk_cgrp_data;
	__u16 sk_protocol;
	__u32 sk_bpf_cb_flags; /* 6.15 and later */
};
struct tcp_congestion_ops {
	char name[16];
};
struct inet_sock {
	struct sock sk;
};
struct request_sock {
	struct sock_common __req_common;
	struct request_sock *dl_next;
	struct sock *sk;
};
struct request_sock_queue {
	struct request_sock *rskq_accept_head;
};
struct inet_connection_sock {
	struct inet_sock icsk_inet;
	struct request_sock_queue icsk_accept_queue;
	const struct tcp_congestion_ops *icsk_ca_ops;
	__u8 icsk_ca_state : 5;
};
struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 write_seq;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 snd_wnd;
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
	__u32 snd_sml;
	__u32 snd_up;
	__u32 pushed_seq;
	__u32 notsent_lowat;
	__u32 mss_cache;
	__u16 gso_segs;
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u32 srtt_us;
	__u32 total_retrans;
	__u32 dsack_dups;
	__u32 segs_in;
	__u32 data_segs_in;
	__u32 segs_out;
	__u32 data_segs_out;
	__u64 bytes_sent;
	__u64 bytes_retrans;
	__u64 bytes_acked;
	__u64 tcp_wstamp_ns;
	__u64 tcp_clock_cache;
	__u64 delivered_mstamp; /* microseconds */
	__u8 nonagle : 4;
	__u32 chrono_start;
	__u32 chrono_stat[3];
	__u8 chrono_type : 2;
	__u8 is_cwnd_limited : 1;
	__u8 bpf_sock_ops_cb_flags;
};
struct sk_buff {
	struct sk_buff *next;
	struct rb_node rbnode; /* in a union with `next`, as is `dev` */
	struct net_device *dev;
	__u64 skb_mstamp_ns;
	struct sock *sk;
	unsigned int len;
	unsigned int data_len;
	unsigned int truesize;
	unsigned char *head;
	unsigned char *data;
	unsigned int end;
	__u16 transport_header;
	__u16 network_header;
	__be16 protocol;
	char cb[48];
};
struct skb_shared_hwtstamps {
	__s64 hwtstamp;
};
struct skb_shared_info {
	__u8 tx_flags;
	unsigned short gso_size;
	unsigned short gso_segs;
	struct skb_shared_hwtstamps hwtstamps;
	__u32 tskey;
};
struct tcp_skb_cb {
	__u32 seq;
	__u32 end_seq;
	__u8 sacked;
	__u32 ack_seq;
};
struct tcphdr {
	__be16 dest;
};
union tcp_word_hdr {
	struct tcphdr hdr;
	__be32 words[5];
};
struct net_device {
	int ifindex;
	possible_net_t nd_net;
};
struct bpf_sock_ops_kern {
	struct sock *sk;
	struct sk_buff *skb;
};
struct pid_namespace {
	unsigned int level;
	struct ns_common ns;
};
struct upid {
	int nr;
	struct pid_namespace *ns;
};
struct pid {
	unsigned int level;
	struct upid numbers[];
};
struct signal_struct {
	atomic_t live;
};
struct task_struct {
	int pid;
	int tgid;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct signal_struct *signal;
	struct css_set *cgroups;
	char comm[16];
};
struct iov_iter {
	unsigned long count;
};
struct msghdr {
	unsigned int msg_flags;
	struct iov_iter msg_iter;
};
struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
	__u64 session_id;
	__u64 seq_num;
};
struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
	unsigned int uid;
};
struct file;
struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
};

#pragma clang attribute pop

/* What SET_FIRST gives where it cannot say who is first. */
#define NOT_SET 0xffffffffu

#if OLDER
#include "older.h"
#else
#include "today.h"
void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym __weak;
void *bpf_cast_to_kern_ctx(void *obj) __ksym __weak;
/* 6.15 and later */
int bpf_sock_ops_enable_tx_tstamp(struct bpf_sock_ops_kern *skops, __u64 flags) __ksym __weak;
#endif

/* A read-only view of kernel memory as any type: faults read as zero. Kernels before 6.2 have no
 * such cast, and only the tracepoints backend runs on them. What it views there is what the
 * verifier knows by that type already, or sk_buff's cb. */
#if OLDER
#define VIEW(ptr, type) ((typeof(type) *)(ptr))
#else
#define CAST(ptr, type) ((typeof(type) *)bpf_rdonly_cast((ptr), bpf_core_type_id_kernel(type)))
#define VIEW(ptr, type)                                                                        \
	__builtin_choose_expr(STAMPS, CAST(ptr, type),                                         \
			      (bpf_ksym_exists(bpf_rdonly_cast) ? CAST(ptr, type) : (typeof(type) *)(ptr)))
#endif

/* A field of a packet, or of what one leads to. Where the packet may be the context of a program
 * (cgroup_packet.h), kernels without such a cast let it be copied alone. */
#if CONTEXTS
#define READ(ptr, field)                                                                       \
	({                                                                                     \
		typeof(ptr) of_ = (ptr);                                                       \
		bpf_ksym_exists(bpf_cast_to_kern_ctx) ? of_->field : BPF_CORE_READ(of_, field); \
	})
#else
#define READ(ptr, field) ((ptr)->field)
#endif

/* A TCP socket's own structure: by a helper where there is no cast. */
#if OLDER
#define TCP_SOCK(sk) bpf_skc_to_tcp_sock(sk)
#else
#define TCP_SOCK(sk) (bpf_ksym_exists(bpf_rdonly_cast) ? CAST(sk, struct tcp_sock) : bpf_skc_to_tcp_sock(sk))
#endif

static __always_inline bool before(__u32 a, __u32 b)
{
	return (__s32)(a - b) < 0;
}

/* The payload of a TCP packet on its way down: sequence numbers from `first` up to, not including,
 * `end`. */
struct payload {
	__u32 first;
	__u32 end;
	__be16 destination; /* port */
};

/* Reads the TCP header of a packet that has all its headers; false where it cannot be read. */
static __always_inline bool payload_of(const struct sk_buff *skb, struct payload *payload)
{
	const unsigned char *header = skb->head + skb->transport_header;
	long ahead = header - skb->data;
	__u32 headers;
#if STAMPS
	/* By the cast, which costs a third of copying it. No TCP header is shorter than five words:
	 * a fault reads as zero. */
	const union tcp_word_hdr *tcp = CAST(header, union tcp_word_hdr);
	__u32 words = bpf_ntohl(tcp->words[3]) >> 28;

	if (words < 5)
		return false;
	payload->first = bpf_ntohl(tcp->words[1]);
	payload->destination = tcp->hdr.dest;
#else
	struct tcp_header tcp;
	__u32 words;

	if (bpf_probe_read_kernel(&tcp, sizeof(tcp), header))
		return false;
	words = tcp.offset >> 4;
	payload->first = bpf_ntohl(tcp.seq);
	payload->destination = tcp.dest;
#endif
	/* Or the compiler takes the difference of the lower halves, which the verifier forbids for
	 * pointers. */
	barrier_var(ahead);
	headers = (__u32)ahead + words * 4;
	payload->end = payload->first + (skb->len > headers ? skb->len - headers : 0);
	return true;
}
