"""How much CPU `import sfumato` takes, in fresh interpreters. The aim is at most 0.3 s."""

import resource
import subprocess
import sys

RUNS = 7
AIM = 0.3


def cpu_of(code: str) -> float:
    """CPU seconds of one fresh interpreter."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    codes = {
        "nothing": "pass",
        "numpy": "import numpy",
        "sfumato": "import sfumato",
        "sf.create": "import sfumato; sfumato.create",
    }
    best = {name: min(cpu_of(code) for _ in range(RUNS)) for name, code in codes.items()}
    for name, seconds in best.items():
        print(f"{name:10} {seconds:.3f} s CPU")
    extra = best["sfumato"] - best["nothing"]
    print(f"import sfumato costs {extra:.3f} s CPU; aim {AIM} s: {'met' if extra <= AIM else 'missed'}")


if __name__ == "__main__":
    main()
