"""What all estimators share: store parameters, translate them once, run, expose.

No algorithm lives here. Strings stop at this door.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from hedgerow.data import schema_draft
from hedgerow.data.holders import (
    MANY_SITES,
    TRAINED_ON,
    HeldOutDraws,
    declared_parties,
    draws_of_holders,
    held_out_draws,
    names_of_holders,
    split_by_party,
    split_persons,
    warn_of_time,
)
from hedgerow.data.prepared import Held
from hedgerow.data.reading import encoding
from hedgerow.data.reading.report import DataReport, report_of, warn_of
from hedgerow.data.rows import Rows
from hedgerow.errors import DataError, PrivacyWarning, SpecError, warn
from hedgerow.federation.server import Server
from hedgerow.federation.transports import in_process
from hedgerow.kernels.threads import using
from hedgerow.methods.common import PRIVATE, CommonParameters
from hedgerow.methods.inputs import (
    by_schema_names,
    check_columns,
    check_task,
    checked_labels,
    checked_rows,
    name_columns,
    names_of_codes,
    warn_of_marks,
)
from hedgerow.methods.ledger import Ledger, search_around, warn_of_search
from hedgerow.methods.method import Recipe
from hedgerow.methods.parameters import ATTRIBUTES, CLASSES_ATTRIBUTE, checked
from hedgerow.methods.predicting import outputs
from hedgerow.methods.progress import bar
from hedgerow.methods.saving import plain_state, save_model, set_state
from hedgerow.methods.sources import (
    Columns,
    named_columns,
    open_elsewhere,
    read_sources,
    source_of,
    stays_elsewhere,
)
from hedgerow.methods.training import Circumstances, agree, train
from hedgerow.models.model import Model
from hedgerow.models.uncertainty import Grown
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.accounting.guarantee import Protected
from hedgerow.privacy.ledger.charges import ChargeLedger
from hedgerow.privacy.mechanisms.response import BloomReports
from hedgerow.privacy.statement.record import RunRecord
from hedgerow.privacy.statement.spending import Total
from hedgerow.privacy.statement.statement import PrivacyStatement
from hedgerow.privacy.statement.wording import guarantee_of
from hedgerow.privacy.study import Study
from hedgerow.report.evaluation import Evaluation
from hedgerow.report.exports.export import exported
from hedgerow.report.importances import ColumnShape, importance_deviations, importance_parts, shape
from hedgerow.report.page import page
from hedgerow.schema.arrays import Codes
from hedgerow.schema.regions import Region
from hedgerow.schema.schema import Schema

SET_BY_FIT = frozenset(name for name, _, _ in (CLASSES_ATTRIBUTE, *ATTRIBUTES))
SMALLEST = np.finfo(np.float64).tiny
OWNERS = ("data_report_", "_held_out_draws", "ledger_")
"""What stays with whoever has the rows; no model file has it either."""


class PrivateEstimator(CommonParameters):
    """The one way to fit."""

    _regression = False
    schema_: Schema
    model_: Model
    grown_: tuple[Grown, ...]
    run_: RunRecord
    ledger_: ChargeLedger
    privacy_: PrivacyStatement
    n_features_in_: int
    data_report_: DataReport
    classes_: NDArray[Any]
    feature_names_in_: NDArray[np.object_]
    evaluation_: Evaluation
    signed_: dict[str, Any] | None
    _held_out_draws: HeldOutDraws | None

    __eq__ = object.__eq__  # an estimator is itself; two methods of equal content are one
    __hash__ = object.__hash__
    __setattr__ = object.__setattr__

    def _recipe(self, schema: Schema) -> Recipe:
        recipe: Recipe = super()._recipe(schema)
        return recipe

    def __getattr__(self, name: str) -> Any:
        """Asked only for what is not there: before `fit`, that is what `fit` sets."""
        if name in SET_BY_FIT and "model_" not in vars(self):
            kind = type(self).__name__
            raise NotFittedError(
                f"this {kind} is not fitted yet, so it has no {name}; call fit first, or load a "
                "saved model."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # ------------------------------------------------------------------------------------ fit
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        target: str | None = None,
        sql: str | None = None,
        push_down: bool = False,
        party: Any = None,
        parties: Any = None,
        person: Any = None,
        **refused: Any,
    ) -> Self:
        """Trains, on rows of one holder or of several.

        Parameters
        ----------
        X : DataFrame, array, str, Path or connection
            Rows, as a data frame of any library or as an array. Rows may also stay where they are:
            the path of a file, a folder or a pattern, an Arrow dataset or reader, or with `sql` a
            connection to a database. They are streamed, never held as floats.
        y : array or None, default=None
            A label for each row; for rows that stay where they are `target` says it.
        target : str or None, default=None
            The column of the labels.
        sql : str or None, default=None
            What to select from the database.
        push_down : bool, default=False
            Whether the database itself makes cells and counts, so that integers come back.
        party : array, str or None, default=None
            The holder of each row, or the column that names it; None is one holder of all.
        parties : sequence of str or None, default=None
            All sites, those without rows too; the categories of a pandas Categorical say so as
            well. With neither, the rows tell who takes part, and the statement says so.
        person : array, str or None, default=None
            Whose record each row is, or the column that says it. Each holder then keeps
            `records_per_person` of a person's records, drawn at random; without it nobody counts,
            and the statement says so.
        **refused
            What other estimators take, such as `sample_weight`: refused, with the reason.

        """
        refuse(refused)
        checked(self)  # before a schema is read from the rows
        source = source_of(X, y, target, sql, push_down)
        if source is not None:
            columns = named_columns(target, party, parties, person)
            if stays_elsewhere(source, push_down):
                return self._fit_elsewhere(source, columns)
            return self._fit_sources([source], columns)
        X, labels = checked_rows(X), checked_labels(y, self._regression)
        if len(labels) == 0:
            raise DataError("X holds no rows; give at least one.")
        given = self._given_schema(X, labels)
        check_task(given, self._regression, type(self).__name__)
        X = by_schema_names(X, given)
        labels, are_codes = names_of_codes(labels, given)
        names = declared_parties(party, parties)
        parts = split_by_party(X, labels, party, names)
        persons = split_persons(person, labels, party, names)
        study, recipe = agree(self, given, len(parts))
        with using(self.n_jobs or 1):
            read = [
                _encoded(part, who, study.schema) for part, who in zip(parts, persons, strict=True)
            ]
        met = party is not None and names is None
        called = names_of_holders(party, names)
        holders, around, kept = self._holders(study, recipe, read, called, met, person is not None)
        with self._server(study, recipe, holders) as server:
            train(self, study, recipe, server, around)
        self._held_out_draws = kept  # with the new model alone: a fit that fails changes neither
        name_columns(self, X)
        self._name_classes(are_codes)
        return self

    def _name_classes(self, as_codes: bool = False) -> None:
        """At the end of `fit`, for those who have classes."""

    def _fit_sources(self, sources: Sequence[Any], columns: Columns) -> Self:
        """Trains on rows that are read by the names of their columns."""
        got = read_sources(self, sources, columns)
        persons_told = columns.person is not None
        holders, around, kept = self._holders(
            got.study, got.recipe, got.parts, got.names, got.parties_met, persons_told
        )
        with self._server(got.study, got.recipe, holders) as server:
            train(self, got.study, got.recipe, server, around)
        self._held_out_draws = kept
        return self._named()

    def _fit_elsewhere(self, source: Any, columns: Columns) -> Self:
        """Trains on rows that an engine holds and sums where they are."""
        study, recipe, held = open_elsewhere(self, source, columns)
        self.data_report_ = held.report
        if not study.schema.unconfirmed:
            warn_of(self.data_report_.complaints)
        around = Circumstances(total=self._reserve(study, False))
        with self._server(study, recipe, [held]) as server:
            train(self, study, recipe, server, around)
        self._held_out_draws = None
        return self._named()

    def _named(self) -> Self:
        """Columns and classes by their names in the schema."""
        self.feature_names_in_ = np.asarray(self.schema_.names, dtype=object)
        self._name_classes()
        return self

    def _holders(
        self,
        study: Study,
        recipe: Recipe,
        read: Sequence[encoding.Encoded],
        names: Sequence[str],
        parties_met: bool,
        persons_told: bool,
    ) -> tuple[list[Rows], Circumstances, HeldOutDraws | None]:
        """Rows that are read already, one part for each holder, and all that is charged for them.

        Last the draws that hold records out, if any are.
        """
        warn_of_time(study.parties, recipe.largest(study.schema).rounds)
        self.data_report_ = report_of(read, study.schema)
        if not study.schema.unconfirmed:
            warn_of(self.data_report_.complaints)
        draws = draws_of_holders(study)
        holders = [Rows(part, study.schema, own) for part, own in zip(read, draws, strict=True)]
        kept = held_out_draws(study, names, draws, persons_told)
        circumstances = Circumstances(
            parties_met=parties_met,
            persons_told=persons_told,
            total=self._reserve(study, persons_told=persons_told),
            drawn=None if kept is None else kept.part(TRAINED_ON),
        )
        return holders, circumstances, kept

    @contextmanager
    def _server(self, study: Study, recipe: Recipe, holders: Sequence[Held]) -> Iterator[Server]:
        """Over the holders' rows, with as many threads and as much of a bar as was asked for."""
        rounds = recipe.largest(study.schema).rounds_of(study.parties)
        many = study.parties > MANY_SITES
        show = self.progress or (many and sys.stderr.isatty())
        with using(self.n_jobs or 1), bar(show, rounds, at_once=many) as listener:
            yield in_process.open_federation(study, holders, listener)

    def _given_schema(self, X: Any, y: Any) -> Schema:
        given: Schema | str | None = checked(self).schema
        if given == PRIVATE:
            given = schema_draft.declared_schema(X, y)
        if isinstance(given, Schema):
            warn_of_marks(given)
            return given
        warn(
            "no schema was given: ranges, categories and classes are read from the rows, and the "
            "privacy statement will say epsilon = infinity. Pass schema=hedgerow.Schema(...).",
            PrivacyWarning,
        )
        return schema_draft.infer_schema(X, y, regression=self._regression)

    def _reserve(self, study: Study, persons_told: bool) -> Total | None:
        """Charges all that this fit may spend to the shared ledger, if it names one."""
        ledger: Ledger | None = checked(self).ledger
        guarantee = guarantee_of(study, persons_told)
        is_kept = guarantee.protected is not Protected.NOTHING
        search = search_around(guarantee) if is_kept else None
        if ledger is None:
            warn_of_search(search)
            return None
        to_come = 0 if search is None else search.left - 1
        return ledger.reserve(guarantee, name=type(self).__name__, to_come=to_come)

    def _label_reports(
        self, schema: Schema, epsilon: Fraction, placement: Placement | None
    ) -> BloomReports | None:
        """How labels are told under placement 'label'; None is k-ary randomised response."""
        return None

    # -------------------------------------------------------------------------------- predict
    def _outputs(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self, "model_")
        X = by_schema_names(checked_rows(X), self.schema_)
        check_columns(X, self)
        with using(self.n_jobs or 1):
            return outputs(self.model_, X, self.schema_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.non_deterministic = self.placement != "nowhere"
        return tags

    def decision_path(self, X: Any) -> list[Region]:
        """The region of the leaf that each record reaches; for models of a single tree."""
        check_is_fitted(self, "model_")
        trees = self.model_.score.trees
        if len(trees) != 1:
            raise SpecError(
                f"this model has {len(trees)} trees; a decision path belongs to one tree."
            )
        regions = trees[0].regions()
        return [regions[leaf] for leaf in trees[0].apply(self.cells(X))]

    def cells(self, X: Any) -> Codes:
        """(F, n) the cell of the schema's grid that each value falls in."""
        check_is_fitted(self, "model_")
        X = by_schema_names(checked_rows(X), self.schema_)
        return encoding.encode_features(X, self.schema_)

    def __getstate__(self) -> Any:
        """A pickled model leaves its owner's side; exact counts and the holders' secrets do not."""
        state = {k: v for k, v in super().__getstate__().items() if k not in OWNERS}
        return plain_state(self, state)

    def __setstate__(self, state: dict[str, Any]) -> None:
        set_state(self, state)

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """(F,) the part of the score's variation that each column brings about; sum 1.

        From released numbers alone, so nothing is charged; `hedgerow.importances` names them.
        """
        check_is_fitted(self, "model_")
        return importance_parts(self)[0]

    @property
    def feature_importances_std_(self) -> NDArray[np.float64]:
        """(F,) standard deviations of the privacy noise in `feature_importances_`.

        To first order, with the model's questions taken as they are (report/importances.py).
        """
        check_is_fitted(self, "model_")
        return importance_deviations(self)

    def shape_(self, feature: str) -> ColumnShape:
        """What one column adds to the score, bin by bin, with its noise: `hedgerow.shape`."""
        check_is_fitted(self, "model_")
        return shape(self, feature)

    def keep(self, evaluation: Evaluation) -> Self:
        """Keeps a paid evaluation with the model: `save` writes it, `report` shows it.

        It comes with its own statement: what its records paid is not part of `privacy_`.
        """
        check_is_fitted(self, "model_")
        self.evaluation_ = evaluation.of(self.model_.score.digest)
        return self

    def save(self, path: str | Path) -> None:
        """Writes the fitted model as JSON, for `hedgerow.load`; noisy numbers only."""
        check_is_fitted(self, "model_")
        save_model(path, self)

    def export(self, path: str | Path, to: str) -> Path:
        """Writes the fitted model for another program; docs/exports.md says how each is used.

        Parameters
        ----------
        path : str or Path
            The file to write.
        to : {'onnx', 'python', 'sql', 'xgboost', 'dot', 'text', 'registry'}
            The first four compute what `predict_proba` does (of a number, `predict`); 'dot' and
            'text' are for people; 'registry' is the statement as an entry of the OpenDP
            Deployments Registry, in YAML.

        Returns
        -------
        Path
            The file that was written.

        """
        check_is_fitted(self, "model_")
        return exported(self, path, to)

    def report(self, path: str | Path) -> Path:
        """Writes a page about the fitted model: one HTML file that needs no network."""
        check_is_fitted(self, "model_")
        return page.report(self, path)

    def _html_repr(self) -> str:
        """What a notebook shows: of a fitted model what it promises, else scikit-learn's box."""
        if hasattr(self, "privacy_"):
            return page.card(self)
        return str(super()._html_repr())


class PrivateClassifier(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    def _name_classes(self, as_codes: bool = False) -> None:
        """The schema decides, never the labels: one label of another type would change all."""
        labels = self.schema_.labels
        self.classes_ = np.arange(len(labels)) if as_codes else np.array(labels)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class, in the order of `classes_`; reads rows as `fit` does."""
        return self._outputs(X)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Of two classes the log-odds of the second in `classes_`; of more, each one's logarithm.

        From `predict_proba`; what is ruled out has a very small score, not an infinite one.
        """
        scores = np.log(np.maximum(self.predict_proba(X), SMALLEST))
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """The logarithms of `predict_proba`; minus infinity for what is ruled out."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[best])


class PrivateRegressor(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    _regression = True

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The number to expect for each row."""
        return self._outputs(X)[:, 0]


class StagedTrees(PrivateEstimator):
    """What boosted trees have besides: each tree corrects those before it."""

    def staged(self, n_trees: int) -> Self:
        """The fitted model of its first trees alone, which asks no record anything.

        For early stopping: `hedgerow.choose(..., stages=(10, 25, 50))`, or `choose` of `evaluate`.
        """
        check_is_fitted(self, "model_")
        score = self.model_.score
        if not isinstance(n_trees, int) or not 0 <= n_trees <= len(score.trees):
            raise SpecError(f"n_trees is {n_trees!r}; the model has 0 to {len(score.trees)} trees.")
        shorter = object.__new__(type(self))
        shorter.__dict__.update(self.__dict__)  # the holders' secrets too, which a copy leaves out
        shorter.model_ = replace(self.model_, score=replace(score, trees=score.trees[:n_trees]))
        shorter.grown_ = self.grown_[:n_trees]
        return shorter


def _encoded(part: tuple[Any, NDArray[Any]], person: Any, schema: Schema) -> encoding.Encoded:
    """The user looks at rows of their own; a holder without any has nothing to check."""
    X, y = part
    return encoding.encode(X, schema, y=y, person=person, check=len(y) > 0)


def refuse(parameters: dict[str, Any]) -> None:
    """What `fit` of other estimators takes and this one must not."""
    if "sample_weight" in parameters and parameters["sample_weight"] is not None:
        raise SpecError(
            "sample_weight is refused: a weight would scale one record's influence beyond the "
            "bound its noise was made for. Drop it, or repeat rows and set records_per_person."
        )
    strange = sorted(set(parameters) - {"sample_weight"})
    if strange:
        raise TypeError(
            f"fit() got unexpected arguments {strange}; it takes X, y, target, sql, "
            "push_down, party, parties and person."
        )
