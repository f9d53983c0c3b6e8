"""Mistakes in how large questions may become: in cutting, weighing, declaring and refusing."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

SIZES: Final = "methods/test_sizes.py"
CUT: Final = f"{SIZES}::test_a_list_is_cut_in_order_by_queries_integers_and_bytes"
REFUSED: Final = f"{SIZES}::test_what_no_cutting_helps_is_refused_before_the_first_charge"
DECLARED: Final = "methods/test_method_contract.py::test_a_recipe_never_asks_more_than_it_declares"
ROUNDS: Final = (
    f"{SIZES}::test_a_recipe_in_small_bundles_grows_the_same_model_in_the_rounds_it_declares"
)
WEIGHTS: Final = "privacy/test_admission.py"
MANY: Final = "methods/test_no_silence.py"

LARGE: Final = (
    Mutant(
        "a list longer than a bundle is sent whole",
        "federation/server.py",
        "for part in cut(plain_queries, travels=self.study.n_sites > 1):",
        "for part in [plain_queries]:",
        f"{SIZES}::test_a_list_longer_than_a_bundle_is_asked_in_rounds_and_costs_the_same",
    ),
    Mutant(
        "a part that failed is not asked again",
        "federation/server.py",
        "if tries == MOST_TRIES or not self._reserve_pays():",
        "if tries:",
        f"{SIZES}::test_a_part_that_fails_is_repeated_alone_and_paid_from_the_reserve",
    ),
    Mutant(
        "the integers of a bundle are those of its last query",
        "privacy/bundles.py",
        "        integers += own\n",
        "        integers = own\n",
        CUT,
    ),
    Mutant(
        "a bundle weighs what its last query weighs",
        "privacy/bundles.py",
        "heavy = travels and weight.with_query(query) > MOST_BYTES",
        "heavy = travels and Weight().with_query(query) > MOST_BYTES",
        CUT,
    ),
    Mutant(
        "a query too large by itself is charged before it is refused",
        "privacy/bundles.py",
        "            _require_room(query, own, weight if travels else None)\n",
        "            weight.with_query(query)\n",
        f"{SIZES}::test_a_query_too_large_by_itself_is_refused_before_any_of_its_list_is_charged",
    ),
    Mutant(
        "a step of a path weighs nothing but its name",
        "privacy/bundles.py",
        "size += DEFINITION + self._of_fields(region[-1])",
        "size += NAME",
        f"{WEIGHTS}::test_no_bundle_is_longer_than_its_weight",
    ),
    Mutant(
        "the layers above an open one are not weighed",
        "privacy/bundles.py",
        "        while above.above is not None and",
        "        if above.above is not None and",
        f"{WEIGHTS}::test_packed_tests_of_random_cells_are_no_longer_than_their_weight",
    ),
    Mutant(
        "steps of a flow do not add up to its rounds",
        "privacy/bundles.py",
        "return self._larger(later, lambda mine, theirs: mine + theirs)",
        "return self._larger(later, max)",
        f"{SIZES}::test_sizes_add_up_as_steps_do",
    ),
    Mutant(
        "sizes are declared and never looked at",
        "methods/training.py",
        "    check_size(method, study)\n",
        "",
        REFUSED,
    ),
    Mutant(
        "the value to lower a parameter to is one too many",
        "methods/method.py",
        "            high = middle\n    return low\n",
        "            high = middle\n    return high\n",
        REFUSED,
    ),
    Mutant(
        "a sparse graph need not be paid for all rounds",
        "privacy/bundles.py",
        "if rounds and (fewest := self.rounds_of(2, rounds)) > rounds:",
        "if rounds and (fewest := self.rounds_of(2, rounds)) < rounds:",
        f"{SIZES}::test_a_sparse_graph_must_be_paid_for_all_rounds_that_may_come",
    ),
    Mutant(
        "a tree of histograms declares no leaves",
        "methods/gubler.py",
        "return size + scale.sums(scale.nodes(depth), channels=channels, depth=depth)",
        "return size",
        f"{DECLARED}[1-0-0-histogram_tree-classes]",
    ),
    Mutant(
        "choosing one of the medians is not declared",
        "methods/consul.py",
        "grid += scale.choices(nodes * looks, **split)",
        "grid = scale.choices(nodes * looks, **split)",
        f"{ROUNDS}[1-median_forest-classes]",
    ),
    Mutant(
        "one median is declared where several are asked",
        "methods/consul.py",
        "grid += scale.choices(nodes * looks, **split)",
        "grid += grid",
        f"{ROUNDS}[1-median_forest-classes]",
    ),
    Mutant(
        "a private selection declares no candidate",
        "methods/wang.py",
        "shared_bytes=shared_bytes, candidates=tests",
        "shared_bytes=shared_bytes, candidates=0",
        f"{DECLARED}[1-0-3-topdown-classes]",
    ),
    Mutant(
        "the trees beside the curves are not declared",
        "methods/boosting_classes.py",
        "return self._before_trees(schema) + trees | GuidedForest().largest(schema)",
        "return self._before_trees(schema) | GuidedForest().largest(schema)",
        f"{ROUNDS}[1-smoothed_boost-classes]",
    ),
    Mutant(
        "a tree is grown to more leaves than a tree may have",
        "methods/blocks/builder.py",
        "room = MOST_LEAVES - 1 - n_splits if",
        "room = MOST_LEAVES - 1 if",
        f"{SIZES}::test_a_tree_ends_at_the_most_leaves_a_tree_may_have",
    ),
    Mutant(
        "a layer has more open nodes than one query holds",
        "methods/blocks/layered.py",
        "np.cumsum(is_open) <= most_open(rules.n_asked, rules.statistic.channels)",
        "np.cumsum(is_open) > 0",
        f"{SIZES}::test_a_layer_stays_open_for_as_many_nodes_as_one_query_holds",
    ),
    Mutant(
        "a depth is bought that no tree may have",
        "methods/blocks/medians.py",
        "2.0)))), MOST_BOUGHT_DEPTH)",
        "2.0)))), 64)",
        f"{SIZES}::test_a_bought_depth_is_one_that_a_tree_may_have",
    ),
    Mutant(
        "a key session names more than a site may remember",
        "federation/secure_sites.py",
        "self.session_state.needs_session |= self.sender.is_full",
        "self.session_state.needs_session |= False",
        f"{SIZES}::test_an_epoch_ends_before_a_site_would_have_to_remember_too_many_names",
    ),
    Mutant(
        "sixty sites in one process say nothing",
        "data/site_rows.py",
        "    if sites > MANY_SITES:\n",
        "    if sites > 10 * MANY_SITES:\n",
        f"{MANY}::test_more_than_fifty_sites_show_how_far_they_are",
    ),
    Mutant(
        "a crowd that is named in a file says nothing",
        "methods/sources.py",
        "    warn_of_crowds(len(names), len(site))\n",
        "",
        f"{MANY}::test_many_sites_in_one_process_are_told_what_they_take",
    ),
)
