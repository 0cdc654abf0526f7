#!/bin/sh
# Writes the tags of a Vim help file, as `:helptags` does, where there is no Neovim.
#
#     tools/help_tags.sh doc/NAME.txt     writes doc/tags
set -eu
folder=$(dirname "$1") file=$(basename "$1")
grep -oE '(^|[[:space:]])\*[^*[:space:]|]+\*([[:space:]]|$)' "$1" | tr -d '*[:blank:]' | LC_ALL=C sort |
	awk -v file="$file" '{ printf "%s\t%s\t/*%s*\n", $1, file, $1 }' >"$folder/tags"
