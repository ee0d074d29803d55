"""Has `apr` and `huggingface_hub` use one cache in turn and at once: each finds what the other fetched.

    both_tools.py HUB APR

HUB is the program `hub` of these tests, APR the program `apr`. Needs the package huggingface_hub.
"""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
import urllib.error
import urllib.request

#: What the hub's client is told in a process of its own: it reads its environment once.
CLIENT = """
import sys
from huggingface_hub import snapshot_download
print(snapshot_download(sys.argv[1], revision=sys.argv[2], token=False, local_files_only=sys.argv[3] == "local"))
"""


class Judge:
    """The checks, each a method whose docstring is the claim. Each has a cache of its own."""

    def __init__(self, endpoint, expected, apr, folder):
        self.endpoint, self.expected, self.apr, self.folder = endpoint, expected, apr, folder
        #: Names of checks whose phase must not fetch a file, as the hub will have seen it.
        self.phases = []

    def environment(self, cache):
        home = os.path.join(self.folder, cache)
        os.makedirs(home, exist_ok=True)
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        quiet = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_XET": "1"}
        return {**kept, **quiet, "HOME": home, "HF_HOME": os.path.join(home, "hf"), "HF_ENDPOINT": self.endpoint}

    def run(self, command, cache, **more):
        done = subprocess.run(
            command, env={**self.environment(cache), **more}, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def pulled(self, cache, repo="apr/small", revision="main", **more):
        command = [self.apr, "pull", f"hf://{repo}@{revision}", "--json"]
        return json.loads(self.run(command, cache, **more))

    def downloaded(self, cache, repo="apr/small", revision="main", how="online"):
        return self.run([sys.executable, "-c", CLIENT, repo, revision, how], cache).strip()

    @contextlib.contextmanager
    def without_payload(self):
        """What is done within fetches no file; the hub's own list of requests tells in the end."""
        name = f"phase{len(self.phases)}"
        self.phases.append(name)
        self.mark(f"{name}/begins")
        try:
            yield
        finally:
            self.mark(f"{name}/ends")

    def mark(self, name):
        """Asks for an address that nothing has: a mark among the requests."""
        with contextlib.suppress(urllib.error.HTTPError):
            urllib.request.urlopen(f"{self.endpoint}/{name}")

    def same(self, folder, repo="models/apr/small"):
        for path, file in self.expected[repo]["files"].items():
            with open(os.path.join(folder, path), "rb") as opened:
                assert hashlib.sha256(opened.read()).hexdigest() == file["sha256"], path

    def apr_then_client(self):
        """the client finds what apr pulled, online and offline, and fetches nothing"""
        path = self.pulled("one")["path"]
        with self.without_payload():
            assert self.downloaded("one", how="local") == path
            assert self.downloaded("one") == path
        self.same(path)

    def client_then_apr(self):
        """apr finds what the client downloaded, online and offline, and fetches nothing"""
        path = self.downloaded("two")
        with self.without_payload():
            pulled = self.pulled("two")
            assert pulled["path"] == path, pulled
            assert all(file["fetched"] == 0 and file["verified"] for file in pulled["files"]), pulled
            assert self.pulled("two", HF_HUB_OFFLINE="1")["path"] == path
        self.same(path)

    def revisions_share_blobs(self):
        """a tag that one tool fetched is a snapshot for the other, beside that of the branch"""
        first = self.pulled("three", revision="v1")["path"]
        second = self.downloaded("three", revision="main")
        assert first != second
        with self.without_payload():
            assert self.downloaded("three", revision="v1") == first
            assert self.pulled("three", revision="main")["path"] == second

    def the_client_lists_what_apr_pulled(self):
        """the client's own listing of the cache has no warning about what apr pulled"""
        self.pulled("four")
        script = (
            "from huggingface_hub import scan_cache_dir; s = scan_cache_dir(); print(s.warnings,"
            " [(r.repo_id, r.nb_files, sorted(x for v in r.revisions for x in v.refs)) for r in s.repos])"
        )
        told = self.run([sys.executable, "-c", script], "four").strip()
        n_files = len(self.expected["models/apr/small"]["files"])
        assert told == f"[] [('apr/small', {n_files}, ['main'])]", told

    def apr_lists_what_the_client_downloaded(self):
        """`apr cache ls` has what the client downloaded, and `apr cache verify` finds it right"""
        self.downloaded("five")
        assert "apr/small" in self.run([self.apr, "cache", "ls", "--json"], "five")
        self.run([self.apr, "cache", "verify", "--json"], "five")

    def both_at_once(self):
        """two processes of each at one time end with a cache that is right"""
        apr = [self.apr, "pull", "hf://apr/small"]
        client = [sys.executable, "-c", CLIENT, "apr/small", "main", "online"]
        environment = self.environment("six")
        running = [subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) for command in [apr, client] * 2]
        assert [process.wait(timeout=120) for process in running] == [0] * 4
        with self.without_payload():
            path = self.downloaded("six", how="local")
            assert self.pulled("six")["path"] == path
        self.same(path)
        blobs = os.path.join(self.folder, "six/hf/hub/models--apr--small/blobs")
        assert not [name for name in os.listdir(blobs) if "incomplete" in name]

    def a_wrong_byte_of_the_client_is_found(self):
        """a byte that is wrong in a blob of the client's is found by apr's next pull, and mended for both"""
        path = self.downloaded("seven")
        blob = os.path.realpath(os.path.join(path, "model.safetensors"))
        with open(blob, "r+b") as file:
            file.seek(1000)
            file.write(b"rotten")
        self.pulled("seven")
        self.same(self.downloaded("seven", how="local"))


def fetched(requests, phase):
    """The requests for files between the marks of a phase."""
    lines = [request["line"] for request in requests]
    begin = next(at for at, line in enumerate(lines) if f"/{phase}/begins" in line)
    end = next(at for at, line in enumerate(lines) if f"/{phase}/ends" in line)
    # The client asks with HEAD whether a file is what it has.
    return [
        request["line"]
        for request in requests[begin + 1 : end]
        if (request["large"] or "/resolve" in request["line"]) and not request["line"].startswith("HEAD")
    ]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    program, apr = (os.path.abspath(path) for path in sys.argv[1:])
    hub = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    said = json.loads(hub.stdout.readline())
    n_failed = 0
    with tempfile.TemporaryDirectory() as folder:
        judge = Judge(said["endpoint"], said["expected"], apr, folder)
        public = [name for name in vars(Judge) if not name.startswith("_")]
        checks = [name for name in public if getattr(Judge, name).__doc__ and name not in ("without_payload", "mark")]
        for name in checks:
            claim = getattr(Judge, name).__doc__
            try:
                getattr(judge, name)()
                print("ok   ", claim)
            except Exception:
                n_failed += 1
                print("FAIL ", claim)
                traceback.print_exc()
        hub.stdin.close()
        requests = json.loads(hub.stdout.read())["endpoint"]
        hub.wait()
        again = {phase: lines for phase in judge.phases if (lines := fetched(requests, phase))}
        n_failed += bool(again)
        print("FAIL " if again else "ok   ", "nothing that is in the cache is fetched again", again or "")
    print(f"{len(checks) + 1 - n_failed} of {len(checks) + 1} checks hold")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
