# Starts a PID 1 in namespaces of its own, and stays until that has ended. Called by root, as the PID 1 of an outer
# namespace, so that whatever ends this script ends all that it started:
#
#   unshare --pid --mount --fork --kill-child --mount-proc -- bash keeper.sh CGROUP SECONDS INIT... <LAYER
#
# CGROUP is the directory of an empty control group (cgroup2), LAYER a root file system as a tar file. After SECONDS
# everything is killed. Where 4 and 5 are open files, they are the users and the network of another machine, which this
# one shares.
set -euo pipefail
cgroup=$1 seconds=$2 here=$(cd "$(dirname "$0")" && pwd)
shift 2
first=1878982656 # the users of the machine are these numbers and those above: to this machine they are nobody
exec 3<&0

# The machine's root is root of a user namespace alone: what is not in a namespace, such as the clock, modules, devices
# and the settings of the kernel, refuses it, whatever its PID 1 tries.
if [ -e /proc/self/fd/4 ]; then
    users=/proc/self/fd/4 joined=(--net=/proc/self/fd/5) made=()
else
    unshare --user -- sleep infinity </dev/null &
    holder=$!
    users=/proc/$holder/ns/user joined=() made=(--net)
    until [ "$(readlink "$users")" != "$(readlink /proc/self/ns/user)" ]; do sleep 0.01; done
    for map in uid_map gid_map; do echo "0 $first 65536" >"/proc/$holder/$map"; done
fi
chown "$first:$first" "$cgroup" "$cgroup/cgroup.procs" "$cgroup/cgroup.subtree_control" "$cgroup/cgroup.threads"

# It goes into its control group first, so that this is the root of its namespace of control groups. The process that
# waits for it is then taken out: only what belongs to the machine is to be in there.
script=$(cat "$here/boot.sh")
(
    echo "$BASHPID" >"$cgroup/cgroup.procs"
    exec nsenter --user="$users" "${joined[@]}" --setuid 0 --setgid 0 -- \
        unshare --mount --propagation private --pid --uts --ipc "${made[@]}" --cgroup --fork --kill-child -- \
        bash -c "$script" boot "$@" <&3
) &
machine=$!
exec 3<&-
until [ "$(wc -l <"$cgroup/cgroup.procs")" -ge 2 ]; do
    kill -0 "$machine"
    sleep 0.01
done
echo "$machine" >"$(dirname "$cgroup")/cgroup.procs"
[ -z "${holder:-}" ] || kill "$holder"

(sleep "$seconds" && echo "the machine's time is over" >&2 && kill -KILL "$machine") &
wait "$machine"
