/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A datagram of UDP that the next one answered, or the beginning of a connection of QUIC. */
#pragma once
#include "../bpf/kernel.h"

enum exchange_kind {
	RECORD_EXCHANGE = 113,
};
SHARED(enum exchange_kind);

enum exchange_mark {
	EXCHANGE_OVER = 1, /* it took `took` */
	EXCHANGE_SERVER = 2, /* the peer asked */
	EXCHANGE_QUIC = 4, /* the socket speaks QUIC; what is over is a handshake */
};
SHARED(enum exchange_mark);

struct exchange_record {
	__u32 kind;
	__u32 pid; /* of the socket's owner, in the tracer's pid namespace; 0: not known */
	__u64 cookie;
	__u64 cgroup; /* of the socket; 0: not known */
	__u64 asked; /* when the first datagram passed */
	__u64 took;
	__u8 local[16];
	__u8 peer[16];
	__u16 local_port;
	__u16 peer_port;
	__u32 times; /* exchanges of this socket that it stands for, itself among them */
	char comm[16];
	__u32 marks;
	__u32 pad;
};
SHARED(struct exchange_record);
