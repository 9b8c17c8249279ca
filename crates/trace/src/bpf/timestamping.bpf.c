// SPDX-License-Identifier: MIT OR Apache-2.0
/* The backend for kernels with BPF timestamping (6.15 and later): the kernel calls back for armed
 * sockets only. */
#define STAMPS 1
#include "kernel.h"
#include "callbacks.h"
#include "calls.h"
#include "../histograms/drops.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* A write is over. Of the writes that end in one packet the tag is of the last: the packet's bytes
 * say which the others are. */
static __always_inline void sent(struct bpf_sock_ops_kern *kern, struct row *row, struct queue *queue, __u32 number, __u64 now)
{
	const struct tcp_sock *tp = VIEW(kern->sk, struct tcp_sock);
	__u32 end = tp->write_seq, first = queue->write_seq;

	queue->write_seq = end;
	if (row->window_end)
		return;
	if (slot_open(row, queue, number, tp, first, end - first, now))
		bpf_sock_ops_enable_tx_tstamp(kern, 0);
}

/* A call ends. Where it was cut short there is no room from now on. */
static __always_inline void on_sendmsg(struct bpf_sock_ops_kern *kern, struct row *row, struct queue *queue, __u32 number)
{
	const struct tcp_sock *tp = VIEW(kern->sk, struct tcp_sock);
	const struct sock *sk = sock_of(tp);
	__u64 now = bpf_ktime_get_ns();

	untagged_look(queue, number, tp, now);
	acks_look(queue, number, tp, NULL, last_acked(queue, tp, now), now);
	/* It ends in the same packet as the one before, and takes over its tag. */
	if (before(VIEW(&kern->skb->cb, struct tcp_skb_cb)->seq, queue->write_seq))
		queue->untagged = 1;
	/* It did not wait for the room that it found wanting. One that did has waited until now. */
	if (queue->call && queue->call_room == CALL_ENDS)
		queue->full_since = 0;
	drained(queue, tp, now);
	buffer_tried(queue, tp, sk, now);
	sent(kern, row, queue, number, now);
	queue->call = 0;
	buffer_forget(queue);
	if (buffer_marked(sk))
		buffer_filled(queue, now, now);
}

struct between {
	const struct tcp_sock *tp;
	__u64 now;
	__u32 number;
	__u32 at;
	__u32 until; /* of sends; of a packet, where its bytes end */
	__u32 blocked; /* by what, before the packet */
	__u32 down; /* the queue's with a packet that is handed down; else 0 */
	__u8 driver;
	__u8 found;
	__u8 tagged; /* it is handed down with a tag: the qdisc will tell when it enters it */
};

static long driver_one(__u32 i, void *context)
{
	struct between *between = context;
	struct queue *queue = queue_at(between->number);
	struct slot *slot;

	if (!queue || (__s32)(between->at - between->until) >= 0)
		return 1;
	slot = slot_at(queue, between->at++);
	if (!slot)
		return 1;
	if (!slot->record.driver && slot->record.sched)
		driver_bound(queue, slot, between->now);
	return 0;
}

/* The sends before `until` have gone to the driver in packets without a tag. What a qdisc or GSO
 * cuts up has one tag for all its segments, so the others come by here as well. */
static __always_inline void driver_between(struct queue *queue, struct between *between, __u32 until)
{
	between->at = queue->driver_next;
	between->until = until;
	if ((__s32)(between->at - queue->head) < 0)
		between->at = queue->head;
	if ((__s32)(between->at - until) < 0)
		bpf_loop(config.slots, driver_one, between, 0);
}

/* The next send of a packet that goes through a stage. `more`: it is not the first of the packet.
 * Gives 1 after the last. */
static __always_inline long packet_next(struct between *of, struct queue *queue, bool more)
{
	struct slot *slot;

	if ((__s32)(of->at - queue->tail) >= 0)
		return 1;
	slot = slot_at(queue, of->at);
	if (!slot || !before(slot->key, of->until))
		return 1;
	if (of->down)
		slot->down = of->down;
	if (of->driver)
		slot_driver(queue, slot, of->at, of->now);
	else if (!of->tagged)
		slot_sched(queue, slot, of->at, of->tp, more, &of->blocked, of->now);
	of->found = true;
	of->at++;
	return slot->key + 1 == of->until;
}

static long packet_one(__u32 i, void *context)
{
	struct between *of = context;
	struct queue *queue = queue_at(of->number);

	return queue ? packet_next(of, queue, true) : 1;
}

/* The first send that ends in a packet: `at` is a guess, which is right but for retransmissions and
 * after packets that had no tag. */
static __always_inline __u32 packet_first(struct queue *queue, __u32 number, __u32 at, __u32 first, __u32 end)
{
	struct slot *slot = slot_at(queue, at);

	if ((__s32)(at - queue->head) >= 0 && (__s32)(at - queue->tail) < 0 && slot && !before(slot->key, first) &&
	    before(slot->key, end))
		return at;
	return slot_search(number, first);
}

/* All the sends of a packet. Most packets end with the one send that they hold. A loop calls a
 * function, and where the kernel guards returns each takes 10 ns. Only the first has to find out
 * what held the packet, and the verifier follows that once where the loop does not have it. */
static __always_inline void packet_sends(struct between *of, struct queue *queue)
{
	if (!packet_next(of, queue, false))
		bpf_loop(config.slots, packet_one, of, 0);
}

/* A tagged packet goes through the stage `op`. Its tag may be of a byte that it does not carry:
 * tcp_grow_skb() (6.10 and later) fills a packet up with bytes of the next one and leaves the tag
 * behind there. And it may carry the last bytes of more sends than the tagged one. So the packet's
 * bytes decide: every send that ends in them is at this stage, and no other. */
static __always_inline void on_packet(struct bpf_sock_ops_kern *kern, bool driver, struct queue *queue, __u32 number)
{
	struct payload payload;
	const struct tcp_sock *tp = VIEW(kern->sk, struct tcp_sock);
	__u32 at = driver ? queue->driver_next : queue->sched_next;
	__u64 now = bpf_ktime_get_ns();
	struct between of = { .tp = tp, .number = number, .driver = driver };

	of.now = now;
	if (!payload_of(kern->skb, &payload))
		return;
	at = packet_first(queue, number, at, payload.first, payload.end);
	if (driver ? !queue->driver_last || !before(payload.first, queue->driver_end) : payload.first == tp->snd_nxt) {
		if (driver) {
			if ((__s32)(at - queue->driver_next) > 0)
				driver_between(queue, &of, at);
			queue->driver_last = now;
			queue->driver_end = payload.end;
		} else {
			handed_measure(queue, now);
			sched_left(queue, number, tp, now);
			queue->sched_last = now;
		}
	}
	of.at = at;
	of.until = payload.end;
	packet_sends(&of, queue);
	if (driver)
		released_judge(queue, tp, kern->skb);
	if (!of.found && queue->popped && !before(queue->popped_key, payload.end - 1))
		COUNT(after_ack);
}

/* TCP hands a packet down (net/ipv4/tcp_output.c, __tcp_transmit_skb()). One with a tag is stamped
 * where it enters the qdisc. One without does so between now and the next thing that its socket
 * does. */
static __always_inline void on_handed(const struct bpf_sock_ops_kern *kern, struct queue *queue, __u32 number, __u64 now)
{
	const struct sk_buff *skb = kern->skb;
	const struct tcp_skb_cb *cb = VIEW(&skb->cb, struct tcp_skb_cb);
	const struct skb_shared_info *shared = VIEW(skb->head + skb->end, struct skb_shared_info);
	struct between of = { .tp = VIEW(kern->sk, struct tcp_sock), .number = number, .now = now };
	__u32 first = cb->seq, end = cb->end_seq;

	/* Never 0, which stands for none. */
	queue->down += skb->truesize;
	if (!queue->down)
		queue->down = 1;
	/* What is sent for the first time. */
	if (first == end || first != of.tp->snd_nxt)
		return;
	of.tagged = (shared->tx_flags & SKBTX_BPF) != 0;
	of.down = queue->down;
	of.at = packet_first(queue, number, queue->sched_next, first, end);
	of.until = end;
	queue->handed_at = of.at;
	queue->handed_down = skb->truesize;
	packet_sends(&of, queue);
	queue->handed_down = 0;
	if (of.tagged) {
		queue->handed_tagged = now;
		return;
	}
	queue->sched_last = now;
	if (of.found) {
		queue->handed = now;
		queue->handed_until = of.at;
	}
}

/* TCP is about to hand a packet down, or (without a packet) asks how large one may be: at the
 * beginning of a call, and on an ACK, before it sends what that lets go. No clock is read for
 * that: it is no earlier than when TCP took the ACK up. */
static __always_inline void on_packets(const struct bpf_sock_ops_kern *kern, struct queue *queue, __u32 number)
{
	const struct tcp_sock *tp = VIEW(kern->sk, struct tcp_sock);
	__u64 now;

	if (kern->skb) {
		now = bpf_ktime_get_ns();
		untagged_look(queue, number, tp, now);
		on_handed(kern, queue, number, now);
	} else {
		now = taken_up(tp);
		handed_bound(queue, number, now);
		acks_look(queue, number, tp, NULL, last_acked(queue, tp, now), now);
	}
}

struct on_wire {
	__u32 number;
	__u32 at;
	__u32 end;
	__u32 interface;
	__u32 network;
	__u32 found;
	__u64 stamp;
};

static long on_wire_one(__u32 i, void *context)
{
	struct on_wire *packet = context;
	struct queue *queue = queue_at(packet->number);
	struct slot *slot;

	if (!queue || (__s32)(packet->at - queue->tail) >= 0)
		return 1;
	slot = slot_at(queue, packet->at++);
	if (!slot || !before(slot->key, packet->end))
		return 1;
	packet->found = true;
	if (slot->record.nic)
		return 0;
	slot->record.nic_interface = packet->interface;
	slot->record.nic_network = packet->network;
	slot->record.nic = packet->stamp;
	return 0;
}

/* The NIC has put the packet on the wire, at `at` by its own clock. */
static __always_inline void on_nic(const struct sk_buff *skb, struct queue *queue, __u32 number, __u64 at)
{
	const struct net_device *dev = skb->dev;
	struct payload payload;
	struct on_wire packet = { .number = number, .stamp = at };

	if (!payload_of(skb, &payload))
		return;
	packet.at = slot_search(number, payload.first);
	packet.end = payload.end;
	packet.interface = dev->ifindex;
	packet.network = dev->nd_net.net->ns.inum;
	bpf_loop(config.slots, on_wire_one, &packet, 0);
	if (!packet.found && queue->popped && !before(queue->popped_key, payload.end - 1))
		COUNT(nic_late);
}

/* SCHED, SND and ACK: the packet has the key. */
static __always_inline void on_stage(struct bpf_sock_ops_kern *kern, __u32 op, struct queue *queue, __u32 number)
{
	const struct sk_buff *skb = kern->skb;
	const struct skb_shared_info *shared = VIEW(skb->head + skb->end, struct skb_shared_info);
	const struct tcp_sock *tp;
	__u32 key = shared->tskey;

	switch (op) {
	case BPF_SOCK_OPS_TSTAMP_SCHED_CB:
	case BPF_SOCK_OPS_TSTAMP_SND_SW_CB:
		on_packet(kern, op == BPF_SOCK_OPS_TSTAMP_SND_SW_CB, queue, number);
		break;
	case BPF_SOCK_OPS_TSTAMP_SND_HW_CB:
		on_nic(skb, queue, number, shared->hwtstamps.hwtstamp);
		break;
	case BPF_SOCK_OPS_TSTAMP_ACK_CB:
		tp = VIEW(kern->sk, struct tcp_sock);
		untagged_look(queue, number, tp, taken_up(tp));
		if (queue->full_since) {
			drained(queue, tp, taken_up(tp));
			buffer_event(queue, tp, sock_of(tp), taken_up(tp));
		}
		queue->progress = taken_up(tp);
		acks_look(queue, number, tp, &key, taken_up(tp), taken_up(tp));
		break;
	}
}

/* The row that a cookie with these lowest bits last had. It is a guess, and right where the row has
 * the cookie; it spares most callbacks the look-up in the socket's storage, of 10 ns. */
#define GUESSES 4096
static volatile __u32 guesses[GUESSES];

static __always_inline struct row *row_guessed(const struct sock *view, __u32 *number)
{
	__u64 cookie = view->__sk_common.skc_cookie.counter;
	struct row *row;

	*number = guesses[cookie & (GUESSES - 1)];
	row = row_at(*number);
	return row && cookie && row->cookie == cookie ? row : NULL;
}

/* The row that a socket's storage says. */
static __always_inline struct row *row_known(const struct socket_info *info, const struct sock *view, __u32 *number)
{
	struct row *row;

	if (!info)
		return NULL;
	*number = info->row;
	row = row_at(*number);
	if (row)
		guesses[view->__sk_common.skc_cookie.counter & (GUESSES - 1)] = *number;
	return row;
}

static __always_inline struct row *row_of(struct bpf_sock *sk, const struct sock *view, __u32 *number)
{
	struct row *row = row_guessed(view, number);

	return row ? row : row_known(info_of(sk), view, number);
}

SEC("sockops")
int timestamping(struct bpf_sock_ops *skops)
{
	struct callback callback = { .skops = skops, .sk = skops->sk, .op = skops->op };
	struct bpf_sock_ops_kern *kern;
	const struct sock *view;
	struct queue *queue;
	__u32 at;

	if (!callback.sk) {
		callback_of_request(skops, callback.op);
		return 1;
	}
	kern = bpf_cast_to_kern_ctx(skops);
	view = VIEW(kern->sk, struct sock);
	callback.tp = VIEW(kern->sk, struct tcp_sock);
	switch (callback.op) {
	case BPF_SOCK_OPS_TSTAMP_SENDMSG_CB:
	case BPF_SOCK_OPS_TSTAMP_SCHED_CB:
	case BPF_SOCK_OPS_TSTAMP_SND_SW_CB:
	case BPF_SOCK_OPS_TSTAMP_SND_HW_CB:
	case BPF_SOCK_OPS_TSTAMP_ACK_CB:
		callback.row = row_of(callback.sk, view, &callback.number);
		if (callback.row && callback.op == BPF_SOCK_OPS_TSTAMP_ACK_CB)
			window_look(callback.row, callback.number, callback.tp);
		queue = callback.row ? queue_of(callback.row, callback.number, &at) : NULL;
		if (queue && callback.op == BPF_SOCK_OPS_TSTAMP_SENDMSG_CB)
			on_sendmsg(kern, callback.row, queue, at);
		else if (queue)
			on_stage(kern, callback.op, queue, at);
		return 1;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		callback.row = row_of(callback.sk, view, &callback.number);
		if (callback.row)
			window_look(callback.row, callback.number, callback.tp);
		queue = callback.row ? queue_of(callback.row, callback.number, &at) : NULL;
		if (queue)
			on_packets(kern, queue, at);
		return 1;
	case BPF_SOCK_OPS_RTT_CB:
		callback.row = row_of(callback.sk, view, &callback.number);
		callback_run(&callback);
		return 1;
	case BPF_SOCK_OPS_RETRANS_CB:
	case BPF_SOCK_OPS_RTO_CB:
		callback.row = row_of(callback.sk, view, &callback.number);
		callback_run(&callback);
		return 1;
	case BPF_SOCK_OPS_STATE_CB:
		callback.info = info_of(callback.sk);
		callback.row = callback.info ? row_at(callback.info->row) : NULL;
		callback.from = skops->args[0];
		callback.to = skops->args[1];
		callback_run(&callback);
		return 1;
	}
	callback_run(&callback);
	return 1;
}

/* Every call that writes to a TCP socket of this machine, once for each packet that it fills (6.16
 * and later). */
SEC("tp_btf/tcp_sendmsg_locked")
int BPF_PROG(called, struct sock *sk, struct msghdr *msg, struct sk_buff *tail, int size_goal)
{
	__u32 number, at;
	struct row *row = row_guessed(sk, &number);
	struct queue *queue;

	if (!row)
		row = row_known(bpf_sk_storage_get(&sockets, sk, NULL, 0), sk, &number);
	if (!row)
		return 0;
	queue = queue_of(row, number, &at);
	if (!queue || !queue->armed_since)
		return 0;
	call_round(queue, VIEW(sk, struct tcp_sock), msg->msg_iter.count, !(msg->msg_flags & MSG_DONTWAIT), size_goal, bpf_ktime_get_ns());
	return 0;
}
