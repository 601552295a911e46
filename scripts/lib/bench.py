"""What the measuring scripts share: what is measured on, the paths of host and plugin, progress."""

import os
import pathlib
import platform
import shlex
import subprocess
import sys

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent
ROOT = SCRIPTS.parent


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def built(script, *arguments):
    """Runs a script that makes something and returns the last line it prints, a path."""
    done = subprocess.run([SCRIPTS / script, *arguments], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"error: scripts/{script} failed; its message is above")
    return pathlib.Path(done.stdout.split("\n")[-2])


def host_and_plugin(given, host="host"):
    """Fills in given.host, with what the script `host` builds, and given.plugin where they were left out."""
    given.host = pathlib.Path(given.host).resolve() if given.host else built(host)
    given.plugin = pathlib.Path(given.plugin).resolve() if given.plugin else built("plugin")
    for path, option, script in ((given.host / "libggml-base.so", "--host", host), (given.plugin, "--plugin", "plugin")):
        if not path.exists():
            raise SystemExit(f"error: {path} is not there; {option} must name what scripts/{script} prints")


def with_plugin(plugin, **more):
    """Returns the environment in which a host loads the plugin; without TRI_* settings of the caller."""
    return without_plugin() | {"GGML_BACKEND_PATH": str(plugin)} | more


def without_plugin():
    dropped = ("TRI_", "LLAMA_ARG_", "GGML_BACKEND_PATH")
    return {key: value for key, value in os.environ.items() if not key.startswith(dropped)}


def cpu_model():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def ggml_version(host):
    for path in host.glob("libggml-base.so.*.*.*"):
        return path.name.removeprefix("libggml-base.so.")
    return "unknown"


def commit():
    command = ["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=10"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:  # a copy of the tree on a machine without git
        return "unknown"
    return done.stdout.strip() or "unknown"


def machine(host):
    """Returns what a result depends on besides the code."""
    return {
        "chip": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "ggml": ggml_version(host),
        "commit": commit(),
    }


def command_line():
    """Returns the command as another machine would run it: without the places of host, plugin and results."""
    words, skip = ["scripts/" + pathlib.Path(sys.argv[0]).name], False
    for word in sys.argv[1:]:
        if not skip and not word.startswith(("--host", "--plugin", "--out", "--report")):
            words.append(pathlib.Path(word).name if "/" in word else word)
        skip = word in ("--host", "--plugin", "--out", "--report")
    return shlex.join(words)
