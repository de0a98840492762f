#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: selftest.sh PROGRAM     (build/<preset>/meshflow-tests-red)
#
# Checks that the runner detects failures: runs tests that fail, crash, hang and report wrong results.
set -uo pipefail
program=$1
n=0 failed=0

check() # NAME COMMAND...: the command succeeds
{
    local name=$1
    shift
    n=$((n + 1))
    if "$@"; then
        echo "ok $n - $name"
    else
        echo "not ok $n - $name"
        failed=$((failed + 1))
    fi
}
says() { grep -qE -- "$1" <<<"$out"; }
says_not() { ! says "$1"; }
last_line_is() { [ "$(tail -n 1 <<<"$out")" = "$1" ]; }

unset CI
out=$("$program" 2>&1)
status=$?
check "failures make the exit status 1" [ "$status" = 1 ]
check "last line counts" last_line_is "1 passed, 7 failed, 1 skipped"
check "passing test is ok" says '^ok [0-9]+ - red_passes$'
check "failing test is not ok" says '^not ok [0-9]+ - red_fails_on_integers$'
check "file and line are given" says 'red\.c:[0-9]+: 2 \+ 2 == 5 does not hold'
check "both integers are printed" says '2 \+ 2 is 4'
check "both floats are printed in full" says 'is 0\.30000000000000004'
check "a missing string is printed" says 'NULL is "\(NULL\)"'
check "a call that should fail is named" says 'expected INVALID_ARGUMENT: \.\.\.some words'
check "crash is named by its signal" says 'red\.c: (killed by SIGSEGV|exit status [1-9])'
check "hang is ended" says 'red\.c: timed out after 1 s'
check "exit(0) in the middle is no success" says 'ended by exit\(0\)'
check "output of a failing test is shown" says 'output of a test that fails'
check "output of a passing test is not" says_not 'output of a test that passes'
check "skip gives its reason" says '^ok [0-9]+ - red_skips # SKIP nothing to see$'

out=$("$program" red_passes 2>&1)
check "passing test alone is green" [ "$?" = 0 ]
check "filter chooses one" last_line_is "1 passed, 0 failed, 0 skipped"
out=$("$program" red_skips 2>&1)
check "skip alone is green" [ "$?" = 0 ]
out=$(CI=true "$program" red_skips 2>&1)
check "skip is red with CI=true" [ "$?" = 1 ]
out=$("$program" no_such_test 2>&1)
check "no test at all is red" [ "$?" = 1 ]
out=$("$program" --list)
check "list names every test" [ "$(grep -c '^red_' <<<"$out")" = 9 ]

# tools/repeat_tests.py: a suite that fails every second time.
repeat=$(dirname "$0")/../../tools/repeat_tests.py
repeat=$(realpath "$repeat")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/suite.sh" <<'END'
n=$(($(cat n 2>/dev/null || echo 0) + 1))
echo $n >n
echo "ok 1 - steady"
[ $((n % 2)) = 1 ] && echo "ok 2 - shaky" && echo "2 passed, 0 failed, 0 skipped" && exit
echo "not ok 2 - shaky"
echo "1 passed, 1 failed, 0 skipped"
exit 1
END
printf 'some suite\tbash suite.sh\n' >"$work/suites"
repeats() { (cd "$work" && "$repeat" --suites suites -n "$@" 2>&1); }
out=$(repeats 1 some)
check "a test that passed once is green" [ "$?" = 0 ]
out=$(repeats 4 some)
check "a test that failed twice is red" [ "$?" = 1 ]
check "the failed rounds of a test are listed" says '^not ok - some suite: shaky: failed 2 of 4 times, in rounds 2, 4$'
check "a test that always passed is counted" last_line_is "1 passed, 1 failed, 0 skipped"
check "an earlier run is continued" says '^# continues build/repeat/tally.tsv: 2 results so far$'
check "what an earlier run did is not repeated" [ "$(cat "$work/n")" = 4 ]
check "output of a failure is kept" grep -q '^not ok 2 - shaky' "$work/build/repeat/some-suite-2.log"
out=$(repeats 1 --again some)
check "--again starts a new tally" last_line_is "2 passed, 0 failed, 0 skipped"
out=$(repeats 1 nothing)
check "a pattern that matches no test is red" says "no suite and no test matches 'nothing'"

echo "$((n - failed)) passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
