#!/bin/sh
# Builds everything that a release needs into dist/, and checks it in a fresh environment.
#
#     tools/make_dist.sh PYTHON      an interpreter that has the extra `build`
#
# The VSIX and the Neovim plugin carry the server's wheel in server/, so that each installs its own
# version of the server.
set -eu
cd "$(dirname "$0")/.."
python=$1
version=$("$python" -c 'import speclsp; print(speclsp.__version__)')
echo "Building the packages takes about half a minute, and as long to check them; npm's packages are downloaded the first time." >&2
rm -rf dist && mkdir dist

"$python" -m hatchling build -d dist -t wheel -t sdist >/dev/null
wheel=$(ls dist/*.whl)

neovim="dist/speclsp-neovim-$version"
mkdir -p "$neovim/server"
cp -R editors/neovim/README.md editors/neovim/doc editors/neovim/lua editors/neovim/media editors/neovim/plugin LICENSE "$neovim"
tools/help_tags.sh "$neovim/doc/speclsp.txt"
cp "$wheel" "$neovim/server"
tar -czf "$neovim.tar.gz" -C dist "$(basename "$neovim")"
rm -r "$neovim"

missing=""
if command -v npm >/dev/null; then
	rm -rf editors/vscode/server && mkdir editors/vscode/server
	cp "$wheel" editors/vscode/server
	(cd editors/vscode && { [ -d node_modules ] || npm ci --ignore-scripts --no-audit --no-fund >/dev/null; } && npm run --silent package)
	cp editors/vscode/dist/speclsp.vsix "dist/speclsp-vscode-$version.vsix"
	rm -r editors/vscode/server
else
	missing="npm is missing: the VSIX was not built."
fi

# A fresh environment: the llama.cpp that is there, then the wheel, then the command.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$python" -m venv "$scratch/venv"
fresh="$scratch/venv/bin"
"$python" tools/copy_installed.py llama-cpp-python \
	"$("$fresh/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')"
# Its messages name steps that a dry run leaves out.
PYTHONPATH="$PWD/$wheel" "$fresh/python" -m speclsp.install_llama_cpp --dry-run \
	>"$scratch/steps" 2>&1 || { cat "$scratch/steps" >&2; exit 1; }
"$fresh/python" -m pip --disable-pip-version-check --no-input install --quiet \
	--only-binary llama-cpp-python "$wheel"
found=$(cd "$scratch" && "$fresh/speclsp" --version)
[ "$found" = "speclsp, version $version" ] || { echo "the wheel says '$found'" >&2; exit 1; }
(cd "$scratch" && "$fresh/speclsp" models recommend >/dev/null)

for file in dist/*; do
	printf '%10d  %s\n' "$(wc -c <"$file")" "$file"
done
echo "Checked in a fresh environment: $found"
"$python" tools/owner.py --missing
if grep -q "(unreleased)" CHANGELOG.md; then
	echo "CHANGELOG.md: the version is marked as unreleased."
fi
[ -z "$missing" ] || { echo "$missing" >&2; exit 1; }
