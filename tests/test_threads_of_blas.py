"""Public calls run with one BLAS thread, whatever the environment says, and leave the user's number as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pytest

from threads import MOST, VARIABLES, ratio

INSIDE = """
import json, threading
import numpy as np
import kinbandits as kb
from threadpoolctl import threadpool_info, threadpool_limits

def numbers():
    return sorted({i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"})

def kernel(A, B):  # the user's, so that we see what is in force inside
    seen.update(numbers())
    return np.exp(-0.5 * ((A[:, None, :] - B[None, :, :]) ** 2).sum(2))

threadpool_limits(2, "blas")  # as on a machine with two processors
found = {"before": numbers()}
rng = np.random.default_rng(0)
policy = kb.KMTLUCB(3, similarity=kb.Known(np.eye(3)), context_kernel=kernel)
reader = None
x = rng.normal(size=2)

def update():
    policy.update(policy.choose(x), 1.0)

calls = {
    "observe": lambda: policy.observe([0, 1, 2] * 9, rng.normal(size=(27, 2)), rng.normal(size=27)),
    "choose": lambda: policy.choose(x, scores=True),
    "choose_many": lambda: policy.choose_many(rng.normal(size=(4, 2)), scores=True),
    "a decision's numbers": lambda: policy.choose(x).width,
    "update": update,
    "predict": lambda: policy.predict(x),
    "probabilities": lambda: policy.probabilities(x),
    "sample": lambda: policy.sample(x, 2),
    "covariance": lambda: policy.covariance(x),
    "explain_arm": lambda: policy.explain_arm(0, x),
    "frozen": lambda: policy.frozen().predict(x),
    "frozen choices": lambda: policy.frozen().propose(x[None, :], uniform=[[0.5, 0.5]]).arm,
}
for name, call in calls.items():
    seen = set()
    call()
    found[name] = [sorted(seen), numbers()]
try:
    policy.choose([1.0, 2.0, 3.0, np.nan])
except ValueError:
    found["after an error"] = [[1], numbers()]
print(json.dumps(found))
"""


def without_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in VARIABLES}


def test_one_thread_inside_every_call_and_the_users_number_outside() -> None:
    environment = without_variables() | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", INSIDE], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    before = found.pop("before")
    if before == [1]:
        pytest.skip("this BLAS has one thread")
    for call, (inside, after) in found.items():
        assert inside == [1], call
        assert after == before, call


def test_several_threads_inside_at_once() -> None:
    """The first in sets one thread, the last out restores: in between it stays at one, whoever leaves."""
    import numpy as np
    from threadpoolctl import threadpool_info, threadpool_limits

    import kinbandits as kb

    def numbers() -> set[int]:
        return {i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"}

    seen: list[set[int]] = []
    inside, leave = threading.Barrier(2, timeout=30), threading.Event()

    def slow(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        if waits:
            inside.wait()
            assert leave.wait(30)
            seen.append(numbers())
        return np.exp(-0.5 * ((A[:, None, :] - B[None, :, :]) ** 2).sum(2))

    waits = False
    policy = kb.KMTLUCB(2, similarity=kb.Pooled(), context_kernel=slow)
    other = kb.KMTLUCB(2)
    for p in (policy, other):
        p.observe([0, 1], [[0.0], [1.0]], [0.0, 1.0])
    with threadpool_limits(2, "blas"):
        before = numbers()
        waits = True
        thread = threading.Thread(target=lambda: policy.predict([0.5]))
        thread.start()
        inside.wait()
        waits = False
        other.predict([0.5])  # in and out while the first is inside
        assert numbers() == {1}
        leave.set()
        thread.join(30)
        assert seen == [{1}]
        assert numbers() == before


@pytest.mark.slow
def test_as_fast_without_thread_variables() -> None:
    """Beside a busy process; measured again where other work disturbed it."""
    found = [ratio(rounds=600, repeats=1)]
    while found[-1] > MOST and len(found) < 4:
        found.append(ratio(rounds=600, repeats=2))
    assert found[-1] <= MOST, found
