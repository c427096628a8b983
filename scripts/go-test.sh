#!/bin/sh
# Runs all Go tests with the given flags: first those of single packages, side
# by side, then those that start the whole system with clients, a browser or
# Terraform around it, one after the other, so that they do not take each other's
# processor time. Ends with 1 if any failed.
set -u
cd "$(dirname "$0")/.."
system='/internal/(cases|chaos|demo|interop|interop/handover)$|/console$|/terraform/provider$|/dataplane/proxy$'
all=$(go list ./...) || exit 1
code=0
# shellcheck disable=SC2046
go test "$@" $(echo "$all" | grep -vE "$system") || code=1
# shellcheck disable=SC2046
go test -p 1 "$@" $(echo "$all" | grep -E "$system") || code=1
exit $code
