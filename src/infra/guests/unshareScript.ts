/**
 * The fallback's own set-up of a guest's root, as a shell script. It runs as the root user of fresh namespaces, which
 * is an unprivileged user outside; builds the root on a tmpfs, moves into it, gives up every capability, and becomes
 * the guest's init. Weaker than bubblewrap: user 0 inside, no system-call filter, loopback only where `ip` is there.
 * Its mounts come as a table, so that one program makes them all.
 */
import * as Bounds from "../../domain/Bounds.ts"
import { basicEnvironment } from "./guestRoot.ts"

const environmentWords = Object.entries(basicEnvironment)
  .map(([name, value]) => `${name}=${value}`)
  .join(" ")

/**
 * Arguments: directory for the new root, host name, then places as `dir TARGET`, `file TARGET` or `link TO TARGET`,
 * then `--` and the command. The table of mounts is read from descriptor 4. Descriptor 3 gets a line when the root is
 * ready; descriptor 5 is waited for before the command.
 */
export const setUpScript = `set -e
new=$1 name=$2
shift 2
mount --make-rprivate /
mount -t tmpfs -o mode=755,nosuid,nodev,size=${Bounds.guestRunBytesMax} holdfast "$new"
cd "$new"
mkdir dev old
while [ "$1" != -- ]; do
  case $1 in
  dir) mkdir -p ".$2" && shift 2 ;;
  file) : >".$2" && shift 2 ;;
  link) ln -s "$2" ".$3" && shift 3 ;;
  esac
done
shift
cat <&4 >mounts
mount -a -T mounts
rm mounts
ip link set lo up 2>/dev/null || true
hostname "$name"
pivot_root . old
cd /
umount -l /old
rmdir /old
mount -o remount,ro,bind /
echo 0 >/proc/sys/user/max_user_namespaces
printf '{"set-up":true}\\n' >&3
read -r released <&5 || true
cd /workspace
exec 3>&- 4<&- 5<&- env -i ${environmentWords} setpriv --no-new-privs --bounding-set=-all --inh-caps=-all --ambient-caps=-all "$@"
`

/** Runs unshare and leaves its exit status behind, as bubblewrap's monitor does. */
export const monitorScript = `"$@"
status=$?
printf '{"exit-code":%s}\\n' "$status" >&3
exit "$status"
`
