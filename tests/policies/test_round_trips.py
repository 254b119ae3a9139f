"""Saved, copied, pickled: from any halfway state a policy goes on as it would have. And files that do not fit."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import pickle
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.errors import FormatError, KinbanditsError, UnknownDecisionError
from strategies import LEARNED, picture, play, random_rows, same_numbers

DESCRIBED = kb.Known(descriptors=[0.0, 0.3, 1.0, 2.0])
FIXED: dict[str, Any] = {"context_kernel": kb.RBF(0.8), "ridge": 0.1, "rewards": None}
POLICIES: dict[str, Callable[[], Any]] = {
    "default": lambda: kb.KMTLUCB(4, seed=3),
    "learned from descriptors": lambda: kb.KMTLUCB(4, similarity=LEARNED["learned from descriptors"](4)),
    "estimated": lambda: kb.KMTLUCB(4, similarity=kb.Estimated(0.4), weighting="per_arm", epsilon=0.2, **FIXED),
    "naive": lambda: kb.KMTLUCB(4, similarity=DESCRIBED, engine="naive", **FIXED),
    "Thompson": lambda: kb.KMTLUCB(4, similarity=DESCRIBED, exploration=kb.Thompson(200)),
    "inverse gap": lambda: kb.KMTLUCB(4, similarity=kb.Mixed(0.3), exploration=kb.InverseGap(7.0, optimism=0.5)),
    "window": lambda: kb.KMTLUCB(4, memory=kb.Window(20)),
    "a range": lambda: kb.KMTLUCB(4, rewards=(-1.0, 3.0), exploration=kb.rules.Logarithmic(0.2)),
    "budgeted": lambda: kb.KMTLUCB(4, similarity=kb.Mixed(0.4), engine=kb.Budgeted(points=16), **FIXED),
    "budgeted, later": lambda: kb.KMTLUCB(4, engine=kb.Budgeted(points=16, after=30)),
    "hybrid": lambda: kb.baselines.lin_ucb(4, sharing="hybrid", shared_columns=[0], arm_columns=[1, 2]),
    "BetaThompson": lambda: kb.baselines.BetaThompson(4),
    "sup": lambda: kb.SupKMTLUCB(4, horizon=300, similarity=kb.Mixed(0.5), ridge=0.1),
}


def a_new_arm(policy: Any) -> None:
    policy.add_arm(
        "new",
        **({"descriptor": [0.5]} if getattr(policy, "similarity", None) and policy.similarity.describes_arms else {}),
    )


STATES: dict[str, Callable[[Any], object]] = {
    "fresh": lambda p: None,
    "open decisions": lambda p: play(p, 12),
    "after a refit": lambda p: play(p, 45),
    "an arm retired": lambda p: (play(p, 24), p.retire_arm(1)),
    "an arm removed": lambda p: (play(p, 24), p.remove_arm(1)),
    "an arm added": lambda p: (play(p, 24), a_new_arm(p)),
}


def loaded(policy: Any, folder: Path) -> Any:
    policy.save(folder / "policy.kb")
    return kb.load(folder / "policy.kb")


WAYS: dict[str, Callable[[Any, Path], Any]] = {
    "load": loaded,
    "pickle": lambda p, _: pickle.loads(pickle.dumps(p)),
    "deepcopy": lambda p, _: copy.deepcopy(p),
    "copy": lambda p, _: p.copy(),
}


CASES = [(name, state) for name in POLICIES for state in STATES]
CASES = [case for case in CASES if case not in (("sup", "an arm removed"), ("sup", "an arm added"))]  # it cannot


@pytest.mark.filterwarnings("ignore::kinbandits.errors.BudgetWarning")
@pytest.mark.parametrize(("name", "state"), CASES)
def test_it_goes_on_as_it_would_have(name: str, state: str, tmp_path: Path) -> None:
    policy = POLICIES[name]()
    STATES[state](policy)
    late, many = policy.choose([0.3, 0.1, 0.2]), policy.choose_many(np.eye(3))
    open_now, before = policy.pending(), picture(policy)
    twins = [way(policy, tmp_path) for way in WAYS.values()]
    for twin in twins:
        assert type(twin) is type(policy)
        assert twin.pending() == open_now
        assert twin.retired == policy.retired
        assert twin.n_observations == policy.n_observations
        same_numbers(twin, policy, 1e-7)
    rounds = 5 if name == "BetaThompson" else 30  # its probabilities are integrals
    rows = random_rows(seed=5, n_arms=4, t=rounds)
    for x, reward in zip(rows.contexts, np.clip(rows.rewards, 0.0, 1.0), strict=True):
        wanted = policy.choose(x)
        for twin in twins:
            found = twin.choose(x)
            assert (found.id, found.arm, found.index) == (wanted.id, wanted.arm, wanted.index)
            assert found.propensity == pytest.approx(wanted.propensity, rel=1e-6)
        for one, decision in [(policy, wanted), *((t, wanted) for t in twins)]:
            one.update(decision, float(reward))  # a decision is one of each copy
    for one in (policy, *twins):
        one.update(late, 0.5)  # made before
        one.update(many[1], 0.25)
        one.update(many[2].id, 0.75)
    for twin in twins:
        same_numbers(twin, policy, 1e-6)
        assert twin.get_params() == policy.get_params()
        if hasattr(policy, "model"):
            assert str(twin.model) == str(policy.model)
    assert before["decisions"] == policy.n_decisions - rounds
    stranger = POLICIES[name]()
    stranger.choose([0.3, 0.1, 0.2])
    with pytest.raises(UnknownDecisionError, match="another policy"):
        stranger.update(late, 1.0)


@pytest.mark.parametrize("name", ["default", "Thompson", "naive", "window"])
def test_a_frozen_one_reads_and_is_copied(name: str, tmp_path: Path) -> None:
    policy = POLICIES[name]()
    play(policy, 45)
    reader = policy.frozen()
    rng = str(policy.rng.bit_generator.state)
    for twin in (reader, pickle.loads(pickle.dumps(reader)), copy.deepcopy(reader)):
        same_numbers(twin, policy)
        found = twin.propose(np.eye(3), uniform=np.full((3, 2), 0.4))
        assert found.arm == policy.propose(np.eye(3), uniform=np.full((3, 2), 0.4)).arm
        twin.choose([0.1, 0.2, 0.3])
        twin.sample([0.1, 0.2, 0.3], 2)
        with pytest.raises(TypeError, match="a frozen policy does not learn"):
            twin.observe([0], [[0.1, 0.2, 0.3]], [1.0])
    assert str(policy.rng.bit_generator.state) == rng
    before = reader.predict([0.1, 0.2, 0.3])
    play(policy, 20)  # the one it came from learns on
    np.testing.assert_array_equal(reader.predict([0.1, 0.2, 0.3]).mean, before.mean)


def test_the_same_policy_gives_the_same_bytes(tmp_path: Path) -> None:
    policy = POLICIES["default"]()
    play(policy)
    for name in "ab":
        policy.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_function_is_not_saved_and_a_value_of_the_users_is(tmp_path: Path) -> None:
    policy = kb.KMTLUCB(2, exploration=lambda t: 1.0 / t)
    with pytest.raises(TypeError, match="a file holds no functions"):
        policy.save(tmp_path / "p.kb")
    assert not list(tmp_path.iterdir())

    class Halving(kb.rules.Schedule):
        def at(self, t: int, state: Any) -> float:
            return 0.5**t

    policy = kb.KMTLUCB(2, exploration=Halving())
    assert loaded(policy, tmp_path).choose([0.1]).exploration == 0.5


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_any_random_generator_goes_on(kind: str, tmp_path: Path) -> None:
    policy = kb.KMTLUCB(7, seed=np.random.Generator(getattr(np.random, kind)(4)))
    policy.choose([0.1])
    again = loaded(policy, tmp_path)
    assert again.choose_many(np.zeros((20, 1))).arm == policy.choose_many(np.zeros((20, 1))).arm


# -- files that do not fit --------------------------------------------------------------------------


def parts(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    with zipfile.ZipFile(path) as archive, np.load(io.BytesIO(archive.read("arrays.npz"))) as arrays:
        return json.loads(archive.read("policy.json")), dict(arrays)


def sealed(path: Path, data: Any, arrays: dict[str, np.ndarray]) -> None:
    """A file with a right checksum."""
    text, buffer = json.dumps(data).encode(), io.BytesIO()
    np.savez(buffer, **arrays)
    packed = buffer.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("policy.json", text)
        archive.writestr("arrays.npz", packed)
        archive.writestr("checksum", hashlib.sha256(text + packed).hexdigest())


def places(data: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key in data if isinstance(data, dict) else range(min(2, len(data))) if isinstance(data, list) else ():
        yield (*before, key)
        yield from places(data[key], (*before, key))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    policy = kb.KMTLUCB(["a", "b", "c"], similarity=kb.Known(descriptors=[[0.0], [1.0], [2.0]]))
    rng = np.random.default_rng(0)
    for _ in range(30):
        policy.update(policy.choose(rng.normal(size=2)), rng.normal())
    policy.choose([1.0, 2.0])
    policy.retire_arm("c")
    policy.save(tmp_path / "p.kb")
    return tmp_path / "p.kb"


def test_damaged_and_foreign_files(saved: Path) -> None:
    whole = saved.read_bytes()
    for content in (b"", b"no zip", whole[:200], whole[:-30], b"PK\x03\x04" + bytes(300)):
        saved.write_bytes(content)
        with pytest.raises(FormatError):
            kb.load(saved)
    refused = 0
    for place in range(30, len(whole) - 60, 97):
        saved.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            kb.load(saved)
        except FormatError:
            refused += 1
    assert refused > 20
    with pytest.raises(FileNotFoundError, match="there is no file"):
        kb.load(saved.parent / "none.kb")
    saved.write_bytes(whole)
    data, arrays = parts(saved)
    for key, value, words in (
        ("version", 2, "format version 2, written by"),
        ("format", "else", "no saved policy"),
        ("policy", "somebody:Else", "import the module that defines it"),
    ):
        sealed(saved, data | {key: value}, arrays)
        with pytest.raises(FormatError, match=words):
            kb.load(saved)


def opened(path: Path) -> bool:
    """Whether it is a policy, which then works; False if it was refused as it should be."""
    try:
        policy = kb.load(path)
    except FormatError:
        return False
    try:
        assert all(np.isfinite(part).all() for part in policy.predict([0.0, 1.0]))
        policy.update(policy.choose([0.3, 0.4]), 0.5)
    except KinbanditsError:
        pass
    return True


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_file_that_does_not_fit_together_is_refused_in_words(saved: Path) -> None:
    data, arrays = parts(saved)
    sealed(saved, data, arrays)
    assert opened(saved)
    wrong = []
    for place in places(data):
        for value in ("nothing", "x", -1, [], None):
            other = copy.deepcopy(data)
            inner = other
            for key in place[:-1]:
                inner = inner[key]
            if value == "nothing":
                del inner[place[-1]]
            else:
                inner[place[-1]] = value
            sealed(saved, other, arrays)
            try:
                opened(saved)
            except Exception as error:
                wrong.append(f"{place} is {value!r}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)


def test_a_file_without_a_part_is_refused(saved: Path) -> None:
    data, arrays = parts(saved)
    for key in ("format", "version", "policy", "params", "ledger", "rng", "owner", "learned", "retired"):
        sealed(saved, {k: v for k, v in data.items() if k != key}, arrays)
        with pytest.raises(FormatError):
            kb.load(saved)
    for name in arrays:
        sealed(saved, data, {n: a for n, a in arrays.items() if n != name})
        with pytest.raises(FormatError):
            kb.load(saved)
    sealed(saved, [data], arrays)
    with pytest.raises(FormatError):
        kb.load(saved)


def test_tables_of_a_file_are_checked(saved: Path) -> None:
    data, arrays = parts(saved)
    changes: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "short": lambda a: a[:-1],
        "text": lambda a: a.astype(str),
        "of more dimensions": lambda a: a[None],
        "far": lambda a: a - 1000,
        "NaN": lambda a: np.where(np.arange(a.size).reshape(a.shape) == 0, np.nan, a),
    }
    accepted = []
    for name, array in arrays.items():
        if name.startswith("value"):
            continue  # fields of settings, which are checked as such
        for kind, change in changes.items():
            if (kind == "far" and not name.endswith("arms")) or (
                kind == "NaN" and not name.endswith(("contexts", "rewards"))
            ):
                continue
            if name.startswith("closed"):
                continue  # numbers of decisions of long ago
            sealed(saved, data, arrays | {name: change(array)})
            try:
                kb.load(saved)
                accepted.append(f"{name} {kind}")
            except FormatError:
                pass
    assert not accepted
