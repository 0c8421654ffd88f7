"""What is installed from a wheel or an sdist works outside of the source tree."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.upgrade.conftest import ROOT, Installed

pytestmark = pytest.mark.timeout(120)


def test_a_wheel_works_by_itself(place: Installed, wheel: Path, tmp_path: Path) -> None:
    """With its SQL, its man pages and its type marker; run in an empty folder."""
    names = zipfile.ZipFile(wheel).namelist()
    wanted = ("py.typed", "queries.sql", "0008_roles_and_shares.sql", "headgate-store.1")
    assert all(any(name.endswith(one) for name in names) for one in wanted)
    assert not any(name.startswith(("tests/", "bench/")) for name in names)
    place.install(wheel)
    works(place.headgate, tmp_path)


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source as it is handed out."""
    folder = tmp_path_factory.mktemp("sdist")
    source = folder / "source"
    caches = shutil.ignore_patterns("__pycache__")
    for name in ("src", "shims", "man"):
        shutil.copytree(ROOT / name, source / name, ignore=caches)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = "import hatchling.build as b, sys; print(b.build_sdist(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", build, folder], cwd=source, check=True, capture_output=True
    )
    return folder / done.stdout.decode().split()[-1]


def test_an_sdist_has_what_a_wheel_is_made_of(sdist: Path) -> None:
    """Everything that is in the repository's packages, and nothing of the machine's."""
    with tarfile.open(sdist) as it:
        names = {name.partition("/")[2] for name in it.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "src/headgate/cli/store.py"} <= names
    assert any(name.startswith("shims/") for name in names)
    assert any(name.startswith("man/") for name in names)


def test_an_sdist_works_by_itself(place: Installed, sdist: Path, tmp_path: Path) -> None:
    """An installer builds and installs it, and it runs in an empty folder."""
    words = ("install", "--no-index", "--no-deps", "--no-build-isolation", "--force-reinstall")
    pip = (sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "--no-input")
    subprocess.run([*pip, "--python", place.python, *words, sdist], check=True, cwd=tmp_path)
    works(place.headgate, tmp_path)


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
@pytest.mark.parametrize("tool", ["uv", "pipx", "pip"])
def test_tools_install_it(
    tool: str, kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """`uv tool install`, `pipx install` and `pip install` fetch what it needs, and it works."""
    package: Path = request.getfixturevalue(kind)
    program = shutil.which(tool)
    if program is None:
        pytest.skip(f"NOT TESTED: {tool} is not here")
    if not os.environ.get("HEADGATE_INSTALLERS"):
        pytest.skip(f"NOT TESTED: {tool} fetches packages; HEADGATE_INSTALLERS=1 tries it")
    bin_folder = tmp_path / "bin"
    env = {
        **os.environ,
        "UV_TOOL_DIR": str(tmp_path / "uv"),
        "UV_TOOL_BIN_DIR": str(bin_folder),
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(bin_folder),
    }
    if tool == "pip":
        subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
        bin_folder = tmp_path / "venv" / "bin"
        program = str(bin_folder / "pip")
    words = ["tool", "install"] if tool == "uv" else ["install"]
    subprocess.run([program, *words, str(package)], env=env, check=True, cwd=tmp_path)
    works(str(bin_folder / "headgate"), tmp_path)


def test_the_image_is_built_and_runs(tmp_path: Path) -> None:
    """As another user than root, with the store in its volume."""
    builder = next((one for one in ("podman", "docker") if _can_build(one)), None)
    if builder is None:
        pytest.skip("NOT TESTED: nothing here can build an image")
    tag = f"headgate-test-{os.getpid()}"
    subprocess.run([builder, "build", "-f", "Containerfile", "-t", tag, "."], cwd=ROOT, check=True)
    said = subprocess.run(
        [builder, "run", "--rm", "--entrypoint", "sh", tag, "-c", "id -u; headgate store check"],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert said.stdout.split()[0] == "10001"


def test_the_recipe_of_the_image_is_as_it_should_be() -> None:
    """It copies what is there, ends as a user that is not root, and keeps the store in a volume."""
    steps = [line.split() for line in (ROOT / "Containerfile").read_text().splitlines() if line]
    for copied in (step[1:-1] for step in steps if step[0] == "COPY"):
        assert all((ROOT / name).exists() for name in copied)
    users = [step[1] for step in steps if step[0] == "USER"]
    assert users[-1:] not in (["root"], ["0"], [])
    assert ["VOLUME", "/data"] in steps
    assert ["ENV", "HEADGATE_STORE=sqlite:///data/headgate.db"] in steps
    for name in ("src", "shims", "man", "pyproject.toml", "README.md", "LICENSE"):
        assert f"!{name}" in (ROOT / ".containerignore").read_text().splitlines()


def _can_build(program: str) -> bool:
    if shutil.which(program) is None:
        return False
    return not subprocess.run([program, "info"], check=False, capture_output=True).returncode


def works(program: str, folder: Path) -> None:
    """It runs something on a new store, far from any source."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HEADGATE", "PYTHON"))}
    env |= {"HEADGATE_STORE": f"sqlite://{folder}/s.db", "HOME": str(folder)}
    run = [program, "run", "-q", "--role", "lead", "--", "echo", "it", "works"]
    done = subprocess.run(run, env=env, cwd=folder, check=True, capture_output=True)
    assert done.stdout == b"it works\n"
    subprocess.run(
        [program, "store", "check"], env=env, cwd=folder, check=True, capture_output=True
    )
