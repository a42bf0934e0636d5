# Sourced after say.sh and need.sh: a Python environment for each engine, under venvs/ (which git ignores).

# make_venv FOLDER: creates it unless it is there.
make_venv() {
    [ -x "$1/bin/python" ] && return
    python3 -m venv "$1" >&2 ||
        die "python3 could not make a virtual environment (its message is above)."
}

# pip_install FOLDER ARGUMENT…: pip of that environment, quiet but for errors.
pip_install() {
    local folder=$1
    shift
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@" >&2 ||
        die "pip could not install into $folder (its own message is above)." \
            "Is the network there, and enough room on the disk ($(df -h --output=avail . | tail -1 | tr -d ' ') free)?"
}
