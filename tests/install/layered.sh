# Runs a command that may write to the system's directories: what it writes lies in layers below DIRECTORY. Called in a
# mount namespace of its own:   unshare --mount bash layered.sh DIRECTORY COMMAND...
set -euo pipefail
layers=$1
shift
for place in etc opt root var; do
    mkdir -p "$layers/$place/written" "$layers/$place/work"
    mount -t overlay overlay \
        -o "lowerdir=/$place,upperdir=$layers/$place/written,workdir=$layers/$place/work" "/$place"
done
mount -t tmpfs tmpfs /run
chmod a+x /root # where a Python may lie that the user of a service is to run
exec "$@"
