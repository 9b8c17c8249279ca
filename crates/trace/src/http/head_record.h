/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The beginning of a packet's payload, where that says what the connection carries. */
#pragma once
#include "../bpf/kernel.h"

enum head_kind { RECORD_HEAD = 64 };
SHARED(enum head_kind);

enum head_says {
	/* a line of HTTP/1 or the preface of HTTP/2: its bytes up to the line's end, those of a
	 * query being zero */
	HEAD_LINE,
	HEAD_HELLO, /* the ClientHello of TLS: its bytes */
	HEAD_STATEMENTS, /* messages of PostgreSQL: no bytes */
	/* the header `traceparent` of a request whose line is told of, too: its value, and the byte
	 * after that */
	HEAD_TRACEPARENT,
};
SHARED(enum head_says);

enum head_limits {
	LINE_BYTES = 256,
	HELLO_BYTES = 2048,
	MESSAGES = 64,
	HEADERS_BYTES = 4096, /* of a packet, in which `traceparent` is looked for */
	TRACEPARENT_BYTES = 55, /* of its value in version 00; later ones begin with as many */
};
SHARED(enum head_limits);

/* The bytes follow it. */
struct head_record {
	__u32 kind;
	__u32 first; /* sequence number of the first byte */
	__u64 cookie;
	__u16 bytes; /* that follow */
	__u8 says;
	__u8 sent;
	__u32 statements; /* messages that execute one, at least */
};
SHARED(struct head_record);

/* Fixed when the programs are loaded. */
struct http_config {
	__u32 hellos_only; /* only the ClientHello of TLS is handed on */
};
SHARED(struct http_config);

/* One per CPU; user space adds them up. */
struct http_lost {
	__u64 ring_buffer;
};
SHARED(struct http_lost);
