/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Changes one byte of the payload of some TCP packets over IPv4, as faulty hardware on the way
 * does: the checksum stays as it was sent.
 * It runs where packets come in, before captures see them (the kernel runs generic XDP before
 * packet sockets). */

#define SEC(name) __attribute__((section(name), used))

/* include/uapi/linux/bpf.h */
enum { XDP_PASS = 2, BPF_FUNC_get_prandom_u32 = 7 };
struct xdp_md {
	unsigned int data, data_end;
};

static unsigned int (*const get_prandom_u32)(void) = (void *)BPF_FUNC_get_prandom_u32;

/* Ethernet (14 bytes), IPv4 without options (20), the longest TCP header (60): behind it, there is
 * payload for certain. */
enum { ETHERTYPE = 12, IP = 14, PROTOCOL = 23, PAYLOAD = 94 };

/* A packet is damaged where a draw of 32 bits is below THRESHOLD. */
SEC("xdp")
int damage(struct xdp_md *context)
{
	unsigned char *frame = (void *)(long)context->data, *end = (void *)(long)context->data_end;

	if (frame + PAYLOAD + 1 > end || frame[ETHERTYPE] != 8 || frame[ETHERTYPE + 1] != 0)
		return XDP_PASS;
	if (frame[IP] != 0x45 || frame[PROTOCOL] != 6 || get_prandom_u32() >= THRESHOLD)
		return XDP_PASS;
	frame[PAYLOAD] ^= 0x10;
	return XDP_PASS;
}

char permission[] SEC("license") = "Dual MIT/GPL";
