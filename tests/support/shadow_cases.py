"""Combinations for the second accountant: any method, any trust model, sites, persons, records."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, cached_property
from random import Random
from typing import Any

import duckdb
import numpy as np
import pandas as pd

import hedgerow as hr
from hedgerow.audit.paths import compare_neighbors
from hedgerow.errors import DataError, ParameterError, RoundFailed, UnsupportedQuery
from hedgerow.methods.method import METHODS
from hedgerow.methods.registry import estimators

NUMBERS = (0.0, 0.2, 0.5, 0.9, 1.0, -3.0, 2.5, -1e308, math.inf, -math.inf, math.nan, 5e-324)
WORDS = ("x", "y", "z", "unheard of", None)
TARGETS = (0.0, 1.0, 0.25, 0.5, 7.0, -1e300)
TIMES = (0.25, -0.25, 0.5, 1.0, -1.0, 7.0, -7.0, 5e-324)
"""Of events; negative ones are of censored records."""
EPSILONS = (0.5, 1.0, 3.0, 8.0)
DELTAS = (0.0, 1e-6, 1e-9)
ACTS = (*["fit"] * 12, *["study"] * 6, *["evaluate", "held out"] * 4, "choose", "database")
SINGLE_SITE = ("Multiway", "split='choice'")


def schema_of(shape: int, target: str) -> hr.Schema:
    """Three shapes: few cells, many, and edges of its own."""
    word = hr.Categorical("c", ("x", "y", "z"), other=True)
    features = (
        (hr.Numeric("a", 0.0, 1.0, bins=4), hr.Numeric("b", 0.0, 1.0, bins=3), word),
        (hr.Numeric("a", 0.0, 1.0, bins=11), hr.Numeric("b", 0.0, 1.0, edges=(0.1, 0.5)), word),
        (hr.Numeric("a", 0.0, 1.0, bins=2), hr.Numeric("b", -1.0, 3.0, bins=5), word),
    )[shape]
    if target == "number":
        return hr.Schema(features, target=(0.0, 1.0))
    if target == "times":
        return hr.Schema(features, survival=hr.Survival("t", "e", 1.0))
    return hr.Schema(features, classes=("n", "y") if target == "two" else ("k", "n", "y"))


@dataclass(frozen=True)
class Listed:
    """A method as a user types it, with the targets it is for."""

    name: str
    make: Callable[..., Any]
    targets: tuple[str, ...]

    @cached_property
    def protects_labels(self) -> bool:
        return bool(self.make(schema_of(0, self.targets[0])).dp_model == "label")


def _of_estimator(name: str, kind: Any, setting: dict[str, Any]) -> Listed:
    targets = ("number",) if kind._regression else ("two", "three")
    targets = ("times",) if getattr(kind, "_survival", False) else targets
    words = ", ".join(f"{k}={v!r}" for k, v in setting.items())
    return Listed(
        f"{name}({words})", lambda schema, **more: kind(schema, **setting | more), targets
    )


def _of_paper(line: str) -> Listed:
    targets = ("number",) if "(numbers" in line else ("two",)

    def make(schema: hr.Schema, **more: Any) -> Any:
        made = eval(line, {"hr": hr, "schema": schema, "numbers": schema})
        if made.dp_model is not None:  # a method of its paper's own trust model keeps it
            more.pop("dp_model", None)
        few = {"n_estimators": 2, "max_depth": 2, "max_splits": 3}
        known = made.get_params()
        small = {k: v for k, v in few.items() if isinstance(known.get(k), int) and known[k] > v}
        return made.set_params(**small, **more)

    return Listed(line, make, targets)


@cache
def listed() -> tuple[Listed, ...]:
    ours = [
        _of_estimator(name, kind, setting)
        for name, kind in estimators().items()
        for method in METHODS.values()
        if issubclass(kind, method)
        for setting in method.test_settings
    ]
    labels = [
        _of_estimator("ExtraTreesClassifier", hr.ExtraTreesClassifier, how)
        for how in (
            {"n_estimators": 2, "max_depth": 2, "dp_model": "label"},
            {"n_estimators": 1, "max_depth": 2, "dp_model": "label", "label_mechanism": "bloom"},
        )
    ]
    papers = [_of_paper(m.line) for m in hr.papers.METHODS if "_as_" not in m.line]
    return tuple([*ours, *labels, *papers])


@dataclass(frozen=True)
class Case:
    """Everything that decides a run, but for its noise."""

    method: Listed
    target: str
    shape: int
    act: str
    epsilon: float
    delta: float
    per_site: bool
    sites: int
    rows: tuple[tuple[Any, ...], ...]
    """Two numbers, a word, a label or target, whose it is, and its site."""
    victim: int
    most: int
    """Records of a person that count; 0 if nobody says whose records they are."""
    fails: int | None
    seed: int

    def __repr__(self) -> str:
        told = f"{self.method.name} {self.target} {self.shape} {self.act} eps={self.epsilon}"
        how = f"delta={self.delta} per_site={self.per_site} sites={self.sites} most={self.most}"
        return (
            f"<{told} {how} victim={self.victim} fails={self.fails} seed={self.seed} {self.rows}>"
        )

    @property
    def schema(self) -> hr.Schema:
        return schema_of(self.shape, self.target)

    def estimator(self, **more: Any) -> Any:
        silo = self.per_site and self.sites > 1 and not self.method.protects_labels
        chosen = {"dp_model": "per_site"} if silo else {}
        known = {"epsilon": self.epsilon, "delta": self.delta, "random_state": self.seed}
        if self.most:
            known["records_per_person"] = self.most
        return self.method.make(self.schema, **chosen | known | more)

    @property
    def protects_labels(self) -> bool:
        return self.method.protects_labels

    def neighbor(self) -> tuple[tuple[Any, ...], ...]:
        """Without one record, without one person at one site, or with another label."""
        mine = self.rows[self.victim]
        if self.protects_labels:
            classes = self.schema.labels
            other = classes[(classes.index(mine[3]) + 1) % len(classes)]
            changed = (*mine[:3], other, *mine[4:])
            return (*self.rows[: self.victim], changed, *self.rows[self.victim + 1 :])
        if self.most:
            return tuple(row for row in self.rows if row[4:] != mine[4:])
        return self.rows[: self.victim] + self.rows[self.victim + 1 :]

    @property
    def in_database(self) -> Case:
        """The same rows in a database, with the largest epsilon, so that trees grow."""
        alone = {"per_site": False, "sites": 1, "most": 0, "fails": None}
        return replace(self, act="database", epsilon=max(EPSILONS), **alone)

    def problems(self) -> list[str] | None:
        """What the second accountant finds; None if the combination is refused."""
        try:
            apart = self.act in ("held out", "choose") and not self.protects_labels
            how = {"fails": self.fails, "as_study": self.act == "study"}
            both = compare_neighbors(self._act, self.rows, self.neighbor(), holds_out=apart, **how)
            return list(both.problems)
        except (ParameterError, UnsupportedQuery, DataError):
            return None
        except RoundFailed:  # every run has a reserve for the one answer that is lost
            return ["what is for failures was spent on something else"]

    # ------------------------------------------------------------------------------------ acts
    def _act(self, rows: tuple[tuple[Any, ...], ...]) -> None:
        columns = list(zip(*rows, strict=True)) if rows else [()] * 6
        X = np.array([list(row[:3]) for row in rows], dtype=object).reshape(len(rows), 3)
        y = np.array(columns[3], dtype=object if self.target in ("two", "three") else float)
        if self.target == "times":
            y = np.rec.fromarrays([y > 0.0, np.abs(y)], names="e,t")
        whose: dict[str, Any] = {"person": list(columns[4])} if self.most else {}
        if self.sites > 1:
            whose |= {"site": list(columns[5]), "sites": list(range(self.sites))}
        guarantee = {"epsilon": 80.0 if self.seed % 2 else 1.0, "delta": self.delta}
        match self.act:
            case "fit":
                self.estimator().fit(X, y, **whose)
            case "study":
                self.estimator(hold_out=None if self.seed % 2 else 3).fit(X, y, **whose)
            case "evaluate":
                model = self.estimator().fit(X, y, **whose)
                hr.evaluate(model, X, y, by="c", **guarantee, **whose)
            case "held out":
                model = self.estimator(hold_out=2).fit(X, y, **whose)
                hr.evaluate(model, X, y, **guarantee, **whose)
            case "choose":
                both = [self.estimator(), self.estimator(epsilon=self.epsilon / 2)]
                hr.select_model(both, X, y, hold_out=2, **guarantee, **whose)
            case "database":
                self._in_database(X, y)

    def _in_database(self, X: Any, y: Any) -> None:
        outcome = {"e": y["e"], "t": y["t"]} if self.target == "times" else {"y": y}
        frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], **outcome})
        frame = frame.astype({"a": float, "b": float})
        with closing(duckdb.connect(config={"threads": 1})) as opened:
            opened.register("given", frame)
            opened.execute("CREATE TABLE records AS SELECT * FROM given")
            target = None if self.target == "times" else "y"
            self.estimator().fit(opened, sql="SELECT * FROM records", push_down=True, target=target)


def case_of(number: int) -> Case:
    """The combination of a number: the same every time."""
    rng = Random(number)
    some = [one for one in listed() if one.protects_labels] if rng.random() < 0.05 else listed()
    method = rng.choice(some)
    target = rng.choice(method.targets)
    labels = {"two": ("n", "y"), "three": ("k", "n", "y"), "number": TARGETS, "times": TIMES}[
        target
    ]
    act = "fit" if method.protects_labels else rng.choice(ACTS)
    alone = act == "database" or any(words in method.name for words in SINGLE_SITE)
    sites = 1 if alone else rng.randint(1, 4)
    rows = [
        (
            rng.choice(NUMBERS),
            rng.choice(NUMBERS),
            rng.choice(WORDS),
            rng.choice(labels),
            rng.randrange(4),
            rng.randrange(sites),
        )
        for _ in range(rng.randint(3, 12))
    ]
    rows += rows[: rng.randrange(3)]  # copies of a record
    return Case(
        method=method,
        target=target,
        shape=rng.randrange(3),
        act=act,
        epsilon=rng.choice(EPSILONS),
        delta=0.0 if method.protects_labels else rng.choice(DELTAS),
        per_site=rng.random() < 0.3,
        sites=sites,
        rows=tuple(rows),
        victim=rng.randrange(len(rows)),
        most=0 if act == "database" else rng.choice((0, 0, 1, 2, 2)),
        fails=rng.choice((None, 1, 2, 3)) if act == "study" else None,
        seed=rng.randrange(100),
    )


def strong_case(
    act: str, sites: int, most: int, target: str = "two", seed: int = 1, name: str = ""
) -> Case:
    """A method, or a default, with so strong a signal that it asks all it can."""
    rng = Random(seed)
    numbers = [
        (rng.random(), rng.random(), rng.choice("xyz"), rng.randrange(300), rng.randrange(sites))
        for _ in range(900)
    ]
    labels = {"times": (-0.4, 0.7), "number": (0.0, 1.0)}.get(target, ("n", "y"))
    rows = tuple((a, b, c, labels[(a > 0.5) != (b > 0.4)], *at) for a, b, c, *at in numbers)
    if target == "number":  # rare and told by one cut, so that a record moves a score the most
        rows = tuple((a, *at[:2], float(a > 10 / 11), *at[3:]) for a, *at in rows)
    name = name or f"{'SurvivalBoostedTrees' if target == 'times' else 'BoostedTreesClassifier'}("
    method = next(one for one in listed() if one.name.startswith(name))
    how = {"epsilon": 300.0, "delta": 1e-6, "per_site": False, "sites": sites, "rows": rows}
    fails = 9 if act == "study" else None
    victim = 7 if target != "number" else next(k for k, row in enumerate(rows) if row[3] == 1.0)
    return Case(method, target, 1, act, victim=victim, most=most, fails=fails, seed=seed, **how)
