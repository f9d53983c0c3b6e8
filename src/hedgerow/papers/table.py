"""All methods of the papers: what each is called, the line that makes it, where it is measured."""

from __future__ import annotations

from typing import NamedTuple

PAPERS = {
    "gubler": "Gubler 2023",
    "wang": "Wang, Dick and Balcan 2020",
    "maddock": "Maddock et al. 2022",
    "liu": "Liu et al. 2020",
    "consul": "Consul and Williamson 2020",
}


class NamedMethod(NamedTuple):
    """A row of the table; in `call`, `schema` has classes and `numbers` a target."""

    paper: str
    name: str
    call: str

    @property
    def line(self) -> str:
        """What a user types after `import hedgerow as hr`."""
        return f"hr.papers.{self.call}"

    @property
    def title(self) -> str:
        return PAPERS[self.paper]

    @property
    def page(self) -> str:
        return f"docs/results/{self.paper}.md"


METHODS = (
    NamedMethod("gubler", "Algorithm 2", "gubler.algorithm_2(schema)"),
    NamedMethod("gubler", "Algorithm 5", "gubler.algorithm_5(schema)"),
    NamedMethod("gubler", "Algorithm 6, made sound", "gubler.algorithm_6(schema)"),
    NamedMethod(
        "gubler",
        "Algorithm 6, as printed",
        "gubler.algorithm_6_as_printed(schema, printed_epsilon=1.0)",
    ),
    NamedMethod(
        "gubler",
        "Algorithm 6, as released",
        "gubler.algorithm_6_as_released(schema, printed_epsilon=1.0)",
    ),
    NamedMethod("wang", "SingleMachine RNM", "wang.single_machine_rnm(schema)"),
    NamedMethod("wang", "NoisyCounts", "wang.noisy_counts(schema)"),
    NamedMethod("wang", "LocalRNM", "wang.local_rnm(schema)"),
    NamedMethod("wang", "LocalRNM, even budgets", 'wang.local_rnm(schema, budget="even")'),
    NamedMethod("wang", "LocalRNM, Gini", 'wang.local_rnm(schema, criterion="gini")'),
    NamedMethod(
        "wang", "NoisyCounts, root-Gini", 'wang.noisy_counts(schema, criterion="root_gini")'
    ),
    NamedMethod("maddock", "DP-GBM", "maddock.dp_gbm(schema)"),
    NamedMethod("maddock", "DP-RF", "maddock.dp_rf(schema)"),
    NamedMethod("maddock", "FEVERLESS", "maddock.feverless(schema)"),
    NamedMethod("maddock", "DP-EBM", "maddock.dp_ebm(schema)"),
    NamedMethod("maddock", "DP-EBM Newton", "maddock.dp_ebm_newton(schema)"),
    NamedMethod("maddock", "DP-TR Newton", "maddock.dp_tr_newton(schema)"),
    NamedMethod("maddock", "DP-TR Newton IH", "maddock.dp_tr_newton_ih(schema)"),
    NamedMethod("maddock", "DP-TR Newton IH EBM", "maddock.dp_tr_newton_ih_ebm(schema)"),
    NamedMethod("maddock", "DP-TR Batch IH EBM (p = 0.25)", "maddock.dp_tr_batch(schema, p=0.25)"),
    NamedMethod("maddock", "DP-TR Batch IH EBM (p = 1)", "maddock.dp_tr_batch(schema, p=1.0)"),
    NamedMethod("maddock", "LDP", "maddock.ldp(schema)"),
    NamedMethod("liu", "FET", "liu.fet(schema)"),
    NamedMethod("liu", "FET, regression", "liu.fet(numbers)"),
    NamedMethod("liu", "FET-LDP", "liu.fet_ldp(schema)"),
    NamedMethod("liu", "FET-GDP", "liu.fet_gdp(schema)"),
    NamedMethod("consul", "DiPriMe", "consul.diprime(schema)"),
    NamedMethod("consul", "DiPriMe, regression", "consul.diprime(numbers)"),
    NamedMethod("consul", "DiPriMeExp, each median paid", "consul.diprime_exp(schema)"),
    NamedMethod("consul", "DiPriMeExp, regression", "consul.diprime_exp(numbers)"),
    NamedMethod(
        "consul",
        "DiPriMeExp, as printed",
        "consul.diprime_exp_as_printed(schema, printed_epsilon=2.0)",
    ),
    NamedMethod("consul", "DiPriMeFlip, each median paid", "consul.diprime_flip(schema)"),
    NamedMethod("consul", "DiPriMeFlip, regression", "consul.diprime_flip(numbers)"),
    NamedMethod(
        "consul",
        "DiPriMeFlip, as printed",
        "consul.diprime_flip_as_printed(schema, printed_epsilon=2.0)",
    ),
    NamedMethod("consul", "DP-ERT", "consul.dp_ert(schema)"),
    NamedMethod("consul", "DP-ERT, regression", "consul.dp_ert(numbers)"),
    NamedMethod("consul", "DP-RF", "consul.dp_rf(schema)"),
    NamedMethod("consul", "DP-RF, regression", "consul.dp_rf(numbers)"),
    NamedMethod("consul", "DP-DF", "consul.dp_df(schema)"),
)
