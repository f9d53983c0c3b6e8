"""Mistakes that the second accountant has to see: what is charged is not what a record loses."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

GATE: Final = (
    "audit/test_shadow.py::test_whatever_is_asked_no_record_loses_more_than_it_was_charged_for"
)

PERSONS: Final = (
    Mutant(
        "a person keeps one record too many",
        "data/rows.py",
        "names[:, 1], names[:, 0], words) < most)",
        "names[:, 1], names[:, 0], words) <= most)",
        GATE,
    ),
    Mutant(
        "records of one person are held out one by one",
        "data/rows.py",
        "ids = self._record_ids if self._persons is None else self._persons",
        "ids = self._record_ids",
        GATE,
    ),
    Mutant(
        "persons of one site are told by the rows of another",
        "data/site_rows.py",
        "return [None if ids is None else ids[rows] for rows in",
        "return [None if ids is None else ids[: len(rows)] for rows in",
        GATE,
    ),
    Mutant(
        "labels of a person are each told with all of epsilon",
        "privacy/study.py",
        "        epsilon_per_record = self.epsilon / self.records_per_person\n",
        "        epsilon_per_record = self.epsilon\n",
        GATE,
    ),
    Mutant(
        "permanent bits are charged as one report of them",
        "privacy/study.py",
        "return self.records_per_person * Fraction(self.label_reports.epsilon_forever)",
        "return self.records_per_person * Fraction(self.label_reports.epsilon_once)",
        GATE,
    ),
    Mutant(
        "the squares of a person's records add as if they fell apart",
        "models/losses.py",
        "self.l2_squared * records**2, self.linf * records)",
        "self.l2_squared * records, self.linf * records)",
        GATE,
    ),
)

EVALUATIONS: Final = (
    Mutant(
        "several models are compared for the noise of one",
        "privacy/queries/kinds.py",
        "return self.statistic.bound(unit).repeat(self.by.groups)",
        "many = 1 if hasattr(self.by, 'sharpness') else self.by.groups\n"
        "        return self.statistic.bound(unit).repeat(many)",
        GATE,
    ),
    Mutant(
        "all records are evaluated where some were held out",
        "methods/evaluated_rows.py",
        "part.take(np.flatnonzero(part.is_held_out(grid, own, held_out.one_in)))",
        "part.take(np.arange(len(part.y)))",
        GATE,
    ),
    Mutant(
        "candidates are compared on the records that trained them, too",
        "methods/model_selection.py",
        "rows, whose = part(held_out)",
        "rows, whose = part(held_out | ~held_out)",
        GATE,
    ),
    Mutant(
        "the part that is held out is everybody",
        "data/prepared.py",
        "rows, held_out = rows.part(test, TRAINED_ON), rows.part(test, 0)",
        "rows, held_out = rows.part(test, TRAINED_ON), rows",
        GATE,
    ),
    Mutant(
        "a group of an evaluation holds the groups after it too",
        "methods/blocks/evaluation.py",
        "            regions[self._words(cells)] = (*way, Step(test, 0))\n",
        "            regions[self._words(cells)] = way or (Step(test, 0),)\n",
        GATE,
    ),
    Mutant(
        "an evaluation of numbers counts the target for nothing",
        "methods/blocks/evaluation.py",
        "    query_fraction = fraction / (len(models) + 1)\n",
        "    query_fraction = fraction / len(models)\n",
        GATE,
    ),
)

SELECTIONS: Final = (
    Mutant(
        "splits are balanced twice as sharply as was paid for",
        "data/scoring.py",
        "loss = LATTICE * (2 * largest - child_counts.sum(axis=1))",
        "loss = 2 * LATTICE * (2 * largest - child_counts.sum(axis=1))",
        GATE,
    ),
    Mutant(
        "impurities are scored by the squares of counts",
        "data/scoring.py",
        "loss = 2 * half_gini_units(children).sum(axis=1)",
        "loss = 2 * (half_gini_units(children) * (1 + children.sum(axis=2))).sum(axis=1)",
        GATE,
    ),
    Mutant(
        "squared errors are scored without the number of records",
        "data/scoring.py",
        "(n * yy - y * y) // np.maximum(n * LATTICE, 1)",
        "(n * yy - y * y) // LATTICE",
        GATE,
    ),
    Mutant(
        "scores of a choice count what is outside its node",
        "data/sums.py",
        "    index, cells = rows.select(query.region), max(",
        "    index, cells = rows.select(query.region[:-1]), max(",
        GATE,
    ),
    Mutant(
        "report noisy max is priced as the exponential mechanism",
        "privacy/accounting/conversions.py",
        "    is_bounded_range = Mechanism(chooser) is Mechanism.EXPONENTIAL\n",
        "    is_bounded_range = Mechanism(chooser) is not Mechanism.PERMUTE_AND_FLIP\n",
        GATE,
    ),
)

IN_PLACE: Final = (
    Mutant(
        "a database counts a node's records without its last test",
        "data/engines/database.py",
        "WHERE {within(query.region, self.schema)}",
        "WHERE {within(query.region[:-1], self.schema)}",
        GATE,
    ),
    Mutant(
        "a database counts every record twice",
        "data/engines/database.py",
        "(SELECT {', '.join(columns)} FROM {self._cells} ",
        "(SELECT {', '.join(columns)} FROM (SELECT * FROM {self._cells} UNION ALL SELECT * FROM "
        "{self._cells}) AS c ",
        GATE,
    ),
    Mutant(
        "blocks of rows are added to the blocks before them twice",
        "data/engines/database.py",
        "total = block_sums if total is None else add_blocks([total, block_sums])",
        "total = add_blocks([block_sums if total is None else total, block_sums])",
        "data/test_places.py::test_duckdb_answers_alike_in_every_manner",
    ),
)

CHARGING: Final = (
    Mutant(
        "a site charges the first query of a round",
        "federation/transports/in_process.py",
        'self.ledger.reserve([item.charge for item in bundle], f"round {number}")',
        'self.ledger.reserve([item.charge for item in bundle][:1], f"round {number}")',
        GATE,
    ),
    Mutant(
        "a site in memory charges the last query of a round",
        "federation/transports/in_process.py",
        'receipt = self.ledger.reserve(charges, f"round {request.round}")',
        'receipt = self.ledger.reserve(charges[-1:], f"round {request.round}")',
        GATE,
    ),
    Mutant(
        "what is asked again after a failure is not charged again",
        "privacy/ledger/charges.py",
        "        changes = self._tally.add(charges)\n"
        "        try:\n            require_within(self.total,",
        "        again = bool(self.entries) and self.entries[-1][1] == tuple(charges)\n"
        "        changes = self._tally.add(() if again else charges)\n"
        "        try:\n            require_within(self.total,",
        GATE,
    ),
    Mutant(
        "a round that failed stands in the statement for nothing",
        "federation/server.py",
        "self.queries += [replace(record_query(number, item), void=True) for item in bundle]\n",
        'free = {"void": True, "cost": Fraction(0)}\n'
        "        self.queries += "
        "[replace(record_query(number, item), **free) for item in bundle]\n",
        GATE,
    ),
    Mutant(
        "a statement forgets what a failed round cost",
        "methods/training.py",
        "        federation.spent(),\n",
        "        federation.spent()\n"
        "        - max((q.cost for q in federation.queries if q.void), default=Fraction(0)),\n",
        GATE,
    ),
    Mutant(
        "queries may have the part that is for failures",
        "privacy/study.py",
        "        return query.fraction * self.spendable\n",
        "        return query.fraction * self.total\n",
        GATE,
    ),
    Mutant(
        "of several tests the dearest alone is charged",
        "privacy/ledger/charges.py",
        "            node, parent.total = parent, before + gain\n",
        "            node, parent.total = parent, max(before, node.total)\n",
        GATE,
    ),
)

SIZES: Final = (
    Mutant(
        "shares are made for all who must survive, colluders too",
        "privacy/study.py",
        "shares = self.honest if self.dp_model is DPModel.DISTRIBUTED else 1\n"
        "        return _noise_of",
        "shares = self.threshold if self.dp_model is DPModel.DISTRIBUTED else 1\n"
        "        return _noise_of",
        GATE,
    ),
    Mutant(
        "noise of finer units is that of units half as fine",
        "privacy/study.py",
        "whole = _law(measure, cost, sensitivity.of_person(factor))",
        "whole = _law(measure, cost, sensitivity.of_person(max(factor // 2, 1)))",
        GATE,
    ),
    Mutant(
        "the leaves of several trees cost what one tree's do",
        "privacy/queries/kinds.py",
        "return self.statistic.bound(unit).repeat(self.by.groups)",
        "many = 1 if hasattr(self.by, 'trees') else self.by.groups\n"
        "        return self.statistic.bound(unit).repeat(many)",
        GATE,
    ),
    Mutant(
        "noise is repeated where a round asks the same law again",
        "federation/client.py",
        "together = draw(law, ends[-1], secret)",
        "together = np.resize(draw(law, ends[0], secret), ends[-1])",
        GATE,
    ),
    Mutant(
        "noise is left out of the last number",
        "federation/client.py",
        "x * item.refinement + z for item,",
        "x * item.refinement + z * (np.arange(z.size) + 1 < max(z.size, 2)) for item,",
        GATE,
    ),
    Mutant(
        "each site adds its own noise alone, and pays as all together",
        "privacy/study.py",
        "self._sensitivity(query), shares)",
        "self._sensitivity(query), self.n_sites)",
        GATE,
    ),
    Mutant(
        "the budget of a Gaussian study is mu",
        "privacy/accounting/gaussian.py",
        "return rounding.rounded_down(mu**2)",
        "return rounding.rounded_down(mu)",
        GATE,
    ),
)

OF_ESTIMATORS: Final = (
    Mutant(
        "the seed of a fit follows the number of rows",
        "methods/base.py",
        "        study, method = agree(self, schema, len(parts))\n"
        "        with using(self.n_jobs or 1):",
        "        self.random_state = (self.random_state or 0) + len(labels)\n"
        "        study, method = agree(self, schema, len(parts))\n"
        "        with using(self.n_jobs or 1):",
        GATE,
    ),
    Mutant(
        "a tree of random tests counts the tests of a node as one",
        "privacy/queries/groups.py",
        "        return int(self.tests.feature.shape[1])\n",
        "        return 1\n",
        GATE,
    ),
    Mutant(
        "tables of several columns are noised as one column's",
        "privacy/queries/kinds.py",
        "return self.statistic.bound(unit).repeat(self.by.groups)",
        "many = 1 if hasattr(self.by, 'binning') else self.by.groups\n"
        "        return self.statistic.bound(unit).repeat(many)",
        GATE,
    ),
    Mutant(
        "the range of squared errors is taken to be half as wide",
        "privacy/queries/choices.py",
        "            case Score.SQUARED_ERROR:\n                return LATTICE\n",
        "            case Score.SQUARED_ERROR:\n                return LATTICE // 2\n",
        "audit/test_shadow.py::test_selections_by_squared_errors_are_judged",
    ),
    Mutant(
        "the range of Gini's score is taken to be half as wide",
        "privacy/queries/choices.py",
        "            case Score.GINI:\n                return 2 * LATTICE\n",
        "            case Score.GINI:\n                return LATTICE\n",
        GATE,
    ),
    Mutant(
        "a selection is twice as sharp where sites choose alone",
        "federation/client.py",
        "    return choose[query.mechanism](exact, coefficient, secret)",
        "    return choose[query.mechanism](exact, coefficient * min(study.n_sites, 2), secret)",
        GATE,
    ),
)

OF_PERSONS: Final = (
    Mutant(
        "nobody's records are counted",
        "data/prepared.py",
        "        rows = rows.of_each_person(study.records_per_person)\n",
        "",
        GATE,
    ),
    Mutant(
        "models are selected on persons who are held out record by record",
        "methods/model_selection.py",
        "    persons = split_persons(person, labels, site, names)\n",
        "    persons = [None] * len(numbers)\n",
        GATE,
    ),
    Mutant(
        "labels are reported as they are",
        "data/prepared.py",
        "    return rows.with_labels(noisy_labels.astype(np.uint8))",
        "    return rows.with_labels(rows.labels)",
        GATE,
    ),
    Mutant(
        "all labels are randomized by one word",
        "data/prepared.py",
        'study.response.respond(rows.labels.astype(np.int64), rows.draw("label"))',
        "study.response.respond(rows.labels.astype(np.int64), "
        'rows.draw("label")[:1].repeat(rows.n))',
        GATE,
    ),
)

OF_COMPARISONS: Final = (
    Mutant(
        "candidates are trained on records that compare them, too",
        "methods/model_selection.py",
        "    rows, whose = part(~held_out)\n",
        "    rows, whose = part(held_out | ~held_out)\n",
        GATE,
    ),
    Mutant(
        "groups of an evaluation are asked with all of its budget",
        "methods/blocks/evaluation.py",
        "(yield from _ask_tables(models, schema, regions, 1 - ALL_FRACTION))]",
        "(yield from _ask_tables(models, schema, regions, Fraction(1)))]",
        GATE,
    ),
    Mutant(
        "an evaluation states the half that all records cost",
        "methods/evaluate.py",
        "        federation.sites.spent(),\n        federation.queries,\n        is_simulation",
        "        federation.sites.spent() / max(len(federation.record.rounds), "
        "1),\n"
        "        federation.queries,\n"
        "        is_simulation",
        GATE,
    ),
    Mutant(
        "training forgets that records are held out",
        "privacy/study.py",
        "            query = replace(query, region=self.trained_on + query.region)\n",
        "            query = replace(query, region=self.held_out[:1] + query.region)\n",
        GATE,
    ),
)

OF_DATABASES: Final = (
    Mutant(
        "a database takes both outcomes of a test for the first",
        "data/engines/database.py",
        'conditions.append(goes_left if step.outcome == 0 else f"NOT ({goes_left})")',
        "conditions.append(goes_left)",
        GATE,
    ),
    Mutant(
        "a database forgets the first test of a node",
        "data/engines/database.py",
        "    for step in region:\n        if isinstance(step.test, Fold | HeldOut):",
        "    for step in region[1:]:\n        if isinstance(step.test, Fold | HeldOut):",
        GATE,
    ),
    Mutant(
        "a database joins every record to two codes",
        "data/engines/database.py",
        'FROM {raw} {\' \'.join(making.joins)} "\n        f"WHERE ({y}) IS NOT NULL"',
        "FROM (SELECT * FROM {raw} UNION ALL SELECT * FROM {raw}) AS {raw} {' "
        "'.join(making.joins)} \"\n"
        '        f"WHERE ({y}) IS NOT NULL"',
        GATE,
    ),
)

OF_FAILURES: Final = (
    Mutant(
        "a round that is asked again is charged once",
        "federation/server.py",
        "                number, tries = self._charge(bundle), tries + 1\n",
        "                number, tries = number or self._charge(bundle), tries + 1\n",
        GATE,
    ),
    Mutant(
        "what was asked in a failed round is on no record",
        "federation/server.py",
        "        self.queries += [replace(record_query(number, item), "
        "void=True) for item in bundle]\n",
        "",
        GATE,
    ),
    Mutant(
        "one draw of noise is added to all numbers",
        "federation/client.py",
        "together = draw(law, ends[-1], secret)",
        "together = np.full(ends[-1], draw(law, 1, secret)[0])",
        GATE,
    ),
)

SHADOW: Final = (
    *(*PERSONS, *EVALUATIONS, *SELECTIONS, *IN_PLACE, *CHARGING, *SIZES),
    *(*OF_ESTIMATORS, *OF_PERSONS, *OF_COMPARISONS, *OF_DATABASES, *OF_FAILURES),
)
