#!/bin/sh
# Install Debian packages that are missing.
#
#   tools/debian_packages.sh NAME...
#
# NAME is a package or one of the groups below. Without root or apt-get it says what is missing and goes on:
# what needs the package then skips or fails by itself.

set -eu

packages=""
for name in "$@"; do
    case "$name" in
        test) packages="$packages gdal-bin nginx-light postgresql wrk" ;;
        qgis) packages="$packages python3-qgis" ;; # 100 MB: 'make test-all' only
        bench) packages="$packages nginx-light wrk" ;;
        *) packages="$packages $name" ;;
    esac
done

missing=""
for package in $packages; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "Not installed, as there is no apt-get here:$missing"
    exit 0
fi
if [ "$(id -u)" != 0 ]; then
    echo "Not installed, as this needs root:$missing (apt-get install$missing)"
    exit 0
fi

echo "Installing Debian packages:$missing"
export DEBIAN_FRONTEND=noninteractive
# The package lists may be absent or old: read them anew only when the first try fails.
# shellcheck disable=SC2086
if ! apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1; then
    apt-get update -qq >/dev/null
    # shellcheck disable=SC2086
    apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi
