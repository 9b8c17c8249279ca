/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The types that libbpf's headers want, and the context of an XDP program. */
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
#define NULL ((void *)0)

/* A context: its offsets are ABI (include/uapi/linux/bpf.h). */
struct xdp_md {
	__u32 data;
	__u32 data_end;
	__u32 data_meta;
	__u32 ingress_ifindex;
	__u32 rx_queue_index;
	__u32 egress_ifindex;
};
