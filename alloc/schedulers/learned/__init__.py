"""Learned policies as schedulers: observations, policy files, ONNX Runtime."""

from alloc.schedulers.learned.feature_spec import FeatureSpec as FeatureSpec
from alloc.schedulers.learned.feature_spec import KindParameters as KindParameters
from alloc.schedulers.learned.feature_spec import TensorSpec as TensorSpec
from alloc.schedulers.learned.feature_spec import WindowParameters as WindowParameters
from alloc.schedulers.learned.kinds import KINDS as KINDS
from alloc.schedulers.learned.kinds import PolicyKind as PolicyKind
from alloc.schedulers.learned.kinds import StepwiseKind as StepwiseKind
from alloc.schedulers.learned.kinds import feature_spec as feature_spec
from alloc.schedulers.learned.kinds import kind_names as kind_names
from alloc.schedulers.learned.kinds import policy_kind as policy_kind
from alloc.schedulers.learned.model_card import CurvePoint as CurvePoint
from alloc.schedulers.learned.model_card import ModelCard as ModelCard
from alloc.schedulers.learned.policy_file import PolicyFile as PolicyFile
from alloc.schedulers.learned.policy_file import read_policy as read_policy
from alloc.schedulers.learned.policy_file import write_policy as write_policy
from alloc.schedulers.learned.policy_scheduler import PolicyScheduler as PolicyScheduler
