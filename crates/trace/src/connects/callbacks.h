/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How connections are set up and end, at the callbacks of their sockets: statements of
 * callback_run() (bpf/callbacks.h). */
switch (op) {
case BPF_SOCK_OPS_TCP_CONNECT_CB:
	connect_begun(skops, sk, tp);
	break;
case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
	connect_established(skops, sk, tp, op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB);
	break;
case BPF_SOCK_OPS_RETRANS_CB:
	if (!row)
		connect_retransmitted(info_of(sk), sock_of(tp));
	break;
case BPF_SOCK_OPS_STATE_CB:
	connect_state(callback->info, row, tp, callback->from, callback->to, bpf_ktime_get_ns());
	break;
}
