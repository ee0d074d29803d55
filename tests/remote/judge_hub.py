"""Judges the hub of these tests by `huggingface_hub`: what the real client sees there is what the hub has.

    judge_hub.py ENDPOINT SECOND EXPECTED
    judge_hub.py -- HUB [--tls]

ENDPOINT has the samples, SECOND the same and fails now and then; EXPECTED is a file with what they have. All three
are what the program `hub` writes. The second form runs that program itself, with `--tls` by HTTPS.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import traceback

READER, STRANGER, FINE_GRAINED = "hf_reader", "hf_stranger", "hf_fine_grained"


def start(program, flags, folder):
    """The hub as a process, and what it says of itself."""
    command = [program]
    if flags == ["--tls"]:
        os.environ["SSL_CERT_FILE"] = os.path.join(folder, "authority.pem")
        command += ["--tls", os.environ["SSL_CERT_FILE"]]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process, json.loads(process.stdout.readline())


def settings(argv, folder):
    if argv[:1] == ["--"] and argv[2:] in ([], ["--tls"]):
        process, said = start(argv[1], argv[2:], folder)
        return process, said["endpoint"], said["second"], said["expected"]
    if len(argv) != 3:
        sys.exit(__doc__)
    with open(argv[2]) as file:
        said = json.load(file)
    return None, argv[0], argv[1], said.get("expected", said)


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class Judge:
    """The checks, each a method whose docstring is the claim."""

    def __init__(self, endpoint, second, expected, cache):
        from huggingface_hub import HfApi

        self.endpoint, self.second, self.expected, self.cache = endpoint, second, expected, cache
        self.api = HfApi(endpoint=endpoint, token=False)
        self.small = expected["models/apr/small"]

    def download(self, repo, path, endpoint=None, cache="one", **options):
        from huggingface_hub import hf_hub_download

        options = {"token": False, "endpoint": endpoint or self.endpoint, **options}
        return hf_hub_download(repo, path, cache_dir=os.path.join(self.cache, cache), **options)

    def same(self, repo, folder):
        """Whether a folder has the files of a repository and nothing else."""
        files = self.expected[repo]["files"]
        found = {
            os.path.relpath(os.path.join(at, name), folder).replace(os.sep, "/")
            for at, _, names in os.walk(folder)
            for name in names
        }
        assert found == set(files), found ^ set(files)
        for path, file in files.items():
            at = os.path.join(folder, path)
            assert os.path.getsize(at) == file["size"], path
            assert file["sha256"] in (None, digest(at)), path
            assert os.path.basename(os.path.realpath(at)) == file["etag"], path

    def files_arrive_one_by_one(self):
        """hf_hub_download gets files of every storage, under their entity tags"""
        for path, file in self.small["files"].items():
            at = self.download("apr/small", path)
            assert digest(at) == file["sha256"], path
            assert os.path.basename(os.path.realpath(at)) == file["etag"], path
            assert f"/snapshots/{self.small['commit']}/" in at, at

    def revisions_lead_to_commits(self):
        """hf_hub_download finds tags, proposals and commits"""
        for name, commit in self.small["refs"]:
            revision = name.removeprefix("refs/tags/")
            assert f"/snapshots/{commit}/" in self.download("apr/small", "config.json", revision=revision)
            assert f"/snapshots/{commit}/" in self.download("apr/small", "config.json", revision=commit)

    def snapshots_are_whole(self):
        """snapshot_download gets whole repositories: a name without namespace, a data set, no digest"""
        from huggingface_hub import snapshot_download

        cases = [("small", "model"), ("data", "dataset"), ("undigested", "model"), ("xet", "model")]
        for name, kind in [(f"apr/{name}", kind) for name, kind in cases] + [("lonely", "model")]:
            cache = os.path.join(self.cache, "snapshots")
            options = {"endpoint": self.endpoint, "token": False, "repo_type": kind, "cache_dir": cache}
            self.same(f"{kind}s/{name}", snapshot_download(name, **options))

    def a_listing_has_pages(self):
        """list_repo_tree follows the pages of 1100 files and one folder"""
        listed = list(self.api.list_repo_tree("apr/pages", recursive=True))
        assert len(listed) == 1101, len(listed)
        files = {entry.path: entry for entry in listed if hasattr(entry, "blob_id")}
        wanted = self.expected["models/apr/pages"]["files"]
        assert {path: (e.size, e.blob_id) for path, e in files.items()} == {
            path: (file["size"], file["blob_id"]) for path, file in wanted.items()
        }

    def a_listing_tells_digests(self):
        """list_repo_tree tells sizes, git's names, digests and folders, recursive and not, expanded and not"""
        for expand in (False, True):
            listed = list(self.api.list_repo_tree("apr/small", recursive=True, expand=expand))
            for entry in listed:
                if not hasattr(entry, "blob_id"):
                    assert entry.path in ("vocabulary", "weights", "weights/deep"), entry.path
                    continue
                file = self.small["files"][entry.path]
                assert (entry.size, entry.blob_id) == (file["size"], file["blob_id"]), entry
                assert (entry.lfs.sha256 if entry.lfs else None) == (file["sha256"] if file["lfs"] else None)
        names = sorted(entry.path for entry in self.api.list_repo_tree("apr/small", "weights"))
        assert names == ["weights/deep", "weights/part one.bin"], names

    def info_tells_sizes(self):
        """model_info(files_metadata=True) tells commit, license, sizes and digests"""
        info = self.api.model_info("apr/small", files_metadata=True)
        assert info.sha == self.small["commit"] and info.card_data.license == self.small["license"]
        assert (info.gated, info.private, info.disabled) == (False, False, False)
        for sibling in info.siblings:
            file = self.small["files"][sibling.rfilename]
            assert (sibling.size, sibling.blob_id) == (file["size"], file["blob_id"]), sibling
            assert (sibling.lfs.sha256 if sibling.lfs else None) == (file["sha256"] if file["lfs"] else None)
        assert len(info.siblings) == len(self.small["files"])

    def refs_are_listed(self):
        """list_repo_refs tells branches, tags, conversions and proposals"""
        refs = self.api.list_repo_refs("apr/small", include_pull_requests=True)
        every = refs.branches + refs.tags + refs.converts + refs.pull_requests
        named = {ref.ref.removeprefix("refs/heads/"): ref.target_commit for ref in every}
        assert named == dict(self.small["refs"]), named

    def metadata_is_there_without_a_download(self):
        """get_hf_file_metadata tells commit, tag, size, place, and Xet's hash where there is one"""
        from huggingface_hub import get_hf_file_metadata, hf_hub_url

        for path, file in self.small["files"].items():
            url = hf_hub_url("apr/small", path, endpoint=self.endpoint)
            told = get_hf_file_metadata(url, token=False, endpoint=self.endpoint)
            assert (told.commit_hash, told.etag, told.size) == (self.small["commit"], file["etag"], file["size"])
            assert (not told.location.startswith(self.endpoint)) == file["lfs"], told.location
        url = hf_hub_url("apr/xet", "model.safetensors", endpoint=self.endpoint)
        assert get_hf_file_metadata(url, token=False, endpoint=self.endpoint).xet_file_data.file_hash

    def a_former_name_leads_on(self):
        """files and descriptions are found under a former name"""
        assert digest(self.download("apr/tiny", "config.json")) == self.small["files"]["config.json"]["sha256"]
        assert self.api.model_info("apr/tiny").id == "apr/small"

    def gates_are_shut(self):
        """GatedRepoError without a token, for a stranger's, and for one without the right to gated repositories"""
        from huggingface_hub.errors import GatedRepoError

        for name in ("gated-auto", "gated-manual"):
            for token, status in ((False, 401), (STRANGER, 403), (FINE_GRAINED, 403)):
                self.raises(GatedRepoError, status, f"apr/{name}", "config.json", token=token)
            assert self.download(f"apr/{name}", "config.json", token=READER)
            assert self.api.model_info(f"apr/{name}").gated == name.removeprefix("gated-")

    def private_looks_like_missing(self):
        """RepositoryNotFoundError for what is private and what is missing alike; readers get in"""
        from huggingface_hub.errors import RepositoryNotFoundError

        for name in ("apr/private", "apr/missing"):
            for token, status in ((False, 401), (STRANGER, 404)):
                self.raises(RepositoryNotFoundError, status, name, "config.json", token=token)
                try:
                    self.api.model_info(name, token=token)
                    raise AssertionError("it was told")
                except RepositoryNotFoundError as error:
                    assert error.response.status_code == status
        assert self.download("apr/private", "config.json", token=READER)

    def missing_things_are_told_apart(self):
        """RevisionNotFoundError and EntryNotFoundError for what is missing within a repository"""
        from huggingface_hub.errors import EntryNotFoundError, RevisionNotFoundError

        self.raises(RevisionNotFoundError, 404, "apr/small", "config.json", revision="nowhere")
        error = self.raises(EntryNotFoundError, 404, "apr/small", "missing.json")
        assert error.response.headers["X-Repo-Commit"] == self.small["commit"]
        absent = os.path.join(self.cache, "one", "models--apr--small", ".no_exist", self.small["commit"])
        assert os.listdir(absent) == ["missing.json"]

    def others_are_refused(self):
        """DisabledRepoError for what nobody may read, and an invalid token is no missing repository"""
        from huggingface_hub.errors import DisabledRepoError, HfHubHTTPError, RepositoryNotFoundError

        self.raises(DisabledRepoError, 403, "apr/disabled", "config.json")
        error = self.raises(HfHubHTTPError, 401, "apr/small", "config.json", token="hf_unknown")
        assert not isinstance(error, RepositoryNotFoundError), error

    def a_bad_day_is_survived(self):
        """429 with its time, 503 twice, pages of two and addresses that serve once: the snapshot is whole"""
        from huggingface_hub import snapshot_download

        cache = os.path.join(self.cache, "second")
        options = {"endpoint": self.second, "token": False, "cache_dir": cache}
        self.same("models/apr/small", snapshot_download("apr/small", **options))

    def raises(self, kind, status, repo, path, **options):
        """The error that a download ends with, which is of a kind, or what it is caused by."""
        try:
            self.download(repo, path, cache=options.pop("cache", "one"), force_download=True, **options)
        except Exception as error:
            while error and not isinstance(error, kind):
                error = error.__cause__ or error.__context__
            assert error is not None, traceback.format_exc()
            assert error.response.status_code == status, (error.response.status_code, status)
            return error
        raise AssertionError(f"{repo} {path} was downloaded")


def noted(process):
    """Whether the hub saw what it should have seen of all this."""
    process.stdin.close()
    said = json.loads(process.stdout.read())
    process.wait()
    statuses = [request["status"] for request in said["second"]]
    failures = {status: statuses.count(status) for status in (429, 503)}
    large = [request for request in said["endpoint"] if request["large"]]
    astray = [request["line"] for request in large if request["authorized"]]
    right = failures == {429: 1, 503: 2} and len(large) > 5 and not astray
    print("ok   " if right else "FAIL ", "the hub saw its failures, and no token where the large files are")
    if not right:
        print(failures, len(large), astray)
    return right


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        process, endpoint, second, expected = settings(sys.argv[1:], folder)
        # It reads these once, when it is imported.
        os.environ.update(HF_ENDPOINT=endpoint, HF_HOME=folder, HF_HUB_DISABLE_XET="1")
        os.environ.update(HF_HUB_DISABLE_TELEMETRY="1", HF_HUB_DISABLE_PROGRESS_BARS="1")
        import huggingface_hub

        print("huggingface_hub", huggingface_hub.__version__, "at", endpoint.split(":")[0])
        judge = Judge(endpoint, second, expected, folder)
        checks = [check for name, check in vars(Judge).items() if "_" in name and not name.startswith("__")]
        for check in checks:
            try:
                check(judge)
                print("ok   ", check.__doc__)
            except Exception:
                failed += 1
                print("FAIL ", check.__doc__)
                traceback.print_exc()
    n_checks = len(checks)
    if process:
        n_checks += 1
        failed += not noted(process)
    print(f"{n_checks - failed} of {n_checks} checks hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
