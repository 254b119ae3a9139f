"""The one way to write a file: all of it, or nothing."""

import io

import numpy as np
import pytest

from kinbandits._files import atomic_write, replacing, write_arrays


def test_the_whole_file_or_what_was_there(tmp_path):
    path = tmp_path / "a"
    atomic_write(path, b"first")
    assert path.read_bytes() == b"first"

    def half():
        with replacing(path) as part:
            part.write_bytes(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_directory_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such directory") as caught:
        atomic_write(tmp_path / "none" / "a", b"")
    assert caught.value.filename == str(tmp_path / "none")


@pytest.mark.parametrize("compressed", [False, True])
def test_arrays_come_back_and_nothing_else(compressed):
    stream = io.BytesIO()
    write_arrays(stream, {"x": np.arange(3.0)}, compressed=compressed)
    stream.seek(0)
    with np.load(stream, allow_pickle=False) as file:
        assert file.files == ["x"]
    with pytest.raises(TypeError, match="the array y holds Python objects"):
        write_arrays(io.BytesIO(), {"y": np.array([None])})
