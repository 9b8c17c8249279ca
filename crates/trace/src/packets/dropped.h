/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Packets and datagrams that the kernel dropped, with its reason. */
#pragma once

/* A packet for `sk` was dropped on its way in. */
static __always_inline int arrival_dropped(struct sk_buff *skb, struct sock *sk, __u32 reason, __u64 now)
{
	struct packet_record record = {};
	struct headers headers;

	if (!full_socket(sk->__sk_common.skc_state) || !has_storage(sk) || !ipv4_or_6(sk))
		return 0;
	if (sk->sk_protocol == IPPROTO_TCP && wanted.tcp) {
		if (!bpf_sk_storage_get(&sockets, sk, NULL, 0) || !headers_of(skb, IPPROTO_TCP, &headers))
			return 0;
		record.kind = RECORD_PACKET;
	} else if (sk->sk_protocol == IPPROTO_UDP && wanted.udp) {
		struct udp_info *info = bpf_sk_storage_get(&udp_sockets, sk, NULL, 0);

		if (!info || !headers_of(skb, IPPROTO_UDP, &headers) || headers.later_fragment)
			return 0;
		record.kind = RECORD_ARRIVAL;
		record.pid = info->pid;
		__builtin_memcpy(record.comm, info->comm, sizeof(record.comm));
	} else {
		return 0;
	}
	if (headers.destination_port != sk->__sk_common.skc_num ||
	    !ends_match(headers.destination_port, headers.source_port, headers.source))
		return 0;
	ends_set(&record, &headers, false);
	record.number = NO_NUMBER;
	record.cookie = cookie_of(sk);
	record.marks = MARK_DROPPED | MARK_RECEIVED;
	record.dropped_at = now;
	record.drop_reason = reason;
	record.segments = segments_of(skb);
	record.frame_bytes = record.kind == RECORD_PACKET ? skb->len : NO_NUMBER;
	packet_out(&record);
	return 0;
}

static __always_inline int on_drop(struct sk_buff *skb, __u32 reason, struct sock *receiver)
{
	struct packet_record fresh = {}, *record;
	__u64 now, key = (__u64)skb;
	struct sock *sk = skb->sk;
	struct arriving *here;
	struct in_hand *hand;
	__u32 zero = 0;
	struct way way;

	if (!sk && !receiver)
		goto arriving_only;
	now = bpf_ktime_get_ns();
	if (sk && may_be_followed(sk)) {
		hand = in_hand();
		if (hand && hand->skb == key) {
			hand->record.marks |= MARK_DROPPED;
			hand->record.dropped_at = now;
			hand->record.drop_reason = reason;
			return 0;
		}
		record = find(&way, skb, sk);
		if (record) {
			bool whole = record->segments == segments_of(skb);

			if (whole) {
				record->marks |= MARK_DROPPED;
				record->dropped_at = now;
				record->drop_reason = reason;
			}
			packet_out(record);
			bpf_map_delete_elem(&on_way, &way);
			if (whole)
				return 0;
			/* The first segment of a packet that was cut up: dropped by itself, while
			 * the others go on. */
		}
	}
arriving_only:
	if (wanted.udp) {
		here = bpf_map_lookup_elem(&arriving, &zero);
		/* Where the context cannot be cast, the packet that this CPU is queueing is it. */
		if (here && (here->skb == key || here->skb == ARRIVING_UNKNOWN)) {
			here->record.marks |= MARK_DROPPED | MARK_RECEIVED;
			here->record.dropped_at = bpf_ktime_get_ns();
			here->record.drop_reason = reason;
			arrival_flush(here);
			return 0;
		}
	}
	now = bpf_ktime_get_ns();
	if (receiver)
		return arrival_dropped(skb, receiver, reason, now);
	if (!sk || !may_be_followed(sk))
		return 0;
	/* Dropped before the packet scheduler, after the driver, or on the way in where the socket
	 * was known early. */
	if (leaves(&fresh, skb, sk, false)) {
		fresh.marks |= MARK_DROPPED;
		fresh.dropped_at = now;
		fresh.drop_reason = reason;
		packet_out(&fresh);
		return 0;
	}
	return arrival_dropped(skb, sk, reason, now);
}

/* 6.11 and later say for which socket a packet was. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(packet_dropped, struct sk_buff *skb, void *location, __u32 reason, struct sock *receiver)
{
	return on_drop(skb, reason, receiver);
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(packet_dropped_before_6_11, struct sk_buff *skb, void *location, __u32 reason)
{
	return on_drop(skb, reason, NULL);
}
