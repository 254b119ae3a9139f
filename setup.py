"""The build: everything stands in pyproject.toml but the compiled core, which is optional.

Where it cannot be built (no compiler, no headers), it is left out, and the library does the same in NumPy.
"""

import os
from glob import glob

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


class OptionalBuild(build_ext):
    """Build what can be built; the rest is told of and left out."""

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:  # a compiler that is not there fails in many ways
            print(f"the compiled core was left out: {error}")


# Sums may be taken in any order: every bound in the library allows for that. NaN and infinity keep their meaning.
flags = ["-O3", "-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math"]
core = Extension(
    "kinbandits._core",
    sources=["src/kinbandits/regression/core/module.c"],
    depends=glob("src/kinbandits/regression/core/*.h"),
    define_macros=[("Py_LIMITED_API", "0x030B0000")],
    py_limited_api=True,
    extra_compile_args=[] if os.name == "nt" else flags,
    optional=True,
)
setup(
    ext_modules=[core], cmdclass={"build_ext": OptionalBuild}, options={"bdist_wheel": {"py_limited_api": "cp311"}}
)
