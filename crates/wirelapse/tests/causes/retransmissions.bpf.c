/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Why the kernel sends each segment again: at the tracepoint of every retransmission, the state of
 * the sender's congestion control (tcp_ca_state), which it has entered before it retransmits. */

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;

#define SEC(name) __attribute__((section(name), used))
#define RELOCATED __attribute__((preserve_access_index))

/* Only what is read, relocated at load time. */
struct ns_common {
	__u32 inum;
} RELOCATED;

struct net {
	struct ns_common ns;
} RELOCATED;

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	__u16 skc_dport; /* in the order of the network */
	__u16 skc_num;
	possible_net_t skc_net;
} RELOCATED;

struct sock {
	struct sock_common __sk_common;
} RELOCATED;

struct inet_connection_sock {
	__u8 icsk_ca_state : 5;
} RELOCATED;

struct tcp_sock {
	__u32 high_seq;
} RELOCATED;

struct sk_buff {
	char cb[48];
} RELOCATED;

struct retransmission {
	__u64 at;
	__u32 netns;
	__u32 seq;
	__u32 end;
	__u32 high_seq;
	__u16 ports[2]; /* the sender's, and its peer's */
	__u16 state;
};

struct {
	int (*type)[27]; /* BPF_MAP_TYPE_RINGBUF */
	int (*max_entries)[1 << 20];
} retransmissions SEC(".maps");

static __u64 (*ktime_get_ns)(void) = (void *)5;
static long (*probe_read_kernel)(void *to, __u32 size, const void *from) = (void *)113;
static long (*ringbuf_output)(void *ringbuf, void *data, __u64 size, __u64 flags) = (void *)130;

#define READ(to, from) probe_read_kernel(&(to), sizeof(to), __builtin_preserve_access_index(&(from)))
/* bpf_field_info_kind of libbpf */
#define FIELD(of, kind) __builtin_preserve_field_info(of, kind)

SEC("raw_tp/tcp_retransmit_skb")
int retransmitted(__u64 *args)
{
	struct sock *sk = (void *)args[0];
	struct sk_buff *skb = (void *)args[1];
	struct inet_connection_sock *icsk = (void *)sk;
	struct tcp_sock *tp = (void *)sk;
	struct retransmission r = {.at = ktime_get_ns()};
	struct net *net = 0;
	__u64 state = 0;

	READ(r.ports[0], sk->__sk_common.skc_num);
	READ(r.ports[1], sk->__sk_common.skc_dport);
	r.ports[1] = __builtin_bswap16(r.ports[1]);
	READ(net, sk->__sk_common.skc_net.net);
	READ(r.netns, net->ns.inum);
	READ(r.high_seq, tp->high_seq);
	/* struct tcp_skb_cb begins with the segment's first sequence number and the one after its
	 * last. */
	probe_read_kernel(&r.seq, sizeof(r.seq), __builtin_preserve_access_index(&skb->cb[0]));
	probe_read_kernel(&r.end, sizeof(r.end), __builtin_preserve_access_index(&skb->cb[4]));
	probe_read_kernel(&state, FIELD(icsk->icsk_ca_state, 1), (char *)icsk + FIELD(icsk->icsk_ca_state, 0));
	state <<= FIELD(icsk->icsk_ca_state, 4);
	state >>= FIELD(icsk->icsk_ca_state, 5);
	r.state = state;
	ringbuf_output(&retransmissions, &r, sizeof(r), 0);
	return 0;
}

char permission[] SEC("license") = "Dual MIT/GPL";
