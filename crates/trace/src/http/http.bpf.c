// SPDX-License-Identifier: MIT OR Apache-2.0
/* What the packets of followed connections begin with: a line of HTTP/1, the preface of HTTP/2, a
 * ClientHello of TLS, messages of PostgreSQL.
 *
 * cgroup_skb (4.10): a packet leaves or comes in; for every packet of sockets in the cgroup. It is
 * looked at no further where its socket is not followed, which the storage of the sends' programs
 * says.
 *
 * No byte of a query (after `?`) is handed to user space, nor of what follows the first line. */
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

static __always_inline void read_beginning(struct __sk_buff *ctx, bool sent)
{
	struct packet packet = { .ctx = ctx, .sent = sent };
	struct bpf_sock *sk = ctx->sk;
	struct socket_info *info;
	__u8 begin[8];

	if (!sk)
		return;
	info = bpf_sk_storage_get(&sockets, sk, NULL, 0);
	if (!info || info->row == NO_ROW || !find_payload(&packet) || packet.payload < sizeof(begin) ||
	    bpf_skb_load_bytes(ctx, packet.at, begin, sizeof(begin)))
		return;
	if (reading.hellos_only && begin[0] != 0x16)
		return;
	if (begins_line(FOUR(begin[0], begin[1], begin[2], begin[3]))) {
		line_out(&packet);
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
