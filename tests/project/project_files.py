"""The tracked files of the repository, for the checks in this folder (all files where git is absent)."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
GENERATED = {"build", "models", "run", ".git", ".venv", "__pycache__"}


def all_files():
    """Paths relative to the root; new files that git does not ignore belong to it."""
    try:
        listing = subprocess.run(
            ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
        paths = [pathlib.Path(name) for name in listing if name]
    except (OSError, subprocess.CalledProcessError):
        paths = []
        for folder, subfolders, names in os.walk(ROOT):
            subfolders[:] = [name for name in subfolders if name not in GENERATED]
            paths += [pathlib.Path(folder, name).relative_to(ROOT) for name in names]
    return sorted(path for path in paths if (ROOT / path).is_file())


def sources():
    return [path for path in all_files() if path.suffix in {".cc", ".h", ".cu", ".cuh"}]
