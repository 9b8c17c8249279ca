// SPDX-License-Identifier: MIT OR Apache-2.0
/* What the packets of followed connections begin with: a line of HTTP/1, the preface of HTTP/2, a
 * ClientHello of TLS, messages of PostgreSQL.
 *
 * cgroup_skb (4.10): a packet leaves or comes in; for every packet of sockets in the cgroup. It is
 * looked at no further where its socket is not followed, which the storage of the sends' programs
 * says.
 *
 * No byte of a query (after `?`) is handed to user space. Of what follows the first line it is the
 * value of the header `traceparent` alone. */
#include "../bpf/cgroup_packet.h"
#include "../bpf/kernel.h"
#define STAMPS 0
#include "../bpf/sockets.h"
#include "head_record.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile struct http_config reading SEC(".rodata.reading");

/* Records with room for their bytes. */
struct line {
	struct head_record head;
	__u8 bytes[LINE_BYTES];
};
struct hello {
	struct head_record head;
	__u8 bytes[HELLO_BYTES];
};
struct traceparent {
	struct head_record head;
	__u8 bytes[TRACEPARENT_BYTES + 1];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct http_lost);
	__uint(max_entries, 1);
} http_losses SEC(".maps");

static __always_inline void not_told(void)
{
	__u32 zero = 0;
	struct http_lost *lost = bpf_map_lookup_elem(&http_losses, &zero);

	if (lost)
		__sync_fetch_and_add(&lost->ring_buffer, 1);
}

/* A packet that may begin with something. */
struct packet {
	struct __sk_buff *ctx;
	__u32 at; /* of the payload */
	__u32 payload; /* bytes */
	__u32 first;
	bool sent;
};

/* Loads up to `most` bytes of the payload, which has some; gives how many. */
static __always_inline __u32 load(const struct packet *packet, __u8 *to, __u32 most)
{
	/* Of 64 bits, so that the verifier of 6.1 too sees the bounds in the very register that the
	 * helper gets. */
	__u64 bytes = packet->payload < most ? packet->payload : most;

	asm volatile("" : "+r"(bytes));
	if (bytes > most || bpf_skb_load_bytes(packet->ctx, packet->at, to, bytes))
		return 0;
	return bytes;
}

static __always_inline struct head_record head_of(const struct packet *packet, __u32 says)
{
	return (struct head_record){
		.kind = RECORD_HEAD,
		.first = packet->first,
		.cookie = bpf_get_socket_cookie(packet->ctx),
		.says = says,
		.sent = packet->sent,
	};
}

/* The first line of a packet, while it is looked for. */
struct search {
	struct line line;
	__u32 bytes;
	bool query;
};

/* Up to the end of the line; the bytes of a query become zero. */
static long line_one(__u32 i, void *context)
{
	struct search *search = context;
	__u8 byte;

	if (i >= LINE_BYTES || i >= search->bytes)
		return 1;
	byte = search->line.bytes[i];
	if (byte == '\n') {
		search->bytes = i + 1;
		return 1;
	}
#if OLDER
	/* Without a branch, each of which would double what the verifier of a loop has to walk. */
	{
		__u32 mark = (__u32)((byte ^ '?') - 1) >> 31, end = (__u32)((byte ^ ' ') - 1) >> 31, in = search->query;

		barrier_var(mark);
		barrier_var(end);
		barrier_var(in);
		search->line.bytes[i] = byte & ((in & ~mark & ~end & 1) - 1);
		search->query = (in | mark) & ~end & 1;
		return 0;
	}
#endif
	if (byte == '?')
		search->query = true;
	else if (byte == ' ')
		search->query = false;
	else if (search->query)
		search->line.bytes[i] = 0;
	return 0;
}

static __always_inline void line_out(const struct packet *packet)
{
	struct search search = {};
	__u64 bytes;

	search.bytes = load(packet, search.line.bytes, LINE_BYTES);
	bpf_loop(LINE_BYTES, line_one, &search, 0);
	bytes = search.bytes;
	asm volatile("" : "+r"(bytes));
	if (bytes > LINE_BYTES)
		return;
	search.line.head = head_of(packet, HEAD_LINE);
	search.line.head.bytes = bytes;
	if (bpf_ringbuf_output(&records, &search.line, sizeof(search.line.head) + bytes, BPF_RB_NO_WAKEUP))
		not_told();
}

/* The header lines of a request are walked over in steps: a line is compared where it begins, and
 * one that is longer than a step takes several. */
enum { STEP = 32, STEPS = HEADERS_BYTES / STEP + 128 /* lines */ };

struct headers {
	struct __sk_buff *ctx;
	__u32 at;
	__u32 left; /* bytes that may be looked at from there on */
	__u32 begins; /* 1 where a line begins there, else 0 */
	__u32 found; /* likewise, where that line is the header */
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words hold bytes in the order of the packet");
#define EACH_BYTE(value) ((value) * 0x0101010101010101ull)

/* A bit for each byte of the word, from the lowest on. Up to the first that is set they are
 * right. */
static __always_inline __u64 ends_of_lines(__u64 word)
{
	__u64 zero_where = word ^ EACH_BYTE('\n');
	__u64 marked = (zero_where - EACH_BYTE(1)) & ~zero_where & EACH_BYTE(0x80);

	return ((marked >> 7) * 0x0102040810204080ull) >> 56;
}

static __always_inline __u32 ones(__u32 bits)
{
	bits -= bits >> 1 & 0x55555555;
	bits = (bits & 0x33333333) + (bits >> 2 & 0x33333333);
	return ((bits + (bits >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24;
}

/* 1 where any bit is set, else 0: without a branch, which the compiler makes of a comparison. */
static __always_inline __u32 any(__u64 bits)
{
	__u64 negative = -bits;

	barrier_var(negative);
	return (bits | negative) >> 63;
}

/* Where these bytes are not `traceparent:`, in whatever case. */
static __always_inline __u64 differs(const __u64 *words)
{
	__u64 tracepar = (words[0] | EACH_BYTE(0x20)) ^ 0x7261706563617274;
	__u32 ent = (words[1] | EACH_BYTE(0x20)) ^ 0x3a746e65; /* and the colon */

	return tracepar | ent;
}

/* With no branch but those that end the walk: each other one would double what the verifier of a
 * loop has to walk. */
static long headers_one(__u32 i, void *context)
{
	struct headers *headers = context;
	__u64 words[STEP / 8];
	__u32 ends, next, ended;

	if (headers->left < STEP || bpf_skb_load_bytes(headers->ctx, headers->at, words, STEP))
		return 1;
	headers->found = headers->begins & ~any(differs(words));
	/* Read once more rather than kept: three functions share the stack of a program. */
	barrier();
	ends = ends_of_lines(words[0]) | ends_of_lines(words[1]) << 8 | ends_of_lines(words[2]) << 16 |
	       ends_of_lines(words[3]) << 24;
	/* Up to the first end of a line and with it; all where there is none. */
	next = ones(ends ^ (ends - 1));
	barrier_var(next);
	/* An empty line ends the headers: it has one byte or two. */
	ended = headers->begins & (next - 3) >> 31;
	if (headers->found | ended)
		return 1;
	headers->begins = any(ends);
	headers->at += next;
	headers->left -= next;
	return 0;
}

static __always_inline void hello_out(const struct packet *packet)
{
	struct hello *hello = bpf_ringbuf_reserve(&records, sizeof(*hello), 0);

	if (!hello) {
		not_told();
		return;
	}
	hello->head = head_of(packet, HEAD_HELLO);
	hello->head.bytes = load(packet, hello->bytes, HELLO_BYTES);
	bpf_ringbuf_submit(hello, BPF_RB_NO_WAKEUP);
}

static __always_inline void statements_out(const struct packet *packet, __u32 statements)
{
	struct head_record head = head_of(packet, HEAD_STATEMENTS);

	head.statements = statements;
	if (bpf_ringbuf_output(&records, &head, sizeof(head), BPF_RB_NO_WAKEUP))
		not_told();
}

#define FOUR(a, b, c, d) ((__u32)(a) | (__u32)(b) << 8 | (__u32)(c) << 16 | (__u32)(d) << 24)

/* Whether these are the first four bytes of a line of HTTP/1, or of the preface of HTTP/2. The rest
 * is looked at in user space. */
static __always_inline bool begins_line(__u32 four)
{
	switch (four) {
	case FOUR('G', 'E', 'T', ' '):
	case FOUR('P', 'O', 'S', 'T'):
	case FOUR('H', 'E', 'A', 'D'):
	case FOUR('P', 'U', 'T', ' '):
	case FOUR('D', 'E', 'L', 'E'):
	case FOUR('P', 'A', 'T', 'C'):
	case FOUR('O', 'P', 'T', 'I'):
	case FOUR('C', 'O', 'N', 'N'):
	case FOUR('T', 'R', 'A', 'C'):
	case FOUR('P', 'R', 'I', ' '):
	case FOUR('H', 'T', 'T', 'P'):
		return true;
	}
	return false;
}

/* Of what begins a line, whether it is neither an answer nor the preface. */
static __always_inline bool begins_request(__u32 four)
{
	return four != FOUR('H', 'T', 'T', 'P') && four != FOUR('P', 'R', 'I', ' ');
}

/* The first message of what a client of PostgreSQL sends: simple query, parse, bind, execute,
 * function call. */
static __always_inline bool begins_statement(__u8 type)
{
	return type == 'Q' || type == 'P' || type == 'B' || type == 'E' || type == 'F';
}

/* A walk over messages of PostgreSQL: a letter, and a length that includes itself. */
struct messages {
	struct __sk_buff *ctx;
	__u32 at;
	__u32 left; /* bytes of the packet from there on */
	__u32 statements; /* messages that execute one */
	bool whole; /* the last one ends with the packet */
	bool others; /* something else is among them */
};

static long message_one(__u32 i, void *context)
{
	struct messages *messages = context;
	__u8 header[5];
	__u32 length;

	if (messages->left < sizeof(header) || bpf_skb_load_bytes(messages->ctx, messages->at, header, sizeof(header)))
		return 1;
	length = (__u32)header[1] << 24 | (__u32)header[2] << 16 | (__u32)header[3] << 8 | header[4];
	switch (header[0]) {
	case 'Q':
	case 'E':
	case 'F':
		messages->statements++;
		break;
	case 'P':
	case 'B':
	case 'D':
	case 'S':
	case 'C':
	case 'H':
		break;
	default:
		messages->others = true;
		return 1;
	}
	if (length < 4 || length >> 24) {
		messages->others = true;
		return 1;
	}
	messages->whole = messages->left == length + 1;
	if (messages->left <= length + 1)
		return 1;
	messages->at += length + 1;
	messages->left -= length + 1;
	return 0;
}

/* How many statements a packet executes by messages of PostgreSQL, at least; 0 where it is
 * something else. One that ends within a message has to hold two before that. */
static __always_inline __u32 statements(const struct packet *packet)
{
	struct messages messages = { .ctx = packet->ctx, .at = packet->at, .left = packet->payload };

	/* Of each way that a message can go the verifier of a loop walks all that may follow. */
	bpf_loop(OLDER ? 6 : MESSAGES, message_one, &messages, 0);
	if (messages.others || (!messages.whole && messages.statements < 2))
		return 0;
	return messages.statements;
}

/* Finds where the payload of a TCP packet begins. Extension headers of IPv6 are not walked over. */
static __always_inline bool find_payload(struct packet *packet)
{
	__u8 ip[20], tcp[14];
	__u32 length = packet->ctx->len, at;

	if (bpf_skb_load_bytes(packet->ctx, 0, ip, sizeof(ip)))
		return false;
	if (ip[0] >> 4 == 4) {
		/* A later fragment has no header of TCP. */
		if (ip[9] != IPPROTO_TCP || ip[6] & 0x1f || ip[7])
			return false;
		at = (ip[0] & 15) * 4;
	} else {
		if (ip[6] != IPPROTO_TCP)
			return false;
		at = 40;
	}
	if (bpf_skb_load_bytes(packet->ctx, at, tcp, sizeof(tcp)))
		return false;
	packet->first = (__u32)tcp[4] << 24 | (__u32)tcp[5] << 16 | (__u32)tcp[6] << 8 | tcp[7];
	/* The SYN takes a number before the data. */
	if (tcp[13] & 2)
		packet->first++;
	packet->at = at + (tcp[12] >> 4) * 4;
	if (length <= packet->at)
		return false;
	packet->payload = length - packet->at;
	return true;
}

static __always_inline __u8 byte_at(struct __sk_buff *ctx, __u32 at)
{
	__u8 byte;

	return bpf_skb_load_bytes(ctx, at, &byte, 1) ? 0 : byte;
}

/* Of a packet that begins with a request, with this sequence number. Not static: the verifier looks
 * at it by itself, and not once for each end that the line before it can have. */
__noinline int traceparent_out(struct __sk_buff *ctx, __u32 first, __u32 sent)
{
	struct packet packet = { .ctx = ctx };
	struct headers headers = { .ctx = ctx };
	struct traceparent *out;
	__u32 at;
	__u8 space;

	/* Once more, rather than to have the caller keep what it found. */
	if (!find_payload(&packet))
		return 0;
	/* The first line is none of a header: the walk has to find its end. */
	headers.at = packet.at;
	headers.left = packet.payload < HEADERS_BYTES ? packet.payload : HEADERS_BYTES;
	bpf_loop(STEPS, headers_one, &headers, 0);
	if (!headers.found)
		return 0;
	at = headers.at + sizeof("traceparent:") - 1;
	space = byte_at(ctx, at);
	at += space == ' ' || space == '\t';
	/* A shorter value has other headers behind it, which are not to be handed on. */
	if (byte_at(ctx, at + 2) != '-' || byte_at(ctx, at + 35) != '-' || byte_at(ctx, at + 52) != '-')
		return 0;
	out = bpf_ringbuf_reserve(&records, sizeof(*out), 0);
	if (!out) {
		not_told();
		return 0;
	}
	packet.first = first;
	packet.sent = sent;
	out->head = head_of(&packet, HEAD_TRACEPARENT);
	out->head.bytes = bpf_skb_load_bytes(ctx, at, out->bytes, sizeof(out->bytes)) ? 0 : sizeof(out->bytes);
	bpf_ringbuf_submit(out, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline void read_beginning(struct __sk_buff *ctx, bool sent)
{
	struct packet packet = { .ctx = ctx, .sent = sent };
	struct bpf_sock *sk = ctx->sk;
	struct socket_info *info;
	__u8 begin[8];
	__u32 four;

	if (!sk)
		return;
	info = bpf_sk_storage_get(&sockets, sk, NULL, 0);
	if (!info || info->row == NO_ROW || !find_payload(&packet) || packet.payload < sizeof(begin) ||
	    bpf_skb_load_bytes(ctx, packet.at, begin, sizeof(begin)))
		return;
	if (reading.hellos_only && begin[0] != 0x16)
		return;
	four = FOUR(begin[0], begin[1], begin[2], begin[3]);
	if (begins_line(four)) {
		line_out(&packet);
		if (begins_request(four))
			traceparent_out(ctx, packet.first, sent);
	} else if (begin[0] == 0x16 && begin[1] == 3 && begin[5] == 1) {
		/* A record of the handshake (RFC 8446, section 5.1) with a ClientHello (4.1.2). */
		hello_out(&packet);
	} else if (!begin[1] && begins_statement(begin[0])) {
		__u32 found = statements(&packet);

		if (found)
			statements_out(&packet, found);
	}
}

SEC("cgroup_skb/egress")
int leaves(struct __sk_buff *ctx)
{
	read_beginning(ctx, true);
	return 1;
}

SEC("cgroup_skb/ingress")
int comes(struct __sk_buff *ctx)
{
	read_beginning(ctx, false);
	return 1;
}
