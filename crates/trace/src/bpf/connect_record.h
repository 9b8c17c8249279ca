/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What is known of the beginning and the end of a connection: as it is kept with the socket, and as
 * it is handed to user space. */
#pragma once
#include "kernel.h"

enum connect_kind {
	RECORD_CONNECT = 48, /* an attempt that is over, or was when tracing ended */
	RECORD_SET_UP = 49, /* it is established: the same, so far */
};
SHARED(enum connect_kind);

enum connect_limits { CONNECT_RETRIES = 8 };
SHARED(enum connect_limits);

enum connect_flags {
	/* Fast Open was tried: data or a request for a cookie is in the SYN */
	CONNECT_FAST_OPEN = 1 << 0,
	CONNECT_SYN_DATA_ACKED = 1 << 1, /* the peer has taken the data in the SYN */
	CONNECT_EXITING = 1 << 2, /* the process that closed was ending */
	CONNECT_OTHERS = 1 << 3, /* accepted by a process that is not in the target */
	CONNECT_SYN = 1 << 4, /* its SYN was seen */
};
SHARED(enum connect_flags);

/* Kept with the socket, in its socket_info. */
struct setup {
	__u8 known; /* whether anything is known of this socket */
	__u8 opening;
	__u8 flags;
	__u8 had; /* sockops callbacks that the socket had before */
	__u32 retries;
	/* no later than the first of these; with CONNECT_SYN it is when the SYN was sent, or
	 * received */
	__u64 begun;
	__u64 answered;
	__u64 established;
	__u64 accepted;
	__u64 fin_out;
	__u64 fin_in;
	__u64 reset_in;
	__u32 closer;
	__u32 exit_code;
	/* until it is established, where the bytes begin: the write_seq of the SYN */
	__u32 syn_bytes;
	__u32 pad;
};
SHARED(struct setup);

/* Microseconds after `begun` at which the SYN, or the SYN-ACK, was retransmitted. */
struct setup_retries {
	__u32 at[CONNECT_RETRIES];
};
SHARED(struct setup_retries);

struct connect_record {
	__u32 kind;
	__u32 pid; /* who connected, or accepted; before, the owner of the listener */
	__u64 cookie; /* 0: there was no socket yet */
	__u8 local[16]; /* IPv4 as IPv4-mapped */
	__u8 remote[16];
	__u16 local_port;
	__u16 remote_port;
	__u8 opening;
	__u8 state; /* the one before TCP_CLOSE; 0: not closed */
	__u8 flags;
	__u8 pad;
	__u64 syn; /* sent, or received */
	__u64 answered; /* the SYN-ACK was sent */
	__u64 established; /* the SYN-ACK came, or the ACK */
	__u64 accepted;
	__u64 first_out;
	__u64 first_in;
	__u64 fin_out;
	__u64 fin_in;
	__u64 reset_in;
	__u64 closed;
	__u64 retried[CONNECT_RETRIES]; /* SYN or SYN-ACK; of a socket's to the microsecond */
	__u64 cgroup; /* of the socket; 0: not known */
	__u32 retries;
	__u32 error; /* sk_err */
	__u32 closer; /* the process that closed */
	__u32 exit_code; /* of it, where it was ending */
	__u32 syn_bytes; /* data in the SYN */
	__u32 pad_end;
	char comm[16];
};
SHARED(struct connect_record);

/* A connection that a SYN has asked for. */
struct request_key {
	__u64 network; /* cookie of the network namespace */
	__u8 local[16];
	__u8 remote[16];
	__u32 local_port;
	__u32 remote_port;
};
SHARED(struct request_key);

struct request {
	__u64 syn;
	__u64 answered;
	__u64 retried[CONNECT_RETRIES];
	__u32 retries;
	__u32 pad;
};
SHARED(struct request);

struct listener_key {
	__u64 network;
	__u32 port;
	__u32 pad;
};

/* One per CPU; user space adds them up. */
struct connect_lost {
	__u64 ring_buffer;
	__u64 requests_full;
	__u64 listen_drops;
};
SHARED(struct connect_lost);
