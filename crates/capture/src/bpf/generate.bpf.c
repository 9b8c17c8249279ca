// SPDX-License-Identifier: MIT OR Apache-2.0
/* The program that the kernel runs on generated frames (BPF_F_TEST_XDP_LIVE_FRAMES): it writes id
 * and time into each and redirects it to an interface. One thread runs it. */
#include "types.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

enum { BPF_MAP_TYPE_ARRAY = 2 };
enum { XDP_ABORTED = 0, XDP_DROP = 1 };

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct net_device {
	int ifindex;
} __attribute__((preserve_access_index));

/* Set before loading. */
const volatile struct settings {
	__u32 interface;
	__u32 udp; /* where the UDP header begins */
	__u32 mark; /* where magic, id and time begin */
	__u32 fixed_sum; /* of what never changes in a UDP checksum */
	__u16 flows;
	__u16 port;
	__u32 checksum; /* whether there is one */
	__u32 stale; /* the clock is read where the id has none of these bits */
} settings SEC(".rodata.settings") = {};
/* `generate/live_frames.rs` writes it at these places. */
_Static_assert(__builtin_offsetof(struct settings, interface) == 0, "settings");
_Static_assert(__builtin_offsetof(struct settings, udp) == 4, "settings");
_Static_assert(__builtin_offsetof(struct settings, mark) == 8, "settings");
_Static_assert(__builtin_offsetof(struct settings, fixed_sum) == 12, "settings");
_Static_assert(__builtin_offsetof(struct settings, flows) == 16, "settings");
_Static_assert(__builtin_offsetof(struct settings, port) == 18, "settings");
_Static_assert(__builtin_offsetof(struct settings, checksum) == 20, "settings");
_Static_assert(__builtin_offsetof(struct settings, stale) == 24, "settings");

/* Read and written by user space between runs. */
struct state {
	__u64 next;
	__u64 last;
	__u64 gaps;
	__u64 sum;
	__u64 squares_high; /* of the gaps, ns², as two words */
	__u64 squares_low;
	__u64 longest;
	__u64 refused; /* frames that the interface did not take */
	__u64 error; /* the last reason for that, as a positive errno; 0 where its queue was full */
	__u64 task; /* the thread that runs the program */
};
/* `generate/live_frames.rs` reads it as words in this order. */
_Static_assert(__builtin_offsetof(struct state, next) == 0, "state");
_Static_assert(__builtin_offsetof(struct state, last) == 8, "state");
_Static_assert(__builtin_offsetof(struct state, gaps) == 16, "state");
_Static_assert(__builtin_offsetof(struct state, sum) == 24, "state");
_Static_assert(__builtin_offsetof(struct state, squares_high) == 32, "state");
_Static_assert(__builtin_offsetof(struct state, squares_low) == 40, "state");
_Static_assert(__builtin_offsetof(struct state, longest) == 48, "state");
_Static_assert(__builtin_offsetof(struct state, refused) == 56, "state");
_Static_assert(__builtin_offsetof(struct state, error) == 64, "state");
_Static_assert(__builtin_offsetof(struct state, task) == 72, "state");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct state);
} states SEC(".maps");

static __always_inline void note_gap(struct state *state, __u64 now)
{
	if (state->last) {
		__u64 gap = now - state->last, square;

		/* Longer ones would not fit when squared; they are counted as this long. */
		if (gap > 0xffffffff)
			gap = 0xffffffff;
		square = gap * gap;
		state->gaps++;
		state->sum += gap;
		state->squares_low += square;
		if (state->squares_low < square)
			state->squares_high++;
		if (gap > state->longest)
			state->longest = gap;
	}
	state->last = now;
}

struct mark {
	__u8 magic[2];
	__u8 id[8];
	__u8 time[8];
};

SEC("xdp")
int generate(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 zero = 0, udp_at = settings.udp & 0xff, mark_at = settings.mark & 0xff;
	struct state *state = bpf_map_lookup_elem(&states, &zero);
	struct mark *mark = data + mark_at;
	__be16 *udp = data + udp_at;
	__u64 id, now, be;
	__u16 port;
	int stale;

	if (!state || (void *)(mark + 1) > end || (void *)(udp + 4) > end)
		return XDP_ABORTED;
	if (!state->task)
		state->task = bpf_get_current_task();
	id = state->next++;
	stale = id & settings.stale && state->last;
	now = stale ? state->last : bpf_ktime_get_ns();
	port = settings.port + (settings.flows > 1 ? id % settings.flows : 0);
	udp[0] = bpf_htons(port);
	be = bpf_cpu_to_be64(id);
	__builtin_memcpy(mark->id, &be, sizeof(be));
	be = bpf_cpu_to_be64(now);
	__builtin_memcpy(mark->time, &be, sizeof(be));
	if (settings.checksum) {
		__u64 sum = settings.fixed_sum + port;

		sum += (id & 0xffff) + (id >> 16 & 0xffff) + (id >> 32 & 0xffff) + (id >> 48);
		sum += (now & 0xffff) + (now >> 16 & 0xffff) + (now >> 32 & 0xffff) + (now >> 48);
		sum = (sum & 0xffff) + (sum >> 16);
		sum = (sum & 0xffff) + (sum >> 16);
		sum = ~sum & 0xffff;
		udp[3] = bpf_htons(sum ? sum : 0xffff);
	}
	if (stale)
		state->gaps++; /* of 0 ns */
	else
		note_gap(state, now);
	return bpf_redirect(settings.interface, 0);
}

/* The kernel says nowhere else what becomes of a redirected frame: no counter of the interface has
 * one that it did not take. */
static __always_inline int note_refused(__u32 interface, __u64 frames, int error)
{
	__u32 zero = 0;
	struct state *state = bpf_map_lookup_elem(&states, &zero);

	if (!state || interface != settings.interface || state->task != bpf_get_current_task())
		return 0;
	state->refused += frames;
	if (error < 0)
		state->error = -error;
	return 0;
}

/* const struct net_device *from, const struct net_device *to, int sent, int drops, int err */
SEC("tp_btf/xdp_devmap_xmit")
int handed_over(__u64 *ctx)
{
	const struct net_device *to = (void *)ctx[1];
	int drops = ctx[3];

	return drops > 0 ? note_refused(to->ifindex, drops, (int)ctx[4]) : 0;
}

/* const struct net_device *dev, const struct bpf_prog *xdp, const void *tgt, int err, enum
 * bpf_map_type map_type, u32 map_id, u32 index */
SEC("tp_btf/xdp_redirect_err")
int not_redirected(__u64 *ctx)
{
	return note_refused((__u32)ctx[6], 1, (int)ctx[3]);
}
