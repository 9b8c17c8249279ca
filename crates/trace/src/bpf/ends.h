/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The addresses and ports of a socket, as records have them. */
#pragma once
#include "kernel.h"

/* An address as 16 bytes, IPv4 as IPv4-mapped IPv6. */
static __always_inline void address(__u8 *to, __u16 family, __be32 v4, const struct in6_addr *v6)
{
	__u32 *words = (__u32 *)to;

	if (family == AF_INET) {
		words[0] = 0;
		words[1] = 0;
		words[2] = bpf_htonl(0xffff);
		words[3] = v4;
	} else {
		for (int i = 0; i < 4; i++)
			words[i] = v6->in6_u.u6_addr32[i];
	}
}

/* Sets the addresses and ports of a record. */
#define ENDS(record, sk)                                                                                \
	({                                                                                              \
		const struct sock_common *ends_ = &(sk)->__sk_common;                                   \
		__u16 family_ = ends_->skc_family;                                                      \
		(record)->local_port = ends_->skc_num;                                                  \
		(record)->remote_port = bpf_ntohs(ends_->skc_dport);                                    \
		address((record)->local, family_, ends_->skc_rcv_saddr, &ends_->skc_v6_rcv_saddr);      \
		address((record)->remote, family_, ends_->skc_daddr, &ends_->skc_v6_daddr);             \
	})
