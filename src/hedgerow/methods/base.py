"""What all estimators share: store parameters, translate them once, run, expose.

No algorithm is here. Parameters given as strings are translated here and nowhere below.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from hedgerow.data import schema_draft
from hedgerow.data.prepared import Held
from hedgerow.data.reading import encoding
from hedgerow.data.reading.report import DataReport, report_of, warn_of
from hedgerow.data.rows import Rows
from hedgerow.data.site_rows import (
    MANY_SITES,
    TRAINED_ON,
    HeldOutDraws,
    declared_sites,
    draws_of_sites,
    held_out_draws,
    warn_of_time,
)
from hedgerow.errors import DataError, ParameterError, PrivacyWarning, warn
from hedgerow.federation.server import Server
from hedgerow.federation.transports import in_process
from hedgerow.kernels.threads import using
from hedgerow.methods.common import PRIVATE, CommonParameters
from hedgerow.methods.evaluated_rows import rows_of_the_sites
from hedgerow.methods.inputs import (
    by_schema_names,
    check_column_names,
    check_task,
    checked_labels,
    checked_rows,
    warn_of_marks,
)
from hedgerow.methods.ledger import Ledger, search_around, warn_of_search
from hedgerow.methods.method import Method
from hedgerow.methods.parameters import ATTRIBUTES, CLASSES_ATTRIBUTE, check_parameters
from hedgerow.methods.predicting import outputs
from hedgerow.methods.saving import plain_state, set_state, write_model
from hedgerow.methods.sources import TrainingRows, named_columns, rows_of_source, source_of
from hedgerow.methods.training import Circumstances, agree, bar, train
from hedgerow.models.model import Model
from hedgerow.models.uncertainty import LeafStatistics
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.accounting.guarantee import Protected
from hedgerow.privacy.ledger.charges import ChargeLedger
from hedgerow.privacy.mechanisms.response import BloomRandomizedResponse
from hedgerow.privacy.statement.record import RunRecord
from hedgerow.privacy.statement.spending import Total
from hedgerow.privacy.statement.statement import PrivacyStatement
from hedgerow.privacy.statement.wording import guarantee_of
from hedgerow.privacy.study import Study
from hedgerow.report.evaluation import Evaluation
from hedgerow.report.importances import (
    FeatureEffect,
    feature_effect,
    importance_deviations,
    importance_parts,
)
from hedgerow.schema.arrays import Codes
from hedgerow.schema.regions import Region
from hedgerow.schema.schema import Schema

if TYPE_CHECKING:
    from hedgerow.report.page.page import InlinePage

SET_BY_FIT = frozenset(name for name, _, _ in (CLASSES_ATTRIBUTE, *ATTRIBUTES))
SMALLEST = np.finfo(np.float64).tiny
OWNERS = ("data_report_", "_held_out_draws", "ledger_")
"""Attributes that stay with the owner of the rows; no model file or pickle has them."""


class PrivateEstimator(CommonParameters):
    """The base class of all estimators."""

    _regression = False
    schema_: Schema
    model_: Model
    leaf_statistics_: tuple[LeafStatistics, ...]
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

    __eq__ = object.__eq__  # estimators compare by identity, methods by content
    __hash__ = object.__hash__
    __setattr__ = object.__setattr__

    def _method(self, schema: Schema) -> Method:
        method: Method = super()._method(schema)
        return method

    def __getattr__(self, name: str) -> Any:
        """Called for absent attributes only: before `fit`, those that `fit` sets."""
        if name in SET_BY_FIT and "model_" not in vars(self):
            kind = type(self).__name__
            raise NotFittedError(
                f"this {kind} is not fitted yet, so it has no {name}; call fit first, or load a "
                "saved model."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        target: str | None = None,
        sql: str | None = None,
        push_down: bool = False,
        temp_folder: Any = None,
        site: Any = None,
        sites: Any = None,
        person: Any = None,
        **fit_params: Any,
    ) -> Self:
        """Train on the rows of one site or of several.

        Parameters
        ----------
        X : DataFrame, array, str, Path or connection
            Rows, as a data frame of any library or as an array. Rows may also stay where they are:
            the path of a file, a folder or a pattern, an Arrow dataset or reader, or with `sql` a
            database connection. They are streamed, never held as floats.
        y : array or None, default=None
            A label for each row; for files and databases use `target`.
        target : str or None, default=None
            The label column.
        sql : str or None, default=None
            The query that selects the rows from the database.
        push_down : bool, default=False
            Whether the database itself computes cells and counts and returns only integers.
        temp_folder : str, Path or None, default=None
            Folder for a memory-mapped file of cells during the fit, for rows that do not fit into
            memory; needs one byte of disk per value.
        site : array, str or None, default=None
            The site of each row, or the column that names it; None treats all rows as one site.
        sites : sequence of str or None, default=None
            All sites, including those without rows; the categories of a pandas Categorical serve as
            well. With neither, the rows reveal who takes part, and the statement says so.
        person : array, str or None, default=None
            The person of each row, or the column that names it. Each site then keeps at most
            `records_per_person` records of a person, drawn at random. Without it no such limit is
            enforced, and the statement says so.
        **fit_params
            Arguments of other estimators, such as `sample_weight`; refused with the reason.

        """
        refuse(fit_params)
        check_parameters(self)  # before a schema is read from the rows
        source = source_of(X, y, target, sql, push_down, temp_folder is not None)
        if source is None:
            rows = self._given_rows(X, y, site, sites, person)
        else:
            columns = named_columns(target, site, sites, person)
            rows = rows_of_source(self, source, columns, push_down, temp_folder)
        holders, around, held_out = self._holders(rows)
        with self._server(rows, holders) as server:
            train(self, rows.study, rows.method, server, around)
        # set together with the new model: a fit that fails changes neither
        self._held_out_draws = held_out
        return self._set_names(rows.has_names, rows.are_codes)

    def _given_rows(self, X: Any, y: Any, site: Any, sites: Any, person: Any) -> TrainingRows:
        """The rows of a frame or an array on the study's grid, by site."""
        X, labels = checked_rows(X), self._checked_labels(y)
        if len(labels) == 0:
            raise DataError("X holds no rows; give at least one.")
        schema = self._given_schema(X, labels)
        check_task(schema, self._regression, type(self).__name__)
        parts, are_codes = rows_of_the_sites(X, labels, schema, site, sites, person)
        study, method = agree(self, schema, len(parts))
        with using(self.n_jobs or 1):
            encoded_rows = [part.encoded(study.schema) for part in parts]
        return TrainingRows(
            study=study,
            method=method,
            parts=encoded_rows,
            names=[part.name for part in parts],
            found_sites=site is not None and declared_sites(site, sites) is None,
            persons_declared=person is not None,
            has_names=hasattr(X, "columns"),
            are_codes=are_codes,
        )

    def _checked_labels(self, y: Any) -> NDArray[Any]:
        return checked_labels(y, self._regression)

    def _name_classes(self, as_codes: bool = False) -> None:
        """Sets `classes_` at the end of `fit`; classifiers only."""

    def _set_names(self, has_names: bool = True, are_codes: bool = False) -> Self:
        """Sets the names of classes, and those of columns in use if the rows have names."""
        if has_names:
            self.feature_names_in_ = np.asarray(self.schema_.columns, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_  # from an earlier fit
        self._name_classes(are_codes)
        return self

    def _holders(
        self, rows: TrainingRows
    ) -> tuple[Sequence[Held], Circumstances, HeldOutDraws | None]:
        """What answers for each site, the circumstances of the run, and the held-out draws."""
        study, by_person, held_out = rows.study, rows.persons_declared, None
        holders: list[Held]
        if rows.engine is not None:
            self.data_report_, holders = rows.engine.report, [rows.engine]
        else:
            warn_of_time(study.n_sites, rows.most_rounds)
            self.data_report_ = report_of(rows.parts, study.schema, rows.label)
            draws = draws_of_sites(study)
            pairs = zip(rows.parts, draws, strict=True)
            holders = [Rows(part, study.schema, own) for part, own in pairs]
            held_out = held_out_draws(study, rows.names, draws, by_person)
        if not study.schema.unconfirmed:
            warn_of(self.data_report_.complaints)
        circumstances = Circumstances(
            found_sites=rows.found_sites,
            persons_declared=by_person,
            total=self._reserve(study, by_person),
            drawn=None if held_out is None else held_out.part(TRAINED_ON),
        )
        return holders, circumstances, held_out

    @contextmanager
    def _server(self, rows: TrainingRows, holders: Sequence[Held]) -> Iterator[Server]:
        """A simulated server over the sites' rows, with threads and a progress bar as requested."""
        many = rows.study.n_sites > MANY_SITES
        show = self.progress or (many and sys.stderr.isatty())
        with using(self.n_jobs or 1), bar(show, rows.most_rounds, at_once=many) as listener:
            yield in_process.open_federation(rows.study, holders, listener)

    def _given_schema(self, X: Any, y: Any) -> Schema:
        schema: Schema | str | None = check_parameters(self).schema
        if schema == PRIVATE:
            schema = schema_draft.declared_schema(X, y)
        if isinstance(schema, Schema):
            warn_of_marks(schema)
            return schema
        warn(
            "no schema was given: ranges, categories and classes are read from the rows, and the "
            "privacy statement will say epsilon = infinity. Pass schema=hedgerow.Schema(...).",
            PrivacyWarning,
        )
        return schema_draft.infer_schema(X, y, regression=self._regression)

    def _reserve(self, study: Study, persons_declared: bool) -> Total | None:
        """Charges the whole budget of this fit to the shared ledger, if one is named."""
        ledger: Ledger | None = check_parameters(self).ledger
        guarantee = guarantee_of(study, persons_declared)
        is_nothing = guarantee.protected is Protected.NOTHING
        search = None if is_nothing else search_around(guarantee)
        if ledger is None:
            warn_of_search(search)
            return None
        to_come = 0 if search is None else search.left - 1
        return ledger.reserve(guarantee, name=type(self).__name__, to_come=to_come)

    def _label_reports(
        self, schema: Schema, epsilon: Fraction, dp_model: DPModel | None
    ) -> BloomRandomizedResponse | None:
        """How labels are randomized under dp_model 'label'; None is k-ary randomized response."""
        return None

    def _outputs(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self, "model_")
        X = by_schema_names(checked_rows(X), self.schema_)
        check_column_names(X, self)
        with using(self.n_jobs or 1):
            return outputs(self.model_, X, self.schema_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.non_deterministic = self.dp_model != "none"
        return tags

    def decision_path(self, X: Any) -> list[Region]:
        """The region of the leaf that each record reaches; for models of a single tree."""
        check_is_fitted(self, "model_")
        trees = self.model_.score.trees
        if len(trees) != 1:
            raise ParameterError(
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
        """State for pickling, without exact counts and the sites' secrets."""
        state = {k: v for k, v in super().__getstate__().items() if k not in OWNERS}
        return plain_state(self, state)

    def __setstate__(self, state: dict[str, Any]) -> None:
        set_state(self, state)

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """(F,) the fraction of the score's variation due to each column; they sum to 1.

        Computed from released numbers, so nothing is charged; `hedgerow.importances` names them.
        """
        check_is_fitted(self, "model_")
        return importance_parts(self)[0]

    @property
    def feature_importances_std_(self) -> NDArray[np.float64]:
        """(F,) standard deviations of the privacy noise in `feature_importances_`.

        A first-order approximation that treats the model's queries as fixed
        (report/importances.py).
        """
        check_is_fitted(self, "model_")
        return importance_deviations(self)

    def feature_effect(self, feature: str) -> FeatureEffect:
        """One column's contribution to the score per bin, with noise: `hedgerow.feature_effect`."""
        check_is_fitted(self, "model_")
        return feature_effect(self, feature)

    def keep(self, evaluation: Evaluation) -> Self:
        """Stores an evaluation with the model: `save` writes it, `report` shows it.

        It has its own statement: its budget is not part of `privacy_`.
        """
        check_is_fitted(self, "model_")
        self.evaluation_ = evaluation.of(self.model_.score.digest)
        return self

    def save(self, path: str | Path) -> None:
        """Save the fitted model as JSON, for `hedgerow.load`; it has noisy numbers only."""
        check_is_fitted(self, "model_")
        write_model(path, self)

    def export(self, path: str | Path, to: str, times: Sequence[float] = ()) -> Path:
        """Write the fitted model for another program; docs/exports.md shows how each is used.

        Parameters
        ----------
        path : str or Path
            The file to write; for 'mlflow', the folder.
        to : {'onnx', 'python', 'sql', 'xgboost', 'skops', 'mlflow', 'dot', 'text', 'registry', \
                'model-card', 'cyclonedx', 'croissant', 'annex-iv'}
            The first six compute what `predict_proba` does (regression: `predict`); 'dot' and
            'text' are for people; the others hold the statement and the schema, for model
            registries and auditors.
        times : sequence of float, default=()
            Survival models: the times at which 'onnx' and 'sql' give the probability of no event;
            by default `unique_times_`.

        Returns
        -------
        Path
            The file that was written.

        """
        from hedgerow.methods import mlflow
        from hedgerow.report.exports.export import export_model

        check_is_fitted(self, "model_")
        if to == "mlflow":
            return mlflow.save_model(self, path)
        return export_model(self, path, to, times)

    def report(self, path: str | Path | None = None) -> Path | InlinePage:
        """Write a report page about the fitted model: one HTML file that needs no network.

        Without a path, return it for display in a notebook.
        """
        from hedgerow.report.page import page

        check_is_fitted(self, "model_")
        return page.InlinePage(page.page_of(self)) if path is None else page.report(self, path)

    def _html_repr(self) -> str:
        """HTML for notebooks: the guarantee of a fitted model, else scikit-learn's diagram."""
        from hedgerow.report.page import page

        return page.card(self) if hasattr(self, "privacy_") else str(super()._html_repr())


class PrivateClassifier(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    def _name_classes(self, as_codes: bool = False) -> None:
        """Class labels have the schema's type, whatever the type of `y`."""
        labels = self.schema_.labels
        self.classes_ = np.arange(len(labels)) if as_codes else np.array(labels)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class, in the order of `classes_`; reads rows as `fit` does."""
        return self._outputs(X)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Log-odds of the second class in `classes_`; for more classes, the logarithm of each one's
        probability.

        A class of probability 0 gets a very small finite score.
        """
        scores = np.log(np.maximum(self.predict_proba(X), SMALLEST))
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """The logarithms of `predict_proba`; minus infinity for a class of probability 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[best])


class PrivateRegressor(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    _regression = True

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The predicted number of each row."""
        return self._outputs(X)[:, 0]


class StagedTrees(PrivateEstimator):
    """Early stopping of boosted trees: each tree corrects those before it."""

    def staged(self, n_estimators: int) -> Self:
        """The fitted model cut to its first trees; needs no query.

        For early stopping: `hedgerow.select_model(..., stages=(10, 25, 50))`, or `compare_with` of
        `evaluate`.
        """
        check_is_fitted(self, "model_")
        score = self.model_.score
        if not isinstance(n_estimators, int) or not 0 <= n_estimators <= len(score.trees):
            raise ParameterError(
                f"n_estimators is {n_estimators!r}; the model has 0 to {len(score.trees)} trees."
            )
        shorter = object.__new__(type(self))
        shorter.__dict__.update(self.__dict__)  # including the sites' secrets, which copying omits
        shorter.model_ = replace(
            self.model_, score=replace(score, trees=score.trees[:n_estimators])
        )
        shorter.leaf_statistics_ = self.leaf_statistics_[:n_estimators]
        return shorter


def refuse(parameters: dict[str, Any]) -> None:
    """Refuses arguments of `fit` that only other estimators take."""
    if "sample_weight" in parameters and parameters["sample_weight"] is not None:
        raise ParameterError(
            "sample_weight is refused: a weight would scale one record's influence beyond the "
            "bound its noise was made for. Drop it, or repeat rows and set records_per_person."
        )
    strange = sorted(set(parameters) - {"sample_weight"})
    if strange:
        raise TypeError(
            f"fit() got unexpected arguments {strange}; it takes X, y, target, sql, "
            "temp_folder, push_down, site, sites and person."
        )


# Which of scikit-learn's checks an estimator may fail, and why.
#
# `check_estimator(model, expected_failed_checks=expected_failed_checks(model))`; which did:
# docs/checks.md.

NOISE = "compares the predictions of two fits, and noise is drawn anew for each"
COMPARING = (
    "check_classifier_data_not_an_array",
    "check_fit_idempotent",
    "check_pipeline_consistency",
    "check_regressor_data_not_an_array",
    "check_regressors_int",
    "check_supervised_y_2d",
)


def expected_failed_checks(estimator: PrivateEstimator) -> dict[str, str]:
    """The reason by check; empty for a model without noise."""
    is_noisy = estimator.dp_model != DPModel.NONE.name.lower()
    return dict.fromkeys(COMPARING, NOISE) if is_noisy else {}
