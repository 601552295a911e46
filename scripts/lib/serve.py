"""Starts llama-server through `tri`, asks one question, reports; scripts/run calls it when everything is built."""

import argparse
import collections
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

START_LIMIT = 600  # seconds in which a server must be ready: a large model may come from a slow disk
ANSWER_LIMIT = 900
PR_SET_PDEATHSIG = 1  # prctl(2)


def say(*words):
    print(*words, file=sys.stderr, flush=True)


class Failure(Exception):
    """What went wrong, for the user."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def port_in_use(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def request(url, body=None, limit=5):
    data = json.dumps(body).encode() if body is not None else None
    call = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json"})
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(call, timeout=limit) as reply:
        return json.load(reply)


class Waiting:
    """Shows a label and the seconds while something takes longer than two seconds."""

    def __init__(self, label):
        self.label = label

    def __enter__(self):
        self.begin = time.monotonic()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.show, daemon=True)
        self.thread.start()

    def show(self):
        pause = 2
        while not self.over.wait(pause):
            say(f"{self.label}, {time.monotonic() - self.begin:.0f} s")
            pause = 5

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


class Server:
    def __init__(self, tri, model, port, log):
        self.url = f"http://127.0.0.1:{port}"
        self.log = log
        command = [tri, "run", "llama-server", "--backend", "tri", "-m", model, "--host", "127.0.0.1"]
        command += ["--port", str(port), "-lv", "4"]  # 4: what backends say as information is in the log, too
        with open(log, "wb") as out:
            # A session of its own: Ctrl-C reaches this script, which then ends the server in order. Should this script be
            # killed before it can do that, the kernel ends the server.
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
            )

    def lines(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return [line.rstrip("\n") for line in file]

    def died(self, what):
        tail = "\n".join("    " + line for line in self.lines()[-25:])
        status = self.process.poll()
        how = f"ended with status {status}" if status is not None else "does not answer"
        return Failure(f"llama-server {how} {what}. The end of its log:\n{tail}\nall of it: {self.log}")

    def wait_ready(self):
        end = time.monotonic() + START_LIMIT
        with Waiting("starting llama-server"):
            while time.monotonic() < end:
                if self.process.poll() is not None:
                    raise self.died("while it was starting")
                try:
                    if request(self.url + "/health").get("status") == "ok":
                        return
                except (OSError, ValueError):
                    pass  # not yet
                time.sleep(0.1)
        raise self.died(f"after {START_LIMIT} s")

    def ask(self, prompt):
        body = {"messages": [{"role": "user", "content": prompt}], "max_tokens": 128, "temperature": 0}
        try:
            with Waiting("waiting for the answer"):
                return request(self.url + "/v1/chat/completions", body, ANSWER_LIMIT)
        except urllib.error.HTTPError as error:
            raise Failure(f"llama-server answered {error.code}: {error.read().decode(errors='replace')[:500]}") from error
        except (OSError, ValueError) as error:
            time.sleep(0.5)
            raise self.died(f"when it was asked ({error})") from error

    def stop(self):
        """Ends the server as Ctrl-C does, so that it frees everything and the plugin reports; returns its status."""
        for number, patience in ((signal.SIGINT, 20), (signal.SIGTERM, 5), (signal.SIGKILL, 5)):
            if self.process.poll() is None:
                self.process.send_signal(number)
            try:
                return self.process.wait(patience)
            except subprocess.TimeoutExpired:
                say(f"llama-server has not ended {patience} s after {number.name}")
        return None


def tri_lines(lines):
    """Returns what the plugin said, each thing once."""
    said = (line[line.index("tri: ") :] for line in lines if "tri: " in line)
    return list(collections.OrderedDict.fromkeys(said))


def report(given, reply, said):
    answer = reply["choices"][0]["message"]["content"].strip()
    timings = reply.get("timings", {})
    speed = {
        "prompt_tokens": timings.get("prompt_n"),
        "prompt_tokens_per_second": timings.get("prompt_per_second"),
        "answer_tokens": timings.get("predicted_n"),
        "answer_tokens_per_second": timings.get("predicted_per_second"),
    }
    if given.json:
        print(json.dumps({"model": given.model, "prompt": given.prompt, "answer": answer, **speed, "tri": said}, indent=2))
        return
    print(f"question: {given.prompt}\nanswer:   {answer}")
    if timings:
        print(
            f"speed:    {speed['answer_tokens']} tokens at {speed['answer_tokens_per_second']:.1f} tokens/s "
            f"(prompt: {speed['prompt_tokens']} tokens at {speed['prompt_tokens_per_second']:.1f} tokens/s)"
        )
    print("\n".join(said) if said else "the plugin said nothing: TRI0 was not used")


def serve(given, log):
    with open(given.model, "rb") as file:
        begin = file.read(4)
    if begin != b"GGUF":
        raise Failure(f"{given.model} is no GGUF file: it begins with {begin!r} instead of b'GGUF'")
    port = given.port or free_port()
    if given.port and port_in_use(port):
        raise Failure(f"port {port} is in use; choose another with --port, or leave it out")
    server = Server(given.tri, given.model, port, log)
    try:
        server.wait_ready()
        if given.serve:
            print(f"llama-server on TRI0: {server.url}  (log: {log}; Ctrl-C ends it)", flush=True)
            status = server.process.wait()
            raise server.died("by itself") if status else SystemExit(0)
        reply = server.ask(given.prompt)
    finally:
        status = server.stop()
        if given.serve:
            say("\n".join(tri_lines(server.lines())))
    said = tri_lines(server.lines())
    report(given, reply, said)
    if status != 0:
        raise Failure(f"the answer came, but llama-server ended with status {status} when it was stopped; its log: {log}")
    if not any(" computed " in line for line in said):
        raise Failure(f"the answer did not come from TRI0: it reports no computed node; the server's log: {log}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tri", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--prompt", default="What is the capital of France? Answer in one sentence.")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):  # so that the server is stopped, too
        signal.signal(number, lambda caught, _: sys.exit(128 + caught))
    handle, log = tempfile.mkstemp(prefix="ggml-tri-server-", suffix=".log")
    os.close(handle)
    try:
        serve(given, log)
        os.unlink(log)
    except Failure as failure:
        if not os.path.getsize(log):
            os.unlink(log)  # no server was started
        sys.exit(f"error: {failure}")
    except KeyboardInterrupt:
        os.unlink(log)
        sys.exit(130)


if __name__ == "__main__":
    main()
