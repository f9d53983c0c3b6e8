"""What all estimators share: store parameters, translate them once, run, expose.

No algorithm lives here. Strings stop at this door.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from hedgerow.coordinator.federation import Federation
from hedgerow.coordinator.statement import PrivacyStatement, statement
from hedgerow.errors import DataError, PrivacyWarning, SpecError
from hedgerow.estimators.checking import check_width, checked_labels, checked_rows
from hedgerow.estimators.holders import (
    declared_parties,
    public_draws,
    secret_draws,
    split_by_party,
)
from hedgerow.estimators.predicting import outputs
from hedgerow.estimators.progress import bar
from hedgerow.estimators.saving import decision_path, save_model
from hedgerow.learning.choosing.screening import Refinement
from hedgerow.learning.flow import run
from hedgerow.privacy.accounting.budget import Placement, exact
from hedgerow.privacy.accounting.conversions import check_promise, warn_if_weak
from hedgerow.privacy.noise.response import BloomReports
from hedgerow.recipes.recipe import Recipe, Trained, check_needs
from hedgerow.secagg.parameters import Parameters
from hedgerow.site.reading import encoding
from hedgerow.site.rows import Rows
from hedgerow.study.terms import Study
from hedgerow.transport import in_process
from hedgerow.values.regions import Region
from hedgerow.values.schema import Schema
from hedgerow.values.tokens import token_of

PLACEMENTS = {p.name.lower(): p for p in Placement}


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Parameters every estimator has, and the one way to fit.

    Parameters
    ----------
    schema : Schema or None
        Public ranges, categories and classes. None reads them from the rows and warns: the
        statement then says that epsilon is infinite.
    epsilon, delta : float
        The promise. delta = 0 is pure differential privacy (discrete Laplace noise); delta > 0
        uses discrete Gaussian noise, which is smaller as soon as a record takes part in about
        nine sums or more.
    placement : str or None
        'curator', 'shares', 'silo', 'label' or 'nowhere'; None is 'curator' for one holder and
        'shares' for several.
    colluders, threshold : int or None
        Sites that may collude, and the fewest whose sum may be opened; None takes the defaults.
    records_per_person : int
        How many records one person may have; sensitivities scale with it.
    random_state : int, RandomState or None
        Public randomness only: feature draws and random cuts. It never reaches the noise.
    progress : bool
        Whether to draw a progress bar on the terminal.

    """

    _regression = False

    def _recipe(self, schema: Schema) -> Recipe:
        raise NotImplementedError

    # ------------------------------------------------------------------------------------ fit
    def fit(
        self, X: Any, y: Any, *, party: Any = None, parties: Any = None, **refused: Any
    ) -> Self:
        """Trains on rows held by `party`: one name per row, or None for one holder.

        `parties` names all sites, those without rows too. The categories of a pandas Categorical
        do so as well. With neither, the rows tell who takes part, and the statement says so.
        """
        refuse(refused)
        X, y = checked_rows(X), checked_labels(y, self._regression)
        if len(y) == 0:
            raise DataError("X holds no rows; give at least one.")
        epsilon, delta = exact(self.epsilon, "epsilon"), exact(self.delta, "delta")
        placement = self._placement()
        if placement is not Placement.NOWHERE:
            check_promise(epsilon, delta)
            warn_if_weak(delta)
        given, source = self._given_schema(X, y)
        names = declared_parties(party, parties)
        parts = split_by_party(X, y, party, names)
        recipe = self._recipe(given)
        schema = recipe.grid(given)
        study = self._study(schema, recipe, len(parts), epsilon, delta, placement)
        check_needs(recipe, schema, study.placement, study.parties)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        if study.placement is Placement.NOWHERE:
            draws = public_draws(study.name, len(parts), rng)
        else:
            draws = secret_draws(study.name, len(parts))
        holders = [
            Rows(encoding.encode(x, schema, y=labels, check=len(labels) > 0), schema, own)
            for (x, labels), own in zip(parts, draws, strict=True)
        ]
        with bar(self.progress, recipe.rounds(schema)) as listener:
            federation = in_process.open_federation(study, holders, listener)
            trained: Trained = run(recipe.flow(schema, federation, rng), federation)
        parties_met = party is not None and names is None
        self._expose(X, schema, study, trained, federation, source, parties_met)
        return self

    def _placement(self) -> Placement | None:
        if self.placement is None:
            return None
        if self.placement not in PLACEMENTS:
            raise SpecError(f"placement is {self.placement!r}; use one of {sorted(PLACEMENTS)}.")
        return PLACEMENTS[self.placement]

    def _given_schema(self, X: Any, y: Any) -> tuple[Schema, str]:
        if isinstance(self.schema, Schema):
            return self.schema, "given: public ranges, categories and classes"
        if self.schema is not None:
            raise SpecError(
                f"schema is {self.schema!r}; give a hedgerow.Schema, or None to read one from "
                "the rows (which protects nothing about ranges)."
            )
        warnings.warn(
            "no schema was given: ranges, categories and classes are read from the rows, and the "
            "privacy statement will say epsilon = infinity. Pass schema=hedgerow.Schema(...).",
            PrivacyWarning,
            stacklevel=3,
        )
        return encoding.infer_schema(X, y, regression=self._regression), "inferred from the rows"

    def _study(
        self,
        schema: Schema,
        recipe: Recipe,
        parties: int,
        epsilon: Fraction,
        delta: Fraction,
        placement: Placement | None,
    ) -> Study:
        default = Parameters.default(parties) if parties > 1 else None
        colluders, threshold = (default.colluders, default.threshold) if default else (0, 1)
        if self.colluders is not None:
            colluders = at_least(self.colluders, 0, "colluders")
        if self.threshold is not None:
            threshold = at_least(self.threshold, 1, "threshold")
        return Study(
            name="fit",
            schema=schema,
            recipe=recipe.name,
            epsilon=epsilon,
            delta=delta,
            placement=placement or (Placement.CURATOR if parties == 1 else Placement.SHARES),
            parties=parties,
            colluders=colluders,
            threshold=threshold,
            records_per_person=at_least(self.records_per_person, 1, "records_per_person"),
            label_reports=self._label_reports(schema, epsilon, placement),
        )

    def _label_reports(
        self, schema: Schema, epsilon: Fraction, placement: Placement | None
    ) -> BloomReports | None:
        """How labels are told under placement 'label'; None is k-ary randomised response."""
        return None

    def _expose(
        self,
        X: Any,
        schema: Schema,
        study: Study,
        trained: Trained,
        federation: Federation,
        source: str,
        parties_met: bool,
    ) -> None:
        self.schema_ = schema
        self.model_ = trained.model
        self.grown_ = trained.grown
        self.run_ = federation.record
        self.ledger_ = federation.ledger
        self.privacy_: PrivacyStatement = statement(
            study,
            federation.link.spent(),
            federation.asked,
            source,
            simulated=True,
            saved_fraction=trained.saved,
            slack=federation.slack,
            parties_met=parties_met,
        )
        self.n_features_in_ = len(schema.grids)
        if hasattr(X, "columns"):
            names = getattr(X, "column_names", X.columns)  # an Arrow table's columns are arrays
            self.feature_names_in_ = np.asarray([str(name) for name in names], dtype=object)

    # -------------------------------------------------------------------------------- predict
    def _outputs(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self, "model_")
        X = checked_rows(X)
        check_width(X, self.n_features_in_, type(self).__name__)
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
        return decision_path(self.model_, encoding.encode_features(X, self.schema_))

    def save(self, path: str) -> None:
        """Writes model, schema and privacy statement as JSON; noisy numbers only."""
        check_is_fitted(self, "model_")
        save_model(path, self)


class PrivateClassifier(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    def fit(
        self, X: Any, y: Any, *, party: Any = None, parties: Any = None, **refused: Any
    ) -> Self:
        super().fit(X, y, party=party, parties=parties, **refused)
        self.classes_ = like_labels(self.schema_.classes or (), y)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        return self._outputs(X)

    def predict(self, X: Any) -> NDArray[Any]:
        best = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[best])


class PrivateRegressor(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    _regression = True

    def predict(self, X: Any) -> NDArray[np.float64]:
        return self._outputs(X)[:, 0]


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
            f"fit() got unexpected arguments {strange}; it takes X, y, party and parties."
        )


def like_labels(classes: Sequence[str], y: Any) -> NDArray[Any]:
    """The schema's classes in the type of the user's labels: 1, not '1'."""
    kind, texts = np.asarray(y).dtype, np.asarray(classes, dtype=object)
    if kind.kind not in "iufb":
        return texts
    try:
        labels = np.array([float(str(token_of(text))) for text in classes]).astype(kind)
    except ValueError:
        return texts
    return labels if len(np.unique(labels)) == len(classes) else texts


def shares(value: float, name: str) -> Fraction:
    """A share of the budget, strictly between 0 and 1."""
    share = exact(value, name)
    if not 0 < share < 1:
        raise SpecError(f"{name} is {value}; use a number between 0 and 1, both excluded.")
    return share


def positive(value: float, name: str) -> Fraction:
    number = exact(value, name)
    if number <= 0:
        raise SpecError(f"{name} is {value}; use a number above 0.")
    return number


def at_least(value: int, least: int, name: str) -> int:
    if not isinstance(value, int | np.integer) or value < least:
        raise SpecError(f"{name} is {value!r}; use a whole number of {least} or more.")
    return int(value)


def given_or_none(value: int | None, name: str) -> int | None:
    """A whole number of 1 or more, or None for the recipe's own choice."""
    return None if value is None else at_least(value, 1, name)


def refinement(value: Any) -> Refinement | None:
    """The pieces of our own tree that were switched on, or None."""
    if value is not None and not isinstance(value, Refinement):
        raise SpecError(f"refine is {value!r}; give a hedgerow.Refinement, or None for none.")
    return value
