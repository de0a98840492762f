# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# Hosts 1, 2 and 3 as network namespaces $id-1, ... with the addresses $net.1, ... and a bridge
# between them. Sourced behind lib.sh. Needs root; nothing is left behind.
id=mf$$
hosts=(1 2 3)
net=10.213.77

clean()
{
    for i in "${hosts[@]}"; do ip netns delete "$id-$i" 2>/dev/null; done
    ip link delete "$id" 2>/dev/null
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 1' INT TERM

add_hosts()
{
    ip link add "$id" type bridge && ip link set "$id" up || return 1
    for i in "${hosts[@]}"; do
        ip netns add "$id-$i" &&
            ip link add "$id.$i" type veth peer name eth0 netns "$id-$i" &&
            ip link set "$id.$i" master "$id" up &&
            ip -n "$id-$i" addr add "$net.$i/24" dev eth0 &&
            ip -n "$id-$i" link set eth0 up &&
            ip -n "$id-$i" link set lo up || return 1
    done
}

make_hosts() # NAME: of the tests to skip if namespaces are not possible; then it also prints the counts
{
    if ! command -v ip >/dev/null || [ "$(id -u)" != 0 ]; then
        skip "$1" "hosts are network namespaces: that needs root and iproute2"
    elif ! add_hosts >"$work/log" 2>&1; then
        skip "$1" "no network namespaces here: $(tail -n 1 "$work/log")"
    else
        return 0
    fi
    finish
    return 1
}

slow_down() # RATE: what each host sends
{
    for i in "${hosts[@]}"; do
        tc -n "$id-$i" qdisc add dev eth0 root tbf rate "$1" burst 128kb latency 100ms || return 1
    done
}
