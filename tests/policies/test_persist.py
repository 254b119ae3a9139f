"""Saving and loading: a loaded policy goes on as if it had never stopped."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sk
from worlds import PROBE, picture, played

import kinbandits as kb
from kinbandits import errors
from kinbandits.policy import persist
from kinbandits.trace import Trace
from strategies import EXACT_ENGINES, SIMILARITIES, laplacian_of_differences

pytestmark = pytest.mark.numerical

FORMATS = Path(__file__).parents[1] / "formats"
engines = pytest.mark.parametrize("engine", ["naive", *EXACT_ENGINES])

CONTINUE = """
import json, sys
import numpy as np
import kinbandits as kb

def go_on(policy):
    rng = np.random.default_rng(77)
    seen = []
    for waiting in policy.pending():
        policy.update(waiting, 0.25 * waiting)
    for t in range(25):
        decision = policy.choose(rng.uniform(-1, 1, 3), scores=True)
        seen.append([decision.arm, decision.id, decision.propensity, decision.score])
        if t % 4:
            policy.update(decision, float(np.cos(t) * (decision.index + 1)))
    return {"seen": seen, "pending": policy.pending(), "draws": policy.rng.random(3).tolist()}

if __name__ == "__main__":
    print(json.dumps(go_on(kb.load(sys.argv[1]))))
"""


def go_on(policy: kb.KMTLUCB) -> Any:
    namespace: dict[str, Any] = {"__name__": "continue"}
    exec(CONTINUE, namespace)
    return json.loads(json.dumps(namespace["go_on"](policy)))


def same_game(one: Any, two: Any) -> None:
    """Same arms, ids, probabilities, open decisions and random numbers; scores to 1e-9."""
    assert [s[:3] for s in one["seen"]] == [s[:3] for s in two["seen"]]
    np.testing.assert_allclose([s[3] for s in one["seen"]], [s[3] for s in two["seen"]], rtol=1e-9, atol=1e-9)
    assert (one["pending"], one["draws"]) == (two["pending"], two["draws"])


def in_another_process(path: Path) -> Any:
    found = subprocess.run(
        [sys.executable, "-c", CONTINUE, str(path)], capture_output=True, text=True, check=True, env=os.environ
    )
    return json.loads(found.stdout)


@pytest.mark.parametrize("settings", [{}, {"weighting": "per_arm", "epsilon": 0.3, "exploration": 2.0}])
@pytest.mark.parametrize("similarity", ["independent", "known", "estimated"])
def test_loaded_in_another_process_in_the_middle_of_a_game(
    tmp_path: Path, similarity: str, settings: dict[str, Any]
) -> None:
    """With open decisions, ties, epsilon and the kernel still being read off the data."""
    policy = played(similarity, context_kernel=None, **settings)
    policy.retire_arm(2)
    policy.cancel(policy.pending()[1])
    assert policy.pending()
    path = tmp_path / "policy.kb"
    policy.save(path)
    same_game(in_another_process(path), go_on(policy))


@engines
@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_saved_and_loaded_is_the_same_policy(tmp_path: Path, engine: str, similarity: str) -> None:
    policy = played(similarity, engine=engine)
    before = picture(policy)
    policy.save(tmp_path / "a.kb")
    assert picture(policy) == before  # saving reads only
    loaded = kb.load(str(tmp_path / "a.kb"))
    assert type(loaded) is kb.KMTLUCB
    assert loaded.get_params() == policy.get_params()
    seen, found = before, picture(loaded)
    np.testing.assert_allclose(found.pop("mean"), seen.pop("mean"), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.pop("width"), seen.pop("width"), rtol=1e-9)
    assert found.pop("log_det") == pytest.approx(seen.pop("log_det"), rel=1e-12)
    assert found == seen
    same_game(go_on(loaded), go_on(policy))


def test_rewarded_decisions_are_remembered_across_files(tmp_path: Path) -> None:
    policy = played()
    decision = policy.choose(PROBE[0, 0])
    policy.update(decision, 0.5)
    policy.save(tmp_path / "a.kb")
    loaded = kb.load(tmp_path / "a.kb")
    loaded.update(decision.id, 0.5)
    with pytest.raises(errors.RewardConflictError):
        loaded.update(decision.id, 0.6)
    loaded.update(decision, 0.5)  # the object of the saved policy still names the decision


def test_an_empty_policy_and_one_with_all_settings(tmp_path: Path) -> None:
    everything: dict[str, Any] = {
        "context_kernel": 0.5 * kb.RBF((1.0, 2.0)) + kb.Matern(nu=1.5) * kb.Linear() + kb.kernels.Constant(0.1),
        "similarity": kb.Known(kb.RBF(0.5), [[0.0, 1.0], [1.0, 1.0]]),
        "ridge": 0.3,
        "exploration": 0.0,
        "weighting": "per_arm",
        "cold_start": "borrow",
        "rewards": kb.Range(-1.0, 3.0),
        "epsilon": 0.25,
        "tie_break": "first",
        "seed": 12,
        "pending": kb.Pending(most=7, forget_after=5),
    }
    for policy in (kb.KMTLUCB(["a", "b"]), kb.KMTLUCB(["a", 7], **everything)):
        policy.save(tmp_path / "p.kb")
        loaded = kb.load(tmp_path / "p.kb")
        assert loaded.get_params() == policy.get_params()
        assert loaded.arms == policy.arms
        assert loaded.choose([0.0, 0.0]).arm == policy.choose([0.0, 0.0]).arm
    hybrid = kb.baselines.LinUCB(3, sharing="hybrid", shared_columns=[0], arm_columns=[1, 2])
    hybrid.observe([0, 1], [[1.0, 2.0, 3.0], [0.0, 1.0, 0.0]], [1.0, 0.0])
    hybrid.save(tmp_path / "h.kb")
    assert kb.load(tmp_path / "h.kb").terms == hybrid.terms


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_every_random_generator_of_numpy_resumes(tmp_path: Path, kind: str) -> None:
    policy = kb.KMTLUCB(5, seed=np.random.Generator(getattr(np.random, kind)(3)))
    policy.choose_many(np.zeros((7, 1, 1)))
    policy.save(tmp_path / "p.kb")
    rounds = np.zeros((50, 1, 1))
    assert kb.load(tmp_path / "p.kb").choose_many(rounds).arm == policy.choose_many(rounds).arm


# -- callables ----------------------------------------------------------------------------------------


def other_kernel(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * np.abs(A[:, None, :] - B[None, :, :]).sum(axis=2))


def test_a_callable_kernel_is_given_again(tmp_path: Path) -> None:
    policy = played(context_kernel=laplacian_of_differences)
    path = tmp_path / "p.kb"
    policy.save(path)
    with pytest.raises(TypeError, match=r"not ours, 'laplacian_of_differences'.*kb.load\(path, context_kernel=f\)"):
        kb.load(path)
    with pytest.raises(TypeError, match="but context_kernel= is 'other_kernel'"):
        kb.load(path, context_kernel=other_kernel)
    loaded = kb.load(path, context_kernel=laplacian_of_differences)
    renamed = kb.load(
        path, context_kernel={"laplacian_of_differences": lambda A, B: laplacian_of_differences(A, B)}
    )
    wanted = go_on(policy)
    same_game(go_on(loaded), wanted)
    same_game(go_on(renamed), wanted)


def test_several_callables_are_given_again_by_name(tmp_path: Path) -> None:
    policy = played(kb.Estimated(0.4, other_kernel), context_kernel=laplacian_of_differences)
    policy.save(tmp_path / "p.kb")
    with pytest.raises(TypeError, match="not ours, 'other_kernel'"):
        kb.load(tmp_path / "p.kb", context_kernel=laplacian_of_differences)
    both = {f.__name__: f for f in (laplacian_of_differences, other_kernel)}
    same_game(go_on(kb.load(tmp_path / "p.kb", context_kernel=both)), go_on(policy))


def test_a_callable_without_a_name_is_refused_when_saving(tmp_path: Path) -> None:
    policy = kb.KMTLUCB(2, context_kernel=lambda A, B: A @ B.T)
    with pytest.raises(TypeError, match=r"cannot save the kernel .*lambda.* it has no name"):
        policy.save(tmp_path / "p.kb")
    assert list(tmp_path.iterdir()) == []


def test_a_scikit_learn_kernel_is_known_by_its_repr(tmp_path: Path) -> None:
    policy = played(context_kernel=sk.RBF(0.7) + sk.ConstantKernel(0.5))
    policy.save(tmp_path / "p.kb")
    with pytest.raises(TypeError, match="but context_kernel= is 'RBF"):
        kb.load(tmp_path / "p.kb", context_kernel=sk.RBF(0.8))
    loaded = kb.load(tmp_path / "p.kb", context_kernel=sk.RBF(0.7) + sk.ConstantKernel(0.5))
    same_game(go_on(loaded), go_on(policy))


def test_a_schedule_is_given_again(tmp_path: Path) -> None:
    policy = played(exploration=lambda t: 1.0 / t)
    policy.save(tmp_path / "p.kb")
    with pytest.raises(TypeError, match=r"kb.load\(path, exploration=f\)"):
        kb.load(tmp_path / "p.kb")
    same_game(go_on(kb.load(tmp_path / "p.kb", exploration=lambda t: 1.0 / t)), go_on(policy))


# -- damaged, foreign, newer ----------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "policy.kb"
    played().save(path)
    return path


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(path: Path, *, checksum: bool = True, **changes: Any) -> None:
    """The same file with some of policy.json changed, and a checksum that fits (or not)."""
    import hashlib

    parts = members(path)
    data = json.loads(parts["policy.json"]) | changes
    text = json.dumps(data).encode()
    if checksum:
        parts["checksum"] = hashlib.sha256(text + parts["arrays.npz"]).hexdigest().encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (parts | {"policy.json": text}).items():
            archive.writestr(name, content)


def test_a_file_is_arrays_and_json_and_no_pickle(saved: Path) -> None:
    parts = members(saved)
    assert set(parts) == {"policy.json", "arrays.npz", "checksum"}
    data = json.loads(parts["policy.json"])
    assert (data["format"], data["version"]) == ("kinbandits policy", 1)
    with np.load(io.BytesIO(parts["arrays.npz"]), allow_pickle=False) as arrays:
        assert arrays["rewards"].dtype == np.float64
    for content in parts.values():
        assert b"cnumpy" not in content


def test_a_truncated_file_is_refused_wherever_it_ends(saved: Path) -> None:
    whole = saved.read_bytes()
    for share in (0.0, 0.01, 0.3, 0.6, 0.9, 0.999):
        saved.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(errors.FormatError, match=r"policy\.kb is"):
            kb.load(saved)


def test_a_damaged_byte_is_noticed(saved: Path) -> None:
    whole = bytearray(saved.read_bytes())
    step = max(len(whole) // 60, 1)
    before = picture(kb.load(saved))
    for i in range(0, len(whole), step):
        damaged = whole.copy()
        damaged[i] ^= 0xFF
        saved.write_bytes(bytes(damaged))
        try:
            loaded = kb.load(saved)
        except errors.FormatError:
            continue
        assert picture(loaded) == before, f"byte {i}"  # a time stamp of the archive, say


def test_changed_content_does_not_fit_the_checksum(saved: Path) -> None:
    rewrite(saved, checksum=False, retired=[1])
    with pytest.raises(errors.FormatError, match="its checksum does not fit its content; restore it from a copy"):
        kb.load(saved)


def test_a_newer_version_says_upgrade(saved: Path) -> None:
    rewrite(saved, version=99, written_by="9.9")
    with pytest.raises(
        errors.FormatError, match=r"format version 99, written by kinbandits 9\.9.*Upgrade kinbandits"
    ):
        kb.load(saved)


def test_unknown_things_in_a_file_are_named(saved: Path) -> None:
    kept = saved.read_bytes()
    for changes, text in [
        ({"format": "something else"}, "is a 'something else' file, not a saved policy"),
        ({"policy": "NoSuchPolicy"}, "a policy of class 'NoSuchPolicy', which is not known here"),
        ({"rng": {"bit_generator": "default_rng"}}, "a random generator 'default_rng'"),
        ({"fitted": {"type": "NoSuchKernel"}}, "a value of type 'NoSuchKernel'"),
    ]:
        saved.write_bytes(kept)
        rewrite(saved, **changes)
        with pytest.raises(errors.FormatError, match=text):
            kb.load(saved)


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    text, archive, folder = tmp_path / "a.txt", tmp_path / "a.npz", tmp_path / "folder"
    text.write_text("not a policy")
    np.savez(archive, x=np.zeros(3))
    folder.mkdir()
    for path in (text, archive, folder):
        with pytest.raises(errors.FormatError, match="is not a saved kinbandits policy, or it is damaged"):
            kb.load(path)
    with pytest.raises(errors.FormatError, match="there is no file"):
        kb.load(tmp_path / "nothing.kb")


def test_a_failed_save_leaves_the_old_file_and_no_litter(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved.read_bytes()

    def no_space(descriptor: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="no space"):
        played(rounds=16).save(saved)
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == ["policy.kb"]


# -- past versions ----------------------------------------------------------------------------------------


def test_format_version_1_is_still_read() -> None:
    """Written by release 0.1 (tests/formats/policy-v1.json tells what it went on to do)."""
    policy = kb.load(FORMATS / "policy-v1.kb")
    wanted = json.loads((FORMATS / "policy-v1.json").read_text())
    assert policy.arms == wanted["arms"]
    assert [n for n in policy.arms if n in policy.retired] == wanted["retired"]
    same_game(go_on(policy), wanted["went_on"])


def test_a_missing_file_or_folder_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.kb", tmp_path / "nowhere" / "none.kb"):
        for load in (kb.load, Trace.load):
            with pytest.raises(FileNotFoundError, match=r"there is no file .*none\.kb") as caught:
                load(path)
            assert isinstance(caught.value, errors.FormatError)
    trace = Trace.of({"t": [0], "regret": [1.0]})
    for save in (kb.KMTLUCB(2).save, trace.save, trace.to_csv):
        with pytest.raises(FileNotFoundError, match=r"no such directory: .*nowhere") as missing:
            save(tmp_path / "nowhere" / "file.kb")
        assert "partial" not in str(missing.value)


OLD = {
    "ceiling": ({"ceiling": 0.7, "exploration": 0.2}, {"exploration": kb.UCB(0.2, ceiling=0.7)}),
    "range": ({"reward_range": [-1.0, 3.0], "reward_scaling": None}, {"rewards": kb.Range(-1.0, 3.0)}),
    "one of n": ({"rewards": "one_of_n"}, {"rewards": kb.OneOfN()}),
    "sampling": (
        {"exploration": {"type": "PosteriorSampling", "scale": 0.5}},
        {"exploration": kb.Thompson(scale=0.5)},
    ),
    "constant": ({"exploration": {"type": "ConstantExploration", "value": 0.3}}, {"exploration": 0.3}),
    "budgeted": ({"engine": "budgeted", "budget": 64}, {"engine": kb.Budgeted(points=64)}),
    "lagged": ({"engine": "lagged", "budget": 256}, {"engine": "exact"}),
    "pending": ({"max_pending": 7, "forget_after": 3}, {"pending": kb.Pending(most=7, forget_after=3)}),
}


@pytest.mark.parametrize("case", OLD)
def test_settings_of_earlier_releases_are_read(case: str) -> None:
    old, new = OLD[case]
    data, arrays = persist.to_data(kb.KMTLUCB(3, context_kernel=kb.RBF(), engine=new.get("engine", "auto")))
    del data["params"]["pending"]
    data["params"] |= {"max_pending": 100, "forget_after": None} | old
    loaded = persist.from_data(data, arrays)
    assert {name: loaded.get_params()[name] for name in new} == new
    assert loaded.choose([0.1]).arm in (0, 1, 2)


def test_a_running_range_of_an_earlier_release_goes_on(tmp_path: Path) -> None:
    policy = kb.KMTLUCB(2, context_kernel=kb.RBF(), rewards=kb.Running())
    policy.observe([0, 1], [[0.0], [1.0]], [3.0, 9.0])
    data, arrays = persist.to_data(policy)
    data["params"] = {n: v for n, v in data["params"].items() if n != "rewards"} | {"reward_scaling": "running"}
    np.testing.assert_array_equal(persist.from_data(data, arrays).predict([0.2]).mean, policy.predict([0.2]).mean)


def test_baselines_are_known_again(tmp_path: Path) -> None:
    for policy in (
        kb.baselines.LinUCB(3),
        kb.baselines.LinUCB(3, sharing="hybrid"),
        kb.baselines.UCB1(3),
        kb.baselines.GOBLin(3, graph=np.ones((3, 3)) - np.eye(3)),
        kb.baselines.CGPUCB(3, context_kernel=kb.RBF(), similarity=kb.Mixed(0.5), composition="sum"),
        kb.baselines.SupLinUCB(3, horizon=9),
        kb.contrib.CLUB(3),
    ):
        policy.update(policy.choose([0.5, 1.0]), 1.0)
        policy.save(tmp_path / "p.kb")
        loaded = kb.load(tmp_path / "p.kb")
        assert type(loaded) is type(policy)
        assert loaded.get_params() == policy.get_params()
        np.testing.assert_allclose(loaded.predict([0.5, 0.0]).mean, policy.predict([0.5, 0.0]).mean)


def test_a_policy_of_yours_with_the_name_of_ours_is_another(tmp_path: Path) -> None:
    ours = kb.KMTLUCB(2)
    ours.save(tmp_path / "p.kb")

    class KMTLUCB(kb.KMTLUCB):
        pass

    try:
        assert type(kb.load(tmp_path / "p.kb")) is type(ours)
        KMTLUCB(2).save(tmp_path / "p.kb")
        assert type(kb.load(tmp_path / "p.kb")) is KMTLUCB
    finally:
        del kb.policies.Policy.kinds[KMTLUCB.kind]


def test_a_schedule_within_a_rule_is_given_again(tmp_path: Path) -> None:
    def falling(t: int) -> float:
        return 1.0 / t

    policy = kb.KMTLUCB(2, context_kernel=kb.RBF(), exploration=kb.UCB(falling, ceiling=1.0))
    policy.save(tmp_path / "p.kb")
    with pytest.raises(TypeError, match=r"exploration \(falling\); give it again: kb\.load\(path, exploration=f\)"):
        kb.load(tmp_path / "p.kb")
    assert kb.load(tmp_path / "p.kb", exploration=falling).exploration == policy.exploration
