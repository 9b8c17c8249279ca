/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Segments of followed connections that this host drops: in its packet scheduler, its firewall or a
 * driver's queue. The tracepoint runs for drops alone. They wait in the connection's row, and are
 * added to the series of the send that finishes next. */
#pragma once
#include "histograms.h"

SEC("tp_btf/kfree_skb")
int BPF_PROG(dropped, struct sk_buff *skb)
{
	__u32 number;
	struct row *row = row_of_packet(skb->sk, &number);

	if (row)
		__sync_fetch_and_add(&row->dropped, segments_of(skb));
	return 0;
}
