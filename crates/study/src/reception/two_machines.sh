#!/bin/bash
# study reception between two machines. Run this on the receiving one, as root.
#
# Connect: the sender's port with a tap, a splitter or a switch that copies every frame (port
# mirroring) to two ports of this machine, ONE and TWO. What is between the two copies is what is
# measured: a cable, or a device. For hardware timestamps both ports belong to one NIC with one
# clock, or each has its own (`wirelapse doctor` shows them).
#
# On both machines: the same wirelapse, in PATH, and nothing else to do. THERE is how a command is
# run on the sender as root, without being asked for a password.
#
#   ONE=eth1 TWO=eth2 OUT=eth1 THERE='ssh root@sender' bash THIS-FILE
#   wirelapse study reception --two-machines results
#
# Trials that have a result are left out, so it goes on where it was stopped. A trial that fails has
# its reason in a file of its name with .failed; `grep . results/*/*.failed` shows them.
#
# Last, for the source's Figure 3, by hand: start
#   wirelapse delay --before ONE --after TWO --timestamps hardware --for 60s
# with `wirelapse generate -i OUT --yes-this-interface --size 252 --rate 100k/s --for 60s` at the
# sender, and put a longer cable before TWO after half a minute. 18 m are 88 ns.
set -u
ONE=${ONE:?the first port} TWO=${TWO:?the second port} OUT=${OUT:?the port of the sender}
THERE=${THERE:?how a command is run on the sender: ssh root@sender} HERE=${HERE:-}
WIRELAPSE=${WIRELAPSE:-wirelapse} RESULTS=${RESULTS:-results}
mkdir -p "$RESULTS/software" "$RESULTS/hardware"

# trial NAME TECHNIQUE CLOCK BYTES FRAMES-PER-SECOND idle|stressed
trial() {
    local file=$RESULTS/$1 busy=() watching
    if [ -e "$file.json" ]; then return; fi
    echo "$1"
    if [ "$6" = stressed ]; then
        for _ in $(seq "$(nproc)"); do
            while :; do :; done &
            busy+=($!)
        done
    fi
    # shellcheck disable=SC2086
    $HERE "$WIRELAPSE" delay --before "$ONE" --after "$TWO" --method "$2" --timestamps "$3" --filter udp \
        --match id --for "$((SECONDS_OF_TRIAL + 3))s" --json >"$file.part" 2>"$file.failed" &
    watching=$!
    sleep 1
    # shellcheck disable=SC2086
    $THERE "$WIRELAPSE" generate -i "$OUT" --yes-this-interface --size "$4" --rate "$5/s" \
        --for "${SECONDS_OF_TRIAL}s" --json >"$file.sent" 2>>"$file.failed"
    wait "$watching"
    if [ ${#busy[@]} -gt 0 ]; then
        kill "${busy[@]}"
        wait "${busy[@]}" 2>/dev/null
    fi
    if grep -q '"kind":"delay"' "$file.part" && grep -q '"kind":"generate"' "$file.sent"; then
        cat "$file.part" "$file.sent" >"$file.json"
        rm -f "$file.failed"
    fi
    rm -f "$file.part" "$file.sent"
}
