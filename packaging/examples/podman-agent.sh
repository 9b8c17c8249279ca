#!/bin/sh
# The agent in a container of Podman: the sockets, cgroups and name of the host, three capabilities,
# and nothing else. The image is that of the Containerfile, which starts `wirelapse`.
exec podman run --rm --name wirelapse-agent \
    --network host --uts host --cgroupns host --read-only \
    --cap-drop all --cap-add bpf,perfmon,net_admin \
    --security-opt no-new-privileges --security-opt seccomp=unconfined \
    --volume /sys/fs/cgroup:/sys/fs/cgroup:ro \
    --volume /var/lib/containers/storage:/host/var/lib/containers/storage:ro \
    --volume /etc/wirelapse:/etc/wirelapse:ro \
    wirelapse:latest agent --config /etc/wirelapse/agent.toml --root /host
