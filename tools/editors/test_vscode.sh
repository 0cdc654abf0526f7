#!/usr/bin/env bash
# The VS Code extension: lint, unit tests, the package, and tests in a real workbench and its
# extension host.  What cannot be fetched is skipped, and the reason is printed.
#
#   tools/editors/test_vscode.sh           all of it
#   tools/editors/test_vscode.sh --fetch   npm's packages and the workbench alone
#
# SPECLSP_SERVER   the speclsp to test with
# CHROMIUM         the browser; else Debian's (apt-get install chromium)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
unreachable=69

lint=
# Lint runs beside the tests; it is waited for once.
linted() {
    local pid=$lint
    lint=
    [ -z "$pid" ] || wait "$pid" || { cat "$log"; exit 1; }
}
# A failed test does not hide what lint has found by then.
finish() {
    if [ -n "$(jobs -rp)" ]; then
        kill "$lint" 2>/dev/null || true
    elif [ -n "$lint" ]; then
        wait "$lint" || cat "$log"
    fi
    rm -f "$log"
}
skip() {
    linted
    echo "test_vscode: skipped: $1"
    exit 0
}

command -v npm >/dev/null || skip "npm is missing (apt-get install npm)."
cd "$here/../../editors/vscode"
registry() { timeout 60 npm view esbuild version >/dev/null 2>&1; }
if [ ! -f node_modules/.package-lock.json ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
    registry || skip "the npm registry cannot be reached."
    npm ci --ignore-scripts --no-audit --no-fund --silent
    touch node_modules/.package-lock.json
fi

status=0
if [ "${1:-}" = --fetch ]; then
    "$here/fetch_vscode.sh" >/dev/null || status=$?
    [ "$status" -eq "$unreachable" ] || exit "$status"
    exit 0
fi
log=$(mktemp)
trap finish EXIT
npm run --silent lint >"$log" 2>&1 &
lint=$!
npm run --silent test
npm run --silent package
ls -l dist/speclsp.vsix

SPECLSP_VSCODE=$("$here/fetch_vscode.sh") || status=$?
[ "$status" -ne "$unreachable" ] || skip "no workbench: the npm registry cannot be reached."
[ "$status" -eq 0 ] || exit "$status"
export SPECLSP_VSCODE
CHROMIUM=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || true)}
[ -n "$CHROMIUM" ] || skip "no browser for the workbench: apt-get install chromium, or set CHROMIUM."
export CHROMIUM
npm run --silent test:real
linted
