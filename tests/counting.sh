# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What tests/run, tests/distribution and tests/architecture count with; they source it.
passed=0
failed=0
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
jobs=$(nproc)

note() { # RESULT NAME
    echo "$1: $2"
}

# Runs a command as one test; its output is shown if it fails.
check() { # NAME COMMAND...
    local name=$1 out=$logs/out.$BASHPID # not behind the '>': that is expanded in the child
    shift
    if "$@" >"$out" 2>&1; then
        passed=$((passed + 1))
        note pass "$name"
    else
        failed=$((failed + 1))
        cat "$out"
        note FAIL "$name"
    fi
}

# Adds up what a program made with Check counted.
count_program() { # NAME OUTPUT STATUS SECONDS
    local name=$1 out=$2 status=$3 seconds=$4 total bad
    total=$(sed -n 's/.*Checks: \([0-9]*\), Failures.*/\1/p' "$out" | tail -n 1)
    bad=$(sed -n 's/.*Failures: \([0-9]*\), Errors: \([0-9]*\).*/\1+\2/p' "$out" | tail -n 1)
    if [ -z "$total" ] || { [ "$status" -ne 0 ] && [ "$((bad))" -eq 0 ]; }; then
        total=${total:-0}
        bad=1 # it ended without a verdict, or badly after a good one (a leak, say)
    fi
    passed=$((passed + (total > bad ? total - bad : 0)))
    failed=$((failed + bad))
    if [ "$((bad))" -ne 0 ]; then
        cat "$out"
        note FAIL "$name"
    else
        note pass "$name ($total), $seconds s"
    fi
}

# Runs programs made with Check, two at a time for each CPU: some mostly wait.
check_programs() { # NAME PROGRAMS COMMAND...
    local name=$1 programs=$2 program out status seconds
    shift 2
    # shellcheck disable=SC2016 # for the inner shell
    xargs -P $((2 * jobs)) -I{} bash -c \
        'out=$0/$(basename "$1"); shift; SECONDS=0; "$@" >"$out.out" 2>&1; echo $? $SECONDS >"$out.status"' \
        "$logs" {} "$@" {} <<<"$programs"
    for program in $programs; do
        out=$logs/$(basename "$program")
        read -r status seconds <"$out.status"
        count_program "$name $(basename "$program")" "$out.out" "$status" "$seconds"
    done
}

# "netns scenarios IPv4" for "tests/netns/test_scenarios.py -k IPv4".
item_name() { # ITEM
    sed 's|^tests/\(.*\)/test_\(.*\)\.py|\1 \2|; s| -k | |' <<<"$1"
}

run_pytest() { # OUTPUT FILES...
    local out=$1
    shift
    /usr/bin/python3 -m pytest -q -rs -p no:cacheprovider "$@" >"$out" 2>&1
}

# Adds up what a pytest run counted. Skipped tests are listed with their reasons.
count_pytest() { # NAME OUTPUT STATUS
    local name=$1 out=$2 status=$3 good bad errors seconds last
    last=$(tail -n 1 "$out")
    good=$(sed -n 's/.*\b\([0-9]\+\) passed.*/\1/p' <<<"$last")
    bad=$(sed -n 's/.*\b\([0-9]\+\) failed.*/\1/p' <<<"$last")
    errors=$(sed -n 's/.*\b\([0-9]\+\) error.*/\1/p' <<<"$last")
    seconds=$(sed -n 's/.* in \([0-9]\+\).*s\b.*/\1/p' <<<"$last")
    bad=$((${bad:-0} + ${errors:-0}))
    if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then
        bad=1
    fi
    passed=$((passed + ${good:-0}))
    failed=$((failed + bad))
    grep '^SKIPPED' "$out"
    if [ "$bad" -ne 0 ]; then
        cat "$out"
        note FAIL "$name"
    else
        note pass "$name (${good:-0}), $seconds s"
    fi
}

# Those that take longest happen to come first this way.
unit_programs() { # FOLDER
    find "$1/tests" -maxdepth 1 -type f -name 'test_*' -perm -u+x | sort -r
}

# The last words of each of them.
tell_counts() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}
