"""Gate 4: from the wire alone, everything that was released is found in the ledger, at its price.

The auditor below knows no code of the product but the decoder: it reads the bundles a site was
sent, derives charges from first principles, and compares. Mutations must be caught.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest

from hedgerow.errors import BudgetExceeded
from hedgerow.federation import client
from hedgerow.federation.wire import Receiver
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.gubler import HistogramTree
from hedgerow.models.sensitivity import Sensitivity
from hedgerow.privacy.accounting.conversions import noise_law
from hedgerow.privacy.queries import BoundQuery, Cells, ClassCounts, SumQuery, Whole
from hedgerow.privacy.study import Study
from hedgerow.schema.regions import EVERYONE
from support.worlds import TWO, federation, round_of, sample, site_rows, study


class Tap:
    """Keeps what went over the wire to and from site 0."""

    def __init__(self, link):
        self.bundles, self.lengths = [], []
        encode, respond = link.sender.encode, client.respond

        def kept_encode(bundle):
            self.bundles.append(encode(bundle))
            return self.bundles[-1]

        def kept_respond(rows, asked, secret):
            made = respond(rows, asked, secret)
            if rows is link.clients[0].rows:
                self.lengths.append(len(made.vector))
            return made

        link.sender.encode = kept_encode
        self.respond = kept_respond


def taped_run(delta="0", budget_saving=False, records_per_person=1):
    X, y = sample(200, TWO)
    the_study = study(TWO, 3, delta=delta, records_per_person=records_per_person)
    fed = federation(the_study, site_rows(X, y, np.arange(200) % 3, 3, TWO))
    tap = Tap(fed.sites)
    method = HistogramTree(max_depth=2, budget_saving=budget_saving)
    with patch.object(client, "respond", tap.respond):
        run(method.flow(TWO, fed, np.random.default_rng(0)), fed)
    assert len(tap.bundles) == len(tap.lengths) > 0
    return the_study, tap, fed.sites.clients[0].store.ledger


def independent_sensitivity(query, unit: int, m: int) -> Sensitivity:
    """Of class counts and bounds, written down again: one row is in one bin of every feature.

    m rows of one person may be in the same bins.
    """
    if isinstance(query, BoundQuery):
        p, step = len(query.features), m * unit
    else:
        p, step = len(query.by.features) if isinstance(query.by, Cells) else 1, m
    return Sensitivity(p * step, p * step**2, step)


def audit(the_study, bundles, entries, lengths) -> list[str]:
    """What does not add up; empty if all is well."""
    receiver, faults = Receiver(), []
    if len(bundles) != len(entries):
        faults.append(f"{len(bundles)} bundles, {len(entries)} entries")
    total = Fraction(1) if the_study.delta == 0 else the_study.total
    for bundle, (_, charges), length in zip(bundles, entries, lengths, strict=False):
        queries, learned = receiver.decode(bundle)
        receiver.keep(learned)
        if len(queries) != len(charges):
            faults.append("a query without a charge")
        if sum(math.prod(q.shape) for q in queries) != length:
            faults.append("more numbers left than were asked")
        for query, charge in zip(queries, charges, strict=False):
            if (charge.region, charge.cost) != (query.region, query.fraction * total):
                faults.append("a charge that is not the query's")
            moved = independent_sensitivity(
                query, the_study.unit(query), the_study.records_per_person
            )
            law = noise_law(the_study.measure, charge.cost, moved)
            declared = the_study.sum_law(query)
            scale = the_study.refinement(query)
            if abs(declared.variance / scale**2 / law.variance - 1) > 1e-2:
                faults.append("noise that is not the charge's")
    return faults


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("budget_saving", [False, True])
@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_what_left_a_site_is_in_its_ledger(delta, budget_saving, m):
    the_study, tap, ledger = taped_run(delta, budget_saving, m)
    assert audit(the_study, tap.bundles, ledger.entries, tap.lengths) == []


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_records_per_person_ignored_in_sums_is_seen(delta, monkeypatch):
    monkeypatch.setattr(
        Study, "_sensitivity", lambda self, query: query.sensitivity(self.unit(query))
    )
    the_study, tap, ledger = taped_run(delta, records_per_person=3)
    assert audit(the_study, tap.bundles, ledger.entries, tap.lengths)


def test_a_dropped_charge_is_seen():
    the_study, tap, ledger = taped_run()
    assert audit(the_study, tap.bundles, ledger.entries[:-1], tap.lengths)
    name, _ = ledger.entries[0]
    assert audit(the_study, tap.bundles, [(name, ()), *ledger.entries[1:]], tap.lengths)


def test_a_halved_charge_is_seen():
    the_study, tap, ledger = taped_run()
    name, charges = ledger.entries[0]
    cheap = (name, tuple(replace(c, cost=c.cost / 2) for c in charges))
    assert audit(the_study, tap.bundles, [cheap, *ledger.entries[1:]], tap.lengths)


def test_features_treated_as_parallel_are_seen(monkeypatch):
    the_study, tap, ledger = taped_run()
    from hedgerow.privacy.queries import SumQuery

    monkeypatch.setattr(SumQuery, "sensitivity", lambda q, unit: q.statistic.bound(unit))
    assert audit(the_study, tap.bundles, ledger.entries, tap.lengths)


def test_a_number_more_than_was_asked_is_seen():
    the_study, tap, ledger = taped_run()
    assert audit(the_study, tap.bundles, ledger.entries, [n + 1 for n in tap.lengths])


def test_a_holder_without_budget_touches_no_row(monkeypatch):
    """Charged first: whether a refused question would have met any row cannot be told."""
    X, y = sample(50, TWO)
    fed = federation(study(TWO, 1), site_rows(X, y, np.zeros(50), 1, TWO))
    touched, plain = [], client.respond
    monkeypatch.setattr(client, "respond", lambda *a: touched.append(a) or plain(*a))
    greedy = SumQuery(EVERYONE, ClassCounts(2), Whole(), Fraction(1))
    with pytest.raises(BudgetExceeded):
        round_of(fed.sites, 1, [greedy, greedy])
    assert not touched
    round_of(fed.sites, 2, [greedy])
    assert touched  # negative control: with budget it does
