/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Settings from user space: once, before they are loaded, and while they run. */
#pragma once
#include "kernel.h"
#include "record.h"

const volatile struct config config SEC(".rodata.config");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct control);
	__uint(max_entries, 1);
} controls SEC(".maps");

static __always_inline struct control *control(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&controls, &zero);
}
