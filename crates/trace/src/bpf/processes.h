/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which processes are in the target: those named, and all they start. */
#pragma once
#include "settings.h"

/* Target processes, by number in the tracer's pid namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u8);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} pids SEC(".maps");

/* How many processes of the target found no room there. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} pids_full SEC(".maps");

/* Names of the target's processes, as the kernel keeps them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, char[16]);
	__type(value, __u8);
	__uint(max_entries, 64);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} names SEC(".maps");

/* The process of a task in the tracer's pid namespace; 0 where it is not visible from there. */
static __always_inline __u32 pid_of(const struct task_struct *task)
{
	const struct task_struct *leader;
	const struct pid *pid;

	if (!config.pid_namespace)
		return FIELD(task, tgid);
	leader = FIELD(task, group_leader);
	pid = FIELD(leader, thread_pid);
	for (__u32 level = 1; level < 33; level++) {
		const struct upid *upid = &pid->numbers[level];

		if (level > FIELD(pid, level))
			break;
		/* Read by copying: the verifier follows no pointer that was moved by a variable. */
		if (BPF_CORE_READ(upid, ns, ns.inum) == config.pid_namespace)
			return BPF_CORE_READ(upid, nr);
	}
	return 0;
}

/* From the task itself: sockops programs may ask for the current process's number from 6.10 on, and
 * for its name from 6.15. */
static __always_inline __u32 current_pid(void)
{
	return pid_of(bpf_get_current_task_btf());
}

static __always_inline void current_comm(char to[16])
{
	bpf_probe_read_kernel_str(to, 16, bpf_get_current_task_btf()->comm);
}

/* The name of a task, which the kernel pads with zeros, to where 64-bit numbers may be: two reads,
 * a fifth of what the helpers for it cost. */
static __always_inline void name_of(const struct task_struct *task, char to[16])
{
	const __u64 *name = (const __u64 *)task->comm;
	__u64 *words = (__u64 *)to;

	words[0] = NAME_WORD(name, 0);
	words[1] = NAME_WORD(name, 1);
}

static __always_inline bool pid_is_target(__u32 pid)
{
	return bpf_map_lookup_elem(&pids, &pid) != NULL;
}

/* Whether processes are a criterion. */
static __always_inline bool by_process(void)
{
	struct control *now_set;

	if (config.flags & CONFIG_PIDS)
		return true;
	now_set = control();
	return now_set && now_set->by_process;
}

/* A process becomes one of the target, or is counted. */
static __always_inline void pid_becomes_target(__u32 pid)
{
	__u32 zero = 0;
	__u64 *full;
	__u8 one = 1;

	if (!bpf_map_update_elem(&pids, &pid, &one, BPF_ANY))
		return;
	full = bpf_map_lookup_elem(&pids_full, &zero);
	if (full)
		__sync_fetch_and_add(full, 1);
}

/* Children of target processes are target processes. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(forked, struct task_struct *parent, struct task_struct *child)
{
	__u32 pid = pid_of(parent);

	if (!pid || !pid_is_target(pid))
		return 0;
	pid = pid_of(child);
	if (pid)
		pid_becomes_target(pid);
	return 0;
}

/* A process takes a name, by execve() or by itself. One that has been in the target stays there
 * under another name. */
SEC("tp_btf/task_rename")
int BPF_PROG(renamed, struct task_struct *task, const char *comm)
{
	char name[16] = {};
	__u32 pid;

	/* A thread's name is not its process's. */
	if (task->group_leader != task || bpf_probe_read_kernel_str(name, sizeof(name), comm) <= 0)
		return 0;
	if (!bpf_map_lookup_elem(&names, name))
		return 0;
	pid = pid_of(task);
	if (pid)
		pid_becomes_target(pid);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(exited, struct task_struct *task)
{
	__u32 pid;

	if (task->signal->live.counter > 0)
		return 0;
	pid = pid_of(task);
	if (pid)
		bpf_map_delete_elem(&pids, &pid);
	return 0;
}
