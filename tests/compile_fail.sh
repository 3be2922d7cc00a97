#!/usr/bin/env bash
# compile_fail.sh COMPILER INCLUDE_DIR SOURCE: SOURCE must fail to compile with the message of its line `// expect: REGEX`,
# and must compile with -DCONTROL, which shows that nothing else in it is wrong.
set -uo pipefail

compiler=$1 include_dir=$2 source=$3
expected=$(sed -n 's,^// expect: ,,p' "$source")
[[ -n $expected ]] || { echo "error: $source has no line '// expect: REGEX'"; exit 1; }

compile() { "$compiler" -std=c++20 -Wall -Wextra -Werror -I "$include_dir" -fsyntax-only "$@" "$source" 2>&1; }

messages=$(compile -DCONTROL) || { echo "error: the control variant does not compile:"; echo "$messages"; exit 1; }
messages=$(compile) && { echo "error: $source compiles"; exit 1; }
grep -E -q -- "$expected" <<<"$messages" || { echo "error: no message matches '$expected':"; echo "$messages"; exit 1; }
