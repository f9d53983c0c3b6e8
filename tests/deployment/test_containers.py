"""What containers may do, read off their files; and a study between four, without a daemon."""

from __future__ import annotations

import errno
import re
import shlex
from pathlib import Path

import pytest
import typer.main
import yaml

from examples.containers.dry_run import (
    ENGINE,
    HERE,
    IMAGE,
    USER,
    ComposeWalk,
    make_image,
    megabytes,
    reason_against,
    role_of,
    walk_in_containers,
)
from hedgerow.cli.main import app

CONTAINERFILE = (HERE / "Containerfile").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((HERE / "compose.yaml").read_text(encoding="utf-8"))
KUBERNETES = list(yaml.safe_load_all((HERE / "kubernetes.yaml").read_text(encoding="utf-8")))
PAGE = (Path(__file__).parents[2] / "docs/containers.md").read_text(encoding="utf-8")


def is_command(words: list[str]) -> bool:
    """Whether the command line knows these words; paths and hosts need not be here."""
    command = typer.main.get_group(app)
    while (children := getattr(command, "commands", None)) is not None:
        if not words or words[0] not in children:
            return False
        command, words = children[words[0]], words[1:]
    options = {name for one in command.params for name in one.opts}
    return all(word in options for word in words if word.startswith("--"))


def faults_of(service: dict) -> set[str]:
    """Of a service of compose: what it lacks of what an administrator asks for."""
    wanted = {
        "user": service.get("user") == f"{USER}:{USER}",
        "read-only root": service.get("read_only") is True,
        "capabilities": service.get("cap_drop") == ["ALL"],
        "privileges": "no-new-privileges:true" in service.get("security_opt", ()),
        "no socket of a daemon": "docker.sock" not in str(service.get("volumes")),
        "command": is_command(service.get("command", ["site", "serve"])),
    }
    return {name for name, is_so in wanted.items() if not is_so}


def faults_of_pod(pod: dict) -> set[str]:
    whole, (container,) = pod["securityContext"], pod["containers"]
    own = container["securityContext"]
    wanted = {
        "user": whole["runAsNonRoot"] and whole["runAsUser"] == USER,
        "seccomp": whole["seccompProfile"]["type"] == "RuntimeDefault",
        "read-only root": own["readOnlyRootFilesystem"],
        "privileges": not own["allowPrivilegeEscalation"],
        "capabilities": own["capabilities"] == {"drop": ["ALL"]},
        "token": pod["automountServiceAccountToken"] is False,
        "probe": any(name.endswith("Probe") for name in container),
        "command": is_command(container["args"]),
    }
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    return {name for name, is_so in wanted.items() if not is_so} | ({"/tmp"} - mounts)


def test_services_of_the_dry_run_have_no_rights_they_do_not_need():
    assert set(COMPOSE["services"]) == {"north", "south", "west", "coordinator"}
    assert [one for one in COMPOSE["services"].values() if faults_of(one)] == []
    for name in ("north", "south", "west"):
        assert "ports" not in COMPOSE["services"][name]
    named = {v.split(":")[0] for one in COMPOSE["services"].values() for v in one["volumes"]}
    assert {name for name in named if not name.startswith("./")} == set(COMPOSE["volumes"])


def test_pods_have_no_rights_they_do_not_need_and_nothing_calls_a_site():
    pods = [one["spec"]["template"]["spec"] for one in KUBERNETES if "template" in one["spec"]]
    assert [faults_of_pod(pod) for pod in pods] == [set(), set()]
    (policy,) = (one["spec"] for one in KUBERNETES if one["kind"] == "NetworkPolicy")
    assert policy["ingress"] == []
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    (site,) = (one["spec"] for one in KUBERNETES if one["kind"] == "StatefulSet")
    assert site["replicas"] == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the checker itself
def test_kubernetes_takes_every_document_of_the_manifest():
    checker = pytest.importorskip("kubernetes_validate", reason="pip install --group containers")
    for document in KUBERNETES:
        checker.validate(document, checker.latest_version(), strict=True)
    wrong = {**KUBERNETES[0], "spec": {**KUBERNETES[0]["spec"], "replica": 2}}
    with pytest.raises(checker.ValidationError):
        checker.validate(wrong, checker.latest_version(), strict=True)


def test_a_service_or_a_pod_with_more_rights_would_be_seen():
    """Twin."""
    north = COMPOSE["services"]["north"]
    assert faults_of({**north, "read_only": False, "user": "0:0"}) == {"read-only root", "user"}
    assert faults_of({**north, "command": ["site", "serv"]}) == {"command"}
    pod = KUBERNETES[0]["spec"]["template"]["spec"]
    assert faults_of_pod({**pod, "automountServiceAccountToken": True}) == {"token"}


def test_the_image_runs_as_nobody_special_and_has_no_compiler():
    steps = [line.split(" ", 1) for line in CONTAINERFILE.splitlines() if re.match("[A-Z]", line)]
    words = [kind for kind, _ in steps]
    assert steps[words.index("USER")] == ["USER", f"{USER}:{USER}"]
    assert "gcc" not in CONTAINERFILE
    assert {"HEALTHCHECK", "VOLUME", "ENTRYPOINT"} <= set(words)


LINES = [line for line in PAGE.splitlines() if line.startswith("docker compose ")]


def test_commands_of_the_page_are_commands():
    lines = [line for line in LINES if " run " in line and "--entrypoint" not in line]
    assert len(lines) == 4
    for line in lines:
        service, *words = shlex.split(line.partition("--rm ")[2])
        assert service in COMPOSE["services"]
        assert is_command(words), line
    assert not is_command(["site", "init", "--nmae", "north"])  # negative control


def test_whoever_would_type_a_command_is_known():
    assert role_of("hedgerow site check study/study.toml --data south.csv") == "south"
    assert role_of("hedgerow site enroll hr1-AAAA --anchor anchors/north --yes") == "north"
    assert role_of("hedgerow study invite study --site north") == "coordinator"
    assert role_of("hedgerow ledger verify west") == "west"
    assert role_of("hedgerow show study/model.json") == "coordinator"


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.skipif(
    reason_against() is not None, reason=f"no containers without a daemon: {reason_against()}"
)
def test_a_study_between_four_containers(tmp_path):
    said: list[str] = []
    found = walk_in_containers(tmp_path, said.append)
    assert "$ hedgerow ledger verify north" in said
    assert found["image"] == megabytes(IMAGE) < 1000
    model = tmp_path / "walk/study/model.json"
    assert model.exists()
    logs = "".join(path.read_text() for path in (tmp_path / "walk").glob("*.log"))
    assert "Traceback" not in logs
    assert "compiles loops" not in logs  # they are in the image, for the user who runs


PROBE = """
import os, shutil
from hedgerow.kernels.build import SYSTEM_COMPILERS, library
assert not any(map(shutil.which, SYSTEM_COMPILERS))
assert os.getuid() == 10001 and all(library(kind).exists() for kind in ("any", "avx2"))
try:
    open("/opt/hedgerow/x", "w")
except OSError as error:
    print(error.errno)
"""


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.skipif(
    reason_against(*ENGINE) is not None, reason=f"no compose: {reason_against(*ENGINE)}"
)
def test_the_lines_of_the_page_train_a_model_by_compose(tmp_path):
    """Bridge network, names, volumes and rights are podman's; every line is the page's own."""
    make_image(tmp_path, print)
    (tmp_path / "hedgerow").mkdir()
    walk = ComposeWalk(tmp_path / "hedgerow", print)
    try:
        walk.start()
        for line in LINES[:-1]:
            walk.follow(line)
        walk.wait_for_health()
        assert int(walk.inside("north", "python3", "-c", PROBE)) == errno.EROFS
        walk.follow(LINES[-1])
        run, study = "docker compose run --rm", "/srv/hedgerow/study"
        proof = f"--roster {study}/study.toml --transcript {study}/transcript.bin"
        said = walk.do(f"{run} coordinator verify {study}/model.json {proof}")
        assert "\nvalid, computed anew from what the sites signed, receipts of 3 of 3 sites" in said
        walk.do(f"{run} north ledger verify /srv/hedgerow/site")
    finally:
        walk.stop()
