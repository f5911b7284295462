#!/usr/bin/env bash
# Tries quickstart.sh --once and test.sh on a bare Debian 12: a chroot made by debootstrap that gets a clean
# clone of HEAD. On demand, as root; takes the time of a full build and some gigabytes of disk.
#   scripts/try_bare.sh [--quickstart-only] [FOLDER]
# MIRROR chooses another Debian mirror. The chroot in FOLDER (default: a temporary one, removed afterwards) stays.
set -euo pipefail
cd "$(dirname "$0")/.."

only_quickstart=no
folder=
for argument in "$@"; do
  case $argument in
    --quickstart-only) only_quickstart=yes ;;
    -*) echo "usage: scripts/try_bare.sh [--quickstart-only] [FOLDER]" >&2; exit 2 ;;
    *) folder=$argument ;;
  esac
done
[ "$(id -u)" = 0 ] || { echo "try_bare.sh: needs root for debootstrap and chroot" >&2; exit 1; }
command -v debootstrap >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get -qq -y install debootstrap

keep=yes
if [ -z "$folder" ]; then
  folder=$(mktemp -d /var/tmp/spillway-bare.XXXXXX)
  keep=no
fi
root=$(realpath -m "$folder")

clean_up() {
  umount -l "$root/proc" "$root/sys" "$root/dev" 2>/dev/null || true
  [ "$keep" = yes ] || rm -rf --one-file-system "$root"
}
trap clean_up EXIT

if [ ! -e "$root/etc/debian_version" ]; then
  debootstrap --variant=minbase --include=ca-certificates bookworm "$root" "${MIRROR:-http://deb.debian.org/debian}"
fi
mount -t proc proc "$root/proc"
mount --rbind --make-rslave /sys "$root/sys"
mount --rbind --make-rslave /dev "$root/dev"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
# A network that wants its own proxy or certificates wants them inside too.
cp -a /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/" 2>/dev/null || true
cp -a /etc/apt/apt.conf.d/*proxy* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
[ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/pip.conf"
rm -rf "$root/root/spillway"
git clone --quiet --no-local . "$root/root/spillway"

inside() {
  env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} ${no_proxy:+no_proxy="$no_proxy"} \
    chroot "$root" sh -c "update-ca-certificates >/dev/null 2>&1; cd /root/spillway && $1" </dev/null
}
echo "== quickstart.sh --once =="
time inside "./quickstart.sh --once"
echo "== quickstart.sh --once, again =="
time inside "./quickstart.sh --once"
[ "$only_quickstart" = yes ] || { echo "== test.sh =="; time inside "./test.sh"; }
