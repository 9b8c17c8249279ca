/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What is known of a followed socket's receiving side: the kernel's fields, its row, and what is
 * lost. */
#pragma once

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sk_buff___receive {
	__s64 tstamp;
};
struct tcp_sock___receive {
	__u32 rcv_nxt;
	__u32 copied_seq;
};
struct sock_common___receive {
	unsigned long skc_flags;
};
struct sock___receive {
	void *sk_bpf_storage; /* 5.2 */
	int sk_rcvbuf;
	struct {
		atomic_t rmem_alloc;
	} sk_backlog;
};
#pragma clang attribute pop

/* include/uapi/linux/bpf.h; only whether it exists is asked */
enum bpf_func_id___receive {
	BPF_FUNC_ktime_get_tai_ns = 208,
};
/* include/net/sock.h: enum sock_flags */
#define SOCK_DONE_BIT (1ul << 1)
/* RFC 9293, section 3.1 */
enum { TCP_FLAG_FIN = 1, TCP_FLAG_SYN = 2 };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct receive_row);
	__uint(max_entries, 1);
} receive_rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct arrival);
	__uint(max_entries, 1);
} arrivals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__type(value, __u32);
	__uint(max_entries, 1);
} free_receive_rows SEC(".maps");

/* The number of a socket's row; gone with the socket. */
SOCKET_STORAGE(receivers, __u32, 0);

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct receive_lost);
	__uint(max_entries, 1);
} receive_losses SEC(".maps");

const volatile struct receive_config receive SEC(".rodata.receive");

#define COUNT_RECEIVE(field, by)                                                              \
	do {                                                                                  \
		__u32 zero_ = 0;                                                              \
		struct receive_lost *l_ = bpf_map_lookup_elem(&receive_losses, &zero_);       \
		if (l_)                                                                       \
			__sync_fetch_and_add(&l_->field, (by));                               \
	} while (0)

static __always_inline struct receive_row *receive_row_at(__u32 number)
{
	return bpf_map_lookup_elem(&receive_rows, &number);
}

static __always_inline struct arrival *arrival_at(__u32 row, __u32 counter)
{
	__u32 number = row * receive.slots + (counter & (receive.slots - 1));

	return bpf_map_lookup_elem(&arrivals, &number);
}

static __always_inline __u32 rcv_nxt(const struct tcp_sock *tp)
{
	return ((const struct tcp_sock___receive *)tp)->rcv_nxt;
}

static __always_inline __u32 copied_seq(const struct tcp_sock *tp)
{
	return ((const struct tcp_sock___receive *)tp)->copied_seq;
}

/* The peer's FIN was received: rcv_nxt counts it as a byte. */
static __always_inline bool finished(struct sock *sk)
{
	return ((const struct sock_common___receive *)sk)->skc_flags & SOCK_DONE_BIT;
}

/* The row of a followed socket, taken where it has none yet. */
static __always_inline struct receive_row *row_of(struct sock *sk, __u32 *number)
{
	struct socket_info *info;
	struct receive_row *row;
	struct row *followed;
	struct tcp_sock *tp;
	__u32 *known;
	__u32 fresh;

	/* One load: nothing is kept in the storage of this socket, so it is not followed. */
	if (!OLDER && !((struct sock___receive *)sk)->sk_bpf_storage)
		return NULL;
	known = bpf_sk_storage_get(&receivers, sk, NULL, 0);
	if (known) {
		*number = *known;
		row = receive_row_at(*number);
		/* Another socket's, or not in use, once user space has taken all rows back. */
		if (!row || row->cookie == sk->__sk_common.skc_cookie.counter)
			return row;
	}
	info = bpf_sk_storage_get(&sockets, sk, NULL, 0);
	if (!info || info->row == NO_ROW)
		return NULL;
	followed = row_at(info->row);
	tp = TCP_SOCK(sk);
	if (!followed || !tp)
		return NULL;
	if (bpf_map_pop_elem(&free_receive_rows, &fresh)) {
		COUNT_RECEIVE(connections_full, 1);
		/* Counted once a connection: NO_ROW is beyond the array, so it has no row from here
		 * on. */
		fresh = NO_ROW;
		bpf_sk_storage_get(&receivers, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
		return NULL;
	}
	row = receive_row_at(fresh);
	if (!known)
		known = bpf_sk_storage_get(&receivers, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
	if (!row || !known) {
		bpf_map_push_elem(&free_receive_rows, &fresh, 0);
		return NULL;
	}
	*known = fresh;
	row->head = 0;
	row->tail = 0;
	row->ready_next = 0;
	row->accounted = copied_seq(tp);
	/* What is not read yet in a connection that was found came before the trace; in a new one
	 * it came without tcp_probe. */
	row->arrived = followed->opening == OPENING_FOUND ? rcv_nxt(tp) : row->accounted;
	row->before = row->arrived;
	row->passed_over = 0;
	row->followed = info->row;
	row->cookie = followed->cookie;
	*number = fresh;
	return row;
}

/* Whether what comes now is to be recorded, by the sampling that was asked for. */
static __always_inline bool sampled(const struct receive_row *row, __u64 now)
{
	struct row *followed;

	if (config.draw_below && bpf_get_prandom_u32() >= config.draw_below)
		return false;
	if (!(config.flags & CONFIG_WINDOWS))
		return true;
	followed = row_at(row->followed);
	if (!followed || followed->cookie != row->cookie)
		return false;
	/* A connection that has sent nothing for long has no RTT samples to end its stretches: then
	 * time itself is cut into them. */
	if (followed->every > 1 && now - followed->stretch > 100 * (__u64)WINDOW_NS) {
		__u64 slice = now / WINDOW_NS, block = slice / followed->every;
		__u32 pick = (__u32)(((block ^ row->cookie) * 0x9e3779b97f4a7c15ull) >> 33) % followed->every;

		return slice % followed->every == pick;
	}
	return !followed->window_end;
}
