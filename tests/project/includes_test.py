"""Dependencies point one way: engine <- rpc <- services; device <- truth <- services; all report through
telemetry; services never include each other. Reads the #include lines; fails on a wrong arrow."""

import re
import sys

from project_files import ROOT, sources

SERVICES = {"gateway", "gpu-worker", "cpu-worker", "monitor", "cli"}
BELOW_SERVICES = {"engine", "rpc", "device", "truth", "telemetry"}
# Folder -> folders it may include besides itself.
ALLOWED = {
    "engine": set(),
    "device": set(),
    "truth": {"device", "engine"},
    "telemetry": {"truth", "device", "engine"},
    "rpc": {"engine", "device", "truth", "telemetry"},
    **{service: BELOW_SERVICES for service in SERVICES},
}
# Inside the engine: what each folder may include besides base/ and itself.
ENGINE = {
    "base": set(),
    "quant": set(),
    "gguf": {"quant"},
    "model": {"gguf", "quant"},
    "tokenizer": {"gguf", "quant"},
    "chat": {"tokenizer"},
    "sampling": set(),
    "stage": {"sampling"},
    "ref": {"quant", "gguf", "model", "sampling", "stage"},
    "cpu": {"quant", "gguf", "model", "sampling", "stage"},
    "plan": {"quant", "gguf", "model", "stage", "sampling", "cpu"},
}
WIRE = re.compile(r"^(grpc|grpcpp|google/protobuf|spillway/v\d+)/|\.pb\.h$")
WIRE_FOLDERS = SERVICES | {"rpc"}
PROMETHEUS = re.compile(r"^prometheus/")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)


def check(path, included):
    """The reason why `path` must not include `included`; None when it may."""
    top = path.parts[0]
    if top not in ALLOWED:
        return None
    if WIRE.search(included) and top not in WIRE_FOLDERS:
        return f"{top}/ knows no gRPC and no protobuf"
    if PROMETHEUS.search(included) and top != "telemetry":
        return "only telemetry/ knows prometheus-cpp"
    target = included.split("/")[0]
    if target == "tests":
        return "the product does not include tests"
    if target not in ALLOWED or target == top:
        if top == "engine" and target == "engine":
            return check_engine(path.parts[1], included.split("/")[1])
        return None
    if target not in ALLOWED[top]:
        return f"{top}/ may include {', '.join(sorted(ALLOWED[top])) or 'nothing of the other folders'}"
    return None


def check_engine(folder, target):
    if target in {folder, "base"} or folder not in ENGINE or target in ENGINE[folder]:
        return None
    return f"engine/{folder} may include base, {', '.join(sorted(ENGINE[folder])) or 'nothing else'}"


def main():
    wrong = []
    files = sources()
    for path in files:
        for match in INCLUDE.finditer((ROOT / path).read_text(encoding="utf-8")):
            reason = check(path, match.group(2))
            if reason:
                wrong.append(f"{path}: includes {match.group(2)}: {reason}")
            elif match.group(1) == '"' and "/" not in match.group(2):
                wrong.append(f"{path}: includes {match.group(2)}: include paths start at the repository's root")
    print("\n".join(wrong))
    print(f"{len(files)} files checked, {len(wrong)} wrong arrows")
    return 1 if wrong or not files else 0


if __name__ == "__main__":
    sys.exit(main())
