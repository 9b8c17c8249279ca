// SPDX-License-Identifier: MIT OR Apache-2.0
/* Matches the frames of two taps inside the kernel: one program at each tap, a table of the frames
 * that entered, and a histogram of their delays. Frames carry an id that counts up
 * (generate.bpf.c).
 *
 * An XDP program reads the clock when it runs, which is right where a driver runs it for frames
 * that it has just taken from its hardware. A veth pair puts frames into a ring first, and the
 * programs in front of the stack run once the softirq comes to them: up to 0.1 ms and more after
 * the frame has arrived, at either tap. There the tc programs take the kernel's own receive
 * timestamp, which is made when the frame is handed over. */
#include "types.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

enum { BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_PERCPU_ARRAY = 6 };
enum { XDP_DROP = 1, XDP_PASS = 2 };
enum { TC_ACT_SHOT = 2, TCX_NEXT = -1 };
enum { SLOTS = 1 << 22, BUCKETS = 512 };

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Set before loading. */
const volatile struct settings {
	__u32 drop; /* whether frames end here */
} settings SEC(".rodata.settings") = {};

/* A frame that entered: its id + 1, with the highest bit set once it has left; 0 where none did. */
struct slot {
	__u64 id;
	__u64 at;
};
#define LEFT (1ULL << 63)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

/* Of one CPU. */
struct figures {
	__u64 before;
	__u64 after;
	__u64 matched;
	__u64 lost; /* their place was needed before they left */
	__u64 duplicated;
	__u64 unexplained;
	__u64 unrecognised;
	__u64 reordered;
	__u64 latest;
	__u64 sum;
	__u64 squares_high; /* of the delays, ns², as two words */
	__u64 squares_low;
	__u64 least; /* + 1; 0 for none */
	__u64 most;
	__u64 entered; /* with an id: matched, lost, or still in the device */
	__u64 negative; /* matched, and seen behind the device before they entered it */
	__u64 unstamped_before; /* in no other count: the kernel had not stamped them */
	__u64 unstamped_after;
	__u64 buckets[BUCKETS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct figures);
} figures SEC(".maps");

/* The id of a frame into *id; 0 where it has none. */
static __always_inline int id_of(struct xdp_md *ctx, __u64 *id)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u8 *ip = data + 14, *mark;
	__be16 kind;

	if ((void *)(ip + 44) > end)
		return 0;
	kind = *(__be16 *)(data + 12);
	if (kind == bpf_htons(0x8100) || kind == bpf_htons(0x88a8)) {
		kind = *(__be16 *)(data + 16);
		ip += 4;
		if ((void *)(ip + 44) > end)
			return 0;
	}
	if (kind == bpf_htons(0x0800) && ip[9] == 17)
		mark = ip + (ip[0] & 0xf) * 4 + 8;
	else if (kind == bpf_htons(0x86dd) && ip[6] == 17)
		mark = ip + 48;
	else
		return 0;
	if ((void *)(mark + 10) > end || mark[0] != 'W' || mark[1] != 'L')
		return 0;
	__builtin_memcpy(id, mark + 2, sizeof(*id));
	*id = bpf_be64_to_cpu(*id);
	return 1;
}

/* Eight buckets for each doubling; exact below 16. */
static __always_inline __u32 bucket_of(__u64 value)
{
	__u64 rest = value;
	__u32 log = 0;

	if (value < 16)
		return value;
	if (rest >> 32) {
		log += 32;
		rest >>= 32;
	}
	if (rest >> 16) {
		log += 16;
		rest >>= 16;
	}
	if (rest >> 8) {
		log += 8;
		rest >>= 8;
	}
	if (rest >> 4) {
		log += 4;
		rest >>= 4;
	}
	if (rest >> 2) {
		log += 2;
		rest >>= 2;
	}
	log += rest >> 1;
	return (log - 2) * 8 + (value >> (log - 3) & 7);
}

static __always_inline int done(void)
{
	return settings.drop ? XDP_DROP : XDP_PASS;
}

/* What both taps begin with: the frame is counted in `mine`. Its slot; null where it has no id. */
static __always_inline struct slot *seen(int leaves, int has_id, __u64 id, struct figures *mine)
{
	__u32 place = id & (SLOTS - 1);

	if (leaves)
		mine->after++;
	else
		mine->before++;
	if (!has_id) {
		mine->unrecognised++;
		return 0;
	}
	return bpf_map_lookup_elem(&slots, &place);
}

/* A frame with or without an id, at the tap before the device. */
static __always_inline void enters(struct figures *mine, __u64 now, int has_id, __u64 id)
{
	struct slot *slot = seen(0, has_id, id, mine);
	__u64 before;

	if (!slot)
		return;
	mine->entered++;
	/* In one step: the frame that held the place is either lost here or matched by the other
	 * tap, never both. */
	before = __sync_lock_test_and_set(&slot->id, 0);
	if (before && !(before & LEFT))
		mine->lost++;
	slot->at = now;
	/* The time is there before the id that shows it. */
	asm volatile("" ::: "memory");
	slot->id = (id + 1) & ~LEFT;
}

/* The same at the tap behind it. */
static __always_inline void leaves(struct figures *mine, __u64 now, int has_id, __u64 id)
{
	struct slot *slot = seen(1, has_id, id, mine);
	__u64 found, delay, square;
	__u32 place;

	if (!slot)
		return;
	id = (id + 1) & ~LEFT;
	/* Of two copies that leave at the same time one is the first. */
	found = __sync_val_compare_and_swap(&slot->id, id, id | LEFT);
	if (found != id) {
		if (found == (id | LEFT))
			mine->duplicated++;
		else
			mine->unexplained++;
		return;
	}
	delay = now - slot->at;
	if ((__s64)delay < 0) {
		mine->negative++;
		delay = 0;
	}
	mine->matched++;
	mine->sum += delay;
	/* Longer ones would not fit when squared. */
	square = delay > 0xffffffff ? 0xffffffff : delay;
	square *= square;
	mine->squares_low += square;
	if (mine->squares_low < square)
		mine->squares_high++;
	if (!mine->least || delay + 1 < mine->least)
		mine->least = delay + 1;
	if (delay > mine->most)
		mine->most = delay;
	if (id < mine->latest)
		mine->reordered++;
	else
		mine->latest = id;
	place = bucket_of(delay);
	if (place < BUCKETS)
		mine->buckets[place]++;
}

static __always_inline struct figures *of_this_cpu(void)
{
	__u32 place = 0;

	return bpf_map_lookup_elem(&figures, &place);
}

SEC("xdp")
int before(struct xdp_md *ctx)
{
	__u64 now = bpf_ktime_get_ns(), id = 0;
	struct figures *mine = of_this_cpu();
	int has_id = id_of(ctx, &id);

	if (mine)
		enters(mine, now, has_id, id);
	return done();
}

SEC("xdp")
int after(struct xdp_md *ctx)
{
	__u64 now = bpf_ktime_get_ns(), id = 0;
	struct figures *mine = of_this_cpu();
	int has_id = id_of(ctx, &id);

	if (mine)
		leaves(mine, now, has_id, id);
	return done();
}

/* As id_of(). A packet may have its payload elsewhere than its headers, so that both are copied. */
static __always_inline int id_of_packet(struct __sk_buff *skb, __u64 *id)
{
	__u8 head[34], mark[10];
	__be16 kind;
	__u32 at = 14;

	if (bpf_skb_load_bytes(skb, 0, head, sizeof(head)))
		return 0;
	__builtin_memcpy(&kind, head + 12, sizeof(kind));
	/* The kernel has taken off one tag already. */
	if (kind == bpf_htons(0x8100) || kind == bpf_htons(0x88a8)) {
		at += 4;
		if (bpf_skb_load_bytes(skb, 4, head, sizeof(head)))
			return 0;
		__builtin_memcpy(&kind, head + 12, sizeof(kind));
	}
	if (kind == bpf_htons(0x0800) && head[23] == 17)
		at += (head[14] & 0xf) * 4 + 8;
	else if (kind == bpf_htons(0x86dd) && head[20] == 17)
		at += 48;
	else
		return 0;
	if (bpf_skb_load_bytes(skb, at, mark, sizeof(mark)) || mark[0] != 'W' || mark[1] != 'L')
		return 0;
	__builtin_memcpy(id, mark + 2, sizeof(*id));
	*id = bpf_be64_to_cpu(*id);
	return 1;
}

static __always_inline int done_in_stack(void)
{
	return settings.drop ? TC_ACT_SHOT : TCX_NEXT;
}

SEC("tc")
int before_in_stack(struct __sk_buff *skb)
{
	struct figures *mine = of_this_cpu();
	__u64 now = skb->tstamp, id = 0;
	int has_id = id_of_packet(skb, &id);

	if (mine && now)
		enters(mine, now, has_id, id);
	else if (mine)
		mine->unstamped_before++;
	return done_in_stack();
}

SEC("tc")
int after_in_stack(struct __sk_buff *skb)
{
	struct figures *mine = of_this_cpu();
	__u64 now = skb->tstamp, id = 0;
	int has_id = id_of_packet(skb, &id);

	if (mine && now)
		leaves(mine, now, has_id, id);
	else if (mine)
		mine->unstamped_after++;
	return done_in_stack();
}
