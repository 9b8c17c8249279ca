// SPDX-License-Identifier: MIT OR Apache-2.0
/* XDP programs of the receivers. A frame meets three steps: `stamp` notes when it came, then a
 * filter (translated from libpcap's language, put into the program array by user space) or nothing,
 * then `redirect` or `sample`. Frames that do not match go on to the network stack as they came. */
#include "types.h"

#include <bpf/bpf_helpers.h>

enum {
	BPF_MAP_TYPE_PROG_ARRAY = 3,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_XSKMAP = 17,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum { XDP_PASS = 2 };

/* Linux 6.3; a device without it gives an error. */
extern int bpf_xdp_metadata_rx_timestamp(const struct xdp_md *ctx, __u64 *timestamp) __ksym __weak;

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Set before loading. */
const volatile struct settings {
	__u32 snap_length;
} settings SEC(".rodata.settings") = {64};

enum { FIRST = 0, ACCEPTED = 1 };

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u32);
} steps SEC(".maps");

/* When the frame that this CPU works on came. */
struct stamps {
	__u64 software; /* CLOCK_MONOTONIC */
	__u64 hardware; /* the NIC's clock; 0 where it gave none */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stamps);
} current SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} samples SEC(".maps");

struct counters {
	/* the ring buffer was full, the frame has no socket, or the driver has no room for its
	 * stamps */
	__u64 dropped;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counts SEC(".maps");

/* In front of the bytes of a sample. */
struct sample {
	__u64 software;
	__u64 hardware;
	__u32 length;
	__u32 kept;
	__u32 queue;
	__u32 pad;
};
/* `xdp/samples.rs` reads it at these places. */
_Static_assert(__builtin_offsetof(struct sample, software) == 0, "sample");
_Static_assert(__builtin_offsetof(struct sample, hardware) == 8, "sample");
_Static_assert(__builtin_offsetof(struct sample, length) == 16, "sample");
_Static_assert(__builtin_offsetof(struct sample, kept) == 20, "sample");
_Static_assert(__builtin_offsetof(struct sample, queue) == 24, "sample");
_Static_assert(sizeof(struct sample) == 32, "sample");

static __u64 (*const xdp_get_buff_len)(struct xdp_md *) = (void *)188;
static long (*const xdp_load_bytes)(struct xdp_md *, __u32, void *, __u32) = (void *)189;

static __always_inline int note(struct xdp_md *ctx, int from_nic)
{
	__u32 zero = 0;
	struct stamps *now = bpf_map_lookup_elem(&current, &zero);

	if (!now)
		return XDP_PASS;
	now->software = bpf_ktime_get_ns();
	now->hardware = 0;
	if (from_nic) {
		__u64 timestamp = 0;

		if (!bpf_xdp_metadata_rx_timestamp(ctx, &timestamp))
			now->hardware = timestamp;
	}
	bpf_tail_call(ctx, &steps, FIRST);
	return XDP_PASS;
}

SEC("xdp")
int stamp(struct xdp_md *ctx)
{
	return note(ctx, 0);
}

/* Bound to its device, as the NIC's timestamp asks for. */
SEC("xdp")
int stamp_hardware(struct xdp_md *ctx)
{
	return note(ctx, 1);
}

static __always_inline int not_taken(void)
{
	__u32 zero = 0;
	struct counters *mine = bpf_map_lookup_elem(&counts, &zero);

	if (mine)
		mine->dropped++;
	return XDP_PASS;
}

/* To the AF_XDP socket of the frame's queue, with its stamps in front. Without a socket the frame
 * passes, and is counted. */
SEC("xdp")
int redirect(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct stamps *now = bpf_map_lookup_elem(&current, &zero);
	struct stamps *meta;
	long to;

	if (!now || bpf_xdp_adjust_meta(ctx, -(int)sizeof(*meta)))
		return not_taken();
	meta = (void *)(long)ctx->data_meta;
	if ((void *)(meta + 1) > (void *)(long)ctx->data)
		return not_taken();
	*meta = *now;
	to = bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
	return to == XDP_PASS ? not_taken() : to;
}

/* Frames are kept in rooms of three sizes, since the verifier wants constant ones. */
static __always_inline void keep(struct xdp_md *ctx, __u32 length, __u32 kept, __u32 room, const struct stamps *now)
{
	struct sample *sample;

	switch (room) {
	case 64:
		sample = bpf_ringbuf_reserve(&samples, sizeof(*sample) + 64, 0);
		break;
	case 256:
		sample = bpf_ringbuf_reserve(&samples, sizeof(*sample) + 256, 0);
		break;
	default:
		sample = bpf_ringbuf_reserve(&samples, sizeof(*sample) + 2048, 0);
		break;
	}
	if (!sample) {
		not_taken();
		return;
	}
	sample->software = now->software;
	sample->hardware = now->hardware;
	sample->length = length;
	sample->kept = kept;
	sample->queue = ctx->rx_queue_index;
	sample->pad = 0;
	if (kept == 0 || kept > room || xdp_load_bytes(ctx, 0, sample + 1, kept)) {
		bpf_ringbuf_discard(sample, 0);
		not_taken();
		return;
	}
	bpf_ringbuf_submit(sample, 0);
}

SEC("xdp")
int sample(struct xdp_md *ctx)
{
	__u32 zero = 0;
	const struct stamps *now = bpf_map_lookup_elem(&current, &zero);
	__u32 length = xdp_get_buff_len(ctx);
	__u32 kept = length < settings.snap_length ? length : settings.snap_length;

	if (!now)
		return XDP_PASS;
	if (kept <= 64)
		keep(ctx, length, kept, 64, now);
	else if (kept <= 256)
		keep(ctx, length, kept, 256, now);
	else
		keep(ctx, length, kept < 2048 ? kept : 2048, 2048, now);
	return XDP_PASS;
}
