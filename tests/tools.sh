# What the test scripts share; they read this file with `.`, from the repository's root.
#
# Tools are kept in $TABLEKEEPER_CACHE, by default tablekeeper under the user's cache folder, and are fetched only once.

cache=${TABLEKEEPER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tablekeeper}

# need PROGRAM...: ends the script where one is missing.
need() {
    for tool in "$@"; do
        command -v "$tool" >/dev/null || { echo "$(basename "$0"): $tool is not installed" >&2; exit 2; }
    done
}

# environment FOLDER PROGRAM PACKAGE...: a virtual environment with these packages; one that was left half made is made anew.
environment() {
    folder=$1 program=$2
    shift 2
    [ -x "$folder/bin/$program" ] && [ -f "$folder/complete" ] && return
    rm -rf "$folder"
    mkdir -p "$cache"
    python3 -m venv "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check "$@"
    touch "$folder/complete"
}

# aws_tools: cfn-lint, and moto, a simulation of AWS, as a library and as a server; their folder is $aws_tools.
aws_tools() {
    cfn_lint=1.58.0 moto=5.2.5
    aws_tools=$cache/cfn-lint-$cfn_lint-moto-server-$moto
    environment "$aws_tools" moto_server "cfn-lint==$cfn_lint" "moto[cloudformation,server]==$moto"
}

# free_port: a port of the loopback interface that nobody listens on.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# listening PORT PID LOG WHAT: waits until the program with that process id listens on the port.
listening() {
    tries=0
    until python3 -c "import socket; socket.create_connection(('127.0.0.1', $1), 1)" 2>/dev/null; do
        tries=$((tries + 1))
        if [ "$tries" -gt 60 ] || ! kill -0 "$2" 2>/dev/null; then
            echo "$(basename "$0"): $4 does not start; its log, $3:" >&2
            cat "$3" >&2
            exit 2
        fi
        sleep 0.5
    done
}
