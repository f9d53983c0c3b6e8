"""What all estimators share: store parameters, translate them once, run, expose.

No algorithm lives here. Strings stop at this door.
"""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from hedgerow.coordinator.promise import unit
from hedgerow.coordinator.record import RunRecord
from hedgerow.coordinator.statement import PrivacyStatement, is_inferred
from hedgerow.coordinator.total import Total
from hedgerow.errors import DataError, PrivacyWarning, SpecError
from hedgerow.estimators.assembling import Circumstances, agree, named_columns, train
from hedgerow.estimators.checking import check_width, checked_labels, checked_rows, like_labels
from hedgerow.estimators.common import CommonParameters
from hedgerow.estimators.holders import (
    declared_parties,
    draws_of_holders,
    split_by_party,
    split_persons,
)
from hedgerow.estimators.ledger import Ledger
from hedgerow.estimators.parameters import checked
from hedgerow.estimators.predicting import outputs
from hedgerow.estimators.progress import bar
from hedgerow.estimators.saving import save_model
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.ledger.charges import ChargeLedger
from hedgerow.privacy.noise.response import BloomReports
from hedgerow.recipes.recipe import Recipe
from hedgerow.site.reading import encoding
from hedgerow.site.rows import Rows
from hedgerow.study.terms import Study
from hedgerow.transport import in_process
from hedgerow.values.grown import Grown
from hedgerow.values.models import Model
from hedgerow.values.regions import Region
from hedgerow.values.schema import Schema


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

    def _recipe(self, schema: Schema) -> Recipe:
        raise NotImplementedError

    # ------------------------------------------------------------------------------------ fit
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        party: Any = None,
        parties: Any = None,
        person: Any = None,
        **refused: Any,
    ) -> Self:
        """Trains on rows held by `party`: one name per row, or None for one holder.

        `parties` names all sites, those without rows too. The categories of a pandas Categorical
        do so as well. With neither, the rows tell who takes part, and the statement says so.
        `person` tells whose record each row is. Each holder then keeps `records_per_person` of a
        person's records, drawn at random; without it nobody counts, and the statement says so.
        """
        refuse(refused)
        X, y = checked_rows(X), checked_labels(y, self._regression)
        if len(y) == 0:
            raise DataError("X holds no rows; give at least one.")
        checked(self)  # before rows are looked at, and before anybody is warned of them
        given, source = self._given_schema(X, y)
        names = declared_parties(party, parties)
        parts = split_by_party(X, y, party, names)
        persons = split_persons(person, y, party, names)
        study, recipe = agree(self, given, len(parts))
        holders = [
            Rows(_encoded(part, who, study.schema), study.schema, own)
            for part, who, own in zip(parts, persons, draws_of_holders(study), strict=True)
        ]
        circumstances = Circumstances(
            schema_source=source,
            parties_met=party is not None and names is None,
            persons_told=person is not None,
            total=self._reserve(study, source, persons_told=person is not None),
        )
        with bar(self.progress, recipe.rounds(study.schema)) as listener:
            federation = in_process.open_federation(study, holders, listener)
            train(self, study, recipe, federation, circumstances)
        columns = named_columns(X)
        if columns is not None:
            self.feature_names_in_ = columns
        return self

    def _given_schema(self, X: Any, y: Any) -> tuple[Schema, str]:
        if isinstance(self.schema, Schema):
            return self.schema, "given: public ranges, categories and classes"
        warnings.warn(
            "no schema was given: ranges, categories and classes are read from the rows, and the "
            "privacy statement will say epsilon = infinity. Pass schema=hedgerow.Schema(...).",
            PrivacyWarning,
            stacklevel=3,
        )
        return encoding.infer_schema(X, y, regression=self._regression), "inferred from the rows"

    def _reserve(self, study: Study, source: str, persons_told: bool) -> Total | None:
        """Charges all that this fit may spend to the shared ledger, if it names one."""
        ledger: Ledger | None = checked(self).ledger
        if ledger is None:
            return None
        promised = study.placement is not Placement.NOWHERE and not is_inferred(source)
        return ledger.reserve(
            study.epsilon if promised else math.inf,
            study.delta,
            unit=unit(study, persons_told),
            name=type(self).__name__,
        )

    def _label_reports(
        self, schema: Schema, epsilon: Fraction, placement: Placement | None
    ) -> BloomReports | None:
        """How labels are told under placement 'label'; None is k-ary randomised response."""
        return None

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
        trees = self.model_.score.trees
        if len(trees) != 1:
            raise SpecError(
                f"this model has {len(trees)} trees; a decision path belongs to one tree."
            )
        regions = trees[0].regions()
        return [regions[leaf] for leaf in trees[0].apply(encoding.encode_features(X, self.schema_))]

    def save(self, path: str | Path) -> None:
        """Writes the fitted model as JSON, for `hedgerow.load`; noisy numbers only."""
        check_is_fitted(self, "model_")
        save_model(path, self)


class PrivateClassifier(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        party: Any = None,
        parties: Any = None,
        person: Any = None,
        **refused: Any,
    ) -> Self:
        super().fit(X, y, party=party, parties=parties, person=person, **refused)
        self.classes_ = like_labels(self.schema_.classes or (), np.asarray(y))
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
            f"fit() got unexpected arguments {strange}; it takes X, y, party, parties and person."
        )
