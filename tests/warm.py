"""Python programs that start at once, because each is forked from a process that has imported the package.

A new interpreter spends a second or more on imports. `run` and `start` take a script with arguments, as
`subprocess.run` and `subprocess.Popen` do, and give it what a new interpreter would: its own process, folder,
environment, arguments, standard streams, filters of warnings, random numbers and an empty `__main__`. Modules
that the script did not import may be loaded already; tests of imports need a new interpreter.

The process that forks only imports. It has one thread and no state of an earlier program. All pytest workers
of a run share it. It ends when the last of them ends, and its programs end with it.
"""

from __future__ import annotations

import atexit
import builtins
import ctypes
import fcntl
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import types
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seeded import follow_environment, name_stream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EXTRAS = ("torch",)
"""Libraries that are slow to import and needed by few: programs name them in `extras`."""

_LIBRARIES = ("dp_accounting", "pandas", "scipy.stats", "uvicorn")
"""Libraries that the package imports late and that many programs use. Importing polars starts threads."""

_LISTENER = 3
"""Number of the listening socket in the process that forks."""
_MOST_FILES = 8
_MOST_BYTES = 2**17
"""Length of the longest order, which holds the arguments and the environment of a program."""


# ---- in the tests ------------------------------------------------------------------------------------------


class Program:
    """A program that runs, with the part of the interface of `subprocess.Popen` that tests need."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control.makefile("r")
        control.close()
        pid = self._control.readline()
        assert pid, "the process that forks has failed; what it printed is in the captured output"
        self.pid = int(pid)
        self.returncode: int | None = None

    def wait(self) -> int:
        """Wait for the end of the program and return its exit status, or minus the signal that killed it."""
        if self.returncode is None:
            with self._control:
                self.returncode = int(self._control.readline())
        return self.returncode

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)


def start(
    command: Sequence[object],
    *,
    stdout: int,
    stderr: int,
    pass_fds: Sequence[int] = (),
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    filters: Sequence[str] = (),
    extras: tuple[str, ...] = (),
) -> Program:
    """Start a script and return at once.

    Parameters
    ----------
    command
        Path of the script and its arguments.
    stdout, stderr
        Numbers of open files.
    pass_fds
        Numbers of open files that the program has under the same numbers.
    cwd, env
        Folder and environment; by default those of this process.
    filters
        Filters of warnings, as `python -W` takes them.
    extras
        Libraries of `EXTRAS` that the program uses.
    """
    environment = dict(os.environ if env is None else env)
    name_stream(environment)
    order = {
        "command": [str(word) for word in command],
        "cwd": str(cwd or Path.cwd()),
        "env": environment,
        "filters": list(filters),
        "files": [0, 1, 2, *pass_fds],
    }
    ours, theirs = socket.socketpair()
    with theirs, open(os.devnull, "rb") as stdin:
        files = [theirs.fileno(), stdin.fileno(), stdout, stderr, *pass_fds]
        assert len(files) <= _MOST_FILES
        socket.send_fds(_connect(extras), [json.dumps(order).encode()], files)
    return Program(ours)


def run(command: Sequence[object], *, check: bool = False, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a script to its end and return its exit status and what it printed. Takes what `start` takes."""
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        status = start(command, stdout=stdout.fileno(), stderr=stderr.fileno(), **more).wait()
        for file in (stdout, stderr):
            file.seek(0)
        done = subprocess.CompletedProcess([*command], status, stdout.read(), stderr.read())
    if check:
        assert status == 0, f"{command[0]} ended with {status}\n{done.stderr}"
    return done


_connections: dict[tuple[str, ...], socket.socket] = {}
_connecting = threading.Lock()


def _connect(extras: tuple[str, ...]) -> socket.socket:
    """Return this process's connection to the process that forks."""
    assert set(extras) <= set(EXTRAS)
    with _connecting:
        if extras not in _connections:
            _connections[extras] = _make_connection(extras)
            atexit.register(_connections[extras].close)
        return _connections[extras]


def _make_connection(extras: tuple[str, ...]) -> socket.socket:
    """Connect to the process that forks, which the first pytest worker that needs it starts.

    Binding a name succeeds for one worker. It then starts the process with the listening socket; the others
    connect to it. The name is gone when the process has ended.
    """
    # Programs have the name in their environment, because they may start programs too.
    run_of_tests = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    prefix = os.environ.setdefault("SFUMATO_TESTS_WARM", f"sfumato-tests-{run_of_tests}")
    name = "\0" + "-".join((prefix, *extras))
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        try:
            listener.bind(name)
            listener.listen(64)
        except OSError:  # another worker was faster
            connection.connect(name)
            return connection
        # Connected before the process starts, so that it sees when this one is gone.
        connection.connect(name)
        # Not a Popen, which would warn that the process outlives it.
        os.posix_spawn(
            sys.executable,
            [sys.executable, __file__, str(_LISTENER), *extras],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_DUP2, listener.fileno(), _LISTENER),
            ],
        )
    return connection


# ---- in the process that forks -----------------------------------------------------------------------------


def _import_all(extras: Sequence[str]) -> None:
    """Import the package and the libraries that it uses."""
    import sfumato
    from sfumato.errors import SfumatoError

    package = Path(sfumato.__path__[0])
    for file in sorted(package.rglob("*.py")):
        *folders, name = file.relative_to(package.parent).with_suffix("").parts
        module = ".".join(folders if name == "__init__" else [*folders, name])
        if name == "__main__" or (folders[1:2] == ["deep"] and "torch" not in extras):
            continue
        with suppress(ImportError, SfumatoError):  # an extra that is not installed
            importlib.import_module(module)
    for name in (*_LIBRARIES, *extras):
        with suppress(ImportError):
            importlib.import_module(name)


def _serve(listener: socket.socket, settings: _Settings) -> None:
    """Fork a process for every order, until no worker of pytest is connected any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the end of pytest is the end of this process
    clients: list[socket.socket] = []
    while True:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        for ready in select.select([listener, *clients], [], [])[0]:
            if ready is listener:
                clients.append(listener.accept()[0])
                continue
            order, files, _, _ = socket.recv_fds(ready, _MOST_BYTES, _MOST_FILES)
            if not order:
                clients.remove(ready)
                ready.close()
                if not clients:
                    return
                continue
            server = os.getpid()
            if os.fork() == 0:
                try:
                    _end_with(server)
                    for connection in (listener, *clients):
                        connection.close()
                    _wait_for_program(json.loads(order), files, settings)
                finally:
                    os._exit(1)
            for file in files:
                os.close(file)


def _wait_for_program(order: dict[str, Any], files: Sequence[int], settings: _Settings) -> None:
    """Fork the program, and tell the test its number and then its exit status."""
    control, *files = files
    me = os.getpid()
    program = os.fork()
    if program == 0:
        _end_with(me)
        os.close(control)
        _run_program(order, files, settings)
    for file in files:
        os.close(file)
    with suppress(BrokenPipeError):
        os.write(control, b"%d\n" % program)
        _, status = os.waitpid(program, 0)
        os.write(control, b"%d\n" % os.waitstatus_to_exitcode(status))


def _end_with(parent: int) -> None:
    """Have this process killed when its parent is gone, even if that was killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


# ---- in a program ------------------------------------------------------------------------------------------


def _run_program(order: dict[str, Any], files: Sequence[int], settings: _Settings) -> None:
    """Run a script as the interpreter would, and end this process as it would."""
    status = 1
    try:
        # First to high numbers, so that no number is both given and taken.
        moved = [fcntl.fcntl(file, fcntl.F_DUPFD, 512) for file in files]
        for file in files:
            os.close(file)
        for file, number in zip(moved, order["files"], strict=True):
            os.dup2(file, number)
            os.close(file)
        settings.apply(order)
        status = _execute(Path(order["command"][0]))
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _execute(script: Path) -> int:
    """Run the script as `__main__` and return its exit status."""
    main = types.ModuleType("__main__")
    vars(main).update(__file__=str(script), __builtins__=builtins)
    sys.modules["__main__"] = main
    try:
        exec(compile(script.read_bytes(), str(script), "exec"), vars(main))
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:
        # A traceback begins with the script, and not with the line above.
        below = error.__traceback__.tb_next if error.__traceback__ else None
        sys.excepthook(type(error), error, below)
        return 1
    return 0


def _require_one_thread() -> None:
    """Refuse to fork with threads of libraries, which would be missing in the programs.

    jemalloc, which Arrow brings, starts its thread again in a process that is forked.
    """
    threads = [file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")]
    assert threading.active_count() == 1, threading.enumerate()
    assert len([name for name in threads if name != "jemalloc_bg_thd"]) == 1, threads


class _Settings:
    """The state of an interpreter that depends on how it is called."""

    def __init__(self) -> None:
        self._filters = warnings.filters[:]
        self._of_libraries: list[Any] = []

    def import_all(self, extras: Sequence[str]) -> None:
        warnings.simplefilter("error")
        # The folder of this file is no program's.
        del sys.path[0]
        _import_all(extras)
        self._of_libraries = warnings.filters[: -len(self._filters) - 1]
        _require_one_thread()
        gc.collect()
        gc.freeze()

    def apply(self, order: dict[str, Any]) -> None:
        """Give this process the folder, environment, arguments, filters and random numbers of an order."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(order["cwd"])
        os.environ.clear()
        os.environ.update(order["env"])
        tempfile.tempdir = None
        sys.argv[:] = order["command"]
        given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:0] = [str(Path(sys.argv[0]).parent), *(each for each in given if each not in sys.path)]
        sys.warnoptions[:] = order["filters"]
        warnings.filters[:] = self._filters  # type: ignore[index]
        warnings._processoptions(sys.warnoptions)  # type: ignore[attr-defined]
        warnings.filters[:0] = self._of_libraries  # type: ignore[index]
        warnings._filters_mutated()  # type: ignore[attr-defined]
        follow_environment()
        sys.modules["numpy"].random.seed()


if __name__ == "__main__":
    _settings = _Settings()
    _settings.import_all(sys.argv[2:])
    _serve(socket.socket(fileno=int(sys.argv[1])), _settings)
    os._exit(0)  # there is nothing left to be done
