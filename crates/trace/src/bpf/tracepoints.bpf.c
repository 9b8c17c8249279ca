// SPDX-License-Identifier: MIT OR Apache-2.0
/* The backend for kernels without BPF timestamping: tracepoints on the path of every packet of the
 * machine, which look whether the packet's socket is followed. A send is stamped by its last byte,
 * wherever that lies in a packet. */
#define STAMPS 0
#include "kernel.h"
#include "callbacks.h"
#include "calls.h"
#include "../histograms/drops.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* What a socket's own callbacks report beyond the tracepoints: what its ACKs and timeouts have
 * changed. Set again by a helper that all kernels have, as the socket option is refused before
 * 6.12. */
static __always_inline void ask_for_callbacks(struct bpf_sock_ops *skops, struct bpf_sock *sk)
{
	struct socket_info *info = info_of(sk);

	if (info && info->row != NO_ROW)
		bpf_sock_ops_cb_flags_set(skops, skops->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG |
							 BPF_SOCK_OPS_RTO_CB_FLAG);
}

SEC("sockops")
int following(struct bpf_sock_ops *skops)
{
	struct callback callback = { .skops = skops, .sk = skops->sk, .op = skops->op };

	if (!callback.sk) {
		callback_of_request(skops, callback.op);
		return 1;
	}
	callback.tp = bpf_skc_to_tcp_sock(callback.sk);
	if (!callback.tp)
		return 1;
	switch (callback.op) {
	case BPF_SOCK_OPS_RTT_CB:
	case BPF_SOCK_OPS_RTO_CB:
		callback.info = info_of(callback.sk);
		if (!callback.info)
			return 1;
		callback.number = callback.info->row;
		callback.row = row_at(callback.number);
		callback_run(&callback);
		return 1;
	}
	callback_run(&callback);
	if (callback.op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || callback.op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		ask_for_callbacks(skops, callback.sk);
	return 1;
}

/* The row of a followed socket, with its number and the socket as TCP's; NULL where it is not
 * followed. */
static __always_inline struct row *row_of(struct sock *sk, __u32 *number, struct tcp_sock **tp)
{
	struct socket_info *info = bpf_sk_storage_get(&sockets, sk, NULL, 0);
	struct row *row;

	if (!info)
		return NULL;
	*number = info->row;
	row = row_at(*number);
	*tp = TCP_SOCK(sk);
	return *tp ? row : NULL;
}

/* The same where it is looked at, or has sends on their way from when it was: its queue, and the
 * number of that. */
static __always_inline struct queue *queue_of_socket(struct sock *sk, __u32 *number, struct tcp_sock **tp)
{
	__u32 of;
	struct row *row = row_of(sk, &of, tp);

	return row ? queue_of(row, of, number) : NULL;
}

/* The callbacks for these two would miss the sockets that existed before the trace: kernels before
 * 6.12 let no iterator ask for callbacks. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(state_set, struct sock *sk, int from, int to)
{
	struct callback callback = { .op = BPF_SOCK_OPS_STATE_CB, .from = from, .to = to };

	if (sk->sk_protocol != IPPROTO_TCP)
		return 0;
	callback.info = bpf_sk_storage_get(&sockets, sk, NULL, 0);
	if (!callback.info)
		return 0;
	callback.row = row_at(callback.info->row);
	callback.tp = TCP_SOCK(sk);
	if (callback.tp)
		callback_run(&callback);
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(retransmitted, struct sock *sk, struct sk_buff *skb)
{
	const struct tcp_skb_cb *cb = VIEW(&skb->cb, struct tcp_skb_cb);
	struct tcp_sock *tp;
	__u32 number, at;
	struct row *row = row_of(sk, &number, &tp);
	struct queue *queue;

	if (!row) {
		if (sk->__sk_common.skc_state == TCP_SYN_SENT)
			connect_retransmitted(bpf_sk_storage_get(&sockets, sk, NULL, 0), sk);
		return 0;
	}
	totals_retransmitted(row, number, tp);
	queue = queue_of(row, number, &at);
	if (!queue)
		return 0;
	stage_retransmit(at, cb->seq, cb->end_seq - cb->seq);
	queue->epoch++;
	waiting_event(queue, tp, 0, false, false, bpf_ktime_get_ns());
	return 0;
}

/* The leg of the send that is being made begins anew, and so does what is asked of it: the call may
 * have slept meanwhile. */
static __always_inline void send_again(struct queue *queue, struct slot *slot, const struct tcp_sock *tp, __u32 left, __u64 now)
{
	drained(queue, tp, now);
	clocks_run(queue, now);
	hold(queue, tp, NULL, 0, false, true, left, now);
	clocks_copy(slot, queue);
	slot->epoch = ++queue->epoch;
	slot->record.send = now;
	if (queue->call)
		slot->record.call = queue->call;
	buffer_take(queue, slot);
}

/* A call of `left` more bytes stands before copying (once for each packet it fills). Its last byte
 * is known, so all its rounds are one send; `send` is the last round's time. */
static __always_inline int on_write(struct sock *sk, __u64 left, bool waits, int size_goal)
{
	struct socket_info *info = bpf_sk_storage_get(&sockets, sk, NULL, 0);
	const struct tcp_sock *tp;
	__u64 now;
	struct row *row;
	struct queue *queue;
	struct slot *slot;
	__u32 end, at;

	if (!info)
		return 0;
	row = row_at(info->row);
	if (!row || !left || left > 0x7fffffff)
		return 0;
	now = bpf_ktime_get_ns();
	if (row->window_end)
		return 0;
	queue = queue_of(row, info->row, &at);
	tp = TCP_SOCK(sk);
	if (!queue || !tp)
		return 0;
	call_round(queue, tp, left, waits, size_goal, now);
	end = tp->write_seq + left;
	if (queue->head != queue->tail && queue->last_key == end - 1) {
		slot = slot_at(queue, queue->tail - 1);
		if (slot)
			send_again(queue, slot, tp, left, now);
		return 0;
	}
	/* Counted in its first round. */
	if (queue->refused == end)
		return 0;
	missed_check(queue, tp->write_seq);
	slot_trim(queue, at, tp->write_seq);
	left_out_check(queue, tp->write_seq);
	queue->write_seq = end;
	if (!slot_open(row, queue, at, tp, tp->write_seq, left, now))
		queue->refused = end;
	return 0;
}

SEC("tp_btf/tcp_sendmsg_locked")
int BPF_PROG(written_round, struct sock *sk, struct msghdr *msg, struct sk_buff *tail, int size_goal)
{
	return on_write(sk, msg->msg_iter.count, !(msg->msg_flags & MSG_DONTWAIT), size_goal);
}

/* Kernels before 6.16 have no such tracepoint. */
SEC("fentry/tcp_sendmsg_locked")
int BPF_PROG(written_call, struct sock *sk, struct msghdr *msg, unsigned long size)
{
	__u32 number;
	struct tcp_sock *tp;
	struct queue *queue = queue_of_socket(sk, &number, &tp);

	if (!queue)
		return 0;
	/* Once for each call; whether it waits is seen where it does. It may go on with what one
	 * that slept has left. */
	if (queue->call_room != CALL_SLEEPS)
		queue->call = 0;
	on_write(sk, size, true, 0x7fffffff);
	if (msg->msg_flags & MSG_DONTWAIT)
		queue->call_room = CALL_ENDS;
	return 0;
}

/* There is no room: the call sleeps, or, where the socket does not block, ends. */
SEC("fentry/sk_stream_wait_memory")
int BPF_PROG(wait_begun, struct sock *sk)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 number;
	struct tcp_sock *tp;
	struct queue *queue = queue_of_socket(sk, &number, &tp);

	if (!queue)
		return 0;
	drained(queue, tp, now);
	clocks_run(queue, now);
	hold(queue, tp, NULL, 0, false, true, 0, now);
	buffer_filled(queue, now, now);
	if (queue->call_room != CALL_ENDS)
		queue->call_room = CALL_SLEEPS;
	return 0;
}

SEC("fexit/sk_stream_wait_memory")
int BPF_PROG(wait_over, struct sock *sk, long *timeout, int failed)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 number;
	struct tcp_sock *tp;
	struct queue *queue = queue_of_socket(sk, &number, &tp);
	struct slot *slot;

	if (!queue || failed || queue->head == queue->tail)
		return 0;
	drained(queue, tp, now);
	buffer_freed(queue, now);
	slot = slot_at(queue, queue->tail - 1);
	if (slot && before(tp->write_seq, slot->key + 1))
		send_again(queue, slot, tp, slot->key + 1 - tp->write_seq, now);
	return 0;
}

struct packet {
	__u32 number;
	__u32 at;
	__u32 end;
	__u32 blocked; /* by what, before the packet */
	__u64 now;
	const struct tcp_sock *tp;
};

/* The next send that ends in a packet, and its queue; NULL after the last. */
static __always_inline struct slot *packet_next(struct packet *packet, struct queue **queue)
{
	struct slot *slot;

	*queue = queue_at(packet->number);
	if (!*queue || (__s32)(packet->at - (*queue)->tail) >= 0)
		return NULL;
	slot = slot_at(*queue, packet->at);
	if (!slot || !before(slot->key, packet->end))
		return NULL;
	packet->at++;
	return slot;
}

/* `more`: it is not the first send of the packet. Gives 1 after the last. */
static __always_inline long sched_next(struct packet *packet, bool more)
{
	struct queue *queue;
	struct slot *slot = packet_next(packet, &queue);

	if (!slot)
		return 1;
	stage_sched(queue, packet->number, slot->key, packet->tp, more, &packet->blocked, packet->now);
	return 0;
}

static long sched_one(__u32 i, void *context)
{
	return sched_next(context, true);
}

static long driver_one(__u32 i, void *context)
{
	struct packet *packet = context;
	struct queue *queue;
	struct slot *slot = packet_next(packet, &queue);

	if (!slot)
		return 1;
	stage_driver(queue, packet->number, slot->key, packet->now);
	return 0;
}

/* A packet of a followed socket passes a stage: where its sends begin. False where there are none,
 * or not any more. */
static __always_inline bool packet_of(struct sk_buff *skb, struct packet *packet)
{
	struct sock *sk = skb->sk;
	struct payload payload;
	__u32 of;
	struct row *row = row_of_packet(sk, &of);
	struct queue *queue = row ? queue_of(row, of, &packet->number) : NULL;

	if (!queue || queue->head == queue->tail)
		return false;
	packet->tp = TCP_SOCK(sk);
	if (!packet->tp || !payload_of(skb, &payload))
		return false;
	/* Inside a tunnel the transport header is the tunnel's: then the ports are not this
	 * socket's. */
	if (payload.destination != sk->__sk_common.skc_dport || payload.first == payload.end)
		return false;
	packet->end = payload.end;
	packet->now = bpf_ktime_get_ns();
	if (before(payload.first, packet->tp->snd_una) && !before(packet->tp->snd_una, packet->end)) {
		if (queue->popped)
			COUNT(after_ack);
		return false;
	}
	packet->at = slot_search(packet->number, payload.first);
	return true;
}

/* A packet passes the qdisc: so does every send that ends in it. Only the first has to find out
 * what held the packet, and the verifier follows that once where the loop does not have it. */
SEC("tp_btf/net_dev_queue")
int BPF_PROG(queued, struct sk_buff *skb)
{
	struct packet packet = {};

	if (packet_of(skb, &packet) && !sched_next(&packet, false))
		bpf_loop(config.slots, sched_one, &packet, 0);
	return 0;
}

/* It goes to the driver. */
SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(started, struct sk_buff *skb)
{
	struct packet packet = {};

	if (packet_of(skb, &packet))
		bpf_loop(config.slots, driver_one, &packet, 0);
	return 0;
}

/* A segment is about to be looked at: the ACK in it has come. */
static __always_inline int on_arrival(struct sock *sk, struct sk_buff *skb)
{
	const struct tcp_skb_cb *cb = VIEW(&skb->cb, struct tcp_skb_cb);
	struct tcp_sock *tp;
	__u32 number, at, ack;
	struct row *row = row_of(sk, &number, &tp);
	struct queue *queue;
	__u64 now;
	bool alone;

	if (!row)
		return 0;
	/* As the segment before has left it. */
	window_look(row, number, tp);
	ack = cb->ack_seq;
	if (before(tp->snd_nxt, ack))
		return 0;
	now = bpf_ktime_get_ns();
	queue = queue_of(row, number, &at);
	if (queue) {
		if (before(tp->snd_una, ack))
			queue->progress = now;
		alone = cb->seq == cb->end_seq && acked_alone(queue, tp, ack - tp->snd_una);
		slots_acked_before(queue, at, ack, alone, now);
	}
	/* A socket without the RTT callback: what holds its sends back is looked at now, a little
	 * before the ACK changes it. */
	if (!(tp->bpf_sock_ops_cb_flags & BPF_SOCK_OPS_RTT_CB_FLAG)) {
		if ((config.flags & CONFIG_WINDOWS) && now - row->stretch >= WINDOW_NS)
			stretch_next(row, number, tp, now);
		if (row->window_end && sends_over(row, number))
			return 0;
		queue = queue_of(row, number, &at);
		if (!queue)
			return 0;
		queue->epoch++;
		waiting_event(queue, tp, 0, false, false, now);
	}
	return 0;
}

/* In tcp_rcv_established(). In later states the RTT callback reports it. */
SEC("tp_btf/tcp_probe")
int BPF_PROG(received, struct sock *sk, struct sk_buff *skb)
{
	return on_arrival(sk, skb);
}

/* Where kernels before 6.12 give sockets that existed before the trace no RTT callback. */
SEC("fentry/tcp_rcv_state_process")
int BPF_PROG(received_late, struct sock *sk, struct sk_buff *skb)
{
	return on_arrival(sk, skb);
}
