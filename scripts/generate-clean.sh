#!/bin/sh
# Fails when regenerating everything changes a tracked file.
set -eu
cd "$(dirname "$0")/.."
before=$(git status --porcelain)
make --no-print-directory generate
after=$(git status --porcelain)
if [ "$before" != "$after" ]; then
	echo "generated code is stale: run make generate and commit the result" >&2
	git diff --stat >&2
	exit 1
fi
