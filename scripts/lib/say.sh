# Sourced, not run: how these scripts talk.
# A script's answer goes to stdout; everything that it says on the way goes to stderr.

say() { printf '%s\n' "$*" >&2; }

# A heading for a step that may take a while.
step() { printf '\n== %s\n' "$*" >&2; }

# One reason, then what to do about it, a line each; never returns.
die() {
    printf '\nStopped: %s\n' "$1" >&2
    shift
    for line in "$@"; do printf '  %s\n' "$line" >&2; done
    exit 1
}
