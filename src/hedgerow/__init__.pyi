"""Public names for type checkers, made by `make pages`; a test compares."""

from types import SimpleNamespace

from hedgerow.data.schema_draft import draft_schema as draft_schema
from hedgerow.errors import BudgetExceeded as BudgetExceeded
from hedgerow.errors import ComputationFailed as ComputationFailed
from hedgerow.errors import DataError as DataError
from hedgerow.errors import DataWarning as DataWarning
from hedgerow.errors import EngineLost as EngineLost
from hedgerow.errors import HedgerowError as HedgerowError
from hedgerow.errors import LedgerBroken as LedgerBroken
from hedgerow.errors import LedgerError as LedgerError
from hedgerow.errors import LedgerRolledBack as LedgerRolledBack
from hedgerow.errors import LedgerUnavailable as LedgerUnavailable
from hedgerow.errors import ParameterError as ParameterError
from hedgerow.errors import PrivacyWarning as PrivacyWarning
from hedgerow.errors import QualityWarning as QualityWarning
from hedgerow.errors import RoundFailed as RoundFailed
from hedgerow.errors import RunEnded as RunEnded
from hedgerow.errors import SignalWarning as SignalWarning
from hedgerow.errors import SiteRefused as SiteRefused
from hedgerow.errors import TooFewSites as TooFewSites
from hedgerow.errors import UnsupportedQuery as UnsupportedQuery
from hedgerow.federation.policy import Policy as Policy
from hedgerow.methods import mlflow as mlflow
from hedgerow.methods.blocks.screening import FeatureScreening as FeatureScreening
from hedgerow.methods.boosting_classes import BoostedTreesClassifier as BoostedTreesClassifier
from hedgerow.methods.boosting_numbers import BoostedTreesRegressor as BoostedTreesRegressor
from hedgerow.methods.consul import MedianForestClassifier as MedianForestClassifier
from hedgerow.methods.consul import MedianForestRegressor as MedianForestRegressor
from hedgerow.methods.evaluate import evaluate as evaluate
from hedgerow.methods.forest import ForestClassifier as ForestClassifier
from hedgerow.methods.forest import ForestRegressor as ForestRegressor
from hedgerow.methods.gubler import HistogramTreeClassifier as HistogramTreeClassifier
from hedgerow.methods.ledger import Ledger as Ledger
from hedgerow.methods.liu import ExtraTreesClassifier as ExtraTreesClassifier
from hedgerow.methods.liu import ExtraTreesRegressor as ExtraTreesRegressor
from hedgerow.methods.maddock import ComponentBoostingClassifier as ComponentBoostingClassifier
from hedgerow.methods.maddock import ComponentBoostingRegressor as ComponentBoostingRegressor
from hedgerow.methods.model_selection import select_model as select_model
from hedgerow.methods.multiway import MultiwayForestClassifier as MultiwayForestClassifier
from hedgerow.methods.multiway import MultiwayForestRegressor as MultiwayForestRegressor
from hedgerow.methods.plan import Plan as Plan
from hedgerow.methods.plan import plan as plan
from hedgerow.methods.saving import load as load
from hedgerow.methods.survival import SurvivalBoostedTrees as SurvivalBoostedTrees
from hedgerow.methods.tree import TreeClassifier as TreeClassifier
from hedgerow.methods.tree import TreeRegressor as TreeRegressor
from hedgerow.methods.wang import TopDownTreeClassifier as TopDownTreeClassifier
from hedgerow.privacy.mechanisms.response import BloomRandomizedResponse as BloomRandomizedResponse
from hedgerow.report.evaluation import Evaluation as Evaluation
from hedgerow.report.evaluation import compare_models as compare_models
from hedgerow.report.importances import feature_effect as feature_effect
from hedgerow.report.importances import importances as importances
from hedgerow.report.importances import pair_effect as pair_effect
from hedgerow.report.importances import pair_importances as pair_importances
from hedgerow.report.picture import draw_tree as draw_tree
from hedgerow.report.text import explain as explain
from hedgerow.report.text import show_tree as show_tree
from hedgerow.schema.features import Categorical as Categorical
from hedgerow.schema.features import Hashed as Hashed
from hedgerow.schema.features import Mark as Mark
from hedgerow.schema.features import Numeric as Numeric
from hedgerow.schema.features import Spacing as Spacing
from hedgerow.schema.features import Survival as Survival
from hedgerow.schema.features import Target as Target
from hedgerow.schema.parsers import Parser as Parser
from hedgerow.schema.schema import Schema as Schema

__version__: str
papers: SimpleNamespace
