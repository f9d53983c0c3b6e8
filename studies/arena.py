"""`python -m studies arena`: private learners against each other on 28 public sets.

Splits from 1100 on, on which nothing was decided, all with delta 1e-6 (diffprivlib: 0). A *game* is
a set, an epsilon, a split and two learners; the better score wins it. Ratings are those of Elo, by
the likeliest strengths of Bradley and Terry, 1,500 on average. *Gap closed*: the part of the way
from no model to the better learner without privacy; below no model is 0. Intervals: sets, and
splits of a set, drawn again and again.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

import hedgerow as hr
from hedgerow.methods.plan import OWN_METHODS, preferred_names
from hedgerow.schema.schema import MAX_VALUES, Hashed
from studies.arena_peers import (
    BUNDLED,
    DELTA,
    KIND,
    PEERS,
    SETS,
    Numbers,
    Rows,
    Table,
    is_installed,
    measured,
    peer,
    table,
)
from studies.datasets import declared, whole
from studies.harness import Cell, Computation, Grid
from studies.pages import markdown_table, write_page

OURS = ("BoostedTrees", "Forest", "Tree", "ExtraTrees")
DEFAULT, SIMPLE = OURS[0], ("Forest", "Tree")
PLAIN = ("LightGBM", "HistGB")
EPSILONS = (1.0, 8.0, 0.1, 3.0, 0.5)
SHOWN = (0.1, 1.0, 8.0)
"""What pages of results show of them."""
FIRST_SPLIT, SPLITS, N_SITES = 1100, 3, 5
QUICK = ("breast_cancer", "wine", "diabetes")
FIVE = f", {N_SITES} sites"
RATING = "Elo"
DRAWS, STEPS, AVERAGE = 400, 300, 1500.0
CLEAR = 0.01
"""How far ahead of the default another estimator of ours has to be."""


def ours(split: int, epsilon: float, dataset: str, player: str, n_sites: int) -> dict[str, float]:
    """A cell of an estimator of ours, with its defaults."""
    return measured(partial(_fitted, player, n_sites), dataset, split, epsilon)


def _fitted(
    name: str, n_sites: int, one: Table, train: Rows, test: Rows, epsilon: float, seed: int
) -> Numbers:
    kind: Any = getattr(hr, f"{name}{'Classifier' if one.classes else 'Regressor'}")
    model = kind(schema_of(one), epsilon, DELTA, random_state=seed)
    y = np.array(one.classes, object)[one.y[train]] if one.classes else one.y[train]
    sites = {} if n_sites == 1 else {"site": np.arange(len(y)) % n_sites, "sites": range(n_sites)}
    model.fit(one.X.iloc[train], y, **sites)
    X = one.X.iloc[test]
    return np.asarray(model.predict_proba(X) if one.classes else model.predict(X), np.float64)


@lru_cache(maxsize=2)
def schema_of(one: Table) -> hr.Schema:
    """Ranges and categories of the whole file; texts of too many values are hashed."""
    features = [
        Hashed(str(name))
        if one.X[name].dtype.kind not in "iufb" and one.X[name].nunique() > MAX_VALUES
        else whole(declared(one.X[name]), one.X[name])
        for name in one.X
    ]
    target = None if one.classes else hr.Target(0.0, 1.0)
    return hr.Schema(tuple(features), classes=one.classes or None, target=target)


def planned(dataset: str) -> dict[str, float]:
    """The place of the estimator that `hedgerow plan` names."""
    return {"method": float(OWN_METHODS.index(preferred_names(schema_of(table(dataset)))))}


def files(quick: bool) -> tuple[str, ...]:
    return () if quick else tuple(name for name in KIND if name not in BUNDLED)


def run(computation: Computation, splits: int, quick: bool) -> None:
    whole, plans = collected(computation, splits, quick)
    if computation.only:
        return  # a page compares all
    command = f"python -m studies arena --splits {splits} --data DIR"
    write_page(computation, "README.md", "Arena of private learners", command, page(whole, plans))


def collected(
    computation: Computation, splits: int = SPLITS, quick: bool = False
) -> tuple[pd.DataFrame, dict[str, str]]:
    """All games, each with the name under which its player is listed; what plans name, by set."""
    tables = computation.tables(grids(splits, quick, computation.page_only))
    plans = tables.pop("plans")
    whole = pd.concat([found for found in tables.values() if len(found)])
    sites = whole["n_sites"].fillna(1.0)
    names = whole["player"].where(sites < 2, whole["player"] + FIVE)
    named = {d: OWN_METHODS[int(k)] for d, k in zip(plans["dataset"], plans["method"], strict=True)}
    return whole.assign(n_sites=sites, name=names), named


def grids(splits: int, quick: bool, is_page: bool) -> dict[str, Grid]:
    """A table for each peer that is installed: some need an environment of their own."""
    seeds = range(FIRST_SPLIT, FIRST_SPLIT + splits)
    epsilons, names = (EPSILONS[:1], QUICK) if quick else (EPSILONS, tuple(KIND))
    own = cells(seeds, epsilons, names, OURS)
    found: dict[str, Grid] = {
        "one_site": (ours, [{**cell, "n_sites": 1} for cell in own]),
        "five_sites": (ours, [{**cell, "n_sites": N_SITES} for cell in own]),
        "plans": (planned, [{"dataset": name} for name in names]),
    }
    for name, (_, _, kinds) in PEERS.items():
        if is_page or is_installed(name):
            able = tuple(dataset for dataset in names if KIND[dataset] in kinds)
            asked = (math.inf,) if name in PLAIN else epsilons
            found[table_of(name)] = (peer, cells(seeds, asked, able, (name,)))
    return found


def table_of(player: str) -> str:
    """The name of the file with a player's rows."""
    own = {name for one in OURS for name in (one, one + FIVE)}
    if player in own:
        return "five_sites" if player.endswith(FIVE) else "one_site"
    return player.lower().replace(" + ", "_").replace(" ", "_").replace("-", "_")


def cells(
    seeds: range, epsilons: tuple[float, ...], names: tuple[str, ...], players: tuple[str, ...]
) -> list[Cell]:
    """Split by split and epsilon by epsilon, so that a run cut short has whole tables."""
    keys = ("split", "epsilon", "dataset", "player")
    return [dict(zip(keys, c, strict=True)) for c in product(seeds, epsilons, names, players)]


# --------------------------------------------------------------------------------------- standings
@dataclass(frozen=True)
class Standing:
    """A player's rating, or the part of the gap that it closes in a group of games."""

    player: str
    group: str
    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, eq=False)
class Games:
    """Scores and gaps closed by player, set, split and epsilon; not a number where none is."""

    players: list[str]
    sets: list[str]
    epsilons: list[float]
    scores: Numbers
    gaps: Numbers

    @property
    def wins(self) -> Numbers:
        """By set and split, how often the one is ahead of the other; ties count half."""
        one, other = self.scores[:, None], self.scores[None]
        ahead = (one > other) + 0.5 * (one == other)
        return np.asarray(np.moveaxis(ahead.sum(axis=-1), (2, 3), (0, 1)))

    def closed(self, sets: Rows, splits: Rows) -> dict[str, Numbers]:
        """Of every player, mean of its sets of a kind at an epsilon."""
        some = np.nanmean(self.gaps[:, sets[:, None], splits], axis=2)
        kinds = np.array([KIND[self.sets[k]] for k in sets])
        return {
            group_of(kind, epsilon): np.nanmean(some[:, kinds == kind, k], axis=1)
            for kind in dict.fromkeys(kinds)
            for k, epsilon in enumerate(self.epsilons)
        }


def group_of(kind: str, epsilon: float) -> str:
    return f"{kind}, epsilon {epsilon:g}"


def games(whole: pd.DataFrame) -> Games:
    is_plain = whole["player"].isin(PLAIN)
    limit = whole[is_plain].groupby(["split", "dataset"])["score"].max().rename("limit")
    private = whole[~is_plain].join(limit, on=["split", "dataset"])
    gap = (private["score"] - private["floor"]) / (private["limit"] - private["floor"])
    keys = ["name", "dataset", "split", "epsilon"]
    found = private.assign(gap=gap.clip(lower=0.0)).set_index(keys)
    levels = [found.index.unique(key) for key in keys[:-1]] + [sorted(found.index.unique(keys[-1]))]
    all_cells, shape = pd.MultiIndex.from_product(levels), [len(level) for level in levels]
    scores, gaps = (found[c].reindex(all_cells).to_numpy().reshape(shape) for c in ("score", "gap"))
    return Games(list(levels[0]), list(levels[1]), list(levels[3]), scores, gaps)


def ratings(wins: Numbers) -> Numbers:
    """Elo by wins of the one over the other; each is held to have drawn a game with the average."""
    played, strength = wins + wins.swapaxes(-1, -2), np.ones(wins.shape[:-1])
    for _ in range(STEPS):  # Hunter 2004: the likelihood rises at every step
        pairs = played / (strength[..., :, None] + strength[..., None, :])
        strength = (wins.sum(axis=-1) + 0.5) / (pairs.sum(axis=-1) + 1.0 / (strength + 1.0))
        strength /= np.exp(np.log(strength).mean(axis=-1, keepdims=True))
    return np.asarray(AVERAGE + 400.0 * np.log10(strength))


def standings(whole: pd.DataFrame) -> list[Standing]:
    """By player from the highest rating on: the rating, then gaps by kind and epsilon."""
    found, rng = games(whole), np.random.default_rng(0)
    wins, n_splits = found.wins, found.gaps.shape[2]
    kinds = np.array([KIND[name] for name in found.sets])
    chosen = [(np.arange(len(kinds)), np.tile(np.arange(n_splits), (len(kinds), 1)))]
    for _ in range(DRAWS):
        some = [
            rng.choice(np.flatnonzero(kinds == kind), sum(kinds == kind))
            for kind in SETS
            if kind in kinds
        ]
        sets = np.concatenate(some)
        chosen.append((sets, rng.integers(0, n_splits, (len(sets), n_splits))))
    won = [wins[sets[:, None], splits].sum(axis=(0, 1)) for sets, splits in chosen]
    with warnings.catch_warnings(action="ignore"):  # of means over nothing
        closed = [found.closed(*one) for one in chosen]
    values = {RATING: ratings(np.array(won))}
    values |= {group: np.array([one[group] for one in closed]) for group in closed[0]}
    n, order = np.isfinite(found.gaps).sum(axis=(1, 2, 3)), np.argsort(-values[RATING][0])
    return [
        Standing(found.players[k], group, float(drawn[0, k]), *_ends(drawn[1:, k]), int(n[k]))
        for k in order
        for group, drawn in values.items()
        if math.isfinite(drawn[0, k])
    ]


def _ends(drawn: Numbers) -> tuple[float, float]:
    low, high = np.quantile(drawn[np.isfinite(drawn)], (0.025, 0.975))
    return float(low), float(high)


def behind(whole: pd.DataFrame, plans: Mapping[str, str]) -> pd.DataFrame:
    """A line a set, epsilon and number of sites: the default and our better tree or forest.

    Means over splits, and the standard error of the lead.
    """
    keys = ["dataset", "epsilon", "n_sites"]
    mine = whole[whole["player"].isin((DEFAULT, *SIMPLE))]
    wide = mine.pivot_table(index=[*keys, "split"], columns="player", values="score", sort=False)
    lines = []
    for cell, part in wide.dropna().groupby(level=keys, sort=False):
        best = str(part[list(SIMPLE)].mean().idxmax())
        lead = part[best] - part[DEFAULT]
        line = {**dict(zip(keys, cell, strict=True)), DEFAULT: part[DEFAULT].mean(), "other": best}
        lines.append({**line, "lead": lead.mean(), "error": lead.sem(), "plan": plans[cell[0]]})
    return pd.DataFrame(lines)


QUOTED = tuple(group_of(kind, epsilon) for kind in SETS for epsilon in SHOWN)


# -------------------------------------------------------------------------------------------- page
def page(whole: pd.DataFrame, plans: Mapping[str, str]) -> list[str]:
    found: dict[str, dict[str, str]] = {}
    for one in standings(whole):
        digits = 0 if one.group == RATING else 2
        ends = f"{one.low:.{digits}f} to {one.high:.{digits}f}"
        found.setdefault(one.player, {"player": one.player, "games": str(one.n)})
        found[one.player][one.group] = f"{one.value:.{digits}f} ({ends})"
    keys = ["dataset", "epsilon"]
    private = whole[~whole["player"].isin(PLAIN)]
    scores = private.pivot_table(index=keys, columns="name", values="score", sort=False)
    limits = whole[whole["player"].isin(PLAIN)]
    limits = limits.pivot_table(index="dataset", columns="player", values="score")
    own = behind(whole, plans)
    ahead = own[own["lead"] > CLEAR]
    named = int((ahead["other"] == ahead["plan"]).sum())
    words = f"In {len(ahead)} of {len(own)} cells; a plan names it in {named}."
    return [
        (__doc__ or "").split("\n\n", 1)[1],
        "## Standings\n\n" + markdown_table(pd.DataFrame(list(found.values())).fillna("-")),
        f"## Tree or forest more than {CLEAR} above the default\n\n{words}\n",
        markdown_table(ahead),
        "## Scores\n\nAUC of two classes, accuracy of more, R2 of a number; mean of the splits.\n",
        markdown_table(scores.reset_index().join(limits, on="dataset")),
    ]
