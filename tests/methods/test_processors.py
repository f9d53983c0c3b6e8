"""The same sums lead to the same questions and the same model on every processor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from hedgerow.schema.arrays import canonical

PROCESSORS = {
    "AVX-512": {"OPENBLAS_CORETYPE": "SkylakeX"},
    "AVX2": {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL"},
    "SSE4.2": {
        "OPENBLAS_CORETYPE": "Nehalem",
        "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL X86_V3",
    },
}
FITS = """
import warnings
import hedgerow as hr
from studies.fixed_noise import fixed_noise
from studies.tests.answers import small_table

warnings.simplefilter("ignore")
X, y, schema = small_table()
for model in (
    hr.BoostedTreesClassifier(schema, epsilon=4.0, n_trees=8, random_state=0),
    hr.papers.wang.noisy_counts(schema, epsilon=4.0, max_splits=8),
):
    with fixed_noise():
        model.fit(X, y)
    print(model.model_.score.digest)
"""


def models_on(features: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", FITS],
        env=os.environ | features | {"PYTHONPATH": os.pathsep.join(["src", "."])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_processor_makes_the_same_models():
    flags = Path("/proc/cpuinfo")
    here = flags.read_text(encoding="utf-8") if flags.exists() else ""
    kinds = [name for name in PROCESSORS if name != "AVX-512" or "avx512vl" in here]
    models = {name: models_on(PROCESSORS[name]) for name in kinds}
    assert len(models["AVX2"].split()) == 2
    assert len(set(models.values())) == 1, models


def test_canonical_numbers_forget_what_processors_differ_in():
    values = np.array([0.1, -3.7e300, 5e-300, np.inf, 838557.5141338573])
    assert np.array_equal(canonical(values), canonical(np.nextafter(values, np.inf)))
    assert canonical(0.0) == 0.0
    assert np.allclose(canonical(values), values, rtol=2.0**-24, atol=0.0)
    assert canonical(1 + 2.0**-20) != canonical(1.0)
