"""Slips in what becomes of a failure after the charge, of sums in a database, and of coins."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

FAILED: Final = "federation/test_failures.py"
SINGLE_SITE: Final = f"{FAILED}::test_one_holder_whose_computation_fails_ends_charged_and_closed"
ONE_PROCESS: Final = (
    f"{FAILED}::test_a_site_in_one_process_that_fails_refuses_everything_from_then_on"
)
VAULT: Final = f"{FAILED}::test_a_vault_keeps_the_charge_of_a_failure_and_closes_the_study_for_good"
SERVICE: Final = (
    f"{FAILED}::test_a_service_says_in_its_audit_log_why_a_study_is_closed_and_a_restart_keeps_it"
)
STRANGE: Final = "kernels/test_loops.py::test_a_record_that_no_kernel_can_place_is_left_out_alone"
NAMED: Final = f"{FAILED}::test_values_that_differ_differ_however_alike_their_digests_begin"
IN_DATABASE: Final = "data/test_places.py"
BEYOND: Final = f"{IN_DATABASE}::test_a_record_beyond_its_bound_adds_nothing_in_a_database_either"

FAILURES: Final = (
    Mutant(
        "a site that failed is asked again",
        "data/prepared.py",
        "        if self._closed_because:\n",
        "        if self._closed_because is None:\n",
        f"{SINGLE_SITE}[MemoryError-a sum]",
    ),
    Mutant(
        "a memory that is full closes nothing",
        "federation/client.py",
        "    except Exception as error:\n        raise rows.close_after",
        "    except ValueError as error:\n        raise rows.close_after",
        f"{VAULT}[MemoryError]",
    ),
    Mutant(
        "masks that fail close nothing",
        "federation/client.py",
        "                raise self.rows.close_after(error) from error\n",
        "                raise\n",
        f"{ONE_PROCESS}[MemoryError-masks]",
    ),
    Mutant(
        "a closed study is closed to rounds alone",
        "federation/client.py",
        "                self.rows.require_open()\n",
        "",
        f"{ONE_PROCESS}[MemoryError-rows]",
    ),
    Mutant(
        "a failed computation is an internal matter",
        "federation/client.py",
        "            return Code.STUDY_CLOSED\n",
        "            return Code.INTERNAL\n",
        f"{ONE_PROCESS}[MemoryError-rows]",
    ),
    Mutant(
        "one site charges again once it has failed",
        "federation/transports/in_process.py",
        "        self.rows.require_open()\n",
        "",
        f"{SINGLE_SITE}[MemoryError-a sum]",
    ),
    Mutant(
        "the charge of a failed computation is taken back",
        "federation/site_store.py",
        "                failure = error\n                self.close_study(receipt.study)\n",
        "                raise error\n",
        f"{VAULT}[MemoryError]",
    ),
    Mutant(
        "a store forgets that a computation failed",
        "federation/site_store.py",
        "                self.close_study(receipt.study)\n",
        "",
        f"{VAULT}[MemoryError]",
    ),
    Mutant(
        "a store closes a study whose disk was full",
        "federation/site_store.py",
        "            except ComputationFailed as error:\n",
        "            except Exception as error:\n",
        f"{FAILED}"
        "::test_a_failure_after_the_charge_leaves_nothing_that_a_disk_or_a_stranger_could_send",
    ),
    Mutant(
        "a study that failed is served after a restart",
        "federation/daemon.py",
        "        if not is_open:\n            raise ComputationFailed(",
        "        if is_open is None:\n            raise ComputationFailed(",
        SERVICE,
    ),
    Mutant(
        "letters of a closed study hear that nobody approved it yet",
        "federation/daemon.py",
        "if client is None and study in self._closed_studies:",
        "if client is None and study in self._clients:",
        SERVICE,
    ),
    Mutant(
        "the audit log does not say that a study was closed",
        "federation/daemon.py",
        'self._note("closed", round=Envelope.parse(message).header.round, what=reason)',
        "pass",
        SERVICE,
    ),
    Mutant(
        "a code beyond its bins ends the computation",
        "kernels/sums.py",
        "        out[:] = 0\n        _sum_cells_plain(*args)\n",
        '        raise ParameterError(f"a code is {n_bins} or more.")\n',
        f"{STRANGE}[a code, counted]",
    ),
    Mutant(
        "what was summed before a strange code counts twice",
        "kernels/sums.py",
        "        out[:] = 0\n",
        "",
        f"{STRANGE}[a code, counted]",
    ),
    Mutant(
        "a label that is no class counts as the first",
        "kernels/sums.py",
        "        nodes = [rows_without(left_out, rows) for rows in "
        "([None] if nodes is None else nodes)]\n",
        "",
        f"{STRANGE}[a label, counted]",
    ),
    Mutant(
        "a binning is named by 64 bits",
        "schema/candidates.py",
        "hashlib.sha256(repr(self.bins).encode()).hexdigest()",
        "hashlib.sha256(repr(self.bins).encode()).hexdigest()[:16]",
        f"{FAILED}::test_two_binnings_with_one_half_of_a_digest_are_counted_each_by_its_own",
    ),
    Mutant(
        "a grid is named by 64 bits",
        "schema/grids.py",
        "hashlib.sha256(canonical_bytes(meaning)).hexdigest()",
        "hashlib.sha256(canonical_bytes(meaning)).hexdigest()[:16]",
        NAMED,
    ),
    Mutant(
        "a layer is named by 128 bits",
        "models/layers.py",
        "hashlib.sha256(parts.encode() + open_bits).hexdigest()",
        "hashlib.sha256(parts.encode() + open_bits).hexdigest()[:32]",
        NAMED,
    ),
)

DATABASES: Final = (
    Mutant(
        "a database holds no record to its bound",
        "data/engines/database.py",
        'f"CASE WHEN {within} THEN CAST(',
        'f"CASE WHEN TRUE THEN CAST(',
        f"{BEYOND}[duckdb-L1]",
    ),
    Mutant(
        "a database looks at squares alone",
        "data/engines/database.py",
        'within = f"{size} <= {l1} AND {squares} <= {l2_squared}"',
        'within = f"{squares} <= {l2_squared}"',
        f"{BEYOND}[duckdb-L1]",
    ),
    Mutant(
        "a database forgets the squares",
        "data/engines/database.py",
        'within = f"{size} <= {l1} AND {squares} <= {l2_squared}"',
        'within = f"{size} <= {l1}"',
        f"{BEYOND}[duckdb-L2]",
    ),
    Mutant(
        "a database forgets the largest of a record's numbers",
        "data/engines/database.py",
        'small = " AND ".join(f"abs({column}) <= {linf}" for column in columns)',
        'small = "TRUE"',
        f"{BEYOND}[duckdb-Linf]",
    ),
    Mutant(
        "a database does not round a part of a target",
        "data/engines/database.py",
        'part = nearest.format(f"((({clipped_value}) - {low}) / {sql_number(width)}) * {units}")',
        'part = f"(((({clipped_value}) - {low}) / {sql_number(width)}) * {units})"',
        f"{IN_DATABASE}::test_parts_of_a_target_are_those_of_memory_in_any_range[duckdb]",
    ),
    Mutant(
        "a database does not clip a target to the range that was asked for",
        "data/engines/database.py",
        'clipped_value = f"LEAST(GREATEST({Y}, {low}), {high})"',
        "clipped_value = Y",
        f"{IN_DATABASE}::test_parts_of_a_target_are_those_of_memory_in_any_range[duckdb]",
    ),
    Mutant(
        "a database adds both parts of a target to one",
        "data/engines/database.py",
        "np.full(len(rows), k)",
        "np.full(len(rows), 0)",
        f"{IN_DATABASE}::test_parts_of_a_target_are_those_of_memory_in_any_range[duckdb]",
    ),
    Mutant(
        "a class that no query knows counts as the last in a database",
        "data/engines/database.py",
        "is_known = (channel >= 0) & (channel < query.statistic.channels)",
        "is_known = (channel := channel.clip(0, query.statistic.channels - 1)) >= 0",
        f"{IN_DATABASE}::test_a_class_or_a_cell_that_no_query_knows_counts_nowhere",
    ),
)

CHOICES: Final = (
    Mutant(
        "report-noisy-max is priced by a range that it does not keep",
        "privacy/accounting/conversions.py",
        "is_bounded_range = Mechanism(chooser) is Mechanism.EXPONENTIAL",
        "is_bounded_range = Mechanism(chooser) is not Mechanism.PERMUTE_AND_FLIP",
        "privacy/test_conversions.py::test_only_the_exponential_mechanism_is_priced_by_its_range",
    ),
    Mutant(
        "a study prices every choice as the exponential mechanism",
        "privacy/study.py",
        "cost, name = self._cost(query), query.mechanism.value",
        'cost, name = self._cost(query), "exponential"',
        "federation/test_member_choices.py::test_a_holders_picks_follow_the_law_that_was_paid_for",
    ),
    Mutant(
        "report-noisy-max of a site is twice as sharp",
        "privacy/mechanisms/selection.py",
        "noisy = [laplace(coefficient, secret) - gap for gap in gaps]",
        "noisy = [laplace(2 * coefficient, secret) - gap for gap in gaps]",
        "audit/test_audit.py"
        "::test_a_choice_is_as_sharp_as_it_claims_and_loses_no_more_than_its_charge",
    ),
)

COINS: Final = (
    Mutant(
        "labels are told by other coins after a restart",
        "data/prepared.py",
        'rows.draw("label"))',
        'np.frombuffer(__import__("os").urandom(8 * rows.n), np.uint64))',
        "federation/test_dp_models.py::test_a_site_that_starts_again_tells_the_same_labels",
    ),
    Mutant(
        "one coin tells all labels",
        "data/prepared.py",
        'rows.draw("label"))',
        'rows.draw("label")[:1])',
        "federation/test_dp_models.py::test_as_many_labels_are_told_wrong_as_the_response_says",
    ),
    Mutant(
        "the coin of a label is that of a fold",
        "data/rows.py",
        'self._secret.words("draw", name, self._record_ids)',
        'self._secret.words("fold", name, self._record_ids)',
        "federation/test_dp_models.py"
        "::test_the_coin_of_a_label_is_no_other_coin_and_told_labels_move_no_fold",
    ),
    Mutant(
        "a told label gives its record other coins",
        "data/rows.py",
        "return Rows(encoded_rows, self.schema, self._draws, lambda: names)",
        "return Rows(encoded_rows, self.schema, self._draws)",
        "federation/test_dp_models.py"
        "::test_the_coin_of_a_label_is_no_other_coin_and_told_labels_move_no_fold",
    ),
    Mutant(
        "permanent bits are reported as they are",
        "federation/client.py",
        "rows.study.label_reports.instant(rows.permanent, secret).astype(np.int64)",
        "rows.permanent.astype(np.int64)",
        "federation/test_label_reports.py::test_permanent_bits_stay_and_instant_bits_do_not",
    ),
    Mutant(
        "one coin sends all bits of a report",
        "privacy/mechanisms/response.py",
        "words = secret.words(permanent.size).reshape(permanent.shape)",
        "words = secret.words(len(permanent))[:, None]",
        "federation/test_label_reports.py::test_instant_bits_have_coins_of_their_own",
    ),
    Mutant(
        "permanent bits are drawn anew at every start",
        "data/prepared.py",
        'words = np.stack([rows.draw(f"label bit {b}") for b in range(reports.bits)], axis=1)',
        'words = np.frombuffer(__import__("os").urandom(8 * rows.n * reports.bits), np.uint64)'
        ".reshape(rows.n, reports.bits)",
        "federation/test_label_reports.py::test_permanent_bits_stay_and_instant_bits_do_not",
    ),
)
