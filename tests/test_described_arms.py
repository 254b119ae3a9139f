"""What is known of arms is matched by name where it has names, and refused where it does not match."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbandits as kb

ARMS = ["shoe", "boot", "coat", "hat"]
D = np.array([[0.0, 1.0], [0.2, 1.1], [3.0, 0.0], [2.0, 2.0]])
K = np.exp(-0.5 * ((D[:, None] - D[None]) ** 2).sum(2))
ORDER = [2, 0, 3, 1]
SHUFFLED = [ARMS[i] for i in ORDER]


def similarity_of(known: kb.Known, arms: list[Any] = ARMS) -> np.ndarray:
    return kb.KMTLUCB(arms, similarity=known).similarity_matrix()


def named(kind: str, names: list[Any] = SHUFFLED, rows: np.ndarray = D[ORDER]) -> Any:
    pandas = pytest.importorskip("pandas")
    return {
        "dict of lists": lambda: dict(zip(names, rows.tolist(), strict=True)),
        "dict of arrays": lambda: dict(zip(names, rows.astype(">f8"), strict=True)),
        "table": lambda: pandas.DataFrame(rows, index=names),
        "table with columns": lambda: pandas.DataFrame(rows, index=names, columns=["size", "price"]),
        "table with an index of categories": lambda: pandas.DataFrame(rows, index=pandas.CategoricalIndex(names)),
    }[kind]()


KINDS = ["dict of lists", "dict of arrays", "table", "table with columns", "table with an index of categories"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", [None, kb.RBF(0.7)], ids=repr)
def test_descriptors_in_another_order_are_matched_by_name(kind: str, kernel: Any) -> None:
    wanted = similarity_of(kb.Known(descriptors=D, kernel=kernel))
    np.testing.assert_allclose(similarity_of(kb.Known(descriptors=named(kind), kernel=kernel)), wanted, rtol=1e-12)
    if kernel is not None:
        np.testing.assert_allclose(similarity_of(kb.Known(kernel, named(kind))), wanted, rtol=1e-12)


def test_one_number_for_each_arm() -> None:
    pandas = pytest.importorskip("pandas")
    wanted = similarity_of(kb.Known(descriptors=D[:, 0]))
    by_name = {name: D[i, 0] for i, name in zip(ORDER, SHUFFLED, strict=True)}
    np.testing.assert_allclose(similarity_of(kb.Known(descriptors=by_name)), wanted)
    np.testing.assert_allclose(similarity_of(kb.Known(descriptors=pandas.Series(by_name))), wanted)


def test_a_matrix_with_names_is_put_in_order() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(K[np.ix_(ORDER, ORDER)], index=SHUFFLED, columns=SHUFFLED)
    np.testing.assert_allclose(similarity_of(kb.Known(frame)), K)
    np.testing.assert_allclose(similarity_of(kb.Known(pandas.DataFrame(K))), K)  # without names, in order
    with pytest.raises(ValueError, match="rows and columns"):
        kb.Known(pandas.DataFrame(K, index=ARMS, columns=SHUFFLED))
    with pytest.raises(ValueError, match="no row for arm 'hat'"):
        similarity_of(kb.Known(pandas.DataFrame(K, index=[*ARMS[:3], "cap"], columns=[*ARMS[:3], "cap"])))


def test_arms_that_are_numbers() -> None:
    pandas = pytest.importorskip("pandas")
    wanted = similarity_of(kb.Known(descriptors=D), [0, 1, 2, 3])
    frame = pandas.DataFrame(D).iloc[ORDER]
    np.testing.assert_allclose(similarity_of(kb.Known(descriptors=frame), [0, 1, 2, 3]), wanted)
    by_number = {i: D[i] for i in ORDER}
    np.testing.assert_allclose(similarity_of(kb.Known(descriptors=by_number), [0, 1, 2, 3]), wanted)
    with pytest.raises(ValueError, match="no row for arm 'shoe'"):
        similarity_of(kb.Known(descriptors=frame))  # numbers left over from a sort are no names of these arms


def test_rows_without_names_are_in_the_order_of_the_arms() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    wanted = similarity_of(kb.Known(descriptors=D))
    for given in (D.tolist(), pandas.DataFrame(D), polars.DataFrame(D), pandas.DataFrame(D, columns=["a", "b"])):
        np.testing.assert_allclose(similarity_of(kb.Known(descriptors=given)), wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_what_does_not_match_is_refused(kind: str) -> None:
    cases = [
        ([*SHUFFLED[:3], "cap"], D, "no row for arm 'boot'"),
        (SHUFFLED[:3], D[:3], "no row for arm 'boot'"),
        ([*SHUFFLED, "cap"], np.vstack([D, D[:1]]), "'cap', which is no arm"),
        (["Shoe", "boot", "coat", "hat"], D, "no row for arm 'shoe'"),
    ]
    for names, rows, words in cases:
        with pytest.raises(ValueError, match=words):
            similarity_of(kb.Known(descriptors=named(kind, names, rows)))
    if kind.startswith("table"):
        with pytest.raises(ValueError, match="'shoe'"):
            kb.Known(descriptors=named(kind, ["shoe", "shoe", "coat", "hat"], D))


def test_a_dict_of_columns_is_no_dict_of_arms() -> None:
    with pytest.raises(ValueError, match="no row for arm 'shoe'"):
        similarity_of(kb.Known(descriptors={"size": D[:, 0], "price": D[:, 1]}))
    with pytest.raises(ValueError, match="descriptor of 'boot'"):
        kb.Known(descriptors={"shoe": [1.0, 2.0], "boot": [1.0]})


def test_descriptors_as_the_arms_are_not_ignored() -> None:
    pandas = pytest.importorskip("pandas")
    for given in ({"shoe": [1.0], "boot": [2.0]}, pandas.DataFrame({"shoe": [1.0], "boot": [2.0]})):
        with pytest.raises(TypeError, match=r"Known\(descriptors="):
            kb.KMTLUCB(given)
    by_arm = {"shoe": [1.0], "boot": [2.0]}
    assert kb.KMTLUCB(list(by_arm), similarity=kb.Known(descriptors=by_arm)).arms == ("shoe", "boot")


def test_arms_come_and_go_and_the_file_holds_them(tmp_path: Path) -> None:
    policies = [
        kb.KMTLUCB(ARMS, similarity=kb.Known(descriptors=given), seed=1) for given in (D, named("dict of lists"))
    ]
    for policy in policies:
        policy.add_arm("scarf", descriptor=[1.0, 1.0])
        policy.remove_arm("coat")
        policy.observe(["shoe", "hat"], [[0.0], [1.0]], [1.0, 0.0])
        policy.save(tmp_path / "p.kb")
    again = kb.load(tmp_path / "p.kb")
    for policy in (*policies, again):
        np.testing.assert_allclose(policy.similarity_matrix(), policies[0].similarity_matrix(), rtol=1e-12)
        np.testing.assert_allclose(policy.predict([0.5]).mean, policies[0].predict([0.5]).mean, rtol=1e-9)


def test_several_terms_each_by_name() -> None:
    given = named("table")
    kernel = kb.Term(kb.Known(descriptors=given), kb.RBF()) + kb.Term(kb.Pooled(), kb.Constant())
    policy = kb.KMTLUCB(ARMS, kernel=kernel)
    np.testing.assert_allclose(policy.similarity_matrix(0), similarity_of(kb.Known(descriptors=D)))


def test_a_known_similarity_with_names_is_a_value() -> None:
    one, two = kb.Known(descriptors=named("dict of lists")), kb.Known(descriptors=named("table"))
    assert one == two
    assert hash(one) == hash(two)
    assert one != kb.Known(descriptors=D[ORDER])
    np.testing.assert_allclose(similarity_of(eval(repr(one), {"Known": kb.Known, "RBF": kb.RBF})), similarity_of(two))
