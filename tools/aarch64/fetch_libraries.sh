#!/usr/bin/env bash
# Unpacks Debian's AArch64 builds of the libraries that lamina links into build/aarch64-root, unless they lie there. Apt works on a state
# of its own in that folder: the machine gets no second architecture and no package, and root is not needed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

packages=(libpcre2-dev libpcre2-8-0 libicu-dev libicu72 prometheus-cpp-dev libprometheus-cpp-core1.0 libgtest-dev libgmock-dev)
root=$PWD/build/aarch64-root
mark=$root/.unpacked
[[ -e $mark && $(<"$mark") == "${packages[*]}" ]] && exit

rm -rf "$root"
mkdir -p "$root/apt"/{state/lists,cache/archives}/partial "$root/apt/packages"
: >"$root/apt/status"
foreign_apt() {
  apt-get -q -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Acquire::Languages=none -o APT::Sandbox::User=root \
    -o Dir::State="$root/apt/state" -o Dir::State::status="$root/apt/status" -o Dir::Cache="$root/apt/cache" "$@" >&2
}
foreign_apt update
(cd "$root/apt/packages" && foreign_apt download "${packages[@]}")
for package in "$root"/apt/packages/*.deb; do
  dpkg-deb -x "$package" "$root"
done
rm -r "$root/apt"
printf '%s' "${packages[*]}" >"$mark"
