"""Whether the process that holds a lease is gone: certain, or not said."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from cdc_ops.cli.session import new_request
from cdc_ops.core.processes import ProcessIdentity, holder_name, process_of
from cdc_ops.state.processes import holder_is_gone, is_gone, this_process

SAY = """
import sys
from cdc_ops.state.processes import this_process
found = this_process()
print(found.place, found.pid, found.started, flush=True)
sys.stdin.read()
"""


class Other:
    """A process of its own that says who it is and waits."""

    def __init__(self, *before: str) -> None:
        command = [*before, sys.executable, "-c", SAY]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline().split()

    @property
    def identity(self) -> ProcessIdentity:
        place, pid, started = self.said
        return ProcessIdentity(place=place, pid=int(pid), started=int(started))

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def other() -> Iterator[Other]:
    found = Other()
    yield found
    found.end()


def test_a_process_is_gone_once_it_was_killed_also_before_its_parent_asked(other: Other) -> None:
    identity = other.identity
    assert identity.pid == other.process.pid
    assert not is_gone(identity)
    other.process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, other.process.pid, os.WEXITED | os.WNOWAIT)
    assert is_gone(identity), "nobody has asked how it ended"
    other.process.wait()
    assert is_gone(identity)


def test_a_stopped_process_is_not_gone(other: Other) -> None:
    other.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, other.process.pid, os.WSTOPPED | os.WNOWAIT)
    assert not is_gone(other.identity)
    other.process.send_signal(signal.SIGCONT)


def test_a_pid_that_was_given_to_another_process_since_is_not_taken_for_the_old_one(other: Other) -> None:
    assert is_gone(replace(other.identity, started=other.identity.started - 1))


def test_a_process_of_another_machine_boot_or_container_is_never_said_to_be_gone(other: Other) -> None:
    other.end()
    assert is_gone(other.identity)
    assert not is_gone(replace(other.identity, place="0" * 16))


@pytest.mark.parametrize("namespaces", [("--pid", "--fork", "--mount-proc"), ("--pid", "--fork"), ("--uts",), ("--time",)])
def test_who_has_pids_or_clocks_or_a_name_of_its_own_is_in_another_place(namespaces: tuple[str, ...]) -> None:
    if shutil.which("unshare") is None or subprocess.run(["unshare", *namespaces, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine makes no namespaces for us")
    renamed = ("sh", "-c", 'hostname elsewhere; exec "$@"', "sh") if namespaces == ("--uts",) else ()
    apart = Other("unshare", *namespaces, *renamed)
    try:
        here = this_process()
        assert here is not None
        if "--mount-proc" not in namespaces and "--pid" in namespaces:
            assert not apart.said, "what it sees are not its own pids, so it says nothing"
        else:
            assert apart.identity.place != here.place
    finally:
        apart.end()


def test_another_users_process_is_not_gone() -> None:
    here, first = this_process(), ProcessIdentity(place="", pid=1, started=0)
    assert here is not None
    with open("/proc/1/stat", encoding="utf-8") as stat:
        started = int(stat.read().rpartition(")")[2].split()[19])
    assert not is_gone(replace(first, place=here.place, started=started))


def test_only_commands_are_judged_by_their_process_and_people_read_a_short_name() -> None:
    holder = new_request().holder
    process = process_of(holder)
    assert process == this_process()
    assert process is not None
    assert holder_name(holder) == holder.partition("@")[0]
    assert process_of(process.sign("airflow:cdc_shop:manual")) is None
    ended = replace(process, started=process.started - 1)
    assert holder_is_gone(ended.sign("cli:host:1:a"))
    for unsaid in ("", "cli:host:1:a", "airflow:cdc_shop:scheduled__2026", ended.sign("airflow:cdc_shop:manual")):
        assert not holder_is_gone(unsaid)
