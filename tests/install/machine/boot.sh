# Becomes PID 1 of a machine whose root file system is read from stdin as a tar file: mounts what it needs, leaves all
# that is of the machine below it behind, and goes on as INIT. Called by keeper.sh in new namespaces:   boot.sh INIT...
set -euo pipefail
[ $$ = 1 ]
exec 3<&- 4<&- 5<&-
root=/mnt
mount -t tmpfs -o mode=0755,size=4g tmpfs "$root"
cd "$root"
tar --extract --numeric-owner
mkdir -p proc sys dev run tmp .old
mount -t proc -o nosuid,nodev,noexec proc proc
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs sys
mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=0755,nosuid,size=1m tmpfs dev
for device in null zero full random urandom tty; do
    touch "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5,nosuid,noexec devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
for number in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${number%:*}" "dev/${number#*:}"; done
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs dev/shm
mount -t tmpfs -o mode=0755,nosuid,nodev tmpfs run
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs tmp
pivot_root . .old
umount --lazy /.old
rmdir /.old

# Until its keeper is out, who is no process of this namespace, PID 1 is not alone in its control group.
until mapfile -t members </sys/fs/cgroup/cgroup.procs && [ "${members[*]}" = 1 ]; do sleep 0.01; done
echo machine >/etc/hostname
echo "127.0.0.1 localhost machine" >/etc/hosts
ln -s /dev/null /etc/systemd/system/sys-kernel-debug.mount # these are the kernel's, and refused
ln -s /dev/null /etc/systemd/system/sys-kernel-tracing.mount
exec env --ignore-environment container=milepost PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@" </dev/null
