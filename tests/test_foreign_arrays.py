"""Arrays of other programs work as float64 does, or are refused in words, at every public entry point."""

from __future__ import annotations

import decimal
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.errors import KinbanditsError

NATIVE = np.dtype(np.float64)
Maker = Callable[[np.ndarray, Path], Any]


def loaded_from_matlab(a: np.ndarray, order: str) -> Any:
    io_ = pytest.importorskip("scipy.io")
    file = io.BytesIO()
    io_.savemat(file, {"x": a.astype(np.dtype(NATIVE).newbyteorder(order))})
    file.seek(0)
    return io_.loadmat(file)["x"].reshape(a.shape)


def from_bytes(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return np.frombuffer(a.astype(dtype).tobytes(), dtype=dtype).reshape(a.shape)


def memory_map(a: np.ndarray, folder: Path) -> np.ndarray:
    np.save(folder / "a.npy", a)
    return np.load(folder / "a.npy", mmap_mode="r")


def strided(a: np.ndarray) -> np.ndarray:
    wide = np.full((*a.shape, 2), np.nan)
    wide[..., 0] = a
    return wide[..., 0]


def read_only(a: np.ndarray) -> np.ndarray:
    a = a.copy()
    a.setflags(write=False)
    return a


def in_object(a: np.ndarray, kind: Callable[[float], Any]) -> np.ndarray:
    found = np.empty(a.shape, dtype=object)
    found[...] = np.vectorize(kind, otypes=[object])(a)
    return found


READ: dict[str, Maker] = {
    "lists": lambda a, _: a.tolist(),
    "tuples": lambda a, _: tuple(map(tuple, a.tolist())) if a.ndim == 2 else tuple(a.tolist()),
    "little endian": lambda a, _: a.astype("<f8"),
    "big endian": lambda a, _: a.astype(">f8"),
    "little, said": lambda a, _: a.astype(NATIVE.newbyteorder("<")),
    "big, said": lambda a, _: a.astype(NATIVE.newbyteorder(">")),
    "a buffer": lambda a, _: from_bytes(a, NATIVE),
    "a buffer, little": lambda a, _: from_bytes(a, NATIVE.newbyteorder("<")),
    "a buffer, big": lambda a, _: from_bytes(a, NATIVE.newbyteorder(">")),
    "MATLAB": lambda a, _: loaded_from_matlab(a, "<"),
    "MATLAB, big endian": lambda a, _: loaded_from_matlab(a, ">"),
    "strides": lambda a, _: strided(a),
    "backwards": lambda a, _: a[..., ::-1].copy()[..., ::-1],
    "Fortran": lambda a, _: np.asfortranarray(a),
    "read-only": lambda a, _: read_only(a),
    "memory map": memory_map,
    "float32": lambda a, _: a.astype(np.float32),
    "float16, big": lambda a, _: a.astype(">f2"),
    "long double": lambda a, _: a.astype(np.longdouble),
    "int8": lambda a, _: a.astype(np.int8),
    "uint16, big": lambda a, _: a.astype(">u2"),
    "int64": lambda a, _: a.astype(np.int64),
    "object of floats": lambda a, _: in_object(a, float),
    "object of decimals": lambda a, _: in_object(a, lambda v: decimal.Decimal(str(v))),
    "list of arrays": lambda a, _: [np.asarray(v, dtype=">f8") for v in a],
    "unmasked": lambda a, _: np.ma.masked_array(a),
}
REFUSED: dict[str, Maker] = {
    "object of text": lambda a, _: in_object(a, str),
    "text": lambda a, _: a.astype(str),
    "list of text": lambda a, _: np.vectorize(str)(a).tolist(),
    "bytes": lambda a, _: a.astype("S"),
    "one text in an object": lambda a, _: with_last(in_object(a, float), "1"),
    "None": lambda a, _: with_last(in_object(a, float), None),
    "masked": lambda a, _: np.ma.masked_array(a, np.arange(a.size).reshape(a.shape) == a.size - 1),
    "complex": lambda a, _: a.astype(complex),
    "dates": lambda a, _: a.astype("M8[D]"),
    "NaN": lambda a, _: with_last(a.copy(), np.nan),
    "infinity": lambda a, _: with_last(a.astype(np.float32), np.inf),
    "huge": lambda a, _: with_last(in_object(a, int), 10**400),
    "too large": lambda a, _: with_last(a.copy(), 1e60),
    "a function": lambda a, _: len,
    "a set": lambda a, _: {1.0, 2.0},
}


def with_last(a: np.ndarray, value: Any) -> np.ndarray:
    a[(-1,) * a.ndim] = value
    return a


X = np.array([[1.0, 4.0, 2.0], [3.0, 0.0, 5.0], [7.0, 1.0, 1.0], [2.0, 2.0, 6.0]])  # whole: every dtype holds them
Y = np.array([1.0, 0.0, 3.0, 2.0])
S = np.array([[3.0, 1.0, 0.0, 0.0], [1.0, 3.0, 1.0, 0.0], [0.0, 1.0, 3.0, 1.0], [0.0, 0.0, 1.0, 3.0]])


def a_policy() -> kb.KMTLUCB:
    policy = kb.KMTLUCB(
        4, similarity=kb.Mixed(0.5), context_kernel=kb.RBF(2.0), ridge=0.1, exploration=0.5, rewards=None
    )
    policy.observe([0, 1, 2, 3], X, Y)
    return policy


def scores(policy: kb.KMTLUCB) -> np.ndarray:
    mean, width = policy.predict(X[2])
    return np.concatenate([mean, width])


def observed(contexts: Any, rewards: Any) -> np.ndarray:
    policy = a_policy()
    for _ in range(3):  # the second time the features are known
        policy.observe([3, 2, 1, 0], contexts, rewards)
    return scores(policy)


def updated(contexts: Any) -> np.ndarray:
    policy = a_policy()
    for _ in range(3):
        policy.update(policy.choose(contexts), 1.0)
    return scores(policy)


def rewarded(rewards: Any) -> np.ndarray:
    policy = a_policy()
    for reward in rewards:
        policy.update(policy.choose(X[0]), reward)
    return scores(policy)


def known(**what: Any) -> np.ndarray:
    policy = kb.KMTLUCB(
        4, similarity=kb.Known(**what), context_kernel=kb.RBF(2.0), ridge=0.1, exploration=0.5, rewards=None
    )
    policy.observe([0, 1, 2, 3], X, Y)
    return scores(policy)


def explained(context: Any) -> list[float]:
    found = a_policy().explain_arm(1, context)
    return [found.mean, found.width, *found.contributions.values()]


ENTRIES: dict[str, tuple[np.ndarray, Callable[[Any], Any]]] = {
    "choose (d,)": (X[1], lambda a: a_policy().choose(a, scores=True).scores),
    "choose (k, d)": (X, lambda a: a_policy().choose(a, scores=True).scores),
    "choose_many": (X, lambda a: a_policy().choose_many(a, scores=True).scores),
    "choose, the first time": (X[1], lambda a: kb.KMTLUCB(4).choose(a, scores=True).scores),
    "update": (X[1], updated),
    "predict": (X[1], lambda a: a_policy().predict(a).mean),
    "probabilities": (X[1], lambda a: a_policy().probabilities(a)),
    "sample": (X[1], lambda a: a_policy().sample(a, 2)),
    "covariance": (X[1], lambda a: a_policy().covariance(a)),
    "explain_arm": (X[1], explained),
    "observe contexts": (X, lambda a: observed(a, Y)),
    "observe rewards": (Y, lambda a: observed(X, a)),
    "the reward of update": (Y, rewarded),
    "Known(matrix)": (S, lambda a: known(matrix=a)),
    "Known(descriptors)": (X, lambda a: known(descriptors=a)),
    "Known(one descriptor)": (Y, lambda a: known(descriptors=a)),
    "Graph": (S, lambda a: kb.Graph(a).adjacency),
}


@pytest.mark.parametrize("kind", READ)
@pytest.mark.parametrize("entry", ENTRIES)
def test_works_as_float64_does(entry: str, kind: str, tmp_path: Path) -> None:
    array, call = ENTRIES[entry]
    given = READ[kind](array, tmp_path)
    np.testing.assert_array_equal(call(given), call(array))


NO_REWARDS = ("a function", "a set", "too large")  # of which none is a sequence of rewards


@pytest.mark.parametrize(
    ("entry", "kind"), [(e, k) for e in ENTRIES for k in REFUSED if e != "the reward of update" or k not in NO_REWARDS]
)
def test_is_refused_in_words(entry: str, kind: str, tmp_path: Path) -> None:
    array, call = ENTRIES[entry]
    with pytest.raises(KinbanditsError) as caught:
        call(REFUSED[kind](array, tmp_path))
    assert isinstance(caught.value, ValueError | TypeError | LookupError)
    assert len(str(caught.value)) > 20
    assert "\n" not in str(caught.value)


def test_a_matrix_of_old_numpy_is_two_dimensional() -> None:
    with pytest.warns(PendingDeprecationWarning):
        given = np.matrix(X)
    assert a_policy().choose_many(given).arm == a_policy().choose_many(X).arm


@pytest.mark.parametrize("kind", ["csr_matrix", "coo_array", "csc_matrix"])
def test_sparse_is_refused_with_the_way_out(kind: str) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(TypeError, match=r"sparse matrix .*toarray\(\)"):
        a_policy().choose_many(getattr(sparse, kind)(X))


def frames(columns: list[Any], rows: np.ndarray = X) -> dict[str, Any]:
    found: dict[str, Any] = {}
    pandas = pytest.importorskip("pandas")
    found["pandas"] = pandas.DataFrame(rows, columns=columns)
    if all(isinstance(c, str) for c in columns):
        values = {c: rows[:, i].tolist() for i, c in enumerate(columns)}
        found["polars"] = pytest.importorskip("polars").DataFrame(values)
        found["pyarrow"] = pytest.importorskip("pyarrow").table(values)
        found["dict"] = values
        found["dict of arrays"] = {c: rows[:, i].astype(">f8") for i, c in enumerate(columns)}
    return found


TABLES = ["choose (k, d)", "choose_many", "observe contexts", "Known(descriptors)"]


@pytest.mark.parametrize("columns", [[0, 1, 2], [7, "b", 3], ["0", "1", "2"], ["a", "b", "c"]], ids=str)
@pytest.mark.parametrize("entry", TABLES)
def test_frames_whatever_their_columns_are_called(entry: str, columns: list[Any]) -> None:
    _, call = ENTRIES[entry]
    for library, frame in frames(columns).items():
        if entry == "Known(descriptors)" and library.startswith("dict"):
            continue  # there a dict holds arms
        np.testing.assert_array_equal(call(frame), call(X), err_msg=library)


def test_a_frame_of_another_order_is_put_in_order() -> None:
    for columns in ([0, 1, 2], ["a", "b", "c"]):
        for library, frame in frames(columns).items():
            policy = a_policy()
            policy.observe([0, 1, 2, 3], frame, Y)
            order = [columns[i] for i in (2, 0, 1)]
            other = {c: frame[c] for c in order} if library.startswith("dict") else (
                frame.select(order) if library == "pyarrow" else frame[order]
            )  # fmt: skip
            np.testing.assert_array_equal(policy.predict_many(other).mean, policy.predict_many(X).mean, err_msg=library)
            if library == "pandas":
                row = other.iloc[1]
                np.testing.assert_array_equal(policy.predict(row).mean, policy.predict(X[1]).mean)
                assert policy.explain_arm(1, row).mean == policy.explain_arm(1, X[1]).mean


def test_frames_that_are_refused_say_which_column() -> None:
    pandas = pytest.importorskip("pandas")
    for columns, bad, words in (
        ([0, 1, 2], None, "column '2' has 1 missing values"),
        (["a", "b", "c"], "noon", "column 'c' holds .*, not numbers"),
        (["a", "a", "b"], None, "two columns .* called 'a'"),
    ):
        frame = pandas.DataFrame(X, columns=columns)
        if "two" not in words:
            frame[columns[2]] = [1.0, 2.0, 3.0, bad]
        with pytest.raises(ValueError, match=words) as caught:
            a_policy().choose_many(frame)
        assert "\n" not in str(caught.value)


def test_a_dict_is_a_row_of_numbers_or_a_table_of_columns() -> None:
    columns = {"age": [1.0, 2.0, 3.0], "hour": [4.0, 5.0, 6.0]}
    rows = np.array([[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]])
    policy, same = kb.KMTLUCB(2), kb.KMTLUCB(2)
    assert len(policy.choose_many(columns)) == 3
    assert policy.feature_names == ("age", "hour")
    same.choose_many(rows)
    policy.observe([0, 1, 0], columns, [1.0, 2.0, 4.0])
    same.observe([0, 1, 0], rows, [1.0, 2.0, 4.0])
    np.testing.assert_array_equal(policy.predict({"hour": 4.5, "age": 1.5}).mean, same.predict([1.5, 4.5]).mean)
    for wrong in (
        {"age": [1.0, 2.0], "hour": [1.0]},
        {"age": [1.0, 2.0], "hour": 1.0},
        {"age": [[1.0]], "hour": [[1.0]]},
        {"age": "young", "hour": 1.0},
        {"age": ["1", "2"], "hour": [1.0, 2.0]},
        {"age": np.ma.masked_array([1.0, 2.0], [0, 1]), "hour": [1.0, 2.0]},
        {"age": [1.0], "hour": [None]},
        {},
    ):
        with pytest.raises(KinbanditsError):
            policy.choose_many(wrong)
    assert policy.n_decisions == 3


def test_a_series_of_rewards_has_numbers_whatever_its_index() -> None:
    pandas = pytest.importorskip("pandas")
    for index in (["a", "a", "b", "b"], [0, 0, 1, 1], ["w", "x", "y", "z"], [3, 2, 1, 0]):
        np.testing.assert_array_equal(observed(X, pandas.Series(Y, index=index)), observed(X, Y))


def test_a_column_of_pyarrow_names_arms_and_rewards() -> None:
    pa = pytest.importorskip("pyarrow")
    policy = kb.KMTLUCB(pa.array(["b", "a"]))
    assert policy.arms == ("b", "a")
    policy.observe(pa.array(["a", "b", "a"]), X[:3], pa.array([1.0, 0.0, 2.0]))
    assert policy.counts == {"b": 1, "a": 2}
    assert policy.choose(X[0], pa.array(["a"])).arm == "a"
    policy.observe(pa.array(["a", "b"]).dictionary_encode(), X[:2], pa.chunked_array([[1.0], [0.0]]))
    assert policy.n_observations == 5
    with pytest.raises(LookupError, match="unknown arm 'c'"):
        policy.choose(X[0], pa.array(["c"]))


@pytest.mark.parametrize("kernel", [kb.RBF(), kb.Matern(), kb.RationalQuadratic(), kb.Linear(), kb.RBF() * kb.Linear()])
def test_kernels_refuse_rows_of_different_widths(kernel: Any) -> None:
    with pytest.raises(ValueError, match=r"features|columns"):
        kernel(np.ones((2, 2)), np.ones((2, 3)))
    assert kernel(X, X).shape == (4, 4)
    for kind in ("big, said", "little, said", "Fortran", "strides"):
        given = READ[kind](X, Path())
        np.testing.assert_allclose(kernel(given, given), kernel(X, X), rtol=1e-12)
