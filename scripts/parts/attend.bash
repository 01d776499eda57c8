# shellcheck shell=bash
# Commands that take minutes: their log, their progress, and what happens when they fail or are interrupted. Sourced by
# scripts/setup.

# What pip says around an error without saying what it is.
readonly pip_chatter='^[^[:alnum:]]*($|WARNING:|notice\]|end of output|exit code:|note:|hint:|full command:|cwd:|See a|error: (subproc|metadata-gen)|Failed to build|Building wheel|Preparing metadata|Encountered error while|ERROR: Failed)'

job='' # the process group at work, while there is one

on_a_terminal() { [[ -t 2 && ${TERM:-dumb} != dumb ]]; }

# One line that replaces the last; on anything but a terminal, nothing.
show() { if on_a_terminal; then printf '\r\033[K%s' "${1:+set-up: $1}" >&2; fi; }

lock() { # FILE DESCRIPTOR, WHAT TO SAY WHEN IT IS TAKEN
    local status told=''
    type -P flock >/dev/null || return 0
    while true; do
        status=0
        flock -n "$1" 2>/dev/null || status=$?
        if ((status != 1)); then return; fi # locked, or a file system that can't lock
        if [[ -z $told ]]; then say "$2"; fi
        told=yes
        sleep 0.2
    done
}

# What a line of the log says about how far the work is; empty when it says nothing.
milestone() { # LINE
    case $1 in
    *'Downloading llama'*) echo "downloading its source" ;;
    *'Installing build dependencies'*) echo "fetching the build tools" ;;
    *'Configuring CMake'*) echo "configuring" ;;
    *'Installing project into wheel'*) echo "packing" ;;
    *'Installing collected packages'*) echo "installing" ;;
    Collecting\ *)
        local name=${1#Collecting }
        echo "fetching ${name%%[^A-Za-z0-9._-]*}"
        ;;
    esac
}

# Follows the log while the job runs: one living line on a terminal, otherwise a line each tenth of the build.
follow() { # LABEL, LOG
    local line step percent='' told=0 stage='' began=$SECONDS elapsed
    exec 7<"$2"
    while kill -0 "$job" 2>/dev/null; do
        while IFS= read -r line <&7; do
            if [[ $line =~ ^\ *\[([0-9]+)/([0-9]+)\]\  ]]; then
                step=$((100 * BASH_REMATCH[1] / BASH_REMATCH[2]))
                percent=$step stage="$step %"
            else
                step=$(milestone "$line")
                stage=${step:-$stage}
            fi
        done
        printf -v elapsed '%d:%02d' $(((SECONDS - began) / 60)) $(((SECONDS - began) % 60))
        if on_a_terminal; then
            show "$1: ${stage:-starting} ($elapsed)"
        elif [[ -n $percent ]] && ((percent >= told + 10)); then
            told=$((percent / 10 * 10))
            say "$1: $told % ($elapsed)"
        fi
        if ((SECONDS - began > 1)); then sleep 0.5; else sleep 0.02; fi
    done
    exec 7<&-
    show ''
}

# Runs a command in a process group of its own, so that an interrupt reaches everything it started.
attend() { # LABEL, LOG, COMMAND...
    local label=$1 log=$2 status=0
    shift 2
    : >"$log"
    set -m
    PYTHONUNBUFFERED=1 PIP_USER=0 "$@" </dev/null >>"$log" 2>&1 8>&- 9>&- &
    job=$!
    set +m
    follow "$label" "$log"
    wait "$job" || status=$?
    job=''
    return "$status"
}

# Ends what is being attended, with everything it started.
abandon() {
    if [[ -n $job ]]; then
        kill -TERM -- "-$job" 2>/dev/null || true
        wait "$job" 2>/dev/null || true
        job=''
        show ''
    fi
}

# One sentence, where the whole log is, and from it the first errors and the last lines.
fail() { # SENTENCE, LOG
    local lines
    if grep -qE 'NewConnectionError|NameResolutionError|Name or service not known|Network is unreachable' "$2"; then
        say "$1: the package index can't be reached. The whole log: $2"
    else
        say "$1. The whole log: $2; from it:"
        lines=$(grep -vE "$pip_chatter" "$2" || true)
        { grep -iE -m 3 'error(:| at )' <<<"$lines" || true; tail -n 5 <<<"$lines"; } |
            awk '!seen[$0]++' | cut -c 1-160 | sed 's/^ */    /' >&2
    fi
    exit 1
}
